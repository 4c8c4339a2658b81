#include "loop/distil.h"

#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "adapter/crystallise.h"
#include "adapter/peft.h"
#include "engine/batcher.h"
#include "loop/baseline.h"
#include "loop/judge.h"
#include "loop/neutral_text.h"
#include "loop/problems.h"
#include "loop/train_run.h"
#include "obs/progress.h"
#include "train/example.h"

namespace retort::loop {
namespace {

using base::Code;
using base::make_error;
using engine::Mix;

constexpr int kSessions = 16;        // answers generated side by side
constexpr int64_t kSamples = 8;      // problems shown in the report
constexpr double kAnswerRoom = 1.5;  // of the longest chain learnt: room to answer in
constexpr int64_t kBaseAnswerTokens = 192;

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class Distillation {
 public:
  Distillation(const Recipe& recipe, const engine::Model& model, base::Team& team,
               adapter::Registry& registry, const DistilOptions& options)
      : recipe_(recipe), model_(model), team_(team), registry_(registry), options_(options) {}

  base::Result<Report> run() {
    TRY(base::create_directories(options_.run_directory));
    report_.name = recipe_.name;
    report_.base = model_.path().filename().string();
    report_.command = options_.command;
    TRY(gather());
    open_engine();
    if (recipe_.eval.base) TRY(measure_base());
    TRY_ASSIGN(TrainRunResult trained, train("", recipe_.train, examples_));
    TRY(measure_adapter(trained.weights));
    for (const std::string& arm : recipe_.eval.arms) TRY(measure_arm(arm));
    TRY(publish(trained.weights));
    report_.peak_rss_mb = peak_rss_mb();
    TRY(base::write_file_atomic(options_.run_directory / "report.json",
                                base::dump_json(to_json(report_), 1)));
    TRY(base::write_file_atomic(options_.run_directory / "report.html",
                                to_html(std::span(&report_, 1))));
    // All of it is safe: the next run of this name starts afresh.
    remove_checkpoint(directory_of(""));
    for (const std::string& arm : recipe_.eval.arms) remove_checkpoint(directory_of("-" + arm));
    return report_;
  }

 private:
  base::Result<void> gather() {
    const GatherOptions gather{options_.run_directory, options_.quiet, options_.stop};
    TRY_ASSIGN(problems_, gather_problems(recipe_, gather));
    TRY_ASSIGN(train::ExampleSet set, train::make_examples(problems_.train, model_.vocabulary(),
                                                           recipe_.train.tokens_max));
    examples_ = std::move(set.examples);
    report_.records = static_cast<int64_t>(examples_.size());
    report_.records_refused = problems_.refused + static_cast<int64_t>(set.refused.size());
    report_.records_declared =
        std::ranges::count(problems_.train, record::Standing::kDeclared, &record::Record::standing);
    report_.records_hash = problems_.train_hash().short_hex();
    for (const std::string& refused : set.refused) {
      if (!options_.quiet) fmt::print(stderr, "left out: {}\n", refused);
    }
    return {};
  }

  void open_engine() {
    int64_t longest_answer = 0;
    int64_t longest = 0;
    for (const train::Example& example : examples_) {
      longest_answer = std::max(longest_answer, example.targets);
      longest = std::max(longest, static_cast<int64_t>(example.tokens.size()));
    }
    // Larger problems have longer chains: the extrapolation set gets half as much again.
    answer_tokens_ = static_cast<int64_t>(kAnswerRoom * static_cast<double>(longest_answer)) + 16;
    context_ = (recipe_.eval.shots + 2) * longest + std::max(2 * answer_tokens_, kBaseAnswerTokens);
    executor_ = std::make_unique<engine::Executor>(
        model_, team_, engine::Executor::Options{.rows_max = 256, .context_max = context_});
    batcher_ = std::make_unique<engine::Batcher>(
        *executor_, engine::Batcher::Options{.sessions_max = kSessions, .context = context_});
  }

  base::Result<Evaluation> measure(std::string_view label, std::span<const record::Draft> problems,
                                   EvaluationOptions options) {
    obs::Progress progress(label, static_cast<int64_t>(problems.size()), {.quiet = options_.quiet});
    options.progress = [&](int64_t done) { progress.tick(done); };
    options.stop = options_.stop;
    auto evaluation = evaluate(model_, *batcher_, problems, judge_, options);
    if (!evaluation) {
      progress.fail(evaluation.error().message);
      return evaluation;
    }
    const Proportion correct = evaluation->correct();
    progress.finish(fmt::format("{:.1f} % right, {:.0f} tokens/s", 100 * correct.value(),
                                static_cast<double>(evaluation->tokens()) / evaluation->seconds));
    return evaluation;
  }

  void add_row(std::string_view label, std::string_view problems, const Evaluation& evaluation) {
    report_.rows.push_back(row_of(label, problems, evaluation));
  }

  base::Result<Evaluation> measure_base(std::string_view label, const EvaluationOptions& options) {
    bool measured = false;
    TRY_ASSIGN(Evaluation evaluation, base_answers(options_.baselines_directory, model_,
                                                   problems_.held_out, judge_, options, [&] {
                                                     measured = true;
                                                     return measure(label, problems_.held_out,
                                                                    options);
                                                   }));
    if (!measured && !options_.quiet) {
      fmt::print(stderr, "{}: {:.1f} % right, from an earlier run\n", label,
                 100 * evaluation.correct().value());
    }
    return evaluation;
  }

  base::Result<void> measure_base() {
    TRY_ASSIGN(const Evaluation zero,
               measure_base("base, zero-shot", {.max_tokens = kBaseAnswerTokens}));
    add_row("base, zero-shot", "held-out", zero);
    base_answers_ = zero.answers;
    if (const auto shots = static_cast<size_t>(recipe_.eval.shots); shots > 0) {
      const auto examples =
          std::span(problems_.train).first(std::min(shots, problems_.train.size()));
      TRY_ASSIGN(const Evaluation few,
                 measure_base(fmt::format("base, {}-shot", shots),
                              {.shots = examples, .max_tokens = kBaseAnswerTokens}));
      add_row(fmt::format("base, {}-shot", shots), "held-out", few);
    }
    report_.rows.push_back(
        {"best constant answer", "held-out", best_constant(problems_.held_out, judge_), {}, {}, 0});
    return {};
  }

  base::Path directory_of(std::string_view arm) const {
    return options_.run_directory / (arm.empty() ? "main" : std::string(arm));
  }

  base::Result<TrainRunResult> train(std::string_view arm, const train::Options& options,
                                     const std::vector<train::Example>& examples) {
    TrainRunOptions run{.label = fmt::format("training {}{}", recipe_.name, arm),
                        .directory = directory_of(arm),
                        .quiet = options_.quiet,
                        .validations = problems_.validation.empty() ? 0 : recipe_.eval.validations,
                        .stop = options_.stop};
    run.validate = [&](const engine::SlotView& slot) -> base::Result<double> {
      const Mix mix(slot);
      TRY_ASSIGN(const Evaluation evaluation,
                 evaluate(model_, *batcher_, problems_.validation, judge_,
                          {.mix = &mix, .max_tokens = answer_tokens_, .stop = options_.stop}));
      return evaluation.correct().value();
    };
    TRY_ASSIGN(TrainRunResult result, run_training(model_, team_, examples, options, run));
    if (arm.empty()) {
      report_.parameters = result.parameters;
      report_.steps = result.steps;
      report_.best_step = result.best_step;
      report_.train_seconds = result.seconds;
      report_.tokens_per_s = result.tokens_per_s;
      report_.supervised_tokens_per_s = result.supervised_tokens_per_s;
      report_.training = result.training;
      report_.validation = result.validation;
    }
    return result;
  }

  base::Result<adapter::SlotImage> crystallise(const adapter::AdapterWeights& weights) {
    TRY_ASSIGN(const auto bytes,
               adapter::build_slot(weights, adapter::BaseWeights::of(model_), team_));
    return adapter::SlotImage::parse(bytes.span(),
                                     adapter::SlotBase::of(model_.config(), model_.fingerprint()));
  }

  base::Result<void> measure_adapter(const adapter::AdapterWeights& weights) {
    TRY_ASSIGN(const adapter::SlotImage slot, crystallise(weights));
    const Mix mix(slot.view());
    TRY_ASSIGN(const Evaluation held_out, measure("adapter, held-out", problems_.held_out,
                                                  {.mix = &mix, .max_tokens = answer_tokens_}));
    add_row("adapter", "held-out", held_out);
    if (!problems_.extrapolation.empty()) {
      TRY_ASSIGN(const Evaluation larger, measure("adapter, extrapolation", problems_.extrapolation,
                                                  {.mix = &mix, .max_tokens = 2 * answer_tokens_}));
      add_row("adapter", "extrapolation", larger);
    }
    for (size_t i = 0; i < std::min<size_t>(kSamples, problems_.held_out.size()); ++i) {
      const record::Draft& problem = problems_.held_out[i];
      Sample sample{problem.prompt, problem.final_answer,       "", held_out.answers[i].text,
                    false,          held_out.answers[i].correct};
      if (!base_answers_.empty()) {
        sample.base_text = base_answers_[i].text;
        sample.base_correct = base_answers_[i].correct;
      }
      report_.samples.push_back(std::move(sample));
    }
    report_.perplexity_base = perplexity(*executor_, kNeutralText, nullptr);
    report_.perplexity_adapter = perplexity(*executor_, kNeutralText, &mix);
    return {};
  }

  /// The controls: plain LoRA on the same records; the same adapter without the reasoning.
  base::Result<void> measure_arm(const std::string& arm) {
    train::Options options = recipe_.train;
    std::vector<train::Example> examples = examples_;
    if (arm == "lora") options.dora = false;
    if (arm == "answer-only") {
      std::vector<record::Record> bare = problems_.train;
      for (record::Record& record : bare) record.draft.reasoning_chain.clear();
      TRY_ASSIGN(train::ExampleSet set,
                 train::make_examples(bare, model_.vocabulary(), options.tokens_max));
      examples = std::move(set.examples);
    }
    TRY_ASSIGN(const TrainRunResult trained, train("-" + arm, options, examples));
    TRY_ASSIGN(const adapter::SlotImage slot, crystallise(trained.weights));
    const Mix mix(slot.view());
    const std::string label = arm == "lora" ? "LoRA control" : "answers only, no chain";
    TRY_ASSIGN(const Evaluation held_out,
               measure(label, problems_.held_out, {.mix = &mix, .max_tokens = answer_tokens_}));
    add_row(label, "held-out", held_out);
    return {};
  }

  base::Result<void> publish(const adapter::AdapterWeights& weights) {
    const ResultRow* row = report_.find("adapter", "held-out");
    if (report_.records_declared > 0 && problems_.checked == 0 && !options_.force) {
      return make_error(Code::kInvalidInput,
                        "{} records were trusted without a check and no held-out example could be "
                        "checked, so {} is not published; --force publishes it all the same",
                        report_.records_declared, recipe_.name);
    }
    TRY_ASSIGN(adapter::RegistryEntry entry, registry_.reserve(recipe_.name));
    TRY(adapter::save_peft(entry.adapter_directory, weights, model_.config(), report_.base));
    // What is published is what the files say, not what memory holds: fold the saved adapter.
    TRY_ASSIGN(const adapter::AdapterWeights saved,
               adapter::load_peft(entry.adapter_directory, model_.config()));
    TRY_ASSIGN(const auto bytes,
               adapter::build_slot(saved, adapter::BaseWeights::of(model_), team_));
    TRY_ASSIGN(const adapter::SlotImage trained, crystallise(weights));
    if (!std::ranges::equal(bytes.span(), trained.bytes())) {
      return make_error(Code::kInvalidInput, "{}: the saved adapter differs from the trained one",
                        entry.adapter_directory.string());
    }
    TRY(base::write_file_atomic(entry.slot_file, bytes.span()));
    entry.base = model_.fingerprint();
    entry.content = trained.info().content;
    entry.created_s = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
    base::Json evaluation = {{"n", row->correct.n},
                             {"adapter_accuracy", row->correct.value()},
                             {"records", report_.records},
                             {"records_hash", report_.records_hash}};
    if (const ResultRow* base = report_.find("base, zero-shot", "held-out")) {
      evaluation["base_accuracy"] = base->correct.value();
    }
    entry.evaluation = base::dump_json(evaluation);
    TRY(registry_.put(entry));
    report_.version = std::to_string(entry.version);
    return {};
  }

  const Recipe& recipe_;
  const engine::Model& model_;
  base::Team& team_;
  adapter::Registry& registry_;
  const DistilOptions& options_;

  Problems problems_;
  std::vector<train::Example> examples_;
  Judge judge_ = make_judge();
  int64_t answer_tokens_ = 0, context_ = 0;
  std::unique_ptr<engine::Executor> executor_;
  std::unique_ptr<engine::Batcher> batcher_;
  std::vector<Answer> base_answers_;
  Report report_;
};

}  // namespace

base::Result<Report> distil(const Recipe& recipe, const engine::Model& model, base::Team& team,
                            adapter::Registry& registry, const DistilOptions& options) {
  return Distillation(recipe, model, team, registry, options).run();
}

}  // namespace retort::loop
