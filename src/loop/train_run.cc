#include "loop/train_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "obs/metrics.h"
#include "obs/progress.h"

namespace retort::loop {
namespace {

using Clock = std::chrono::steady_clock;

base::Path checkpoint_in(const base::Path& directory) { return directory / "checkpoint"; }

/// Steps after which to validate: spread evenly over the second half, the last step included.
bool validates_after(int64_t step, int64_t total, int64_t validations) {
  for (int64_t i = 1; i <= validations; ++i) {
    if (step == total / 2 + (total - total / 2) * i / validations) return true;
  }
  return false;
}

class Run {
 public:
  Run(train::Trainer& trainer, obs::Metrics& metrics, double checkpoint_seconds,
      const TrainRunOptions& options)
      : trainer_(trainer),
        checkpoint_seconds_(checkpoint_seconds),
        metrics_(metrics),
        options_(options),
        checkpoint_(checkpoint_in(options.directory)),
        progress_(options.label, trainer.steps_total(),
                  {.quiet = options.quiet, .first = trainer.steps_done()}) {}

  base::Result<void> run(TrainRunResult& result) {
    while (!trainer_.done()) {
      if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
        return stop();
      }
      TRY(step(result));
      const int64_t done = trainer_.steps_done();
      if (validates_after(done, trainer_.steps_total(), options_.validations))
        TRY(validate(result));
      if (Clock::now() - saved_ >= checkpoint_seconds_) {
        TRY(trainer_.save(checkpoint_));
        saved_ = Clock::now();
      }
    }
    progress_.finish(fmt::format("loss {:.3f}, {:.0f} tokens/s", loss_, rate(result)));
    return {};
  }

 private:
  double rate(const TrainRunResult& result) const {
    return result.seconds > 0 ? static_cast<double>(rows_) / result.seconds : 0;
  }

  base::Result<void> step(TrainRunResult& result) {
    const auto start = Clock::now();
    const train::StepReport report = trainer_.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.seconds += seconds;
    rows_ += report.rows;
    supervised_ += report.supervised_tokens;
    loss_ = loss_ == 0 ? report.loss : 0.9 * loss_ + 0.1 * report.loss;
    if (!std::isfinite(report.loss)) {
      progress_.fail("the loss is not finite");
      return base::make_error(base::Code::kInvalidInput,
                              "training diverged at step {} (loss {}); lower train.learning_rate",
                              report.step, report.loss);
    }
    const double tokens_per_s = static_cast<double>(report.rows) / seconds;
    result.training.push_back({report.step, report.loss, report.learning_rate, tokens_per_s});
    progress_.tick(report.step, fmt::format("loss {:.3f} {:.0f} tok/s", loss_, rate(result)));
    result.tokens_per_s = rate(result);
    result.supervised_tokens_per_s = static_cast<double>(supervised_) / result.seconds;
    return metrics_.write({{"step", report.step},
                           {"loss", report.loss},
                           {"gradient_norm", report.gradient_norm},
                           {"learning_rate", report.learning_rate},
                           {"supervised_tokens", report.supervised_tokens},
                           {"tokens_per_s", tokens_per_s}});
  }

  base::Result<void> validate(TrainRunResult& result) {
    TRY_ASSIGN(const double accuracy, options_.validate(trainer_.slot()));
    trainer_.offer(accuracy);
    result.validation.push_back({trainer_.steps_done(), accuracy});
    return metrics_.write({{"step", trainer_.steps_done()}, {"validation_accuracy", accuracy}});
  }

  base::Result<void> stop() {
    TRY(trainer_.save(checkpoint_));
    progress_.fail("stopped");
    return base::make_error(base::Code::kCancelled,
                            "stopped after step {} of {}; the same command goes on from there",
                            trainer_.steps_done(), trainer_.steps_total());
  }

  train::Trainer& trainer_;
  const std::chrono::duration<double> checkpoint_seconds_;
  obs::Metrics& metrics_;
  const TrainRunOptions& options_;
  const base::Path checkpoint_;
  obs::Progress progress_;
  int64_t rows_ = 0, supervised_ = 0;
  double loss_ = 0;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace

base::Result<TrainRunResult> run_training(const engine::Model& model, base::Team& team,
                                          std::vector<train::Example> examples,
                                          const train::Options& options,
                                          const TrainRunOptions& run) {
  TRY(base::create_directories(run.directory));
  TRY_ASSIGN(auto trainer, train::Trainer::create(model, team, std::move(examples), options));
  const base::Path checkpoint = checkpoint_in(run.directory);
  const base::Path metrics_file = run.directory / "metrics.jsonl";
  bool resumed = false;
  if (std::filesystem::exists(checkpoint)) {
    const auto result = trainer->resume(checkpoint);
    // A checkpoint of other records or options is of no use to this run: it starts again.
    if (!result && result.error().code != base::Code::kMismatch) {
      return tl::unexpected(result.error());
    }
    resumed = result.has_value();
  }
  std::error_code ignored;
  if (!resumed) std::filesystem::remove(metrics_file, ignored);  // of an earlier run
  TRY_ASSIGN(obs::Metrics metrics, obs::Metrics::open(metrics_file));
  TrainRunResult result;
  TRY(Run(*trainer, metrics, options.checkpoint_seconds, run).run(result));
  result.weights = trainer->best_weights();
  result.parameters = trainer->trainable().parameters();
  result.steps = trainer->steps_done();
  result.best_step = trainer->best_score() ? trainer->best_step() : trainer->steps_done();
  TRY(trainer->save(checkpoint));
  return result;
}

void remove_checkpoint(const base::Path& directory) {
  std::error_code ignored;
  std::filesystem::remove(checkpoint_in(directory), ignored);
}

}  // namespace retort::loop
