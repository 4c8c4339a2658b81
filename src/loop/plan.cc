#include "loop/plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/memory.h"
#include "engine/arch/arch.h"
#include "engine/batcher.h"
#include "loop/calibrate.h"
#include "loop/problems.h"
#include "record/load.h"
#include "train/trainer.h"

namespace retort::loop {
namespace {

using base::Result;
using engine::Config;
using train::Trainer;

constexpr int64_t kSampled = 64;         // records drawn to learn their lengths
constexpr int kEvaluationSessions = 16;  // as loop/distil.cc
constexpr int64_t kEvaluationRows = 256;
constexpr int64_t kBaseAnswerTokens = 192;  // an untrained base seldom ends before its limit
constexpr double kExtrapolationLength = 1.5;

/// The model as far as its header tells, and what opening it took.
struct Opened {
  engine::Gguf gguf;
  Config config;
  engine::Vocabulary vocabulary;
  int64_t program_bytes = 0;  // held by this process, the vocabulary in it
  double seconds = 0;
};

Result<Opened> open_header(const base::Path& path) {
  const auto start = std::chrono::steady_clock::now();
  TRY_ASSIGN(engine::Gguf gguf, engine::Gguf::open(path));
  TRY_ASSIGN(Config config, engine::arch::read_config(gguf));
  TRY_ASSIGN(engine::Vocabulary vocabulary, engine::Vocabulary::open(gguf));
  gguf.file().release(gguf.file().bytes());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return Opened{std::move(gguf), std::move(config), std::move(vocabulary), base::resident_bytes(),
                seconds};
}

Result<std::vector<record::Record>> sample_records(const Recipe& recipe, int64_t& total) {
  if (recipe.teacher.kind == "file") {
    TRY_ASSIGN(record::Loaded loaded, record::load_records(recipe.teacher.records_file));
    const auto all = static_cast<int64_t>(loaded.records.size());
    // A tenth validates and a fifth is held out, as far as the recipe wants them.
    total =
        all - std::min(recipe.eval.validation, all / 10) - std::min(recipe.eval.held_out, all / 5);
    return std::move(loaded.records);
  }
  total = recipe.teacher.records;
  TRY_ASSIGN(auto drafts, problems_of_family(recipe.teacher.family, std::min(kSampled, total),
                                             recipe.teacher.seed, false));
  std::vector<record::Record> records;
  for (record::Draft& draft : drafts) records.push_back({.draft = std::move(draft)});
  return records;
}

Result<Workload> measure_workload(const Recipe& recipe, const engine::Vocabulary& vocabulary) {
  Workload work;
  TRY_ASSIGN(const auto records, sample_records(recipe, work.records));
  TRY_ASSIGN(const train::ExampleSet set,
             train::make_examples(records, vocabulary, recipe.train.tokens_max));
  const auto n = static_cast<double>(set.examples.size());
  work.rows = work.targets = 0;
  work.longest = 0;
  for (const train::Example& example : set.examples) {
    work.rows += static_cast<double>(example.rows()) / n;
    work.targets += static_cast<double>(example.targets) / n;
    work.longest = std::max(work.longest, example.rows());
  }
  return work;
}

class Planner {
 public:
  Planner(const PlanOptions& options, base::Team& team) : options_(options), team_(team) {}

  Result<Plan> run() {
    TRY_ASSIGN(const Opened opened, open_header(options_.base));
    plan_.base = options_.base;
    plan_.architecture = opened.config.architecture;
    plan_.file_bytes = opened.gguf.file_bytes();
    plan_.threads = team_.size();
    plan_.sessions = options_.sessions;
    plan_.context = options_.context;
    plan_.memory_free = base::available_memory_bytes();
    for (const auto& tensor : opened.gguf.tensors()) {
      plan_.parameters += tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
    }
    plan_.workload = options_.workload;
    if (options_.draw) {
      TRY_ASSIGN(plan_.workload, measure_workload(options_.recipe, opened.vocabulary));
    }
    TRY(check_workload());
    TRY(memory(opened));
    TRY(time(opened));
    return std::move(plan_);
  }

 private:
  const train::Options& train_options() const { return options_.recipe.train; }

  Result<void> check_workload() const {
    if (plan_.workload.longest > train_options().micro_batch_rows) {
      return base::make_error(
          base::Code::kLimit,
          "a record of {} tokens does not fit a micro-batch of {} (train.micro_batch_rows)",
          plan_.workload.longest, train_options().micro_batch_rows);
    }
    return {};
  }

  /// Records that one micro-batch takes, and so the rows that are ever written.
  int64_t records_a_pass() const {
    const auto fit = static_cast<int64_t>(static_cast<double>(train_options().micro_batch_rows) /
                                          plan_.workload.rows);
    return std::clamp<int64_t>(fit, 1, train_options().batch);
  }

  Result<void> memory(const Opened& opened) {
    const Config& config = opened.config;
    TRY_ASSIGN(const int64_t weights, engine::Model::weight_bytes_of(opened.gguf, config));
    const std::vector<MemoryPart> model = {{"program and vocabulary", opened.program_bytes},
                                           {"weights", weights}};
    plan_.load.parts = model;
    plan_.serve.parts = model;
    const engine::Executor::Options serve{
        .rows_max = std::min<int64_t>(std::max<int64_t>(options_.context, options_.sessions),
                                      kEvaluationRows),
        .context_max = options_.context};
    plan_.serve.parts.push_back(
        {"activations", engine::Executor::bytes(config, serve, team_.size())});
    plan_.serve.parts.push_back(
        {"sessions", engine::Batcher::bytes(config, {options_.sessions, options_.context})});
    trainer_memory(config);
    plan_.distil.parts = model;
    for (const MemoryPart& part : plan_.train.parts) plan_.distil.parts.push_back(part);
    evaluation_memory(config);
    // A checkpoint stands in memory twice while it is written: weights, two moments, the best
    // weights.
    constexpr int64_t kCheckpointFloats = 2 * 4;
    plan_.distil.parts.push_back(
        {"checkpoint, while it is written",
         kCheckpointFloats * 4 * Trainer::parameters(config, train_options())});
    plan_.train.parts.insert(plan_.train.parts.begin(), model.begin(), model.end());
    return {};
  }

  void trainer_memory(const Config& config) {
    // The decision is about the full micro-batch; what is written is what the records fill.
    const int64_t longest = plan_.workload.longest;
    const auto mode = Trainer::weights_mode(config, train_options(), longest, team_.size());
    plan_.streamed = mode == Trainer::WeightsMode::kStreamed;
    train::Options filled = train_options();
    const double rows = static_cast<double>(records_a_pass()) * plan_.workload.rows;
    filled.micro_batch_rows =
        std::clamp<int64_t>(std::llround(rows), longest, train_options().micro_batch_rows);
    const int64_t all = Trainer::bytes(config, filled, longest, team_.size(), mode);
    const int64_t transposed = engine::BackwardWeights::bytes(config, mode);
    if (transposed > 0) plan_.train.parts.push_back({"weights transposed, as floats", transposed});
    plan_.train.parts.push_back(
        {"adapter, gradients and activations of training", all - transposed});
  }

  void evaluation_memory(const Config& config) {
    const Workload& work = plan_.workload;
    const Recipe::Evaluation& eval = options_.recipe.eval;
    const double used = static_cast<double>(eval.shots + 1) * work.rows + 2 * work.targets;
    const auto context = static_cast<int64_t>(used);
    plan_.distil.parts.push_back(
        {"evaluation",
         engine::Batcher::bytes(config, {kEvaluationSessions, context}) +
             engine::Executor::bytes(config, {.rows_max = kEvaluationRows, .context_max = context},
                                     team_.size(), train_options().rank)});
  }

  Result<void> time(const Opened& opened) {
    CalibrateOptions calibration{.sessions = options_.sessions,
                                 .evaluation_sessions = kEvaluationSessions,
                                 .context = options_.context,
                                 .train = train_options(),
                                 .streamed = plan_.streamed};
    TRY_ASSIGN(const Pace pace, calibrate(opened.gguf, opened.config, team_, calibration));
    plan_.load_seconds = opened.seconds + pace.load;
    plan_.decode_tokens_per_s = 1 / pace.decode;
    plan_.decode_all_tokens_per_s = options_.sessions / pace.decode_all;
    plan_.prefill_tokens_per_s = 1 / pace.prefill_row;
    training_time(pace);
    evaluation_time(pace);
    return {};
  }

  void training_time(const Pace& pace) {
    const Workload& work = plan_.workload;
    const auto batch = static_cast<double>(train_options().batch);
    plan_.steps = std::max<int64_t>(
        1, std::llround(train_options().epochs * static_cast<double>(work.records) / batch));
    const double passes = std::ceil(batch / static_cast<double>(records_a_pass()));
    plan_.step_seconds = pace.update + passes * pace.pass +
                         batch * (work.rows * pace.pass_row + work.targets * pace.loss_row);
    plan_.train_seconds = pace.trainer_open + static_cast<double>(plan_.steps) * plan_.step_seconds;
  }

  void evaluation_time(const Pace& pace) {
    const Workload& work = plan_.workload;
    const Recipe::Evaluation& eval = options_.recipe.eval;
    const double token = pace.evaluate / kEvaluationSessions;
    const double prompt = (work.rows - work.targets) * pace.prefill_row;
    const auto held_out = static_cast<double>(eval.held_out);
    const double own = prompt + work.targets * token;
    double seconds = held_out * own + static_cast<double>(eval.validation * eval.validations) * own;
    if (options_.recipe.teacher.kind != "file") {
      seconds += static_cast<double>(eval.extrapolation) * kExtrapolationLength * own;
    }
    if (eval.base) {
      seconds += held_out * (prompt + kBaseAnswerTokens * token);
      const double shots = static_cast<double>(eval.shots) * work.rows * pace.prefill_row;
      if (eval.shots > 0) seconds += held_out * (prompt + shots + work.targets * token);
    }
    plan_.evaluate_seconds = seconds;
  }

  const PlanOptions& options_;
  base::Team& team_;
  Plan plan_;
};

}  // namespace

Workload Workload::of(int64_t records, int64_t tokens) {
  const auto rows = static_cast<double>(tokens);
  return {records, rows, rows / 2, tokens};
}

int64_t Memory::bytes() const {
  int64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

Result<Plan> make_plan(const PlanOptions& options, base::Team& team) {
  return Planner(options, team).run();
}

}  // namespace retort::loop
