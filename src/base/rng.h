// Seeded random numbers: the same sequence on every machine and standard library.
// xoshiro256** (Blackman & Vigna, 2018), seeded through splitmix64. A value type; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace retort::base {

class Rng {
 public:
  explicit Rng(uint64_t seed);
  /// An independent generator for (seed, stream), e.g. one a record.
  Rng(uint64_t seed, uint64_t stream);

  uint64_t next();
  /// Uniform in [0, bound); bound > 0. Unbiased (rejection).
  uint64_t below(uint64_t bound);
  /// Uniform in [low, high], both included.
  int64_t between(int64_t low, int64_t high);
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal (Box-Muller, one value a call).
  double normal();

  template <class T>
  void shuffle(std::span<T> items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  template <class Container>
  const auto& pick(const Container& items) {
    return items[below(std::size(items))];
  }

  using State = std::array<uint64_t, 4>;
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace retort::base
