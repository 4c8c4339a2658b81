#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "adapter/fold.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "train/checkpoint.h"

namespace retort::train {

using base::Code;
using base::make_error;

base::Result<void> check_options(const Options& o) {
  const auto range = [](std::string_view name, double value, double low,
                        double high) -> base::Result<void> {
    if (value >= low && value <= high) return {};
    return make_error(Code::kInvalidInput, "train.{} is {}, but should be within {}..{}", name,
                      value, low, high);
  };
  TRY(range("rank", static_cast<double>(o.rank), 1, limits::kRankMax));
  for (const int64_t rank : o.target_ranks) {
    TRY(range("ranks", static_cast<double>(rank), -1, limits::kRankMax));
  }
  TRY(range("alpha", o.alpha, 1e-3, 1e6));
  TRY(range("learning_rate", o.learning_rate, 1e-8, 1));
  TRY(range("warmup", o.warmup, 0, 1));
  TRY(range("batch", o.batch, 1, 4096));
  TRY(range("epochs", o.epochs, 0.001, 1000));
  TRY(range("clip", o.clip, 0, 1e6));
  TRY(range("memory_budget_mb", static_cast<double>(o.memory_budget_mb), 0, 1 << 30));
  TRY(range("beta1", o.beta1, 0, 0.9999));
  TRY(range("beta2", o.beta2, 0, 0.99999));
  TRY(range("checkpoint_seconds", o.checkpoint_seconds, 0, 1e6));
  TRY(range("final_rate", o.final_rate, 0, 1));
  TRY(range("weight_decay", o.weight_decay, 0, 1));
  TRY(range("tokens_max", static_cast<double>(o.tokens_max), 2, limits::kContextMax));
  TRY(range("micro_batch_rows", static_cast<double>(o.micro_batch_rows), 1, limits::kContextMax));
  return {};
}

base::Result<std::unique_ptr<Trainer>> Trainer::create(const engine::Model& model, base::Team& team,
                                                       std::vector<Example> examples,
                                                       const Options& options) {
  TRY(check_options(options));
  if (examples.empty()) return make_error(Code::kInvalidInput, "there are no records to train on");
  int64_t longest = 0;
  for (const Example& example : examples) longest = std::max(longest, example.rows());
  if (longest > options.micro_batch_rows) {
    return make_error(
        Code::kLimit,
        "a record of {} tokens does not fit a micro-batch of {} (train.micro_batch_rows)", longest,
        options.micro_batch_rows);
  }
  return std::unique_ptr<Trainer>(new Trainer(model, team, std::move(examples), options, longest));
}

Trainer::Trainer(const engine::Model& model, base::Team& team, std::vector<Example> examples,
                 const Options& options, int64_t longest)
    : model_(model),
      team_(team),
      examples_(std::move(examples)),
      options_(options),
      steps_total_(std::max<int64_t>(
          1, std::llround(options.epochs * static_cast<double>(examples_.size()) / options.batch))),
      trainable_(model, initial_weights(model, options, team), team),
      executor_(
          model, team,
          {.rows_max = options.micro_batch_rows, .context_max = longest, .keep_layers = true}),
      backward_weights_(model, team, weights_mode(model.config(), options, longest, team.size())),
      backward_(executor_, backward_weights_),
      longest_(longest) {}

/// Records are numbered on through the epochs, each epoch shuffled by its own stream of the seed.
std::vector<const Example*> Trainer::records_of_step(int64_t step) const {
  std::vector<const Example*> records;
  const auto n = static_cast<int64_t>(examples_.size());
  std::vector<int64_t> order(examples_.size());
  int64_t shuffled = -1;
  for (int64_t i = step * options_.batch; i < (step + 1) * options_.batch; ++i) {
    if (const int64_t epoch = i / n; epoch != shuffled) {
      shuffled = epoch;
      std::iota(order.begin(), order.end(), 0);
      base::Rng(options_.seed, static_cast<uint64_t>(epoch)).shuffle(std::span(order));
    }
    records.push_back(&examples_[static_cast<size_t>(order[static_cast<size_t>(i % n)])]);
  }
  return records;
}

float Trainer::learning_rate(int64_t step) const {
  const double warmup = std::max(1.0, options_.warmup * static_cast<double>(steps_total_));
  const double done = static_cast<double>(step) + 1;
  if (done <= warmup) return static_cast<float>(options_.learning_rate * done / warmup);
  const double left = std::max(1.0, static_cast<double>(steps_total_) - warmup);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * (done - warmup) / left));
  return static_cast<float>(options_.learning_rate *
                            (options_.final_rate + (1 - options_.final_rate) * cosine));
}

double Trainer::run_micro_batch(std::span<const Example* const> examples, size_t& at,
                                float weight) {
  segments_.clear();
  loss_rows_.clear();
  loss_targets_.clear();
  const size_t first = at;
  int64_t rows = 0;
  for (; at < examples.size() && rows + examples[at]->rows() <= options_.micro_batch_rows; ++at) {
    const Example& example = *examples[at];
    const size_t slot = at - first;
    if (slot == caches_.size()) {
      caches_.push_back(engine::KvCache::create(model_.config(), longest_).value());
    }
    for (size_t i = 1; i < example.tokens.size(); ++i) {
      if (example.supervised[i] == 0) continue;
      loss_rows_.push_back(static_cast<int32_t>(rows + static_cast<int64_t>(i) - 1));
      loss_targets_.push_back(example.tokens[i]);
    }
    rows += example.rows();
  }
  for (size_t i = first; i < at; ++i) {
    engine::KvCache& cache = caches_[i - first];  // all are created: the addresses hold
    cache.truncate(0);
    segments_.push_back(
        {.cache = &cache,
         .tokens = std::span(examples[i]->tokens).first(examples[i]->tokens.size() - 1),
         .mix = engine::Mix(trainable_.slot())});
  }
  executor_.forward(segments_, {}, nullptr);
  const double loss = backward_.loss(loss_rows_, loss_targets_, weight);
  if (weight != 0) backward_.propagate(segments_, trainable_.slot(), trainable_.gradients());
  return loss;
}

double Trainer::run_all(std::span<const Example* const> examples, int64_t targets, bool backward) {
  if (targets == 0) return 0;
  if (backward) team_.run([&](base::Lane lane) { trainable_.clear_gradients(lane); });
  const float weight = backward ? static_cast<float>(1.0 / static_cast<double>(targets)) : 0.0f;
  double loss = 0;
  for (size_t at = 0; at < examples.size();) loss += run_micro_batch(examples, at, weight);
  return loss / static_cast<double>(targets);
}

StepReport Trainer::step() {
  const std::vector<const Example*> records = records_of_step(step_);
  StepReport report{.step = step_ + 1, .learning_rate = learning_rate(step_)};
  for (const Example* example : records) {
    report.supervised_tokens += example->targets;
    report.rows += example->rows();
  }
  report.loss = run_all(records, report.supervised_tokens, true);

  const auto t = static_cast<double>(step_ + 1);
  kernels::AdamW adamw{.learning_rate = report.learning_rate,
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .weight_decay = options_.weight_decay,
                       .correction1 = static_cast<float>(1 - std::pow(double{options_.beta1}, t)),
                       .correction2 = static_cast<float>(1 - std::pow(double{options_.beta2}, t)),
                       .gradient_scale = 1.0f};
  team_.run([&](base::Lane lane) {
    const double norm = trainable_.finish_gradients(lane);
    kernels::AdamW own = adamw;
    if (options_.clip > 0 && norm > options_.clip) {
      own.gradient_scale = static_cast<float>(options_.clip / norm);
    }
    trainable_.update(lane, own);
    trainable_.fold(lane);
    if (lane.index() == 0) report.gradient_norm = norm;
  });
  ++step_;
  return report;
}

double Trainer::accumulate(std::span<const Example> examples) {
  const auto [fitting, targets] = fit(examples);
  return run_all(fitting, targets, true);
}

double Trainer::evaluate_loss(std::span<const Example> examples) {
  const auto [fitting, targets] = fit(examples);
  return run_all(fitting, targets, false);
}

std::pair<std::vector<const Example*>, int64_t> Trainer::fit(
    std::span<const Example> examples) const {
  std::vector<const Example*> fitting;
  int64_t targets = 0;
  for (const Example& example : examples) {
    if (example.rows() > longest_) continue;
    fitting.push_back(&example);
    targets += example.targets;
  }
  return {std::move(fitting), targets};
}

bool Trainer::offer(double score) {
  if (best_score_ && score <= *best_score_) return false;
  best_score_ = score;
  best_step_ = step_;
  best_ = weights();
  return true;
}

/// What a checkpoint must share with the run that reads it.
base::Hash256 Trainer::identity() const {
  base::Hasher hasher;
  hasher.add_value(model_.fingerprint().bytes);
  const Options& o = options_;
  hasher.add_value(o.rank).add_value(o.alpha).add_value(o.dora).add_value(o.rslora);
  hasher.add_value(o.target_ranks).add_value(o.learning_rate).add_value(o.final_rate);
  hasher.add_value(o.warmup).add_value(o.beta1).add_value(o.beta2).add_value(o.epsilon);
  hasher.add_value(o.weight_decay).add_value(o.clip).add_value(o.batch).add_value(o.epochs);
  hasher.add_value(o.seed);
  for (const Example& example : examples_) {
    hasher.add_value(example.tokens.size());
    hasher.add(std::as_bytes(std::span(example.tokens)));
    hasher.add(std::as_bytes(std::span(example.supervised)));
  }
  return hasher.finish();
}

base::Result<void> Trainer::save(const base::Path& path) const {
  Checkpoint checkpoint{
      .identity = identity(), .step = step_, .best_step = best_step_, .best_score = best_score_};
  auto& self = const_cast<Trainer&>(*this);  // state() hands out spans; they are only read here
  const auto parameters = static_cast<size_t>(trainable_.parameters());
  checkpoint.values.reserve(3 * parameters);
  if (best_) checkpoint.best.reserve(parameters);
  for (const std::span<float> values : self.trainable_.state()) {
    checkpoint.values.insert(checkpoint.values.end(), values.begin(), values.end());
  }
  if (best_) {
    for (const adapter::ModuleWeights& module : best_->modules) {
      for (const auto* values : {&module.a, &module.b, &module.m}) {
        checkpoint.best.insert(checkpoint.best.end(), values->begin(), values->end());
      }
    }
  }
  return write_checkpoint(path, checkpoint);
}

base::Result<void> Trainer::resume(const base::Path& path) {
  TRY_ASSIGN(const Checkpoint checkpoint, read_checkpoint(path));
  if (checkpoint.identity != identity()) {
    return make_error(Code::kMismatch,
                      "{}: the checkpoint belongs to another base, other records or other options; "
                      "remove it to start again",
                      path.string());
  }
  std::vector<std::span<float>> state = trainable_.state();
  const size_t wanted = std::accumulate(state.begin(), state.end(), size_t{0},
                                        [](size_t n, auto values) { return n + values.size(); });
  const auto parameters = static_cast<size_t>(trainable_.parameters());
  if (checkpoint.values.size() != wanted ||
      (checkpoint.best_score && checkpoint.best.size() != parameters)) {
    return make_error(Code::kInvalidInput, "{}: the checkpoint has the wrong size", path.string());
  }
  const float* source = checkpoint.values.data();
  for (const std::span<float> values : state) {
    std::copy_n(source, values.size(), values.data());
    source += values.size();
  }
  if (checkpoint.best_score) {
    best_ = weights();
    source = checkpoint.best.data();
    for (adapter::ModuleWeights& module : best_->modules) {
      for (std::vector<float>* values : {&module.a, &module.b, &module.m}) {
        std::copy_n(source, values->size(), values->data());
        source += values->size();
      }
    }
  }
  step_ = checkpoint.step;
  best_score_ = checkpoint.best_score;
  best_step_ = checkpoint.best_step;
  team_.run([&](base::Lane lane) { trainable_.fold(lane); });
  return {};
}

namespace {

/// What an adapter in training holds for one module; see Trainable and Crystalliser.
int64_t module_bytes(int64_t out, int64_t in, int64_t rank, bool dora) {
  const int64_t padded_rank = adapter::padded_rank(rank);
  const int64_t factors = rank * (out + in);
  const int64_t served = padded_rank * (kernels::padded(out) + kernels::padded(in));
  // Floats: masters, gradients, two moments, the best so far; m likewise; gradients of the serving
  // form; d, c, norm (and its square in double), the gram. Two forms in binary16.
  return 4 * (5 * factors + (dora ? 5 * out : 0) + served + 6 * out + rank * padded_rank) +
         2 * 2 * served;
}

}  // namespace

int64_t Trainer::parameters(const engine::Config& config, const Options& options) {
  int64_t n = 0;
  for (int t = 0; t < engine::kLayerTargets; ++t) {
    const int64_t own = options.target_ranks[static_cast<size_t>(t)];
    if (own < 0) continue;
    const auto [out, in] = config.shape(static_cast<engine::Target>(t));
    n += config.layers * ((own > 0 ? own : options.rank) * (out + in) + (options.dora ? out : 0));
  }
  return n;
}

int64_t Trainer::bytes(const engine::Config& config, const Options& options, int64_t longest,
                       int threads, WeightsMode mode) {
  int64_t adapter_bytes = 0;
  int64_t rank_max = 0, scratch = 0;
  for (int t = 0; t < engine::kLayerTargets; ++t) {
    const int64_t own = options.target_ranks[static_cast<size_t>(t)];
    if (own < 0) continue;
    const int64_t rank = own > 0 ? own : options.rank;
    const auto [out, in] = config.shape(static_cast<engine::Target>(t));
    adapter_bytes += config.layers * module_bytes(out, in, rank, options.dora);
    rank_max = std::max(rank_max, adapter::padded_rank(rank));
    scratch = std::max(scratch, adapter::fold_scratch_floats(in, rank));
  }
  const engine::Executor::Options executor{options.micro_batch_rows, longest, true};
  // Caches hold `longest` cells each, of which a micro-batch fills as many as it has rows.
  const int64_t caches = engine::KvCache::bytes(config, options.micro_batch_rows);
  return adapter_bytes + 4 * threads * scratch +
         engine::Executor::bytes(config, executor, threads, rank_max) +
         engine::BackwardWeights::bytes(config, mode) +
         engine::Backward::bytes(config, executor, threads, mode) + caches;
}

Trainer::WeightsMode Trainer::weights_mode(const engine::Config& config, const Options& options,
                                           int64_t longest, int threads) {
  const int64_t budget = options.memory_budget_mb > 0 ? options.memory_budget_mb << 20
                                                      : base::available_memory_bytes();
  const bool fits = bytes(config, options, longest, threads, WeightsMode::kResident) <= budget;
  return fits ? WeightsMode::kResident : WeightsMode::kStreamed;
}

}  // namespace retort::train
