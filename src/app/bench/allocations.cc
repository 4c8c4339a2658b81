#include "app/bench/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__has_feature)
#define RETORT_HAS_FEATURE(name) __has_feature(name)
#else
#define RETORT_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    RETORT_HAS_FEATURE(address_sanitizer) || RETORT_HAS_FEATURE(thread_sanitizer)
#define RETORT_SANITIZED 1
#include <sanitizer/allocator_interface.h>
#else
#define RETORT_SANITIZED 0
#endif

namespace retort::app {
namespace {

// An allocator has no object to hold its state: these are what it can reach.
thread_local bool watched = false;
std::atomic<uint64_t> count{0};

void count_one() {
  if (watched) count.fetch_add(1, std::memory_order_relaxed);
}

#if RETORT_SANITIZED
void on_malloc(const volatile void*, size_t) { count_one(); }
void on_free(const volatile void*) {}
#endif

}  // namespace

void watch_allocations(bool on) {
#if RETORT_SANITIZED
  static const int hooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  (void)hooked;
#endif
  watched = on;
}

uint64_t watched_allocations() { return count.load(std::memory_order_relaxed); }

}  // namespace retort::app

#if !RETORT_SANITIZED

// The C library's own functions under the names it keeps for this purpose. free() stays its own.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  retort::app::count_one();
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) noexcept {
  retort::app::count_one();
  return __libc_calloc(n, bytes);
}
void* realloc(void* block, size_t bytes) noexcept {
  retort::app::count_one();
  return __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  retort::app::count_one();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}

#endif
