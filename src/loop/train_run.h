// Trains one adapter on given examples with everything around the Trainer: progress, metrics file,
// checkpoints, validation that chooses the best weights, and a stop that loses nothing.
#pragma once

#include <atomic>
#include <functional>

#include "adapter/weights.h"
#include "base/disk.h"
#include "loop/report.h"
#include "train/trainer.h"

namespace retort::loop {

struct TrainRunOptions {
  std::string label;     // of the progress line
  base::Path directory;  // checkpoint and metrics.jsonl
  bool quiet = false;
  int64_t validations = 0;  // how often to validate, over the second half of the run
  /// Accuracy of the adapter so far, 0..1; called between steps.
  std::function<base::Result<double>(const engine::SlotView&)> validate;
  const std::atomic<bool>* stop = nullptr;
};

struct TrainRunResult {
  adapter::AdapterWeights weights;  // the best
  int64_t parameters = 0, steps = 0, best_step = 0;
  double seconds = 0;  // spent in training steps, over all resumed runs of this process
  double tokens_per_s = 0, supervised_tokens_per_s = 0;
  std::vector<TrainingPoint> training;
  std::vector<ValidationPoint> validation;
};

/// Goes on from the checkpoint in run.directory if there is one of the same base, records and
/// options, and leaves one there; remove_checkpoint() once the result is safe elsewhere.
[[nodiscard]] base::Result<TrainRunResult> run_training(const engine::Model& model,
                                                        base::Team& team,
                                                        std::vector<train::Example> examples,
                                                        const train::Options& options,
                                                        const TrainRunOptions& run);
void remove_checkpoint(const base::Path& directory);

}  // namespace retort::loop
