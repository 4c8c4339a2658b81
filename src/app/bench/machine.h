// What the machine can do, measured: the yardsticks that the benchmarks divide by.
#pragma once

#include <string>

#include "base/team.h"

namespace retort::app {

struct Machine {
  std::string cpu;
  int cores = 0;    // that this process may use
  double load = 0;  // average of the last minute, before the benchmark
};

Machine this_machine();

/// Bytes a second that all lanes together read from memory, from an array far larger than a cache.
/// The best of several passes.
double read_bandwidth(base::Team& team);

/// Floating-point operations a second of all lanes together, 2 a multiply-add, from registers. The
/// best of several passes.
struct PeakFlops {
  double f32 = 0;
  double bf16 = 0;  // dot products of pairs into F32; 0 where the CPU has none
  double best() const { return f32 > bf16 ? f32 : bf16; }
};
PeakFlops peak_flops(base::Team& team);

}  // namespace retort::app
