// The training loop of one adapter: order of records, micro-batches, loss, AdamW, checkpoints.
//
// A step takes `batch` records, packs them ragged into micro-batches (sequences never see each
// other), and normalises by the supervised tokens of the whole step. Everything follows from the
// seed and the step number, so a killed run that resumes from its checkpoint ends in the same
// bytes, at any number of threads. One thread owns the Trainer; the model and the team outlive it.
#pragma once

#include <optional>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "base/result.h"
#include "engine/backward.h"
#include "engine/executor.h"
#include "train/example.h"
#include "train/options.h"
#include "train/trainable.h"

namespace retort::train {

struct StepReport {
  int64_t step = 0;          // 1 after the first
  double loss = 0;           // mean cross-entropy per supervised token of the step
  double gradient_norm = 0;  // before clipping
  float learning_rate = 0;
  int64_t supervised_tokens = 0, rows = 0;
};

/// kInvalidInput for an option out of range, naming it as a recipe does ("train.rank").
[[nodiscard]] base::Result<void> check_options(const Options& options);

class Trainer {
 public:
  /// kInvalidInput for options out of range, kLimit for an example longer than a micro-batch.
  [[nodiscard]] static base::Result<std::unique_ptr<Trainer>> create(const engine::Model& model,
                                                                     base::Team& team,
                                                                     std::vector<Example> examples,
                                                                     const Options& options);

  StepReport step();
  /// Clears the gradients and adds those of the mean loss of `examples`; step() without the update.
  /// Returns the mean loss per supervised token.
  double accumulate(std::span<const Example> examples);
  int64_t steps_done() const { return step_; }
  int64_t steps_total() const { return steps_total_; }
  bool done() const { return step_ >= steps_total_; }

  const engine::SlotView& slot() const { return trainable_.slot(); }
  const adapter::AdapterWeights& weights() const { return trainable_.weights(); }
  Trainable& trainable() { return trainable_; }

  /// Remembers the current weights if `score` beats every score before; returns whether it did.
  bool offer(double score);
  /// The weights of the best offer, or the current ones if there was none.
  const adapter::AdapterWeights& best_weights() const { return best_ ? *best_ : weights(); }
  std::optional<double> best_score() const { return best_score_; }
  int64_t best_step() const { return best_step_; }

  /// Writes everything that a later resume() needs, atomically.
  [[nodiscard]] base::Result<void> save(const base::Path& path) const;
  /// kMismatch if the checkpoint is of another base, other records or other options.
  [[nodiscard]] base::Result<void> resume(const base::Path& path);

  /// Mean loss per supervised token of examples that are not trained on.
  double evaluate_loss(std::span<const Example> examples);

  /// Floats that such a run learns.
  static int64_t parameters(const engine::Config& config, const Options& options);
  using WeightsMode = engine::BackwardWeights::Mode;
  /// What a trainer holds beside the model once it has run a full micro-batch of such records.
  static int64_t bytes(const engine::Config& config, const Options& options, int64_t longest,
                       int threads, WeightsMode mode);
  /// The mode that options.memory_budget_mb leads to: resident if all of it fits.
  static WeightsMode weights_mode(const engine::Config& config, const Options& options,
                                  int64_t longest, int threads);
  WeightsMode weights_mode() const { return backward_weights_.mode(); }

 private:
  Trainer(const engine::Model& model, base::Team& team, std::vector<Example> examples,
          const Options& options, int64_t longest);

  std::vector<const Example*> records_of_step(int64_t step) const;
  /// Those that the caches have room for, and their supervised tokens.
  std::pair<std::vector<const Example*>, int64_t> fit(std::span<const Example> examples) const;
  /// Mean loss over all of `examples`, and its gradient where `backward`.
  double run_all(std::span<const Example* const> examples, int64_t targets, bool backward);
  /// Forward (and, unless weight is 0, backward) of as many examples as fit, from examples[at].
  /// Returns the summed loss and moves `at` on.
  double run_micro_batch(std::span<const Example* const> examples, size_t& at, float weight);
  float learning_rate(int64_t step) const;
  base::Hash256 identity() const;

  const engine::Model& model_;
  base::Team& team_;
  std::vector<Example> examples_;
  Options options_;
  int64_t steps_total_;
  int64_t step_ = 0;

  Trainable trainable_;
  engine::Executor executor_;
  engine::BackwardWeights backward_weights_;
  engine::Backward backward_;
  std::vector<engine::KvCache> caches_;
  int64_t longest_;
  std::vector<engine::Segment> segments_;
  std::vector<int32_t> loss_rows_;
  std::vector<engine::Token> loss_targets_;

  std::optional<adapter::AdapterWeights> best_;
  std::optional<double> best_score_;
  int64_t best_step_ = 0;
};

}  // namespace retort::train
