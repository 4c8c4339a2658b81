// Counts the heap allocations of chosen threads, ours and the libraries' alike, by standing between
// the program and the C library's allocator: malloc, calloc, realloc and the aligned ones, and so
// operator new. Under a sanitizer the count comes from the sanitizer's own allocator.
#pragma once

#include <cstdint>

namespace retort::app {

/// Whether allocations of the calling thread are counted from now on.
void watch_allocations(bool on);
/// Allocations so far of all threads while they were watched.
uint64_t watched_allocations();

}  // namespace retort::app
