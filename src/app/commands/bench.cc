// retort bench: what the program measures of itself, on this machine.
#include "app/bench/bench.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "app/commands/members.h"
#include "app/runtime.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

struct Member {
  const char* name;
  base::Result<BenchReport> (*run)(const BenchOptions&);
  bool minutes;  // rather than hours: "all" runs it
};
constexpr std::array<Member, 4> kBenches = {{{"engine", bench_engine, true},
                                             {"swap", bench_swap, true},
                                             {"train", bench_train, true},
                                             {"families", bench_families, false}}};

struct KnownModel {
  const char* name;
  const char* file;
};
constexpr std::array<KnownModel, 2> kModels = {
    {{"smollm2-135m", "smollm2-135m-instruct-q4_1.gguf"},
     {"qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"}}};

class Bench final : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "Measure the engine, the swap, training or what distilling reaches, on this machine";
  }
  std::string_view examples() const override {
    return "  retort bench engine --profile\n"
           "  retort bench swap --json\n"
           "  retort bench train --base MODEL.gguf\n"
           "  retort bench families    # some hours; a stopped run goes on where it was\n"
           "Use an idle machine: other load bends the figures. --json prints one object a "
           "benchmark:\n"
           "  {\"bench\", \"machine\": {\"cpu\", \"cores\", \"load\"}, \"rows\": {name: value}}\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("benchmark", bench_, "engine, swap, train, families, or all: the first three")
        ->required()
        ->check(CLI::IsMember({"engine", "swap", "train", "families", "all"}));
    base_.declare(app);
    app.add_option(
           "--model", model_,
           "smollm2-135m, qwen2.5-coder-0.5b or both; swap and train take one (default: those "
           "that set-up installed)")
        ->check(CLI::IsMember({"smollm2-135m", "qwen2.5-coder-0.5b", "both"}));
    app.add_option("--families", families_, "families: only these")->delimiter(',');
    app.add_flag("--profile", profile_, "engine: also where the time of a token goes");
    app.add_flag("--json", json_, "print JSON");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(std::vector<BenchModel> models, this->models());
    const BenchOptions options{
        .models = std::move(models),
        .threads = base_.threads > 0 ? base_.threads : base::Team::default_threads(),
        .profile = profile_,
        .quiet = json_ && bench_ != "families",
        .families = families_};
    int code = 0;
    for (const Member& member : kBenches) {
      if (bench_ == "all" ? !member.minutes : bench_ != member.name) continue;
      TRY_ASSIGN(const BenchReport report, member.run(options));
      fmt::print("{}", json_ ? base::dump_json(to_json(report)) + "\n" : to_table(report));
      for (const std::string& failure : report.failures) {
        fmt::print(stderr, "retort: bench {}: {}\n", report.bench, failure);
        code = 1;
      }
    }
    return code;
  }

 private:
  base::Result<std::vector<BenchModel>> models() const {
    if (!base_.base.empty()) {
      const base::Path path = base_.base;
      return std::vector<BenchModel>{{path.stem().string(), path}};
    }
    std::vector<BenchModel> models;
    for (const KnownModel& known : kModels) {
      if (!model_.empty() && model_ != "both" && model_ != known.name) continue;
      const base::Path path = base::cache_directory() / "models" / known.file;
      if (std::filesystem::exists(path)) {
        models.push_back({known.name, path});
      } else if (!model_.empty()) {
        return make_error(Code::kNotFound, "{} is not there; run scripts/setup --with-qwen",
                          path.string());
      }
    }
    if (models.empty()) {
      return make_error(Code::kNotFound,
                        "no model is installed; run scripts/setup, or name one with --base");
    }
    return models;
  }

  ModelOptions base_;
  std::string bench_, model_;
  std::vector<std::string> families_;
  bool profile_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace retort::app
