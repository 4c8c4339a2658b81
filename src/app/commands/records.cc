// retort records: is a file of records good, and what is in it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "app/commands/members.h"
#include "loop/check_records.h"
#include "record/stats.h"

namespace retort::app {
namespace {

constexpr int kPartly = 3, kNothing = 2;

class Records final : public Command {
 public:
  std::string_view name() const override { return "records"; }
  std::string_view summary() const override {
    return "Check files of records, and count what is in them";
  }
  std::string_view examples() const override {
    return "  retort records check MINE.jsonl           # names every line that would be refused, "
           "and why\n"
           "  retort records check *.jsonl --json\n"
           "  retort records stats MINE.jsonl\n"
           "check: exit code 0 if every line passes, 3 if some do, 2 if none does.\n";
  }
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    check_ = app.add_subcommand("check", "run the gate on every line");
    stats_ = app.add_subcommand("stats", "count standings, tasks, teachers, levels and lengths");
    for (CLI::App* sub : {check_, stats_}) {
      sub->add_option("file", files_, "JSONL files")->required();
      sub->add_flag("--json", json_, "print JSON");
    }
  }

  base::Result<int> run() override { return check_->parsed() ? check() : stats(); }

 private:
  base::Result<int> check() const {
    const std::vector<base::Path> paths(files_.begin(), files_.end());
    TRY_ASSIGN(const auto checked, loop::check_records(paths));
    base::Json json = base::Json::array();
    int64_t refused = 0, passed = 0;
    for (const loop::CheckedFile& file : checked) {
      refused += file.refused;
      passed += file.passed();
      if (json_) {
        json.push_back(to_json(file));
      } else {
        fmt::print("{}", to_text(file));
      }
    }
    if (json_) fmt::print("{}\n", base::dump_json(json, 1));
    if (passed == 0) return kNothing;
    return refused > 0 ? kPartly : 0;
  }

  /// As the files say: standings are what they claim until the gate has judged.
  base::Result<int> stats() const {
    std::vector<record::Record> records;
    int64_t refused = 0;
    for (const std::string& file : files_) {
      TRY_ASSIGN(record::Loaded loaded, record::load_records(file));
      refused += loaded.refused;
      std::ranges::move(loaded.records, std::back_inserter(records));
    }
    const record::Stats stats = record::stats_of(records);
    if (json_) {
      base::Json json = to_json(stats);
      json["refused"] = refused;
      fmt::print("{}\n", base::dump_json(json, 1));
    } else {
      fmt::print("{}refused     {}\n", to_text(stats), refused);
    }
    if (records.empty()) return kNothing;
    return refused > 0 ? kPartly : 0;
  }

  CLI::App *check_ = nullptr, *stats_ = nullptr;
  std::vector<std::string> files_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_records() { return std::make_unique<Records>(); }

}  // namespace retort::app
