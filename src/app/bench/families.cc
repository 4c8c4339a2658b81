// Every symbolic family distilled with default settings, as `retort distil` would: some hours.
#include <algorithm>

#include "app/bench/bench.h"
#include "app/bench/timing.h"
#include "app/interrupt.h"
#include "loop/distil.h"
#include "symbolic/family.h"

namespace retort::app {
namespace {

constexpr double kMedianWanted = 0.9;

/// The best of the plain model, the model shown examples, and one constant answer.
double best_base(const loop::Report& report) {
  double best = 0;
  for (const loop::ResultRow& row : report.rows) {
    if (row.label.starts_with("base") || row.label == "best constant answer") {
      best = std::max(best, row.correct.value());
    }
  }
  return best;
}

double value_of(const loop::ResultRow* row) { return row == nullptr ? 0 : row->correct.value(); }

}  // namespace

base::Result<BenchReport> bench_families(const BenchOptions& options) {
  BenchReport report{.bench = "families", .machine = this_machine()};
  base::Team team(options.threads);
  TRY_ASSIGN(const engine::Model model, engine::Model::open(options.models.front().path, team));
  // Beside the user's own adapters and runs, not among them; a stopped run goes on here.
  const base::Path home = base::data_directory() / "bench";
  TRY_ASSIGN(adapter::Registry registry, adapter::Registry::open(home));
  std::vector<double> accuracies;
  int64_t improved = 0;
  for (const symbolic::Family* family : symbolic::all_families()) {
    const std::string name(family->name());
    if (!options.families.empty() && !std::ranges::count(options.families, name)) continue;
    loop::Recipe recipe{.name = name};
    recipe.teacher.kind = "symbolic";
    recipe.teacher.family = name;
    TRY_ASSIGN(const loop::Report result,
               loop::distil(recipe, model, team, registry,
                            {.run_directory = home / "runs" / name,
                             .baselines_directory = base::data_directory() / "baselines",
                             .command = "retort bench families",
                             .quiet = options.quiet,
                             .stop = &interrupted()}));
    const double base = best_base(result);
    accuracies.push_back(value_of(result.find("adapter", "held-out")));
    improved += accuracies.back() > base;
    report.add("base_accuracy." + name, base);
    report.add("adapter_accuracy." + name, accuracies.back());
    report.add("extrapolation_accuracy." + name, value_of(result.find("adapter", "extrapolation")));
    report.add("train_seconds." + name, result.train_seconds);
  }
  report.add_at_least("median_adapter_accuracy", median(accuracies), kMedianWanted);
  report.add_at_least("families_improved", static_cast<double>(improved),
                      static_cast<double>(accuracies.size()));
  return report;
}

}  // namespace retort::app
