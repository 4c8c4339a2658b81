#include "app/bench/machine.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <vector>

#include "app/bench/timing.h"
#include "kernels/weight.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace retort::app {
namespace {

constexpr int kPasses = 8;
constexpr size_t kReadBytes = size_t{384} << 20;  // beyond the last-level caches of today
constexpr int64_t kRounds = 4'000'000;            // of multiply-adds a pass: some tens of ms
constexpr int kChains =
    12;  // independent accumulators: latency of 4 times 2 a cycle, and a reserve

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t at = line.find(": ");
    if (at != std::string::npos) return line.substr(at + 2);
  }
  return "unknown";
}

/// What a pass computes is stored here, so that it has to be computed.
std::atomic<float> float_sink;
std::atomic<uint64_t> integer_sink;

// ---- Reading

[[gnu::always_inline]] inline uint64_t sum_words(const uint64_t* words, size_t n) {
  uint64_t sums[16] = {};
  for (size_t i = 0; i + 16 <= n; i += 16) {
    for (size_t j = 0; j < 16; ++j) sums[j] += words[i + j];
  }
  return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
}

uint64_t sum_words_portable(const uint64_t* words, size_t n) { return sum_words(words, n); }

// ---- Multiplying. Each returns something of every product; `rounds` of kChains vectors.

using FlopsFunction = float (*)(int64_t rounds);
struct FlopsKernel {
  FlopsFunction function = nullptr;
  double flops_per_round = 0;
};

float multiply_portable(int64_t rounds) {
  float sums[4 * kChains];
  std::iota(std::begin(sums), std::end(sums), 0.0f);  // equal chains would be merged into one
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = sum * 0.999f + 0.5f;
  }
  return std::accumulate(std::begin(sums), std::end(sums), 0.0f);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) uint64_t sum_words_avx2(const uint64_t* words, size_t n) {
  return sum_words(words, n);
}

__attribute__((target("avx2,fma"))) float multiply_avx2(int64_t rounds) {
  __m256 sums[kChains];
  for (int j = 0; j < kChains; ++j) sums[j] = _mm256_set1_ps(static_cast<float>(j));
  const __m256 factor = _mm256_set1_ps(0.999f), summand = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, summand);
  }
  float values[8 * kChains];
  for (int j = 0; j < kChains; ++j) _mm256_storeu_ps(values + 8 * j, sums[j]);
  return std::accumulate(std::begin(values), std::end(values), 0.0f);
}

__attribute__((target("avx512f"))) float multiply_avx512(int64_t rounds) {
  __m512 sums[kChains];
  for (int j = 0; j < kChains; ++j) sums[j] = _mm512_set1_ps(static_cast<float>(j));
  const __m512 factor = _mm512_set1_ps(0.999f), summand = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, summand);
  }
  float values[16 * kChains];
  for (int j = 0; j < kChains; ++j) _mm512_storeu_ps(values + 16 * j, sums[j]);
  return std::accumulate(std::begin(values), std::end(values), 0.0f);
}

__attribute__((target("avx512f,avx512bf16"))) float multiply_bf16(int64_t rounds) {
  __m512 sums[kChains];
  for (int j = 0; j < kChains; ++j) sums[j] = _mm512_set1_ps(static_cast<float>(j));
  const __m512bh factor = (__m512bh)_mm512_set1_epi32(0x3c003c00);  // 2^-7, twice
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  }
  float values[16 * kChains];
  for (int j = 0; j < kChains; ++j) _mm512_storeu_ps(values + 16 * j, sums[j]);
  return std::accumulate(std::begin(values), std::end(values), 0.0f);
}

FlopsKernel f32_kernel() {
  if (__builtin_cpu_supports("avx512f")) return {multiply_avx512, 2.0 * 16 * kChains};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {multiply_avx2, 2.0 * 8 * kChains};
  }
  return {multiply_portable, 2.0 * 4 * kChains};
}
FlopsKernel bf16_kernel() {
  if (__builtin_cpu_supports("avx512bf16")) return {multiply_bf16, 2.0 * 32 * kChains};
  return {};
}
auto read_kernel() { return __builtin_cpu_supports("avx2") ? sum_words_avx2 : sum_words_portable; }

#else

FlopsKernel f32_kernel() { return {multiply_portable, 2.0 * 4 * kChains}; }
FlopsKernel bf16_kernel() { return {}; }
auto read_kernel() { return sum_words_portable; }

#endif

double best_rate(base::Team& team, const FlopsKernel& kernel) {
  if (kernel.function == nullptr) return 0;
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      team.run([&](base::Lane) {
        float_sink.store(kernel.function(kRounds), std::memory_order_relaxed);
      });
    });
    best = std::max(best,
                    kernel.flops_per_round * static_cast<double>(kRounds) * team.size() / seconds);
  }
  return best;
}

}  // namespace

Machine this_machine() {
  double load[1] = {0};
  (void)getloadavg(load, 1);
  return {.cpu = cpu_name(), .cores = base::Team::default_threads(), .load = load[0]};
}

double read_bandwidth(base::Team& team) {
  kernels::AlignedArray<uint64_t> words(kReadBytes / sizeof(uint64_t));
  const auto share = [&](base::Lane lane) {
    const auto [begin, end] = lane.share(static_cast<int64_t>(words.size()), 512);
    return words.span().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  team.run([&](base::Lane lane) { std::ranges::fill(share(lane), uint64_t{1}); });
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      team.run([&](base::Lane lane) {
        const auto mine = share(lane);
        integer_sink.store(read_kernel()(mine.data(), mine.size()), std::memory_order_relaxed);
      });
    });
    best = std::max(best, static_cast<double>(kReadBytes) / seconds);
  }
  return best;
}

PeakFlops peak_flops(base::Team& team) {
  return {.f32 = best_rate(team, f32_kernel()), .bf16 = best_rate(team, bf16_kernel())};
}

}  // namespace retort::app
