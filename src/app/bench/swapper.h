// Another thread that rebinds a session when it is told to and times the call, as a server's
// request thread would. The generating thread and this one never wait for each other inside a step.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "app/bench/timing.h"
#include "engine/batcher.h"

namespace retort::app {

class Swapper {
 public:
  explicit Swapper(size_t rebinds_max) { nanoseconds_.reserve(rebinds_max); }
  ~Swapper() {
    stop_ = true;
    post(nullptr, nullptr);
    thread_.join();
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;

  /// Has the other thread rebind the session (null: only wake up); returns at once. One at a time:
  /// the session stays until wait().
  void post(engine::Session* session, const engine::Mix* mix) {
    session_ = session;
    mix_ = mix;
    posted_.fetch_add(1, std::memory_order_release);
    posted_.notify_one();
  }
  /// Until what was posted is done; when the rebind began.
  BenchClock::time_point wait() {
    const uint32_t posted = posted_.load(std::memory_order_relaxed);
    for (uint32_t done; (done = done_.load(std::memory_order_acquire)) != posted;) done_.wait(done);
    return called_;
  }
  /// What each rebind took, two readings of the clock included.
  const std::vector<double>& nanoseconds() const { return nanoseconds_; }

 private:
  void work() {
    for (uint32_t seen = 0;; done_.store(seen, std::memory_order_release), done_.notify_one()) {
      posted_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stop_) return;
      if (session_ == nullptr) continue;
      called_ = BenchClock::now();
      session_->rebind(mix_);
      nanoseconds_.push_back(1e9 * seconds_since(called_));
    }
  }

  // Handed over by posted_ and done_.
  engine::Session* session_ = nullptr;
  const engine::Mix* mix_ = nullptr;
  bool stop_ = false;
  BenchClock::time_point called_;
  std::vector<double> nanoseconds_;
  std::atomic<uint32_t> posted_{0}, done_{0};
  std::thread thread_{[this] { work(); }};
};

}  // namespace retort::app
