#include "base/team.h"

#include <sched.h>

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"

namespace retort::base {
namespace {

// About 20-50 us of spinning: longer than any gap inside a step, shorter than a scheduler slice.
constexpr int kSpins = 4000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Returns once `word` differs from `old`.
void wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

}  // namespace

std::pair<int64_t, int64_t> Lane::share(int64_t n, int64_t grain) const {
  const int64_t units = (n + grain - 1) / grain;
  const int64_t first = units * index_ / count() * grain;
  const int64_t last = units * (index_ + 1) / count() * grain;
  return {std::min(first, n), std::min(last, n)};
}

Team::Team(int threads) : size_(threads) {
  CHECK(threads >= 1 && threads <= limits::kThreadsMax, "threads={}", threads);
  for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { work(i); });
}

Team::~Team() {
  stop_.store(true, std::memory_order_relaxed);
  call_.fetch_add(1, std::memory_order_release);
  call_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run_erased(Function function, const void* body) {
  function_ = function;
  body_ = body;
  if (size_ > 1) {
    call_.fetch_add(1, std::memory_order_release);
    call_.notify_all();
  }
  function(body, Lane(*this, 0));
  barrier();
}

void Team::work(int index) {
  for (uint32_t seen = 0;;) {
    wait_for_change(call_, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    function_(body_, Lane(*this, index));
    barrier();
  }
}

void Team::barrier() {
  if (size_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_for_change(phase_, phase);
  }
}

int Team::default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, limits::kThreadsMax);
}

}  // namespace retort::base
