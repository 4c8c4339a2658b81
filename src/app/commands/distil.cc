// retort distil: from a recipe (or a file of records) to a measured, published adapter.
#include "loop/distil.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/commands/members.h"
#include "app/interrupt.h"
#include "app/runtime.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

class Distil final : public Command {
 public:
  std::string_view name() const override { return "distil"; }
  std::string_view summary() const override {
    return "Train an adapter on verified records, measure it on held-out problems, publish it";
  }
  std::string_view examples() const override {
    return "  retort distil recipes/galois.toml\n"
           "  retort distil --records MINE.jsonl --name mine --base MODEL.gguf\n"
           "  retort distil recipes/galois.toml --arms lora,answer-only    # the controls too\n"
           "A stopped or killed run goes on where it was when the command is given again; a "
           "finished one\n"
           "starts afresh.\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("recipe", recipe_, "TOML file (see recipes/)");
    app.add_option("--records", records_, "JSONL file of records, instead of a recipe");
    app.add_option("--name", adapter_name_,
                   "of the adapter (default: the recipe's, or the file's)");
    model_.declare(app);
    app.add_option("--arms", arms_, "controls to train as well: lora, answer-only")->delimiter(',');
    app.add_option("--report", report_,
                   "HTML file that shows this run; adds to one that it wrote before");
    app.add_option("--seed", seed_, "of the adapter's start and the order of records");
    app.add_flag("--trust", trust_, "train on records that no verifier can check");
    app.add_flag("--force", force_, "publish although nothing could be checked");
    app.add_flag("--restart", restart_, "forget an unfinished run of this name");
    app.add_flag("--quiet", quiet_, "no progress");
    app.add_flag("--json", json_, "print the result as JSON");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(const loop::Recipe recipe, this->recipe());
    TRY(adapter::check_adapter_name(recipe.name));
    if (model_.base.empty() && !recipe.base.empty()) model_.base = recipe.base;
    TRY_ASSIGN(auto runtime, Runtime::open(model_));
    const base::Path directory = base::data_directory() / "runs" / recipe.name;
    if (restart_) std::filesystem::remove_all(directory);
    const loop::DistilOptions options{.run_directory = directory,
                                      .baselines_directory = base::data_directory() / "baselines",
                                      .command = command_line(recipe),
                                      .quiet = quiet_,
                                      .force = force_,
                                      .stop = &interrupted()};
    TRY_ASSIGN(const loop::Report report, loop::distil(recipe, runtime->model(), runtime->team(),
                                                       runtime->registry(), options));
    if (!report_.empty()) TRY(add_to_page(report));
    if (json_) {
      fmt::print("{}\n", base::dump_json(to_json(report), 1));
    } else {
      fmt::print("\n{}\npublished as {}@{}; report: {}\n", to_text(report), report.name,
                 report.version, (directory / "report.html").string());
    }
    return report.records_refused > 0 ? 3 : 0;
  }

 private:
  base::Result<loop::Recipe> recipe() const {
    loop::Recipe recipe;
    if (recipe_.empty() == records_.empty()) {
      return make_error(Code::kInvalidInput, "name either a recipe or --records FILE.jsonl");
    }
    if (!recipe_.empty()) {
      TRY_ASSIGN(recipe, loop::load_recipe(recipe_));
    } else {
      recipe.teacher.kind = "file";
      recipe.teacher.records_file = records_;
      recipe.name = base::Path(records_).stem().string();
    }
    if (!adapter_name_.empty()) recipe.name = adapter_name_;
    if (seed_ > 0) recipe.train.seed = seed_;
    if (trust_) recipe.teacher.trust = true;
    for (const std::string& arm : arms_) {
      if (arm != "lora" && arm != "answer-only") {
        return make_error(Code::kInvalidInput, "--arms {}: knows lora and answer-only", arm);
      }
      recipe.eval.arms.push_back(arm);
    }
    return recipe;
  }

  std::string command_line(const loop::Recipe& recipe) const {
    std::string line = "retort distil";
    line += recipe_.empty() ? " --records " + records_ + " --name " + recipe.name : " " + recipe_;
    for (const std::string& arm : arms_) line += " --arms " + arm;
    if (seed_ > 0) line += fmt::format(" --seed {}", seed_);
    return line;
  }

  /// The page shows every report in "<page>.json": this one is added, or replaces its namesake.
  base::Result<void> add_to_page(const loop::Report& report) const {
    const base::Path data = report_ + ".json";
    std::vector<loop::Report> reports;
    if (std::filesystem::exists(data)) {
      TRY_ASSIGN(const std::string text, base::read_file(data));
      TRY_ASSIGN(const base::Json json, base::parse_json(text));
      for (const base::Json& item : json) {
        TRY_ASSIGN(loop::Report other, loop::report_from_json(item));
        if (other.name != report.name) reports.push_back(std::move(other));
      }
    }
    reports.push_back(report);
    base::Json json = base::Json::array();
    for (const loop::Report& item : reports) json.push_back(to_json(item));
    TRY(base::write_file_atomic(data, base::dump_json(json, 1)));
    return base::write_file_atomic(report_, loop::to_html(reports));
  }

  std::string recipe_, records_, adapter_name_, report_;
  ModelOptions model_;
  std::vector<std::string> arms_;
  uint64_t seed_ = 0;
  bool trust_ = false, force_ = false, restart_ = false, quiet_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_distil() { return std::make_unique<Distil>(); }

}  // namespace retort::app
