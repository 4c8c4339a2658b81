// The benchmarks behind `retort bench`: what they are given and what they hand back. Row names are
// stable: other programs read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/bench/machine.h"
#include "base/disk.h"
#include "base/json.h"
#include "base/result.h"

namespace retort::app {

struct BenchModel {
  std::string name;  // ends the row names: "smollm2-135m"
  base::Path path;
};

struct BenchOptions {
  std::vector<BenchModel> models;  // not empty; benches of one model take the first
  int threads = 1;
  bool profile = false;               // engine: also where the time of a token goes
  bool quiet = false;                 // no progress lines
  std::vector<std::string> families;  // families: only these, if any are named
};

struct BenchRow {
  std::string name;
  double value = 0;
  std::optional<double> at_least, at_most;  // what it must reach
};

struct BenchReport {
  std::string bench;
  Machine machine;
  std::vector<BenchRow> rows;
  std::vector<std::string> failures;  // wrong results, not slow ones; the command then fails

  void add(std::string name, double value) {
    rows.push_back({.name = std::move(name), .value = value});
  }
  void add_at_least(std::string name, double value, double limit) {
    rows.push_back({.name = std::move(name), .value = value, .at_least = limit});
  }
  void add_at_most(std::string name, double value, double limit) {
    rows.push_back({.name = std::move(name), .value = value, .at_most = limit});
  }
};

/// {"bench", "machine": {"cpu", "cores", "load"}, "rows": {name: value}}
base::Json to_json(const BenchReport& report);
/// For people: one row a line with its limit beside it.
std::string to_table(const BenchReport& report);

/// Decode and prefill against libllama in the same process, what a DoRA adds, and how far the
/// logits are from those of the dequantised model.
[[nodiscard]] base::Result<BenchReport> bench_engine(const BenchOptions& options);
/// Switching between resident adapters while a session generates.
[[nodiscard]] base::Result<BenchReport> bench_swap(const BenchOptions& options);
/// Training steps of an adapter.
[[nodiscard]] base::Result<BenchReport> bench_train(const BenchOptions& options);

/// Every symbolic family at default settings: base and adapter on held-out problems.
[[nodiscard]] base::Result<BenchReport> bench_families(const BenchOptions& options);

}  // namespace retort::app
