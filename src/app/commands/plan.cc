// retort plan: memory and time before starting.
#include "loop/plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/commands/members.h"
#include "app/runtime.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

constexpr int64_t kRecordsDefault = 800, kTokensDefault = 128;

class PlanCommand final : public Command {
 public:
  std::string_view name() const override { return "plan"; }
  std::string_view summary() const override {
    return "Memory and time that serving and distilling a base would take here, before starting";
  }
  std::string_view examples() const override {
    return "  retort plan --base MODEL.gguf\n"
           "  retort plan --recipe recipes/galois.toml\n"
           "  retort plan --base MODEL.gguf --records 2000 --tokens-per-record 300 --json\n"
           "  retort plan --base MODEL.gguf --sessions 16 --context 4096\n"
           "Memory follows from the file's header and from what each part allocates; the program "
           "itself and\n"
           "the vocabulary are measured. For the times a few layers of the file are loaded, "
           "decoded with and\n"
           "trained for about three seconds, and scaled to all layers: other work on the machine "
           "shows. The\n"
           "supervised half of a record is assumed, unless a recipe tells: then records are drawn "
           "from it.\n";
  }
  void declare(CLI::App& app) override {
    model_.declare(app);
    auto* recipe =
        app.add_option("--recipe", recipe_, "TOML file: its records, training and evaluation");
    app.add_option("--records", records_, "training records")
        ->check(CLI::Range(1, 100'000'000))
        ->excludes(recipe);
    app.add_option("--tokens-per-record", tokens_, "prompt and completion")
        ->check(CLI::Range(2, 1 << 20))
        ->excludes(recipe);
    app.add_option("--context", context_, "tokens of a session")->check(CLI::Range(2, 1 << 22));
    app.add_option("--sessions", sessions_, "sessions side by side")
        ->check(CLI::Range(1, limits::kSessionsMax));
    app.add_flag("--json", json_, "print JSON");
  }

  base::Result<int> run() override {
    loop::PlanOptions options{.sessions = sessions_, .context = context_};
    options.workload = loop::Workload::of(records_, tokens_);
    options.recipe.train.micro_batch_rows =
        std::max(options.recipe.train.micro_batch_rows, tokens_);
    if (!recipe_.empty()) {
      TRY_ASSIGN(options.recipe, loop::load_recipe(recipe_));
      options.draw = true;
      if (model_.base.empty()) model_.base = options.recipe.base;
    }
    options.base = model_.base_path();
    base::Team team(model_.threads > 0 ? model_.threads : base::Team::default_threads());
    TRY_ASSIGN(const loop::Plan plan, loop::make_plan(options, team));
    fmt::print("{}\n", json_ ? base::dump_json(to_json(plan), 1) : to_text(plan));
    return 0;
  }

 private:
  ModelOptions model_;
  std::string recipe_;
  int64_t records_ = kRecordsDefault, tokens_ = kTokensDefault, context_ = 1024;
  int sessions_ = 1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan() { return std::make_unique<PlanCommand>(); }

}  // namespace retort::app
