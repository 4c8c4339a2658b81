// Training steps of a DoRA and, for comparison, of a LoRA on the same records in the same order.
#include <malloc.h>

#include <fstream>

#include "app/bench/bench.h"
#include "app/bench/timing.h"
#include "gate/gate.h"
#include "obs/progress.h"
#include "teach/collect.h"
#include "train/trainer.h"

namespace retort::app {
namespace {

constexpr int64_t kRecords = 40;
constexpr int kAloneSteps =
    3;                        // of the DoRA by itself, the first to warm up: peak memory is its own
constexpr int kPairsMin = 2;  // of steps, DoRA and LoRA
constexpr double kPairsSeconds = 120;  // after which no further pair begins

base::Result<std::vector<train::Example>> make_examples(const engine::Vocabulary& vocabulary) {
  const auto teacher = teach::make_symbolic_teacher(*symbolic::find_family("galois"));
  gate::Gate gate(gate::all_verifiers(symbolic::all_families()));
  record::TwinSet twins;
  TRY_ASSIGN(const teach::Collected collected,
             teach::collect(*teacher, gate, twins, {.task = "galois", .n = kRecords, .seed = 1}));
  TRY_ASSIGN(train::ExampleSet set,
             train::make_examples(collected.records, vocabulary, train::Options{}.tokens_max));
  return std::move(set.examples);
}

/// Starts the peak of resident memory afresh from what is resident now.
void reset_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}
double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

/// Weights that a token is multiplied with.
double parameters_of(const engine::Model& model) {
  double n = static_cast<double>(model.output().out() * model.output().in());
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (int t = 0; t < engine::kLayerTargets; ++t) {
      const auto [out, in] = model.config().shape(static_cast<engine::Target>(t));
      n += static_cast<double>(out * in);
    }
  }
  return n;
}

struct Totals {
  double seconds = 0, tokens = 0, supervised = 0;

  /// One step of `trainer`, added up; its seconds.
  double step(train::Trainer& trainer) {
    const auto start = BenchClock::now();
    const train::StepReport report = trainer.step();
    const double taken = seconds_since(start);
    seconds += taken;
    tokens += static_cast<double>(report.rows);
    supervised += static_cast<double>(report.supervised_tokens);
    return taken;
  }
};

}  // namespace

base::Result<BenchReport> bench_train(const BenchOptions& options) {
  BenchReport report{.bench = "train", .machine = this_machine()};
  reset_peak();
  base::Team team(options.threads);
  TRY_ASSIGN(const engine::Model model, engine::Model::open(options.models.front().path, team));
  TRY_ASSIGN(const auto examples, make_examples(model.vocabulary()));
  const train::Options dora_options{.batch = 4};
  TRY_ASSIGN(auto dora, train::Trainer::create(model, team, examples, dora_options));
  obs::Progress progress("train " + options.models.front().name, dora->steps_total(),
                         {.quiet = options.quiet});
  dora->step();
  Totals totals;
  for (int i = 1; i < kAloneSteps; ++i) totals.step(*dora);
  const double peak = peak_mb();

  train::Options lora_options = dora_options;
  lora_options.dora = false;
  TRY_ASSIGN(auto lora, train::Trainer::create(model, team, examples, lora_options));
  while (lora->steps_done() < dora->steps_done()) lora->step();
  std::vector<double> ratios;
  const auto start = BenchClock::now();
  while (!dora->done() && (ratios.size() < kPairsMin || seconds_since(start) < kPairsSeconds)) {
    const double dora_seconds = totals.step(*dora);
    ratios.push_back(dora_seconds / seconds_of([&] { lora->step(); }));
    progress.tick(dora->steps_done());
  }
  progress.finish();

  const PeakFlops flops = peak_flops(team);
  const double tokens_per_s = totals.tokens / totals.seconds;
  report.add("supervised_tokens_per_s", totals.supervised / totals.seconds);
  report.add("total_tokens_per_s", tokens_per_s);
  report.add("flops_vs_peak", 4 * parameters_of(model) * tokens_per_s / flops.best());
  report.add("dora_vs_lora_step", median(ratios));
  report.add("peak_rss_mb", peak);
  report.add("peak_f32_gflops", flops.f32 * 1e-9);
  report.add("peak_bf16_gflops", flops.bf16 * 1e-9);
  return report;
}

}  // namespace retort::app
