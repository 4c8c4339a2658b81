// Times of a benchmark: medians and quantiles of samples taken in one process.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"

namespace retort::app {

using BenchClock = std::chrono::steady_clock;

inline double seconds_between(BenchClock::time_point from, BenchClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
inline double seconds_since(BenchClock::time_point from) {
  return seconds_between(from, BenchClock::now());
}

template <class Body>
double seconds_of(const Body& body) {
  const auto start = BenchClock::now();
  body();
  return seconds_since(start);
}

/// The sample below which a share `q` of them lies (nearest rank).
inline double quantile(std::vector<double> samples, double q) {
  CHECK(!samples.empty());
  const auto at =
      std::min(samples.size() - 1, static_cast<size_t>(q * static_cast<double>(samples.size())));
  std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(at));
  return samples[at];
}
inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

/// The OpenMP threads of the peer spin on after a parallel region; this outlasts them.
inline void let_peer_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(250)); }

}  // namespace retort::app
