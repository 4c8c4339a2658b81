// What the operating system says of memory (Linux).
#pragma once

#include <cstdint>

namespace retort::base {

/// Bytes that this process can still take without swapping: what the machine has free or can free,
/// less where a control group grants less. The largest int64_t if nothing is known.
int64_t available_memory_bytes();

/// Of this process: what it holds now, and the most it ever held. 0 if unknown.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace retort::base
