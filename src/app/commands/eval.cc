// retort eval: an adapter against the base on problems, with intervals.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/commands/members.h"
#include "app/interrupt.h"
#include "app/runtime.h"
#include "loop/evaluate.h"
#include "loop/judge.h"
#include "loop/problems.h"
#include "obs/progress.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

class Eval final : public Command {
 public:
  std::string_view name() const override { return "eval"; }
  std::string_view summary() const override {
    return "Measure an adapter and the base on problems";
  }
  std::string_view examples() const override {
    return "  retort eval --adapter galois --family galois -n 200\n"
           "  retort eval --adapter galois --family galois --extrapolation --json\n"
           "  retort eval --adapter mine --records MINE.jsonl\n";
  }
  void declare(CLI::App& app) override {
    model_.declare(app);
    app.add_option("--adapter", adapter_, "NAME or NAME@VERSION (default: the base alone)");
    app.add_option("--family", family_, "draw problems of a symbolic family");
    app.add_option("--records", records_, "take problems from a JSONL file");
    app.add_option("-n", n_, "number of problems")->check(CLI::Range(1, 1'000'000));
    app.add_option("--seed", seed_,
                   "of the problems drawn; not the one that a recipe trained with");
    app.add_flag("--extrapolation", extrapolation_, "larger problems than training shows");
    app.add_option("--max-tokens", max_tokens_, "tokens of an answer at most")
        ->check(CLI::Range(1, 1 << 16));
    app.add_flag("!--no-base", with_base_, "do not measure the base");
    app.add_flag("--show", show_, "print every wrong answer");
    app.add_flag("--json", json_, "print JSON");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(auto runtime, Runtime::open(model_));
    TRY_ASSIGN(const std::vector<record::Draft> problems, this->problems());
    int64_t longest = 0;
    for (const record::Draft& problem : problems) {
      const engine::Message message{"user", problem.prompt};
      TRY_ASSIGN(const auto chat,
                 runtime->model().vocabulary().encode_chat(std::span(&message, 1), true));
      longest = std::max(longest, static_cast<int64_t>(chat.tokens.size()));
    }
    const int64_t context = longest + max_tokens_;
    engine::Executor executor(runtime->model(), runtime->team(),
                              {.rows_max = 256, .context_max = context});
    engine::Batcher batcher(executor, {.sessions_max = 16, .context = context});
    base::Json json = {{"n", problems.size()}};
    if (with_base_) {
      TRY_ASSIGN(const auto base, measure(*runtime, batcher, problems, nullptr));
      json["base_accuracy"] = base.correct().value();
      print("base", base, problems, json["base"]);
    }
    if (!adapter_.empty()) {
      TRY_ASSIGN(const engine::SlotView* slot, runtime->residents().acquire(adapter_));
      const engine::Mix mix(*slot);
      TRY_ASSIGN(const auto evaluation, measure(*runtime, batcher, problems, &mix));
      const auto [low, high] = evaluation.correct().interval();
      json["adapter_accuracy"] = evaluation.correct().value();
      json["interval"] = {low, high};
      json["end_of_turn_rate"] = evaluation.end_of_turn().value();
      json["cap_hit_rate"] = evaluation.cap_hit().value();
      print(adapter_, evaluation, problems, json["adapter"]);
    }
    if (json_) fmt::print("{}\n", base::dump_json(json, 1));
    return 0;
  }

 private:
  base::Result<std::vector<record::Draft>> problems() const {
    if (family_.empty() == records_.empty()) {
      return make_error(Code::kInvalidInput, "name either --family or --records");
    }
    if (!records_.empty()) return loop::problems_of_file(records_, n_);
    return loop::problems_of_family(family_, n_, seed_, extrapolation_);
  }

  base::Result<loop::Evaluation> measure(Runtime& runtime, engine::Batcher& batcher,
                                         std::span<const record::Draft> problems,
                                         const engine::Mix* mix) const {
    obs::Progress progress(mix == nullptr ? "base" : adapter_,
                           static_cast<int64_t>(problems.size()));
    auto evaluation = loop::evaluate(runtime.model(), batcher, problems, loop::make_judge(),
                                     {.mix = mix,
                                      .max_tokens = max_tokens_,
                                      .progress = [&](int64_t done) { progress.tick(done); },
                                      .stop = &interrupted()});
    evaluation ? progress.finish() : progress.fail(evaluation.error().message);
    return evaluation;
  }

  void print(std::string_view who, const loop::Evaluation& evaluation,
             std::span<const record::Draft> problems, base::Json& json) const {
    json = {{"correct", to_json(evaluation.correct())},
            {"end_of_turn", to_json(evaluation.end_of_turn())},
            {"cap_hit", to_json(evaluation.cap_hit())},
            {"tokens_per_s", static_cast<double>(evaluation.tokens()) / evaluation.seconds}};
    if (json_) return;
    const auto [low, high] = evaluation.correct().interval();
    fmt::print(
        "{:<20} {:5.1f} % right ({:.0f}-{:.0f} %), {:.1f} % ended, {:.1f} % cut, {:.0f} tokens/s\n",
        who, 100 * evaluation.correct().value(), 100 * low, 100 * high,
        100 * evaluation.end_of_turn().value(), 100 * evaluation.cap_hit().value(),
        static_cast<double>(evaluation.tokens()) / evaluation.seconds);
    for (size_t i = 0; show_ && i < problems.size(); ++i) {
      const loop::Answer& answer = evaluation.answers[i];
      if (answer.correct) continue;
      fmt::print("--- {}\n{}\nexpected: {}\n", problems[i].prompt, answer.text,
                 problems[i].final_answer);
    }
  }

  ModelOptions model_;
  std::string adapter_, family_, records_;
  int64_t n_ = 200, max_tokens_ = 256;
  uint64_t seed_ = 99;
  bool extrapolation_ = false, with_base_ = true, show_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_eval() { return std::make_unique<Eval>(); }

}  // namespace retort::app
