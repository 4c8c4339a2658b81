// retort adapter: what is in the registry, and taking things out of it.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "adapter/registry.h"
#include "app/commands/members.h"
#include "base/json.h"

namespace retort::app {
namespace {

base::Json to_json(const adapter::RegistryEntry& entry) {
  base::Json json = {{"name", entry.name},
                     {"version", entry.version},
                     {"base", entry.base.hex()},
                     {"content", entry.content.hex()},
                     {"created", entry.created_s},
                     {"directory", entry.adapter_directory.string()},
                     {"slot_file", entry.slot_file.string()}};
  if (auto evaluation = base::parse_json(entry.evaluation)) json["evaluation"] = *evaluation;
  return json;
}

std::string accuracy(const adapter::RegistryEntry& entry) {
  const auto evaluation = base::parse_json(entry.evaluation);
  if (!evaluation) return "";
  const auto value = base::get_number(*evaluation, "adapter_accuracy");
  return value ? fmt::format("{:.1f} %", 100 * *value) : "";
}

std::string date(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

class Adapter final : public Command {
 public:
  std::string_view name() const override { return "adapter"; }
  std::string_view summary() const override { return "List, show and remove adapters"; }
  std::string_view examples() const override {
    return "  retort adapter list\n"
           "  retort adapter show galois\n"
           "  retort adapter rm galois@1\n";
  }
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    list_ = app.add_subcommand("list", "every adapter and version");
    show_ = app.add_subcommand("show", "one adapter: base, evaluation, files");
    remove_ =
        app.add_subcommand("rm", "remove NAME@VERSION, or all versions of NAME, with their files");
    show_->add_option("adapter", reference_, "NAME or NAME@VERSION")->required();
    remove_->add_option("adapter", reference_, "NAME or NAME@VERSION")->required();
    for (CLI::App* sub : {list_, show_, remove_}) sub->add_flag("--json", json_, "print JSON");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(adapter::Registry registry, adapter::Registry::open());
    if (list_->parsed()) return list(registry);
    if (show_->parsed()) return show(registry);
    return remove(registry);
  }

 private:
  base::Result<int> list(const adapter::Registry& registry) const {
    TRY_ASSIGN(const auto entries, registry.list());
    if (json_) {
      base::Json array = base::Json::array();
      for (const auto& entry : entries) array.push_back(to_json(entry));
      fmt::print("{}\n", base::dump_json(array, 2));
      return 0;
    }
    if (entries.empty()) {
      fmt::print("no adapters yet; make one with: retort distil recipes/galois.toml\n");
      return 0;
    }
    fmt::print("{:<20} {:>7}  {:<16}  {:<16}  {:>9}\n", "adapter", "version", "made", "base",
               "held-out");
    for (const auto& entry : entries) {
      fmt::print("{:<20} {:>7}  {:<16}  {:<16}  {:>9}\n", entry.name, entry.version,
                 date(entry.created_s), entry.base.short_hex(), accuracy(entry));
    }
    return 0;
  }

  base::Result<int> show(const adapter::Registry& registry) const {
    TRY_ASSIGN(const auto entry, registry.find(reference_));
    if (json_) {
      fmt::print("{}\n", base::dump_json(to_json(entry), 2));
      return 0;
    }
    fmt::print(
        "{} version {}\n  made      {}\n  base      {}\n  content   {}\n  adapter   {}\n  slot     "
        " {}\n",
        entry.name, entry.version, date(entry.created_s), entry.base.hex(), entry.content.hex(),
        entry.adapter_directory.string(), entry.slot_file.string());
    if (const auto evaluation = base::parse_json(entry.evaluation)) {
      for (const auto& [key, value] : evaluation->items()) {
        fmt::print("  {:<24} {}\n", key, base::dump_json(value));
      }
    }
    return 0;
  }

  base::Result<int> remove(adapter::Registry& registry) const {
    TRY_ASSIGN(const auto removed, registry.remove(reference_));
    if (json_) {
      base::Json array = base::Json::array();
      for (const auto& entry : removed) array.push_back(to_json(entry));
      fmt::print("{}\n", base::dump_json(array, 2));
      return 0;
    }
    for (const auto& entry : removed) fmt::print("removed {}@{}\n", entry.name, entry.version);
    return 0;
  }

  CLI::App *list_ = nullptr, *show_ = nullptr, *remove_ = nullptr;
  std::string reference_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_adapter() { return std::make_unique<Adapter>(); }

}  // namespace retort::app
