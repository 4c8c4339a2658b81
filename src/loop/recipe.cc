#include "loop/recipe.h"

#include <toml++/toml.h>

#include <algorithm>
#include <concepts>
#include <set>

#include "train/trainer.h"

namespace retort::loop {
namespace {

using base::Code;
using base::make_error;

constexpr int64_t kCountMax = 10'000'000;  // of records and problems

/// Reads the keys of one table and knows which it has read, so that the rest can be refused.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string_view file, std::string section)
      : table_(table), file_(file), section_(std::move(section)) {}

  const toml::node* take(std::string_view key) {
    seen_.insert(std::string(key));
    return table_.get(key);
  }

  template <class T>
  base::Result<void> read(std::string_view key, T& value) {
    const toml::node* node = take(key);
    return node == nullptr ? base::Result<void>{} : convert(key, *node, value);
  }

  tl::unexpected<base::Error> fault(std::string_view key, const toml::node& node,
                                    std::string_view wanted) const {
    return make_error(Code::kInvalidInput, "{}:{}: {}{} should be {}", file_,
                      node.source().begin.line, section_, key, wanted);
  }

  /// A key that has to be there, in this table.
  tl::unexpected<base::Error> missing(std::string_view key) const {
    return make_error(Code::kInvalidInput, "{}:{}: {}{} is missing", file_,
                      table_.source().begin.line, section_, key);
  }

  /// Reads a count of at least `least`.
  base::Result<void> count(std::string_view key, int64_t& value, int64_t least) {
    TRY(read(key, value));
    if (value >= least && value <= kCountMax) return {};
    return fault(key, *table_.get(key), fmt::format("within {}..{}", least, kCountMax));
  }

  base::Result<void> refuse_unknown() const {
    for (const auto& [key, node] : table_) {
      if (seen_.contains(std::string(key.str()))) continue;
      std::string known;
      for (const std::string& name : seen_) known += (known.empty() ? "" : ", ") + name;
      return make_error(Code::kInvalidInput, "{}:{}: unknown key {}{}; known here: {}", file_,
                        node.source().begin.line, section_, std::string(key.str()), known);
    }
    return {};
  }

 private:
  base::Result<void> convert(std::string_view key, const toml::node& node, bool& value) const {
    if (!node.is_boolean()) return fault(key, node, "true or false");
    value = *node.value<bool>();
    return {};
  }
  base::Result<void> convert(std::string_view key, const toml::node& node,
                             std::string& value) const {
    if (!node.is_string()) return fault(key, node, "a string");
    value = *node.value<std::string>();
    return {};
  }
  base::Result<void> convert(std::string_view key, const toml::node& node,
                             base::Path& value) const {
    std::string text;
    TRY(convert(key, node, text));
    value = text;
    return {};
  }
  template <std::integral T>
  base::Result<void> convert(std::string_view key, const toml::node& node, T& value) const {
    constexpr bool kSigned = std::is_signed_v<T>;
    const auto wide = node.is_integer() ? node.value<int64_t>() : std::nullopt;
    if (!wide || (!kSigned && *wide < 0) ||
        (sizeof(T) == 4 && *wide != static_cast<int32_t>(*wide))) {
      return fault(key, node, kSigned ? "an integer" : "an integer of at least 0");
    }
    value = static_cast<T>(*wide);
    return {};
  }
  template <std::floating_point T>
  base::Result<void> convert(std::string_view key, const toml::node& node, T& value) const {
    if (!node.is_number()) return fault(key, node, "a number");
    value = static_cast<T>(*node.value<double>());
    return {};
  }

  const toml::table& table_;
  std::string_view file_;
  std::string section_;
  std::set<std::string, std::less<>> seen_;
};

base::Result<toml::table> parse_toml(std::string_view text, std::string_view name) try {
  return toml::parse(text);
} catch (const toml::parse_error& error) {
  return make_error(Code::kInvalidInput, "{}:{}: {}", name, error.source().begin.line,
                    std::string(error.description()));
}

base::Result<void> read_teacher(TableReader table, Recipe::Teacher& teacher) {
  TRY(table.read("kind", teacher.kind));
  TRY(table.read("family", teacher.family));
  TRY(table.read("records_file", teacher.records_file));
  TRY(table.count("records", teacher.records, 1));
  TRY(table.read("seed", teacher.seed));
  TRY(table.read("trust", teacher.trust));
  TRY(table.refuse_unknown());
  if (teacher.kind.empty()) return table.missing("kind");
  const bool symbolic = teacher.kind == "symbolic";
  if (!symbolic && teacher.kind != "file") {
    return table.fault("kind", *table.take("kind"), "\"symbolic\" or \"file\"");
  }
  if (symbolic && teacher.family.empty()) return table.missing("family");
  if (!symbolic && teacher.records_file.empty()) return table.missing("records_file");
  return {};
}

base::Result<void> read_ranks(TableReader& table, const toml::table& section, std::string_view file,
                              train::Options& options) {
  const toml::node* node = table.take("ranks");
  if (node == nullptr) return {};
  if (!node->is_table()) return table.fault("ranks", *node, "a table of target = rank");
  TableReader ranks(*section["ranks"].as_table(), file, "train.ranks.");
  for (int t = 0; t < engine::kLayerTargets; ++t) {
    TRY(ranks.read(engine::target_name(static_cast<engine::Target>(t)),
                   options.target_ranks[static_cast<size_t>(t)]));
  }
  return ranks.refuse_unknown();
}

base::Result<void> read_train(const toml::table& section, std::string_view file,
                              train::Options& options) {
  TableReader table(section, file, "train.");
  TRY(table.read("rank", options.rank));
  TRY(table.read("alpha", options.alpha));
  TRY(table.read("dora", options.dora));
  TRY(table.read("rslora", options.rslora));
  TRY(read_ranks(table, section, file, options));
  TRY(table.read("learning_rate", options.learning_rate));
  TRY(table.read("final_rate", options.final_rate));
  TRY(table.read("warmup", options.warmup));
  TRY(table.read("beta1", options.beta1));
  TRY(table.read("beta2", options.beta2));
  TRY(table.read("weight_decay", options.weight_decay));
  TRY(table.read("clip", options.clip));
  TRY(table.read("batch", options.batch));
  TRY(table.read("epochs", options.epochs));
  TRY(table.read("seed", options.seed));
  TRY(table.read("checkpoint_seconds", options.checkpoint_seconds));
  TRY(table.read("tokens_max", options.tokens_max));
  TRY(table.read("micro_batch_rows", options.micro_batch_rows));
  TRY(table.read("memory_budget_mb", options.memory_budget_mb));
  return table.refuse_unknown();
}

base::Result<void> read_evaluation(TableReader table, std::string_view file,
                                   Recipe::Evaluation& eval) {
  TRY(table.count("held_out", eval.held_out, 1));
  TRY(table.count("extrapolation", eval.extrapolation, 0));
  TRY(table.count("validation", eval.validation, 0));
  TRY(table.count("validations", eval.validations, 0));
  TRY(table.count("shots", eval.shots, 0));
  TRY(table.read("base", eval.base));
  if (const toml::node* node = table.take("arms"); node != nullptr) {
    const toml::array* array = node->as_array();
    if (array == nullptr) return table.fault("arms", *node, "an array of strings");
    for (const toml::node& item : *array) {
      const auto arm = item.value<std::string>();
      if (!arm || (*arm != "lora" && *arm != "answer-only")) {
        return make_error(Code::kInvalidInput,
                          "{}:{}: eval.arms knows \"lora\" and \"answer-only\"", file,
                          item.source().begin.line);
      }
      eval.arms.push_back(*arm);
    }
  }
  return table.refuse_unknown();
}

/// TOML allows no NUL bytes, but a parser may take them for the end of the text.
base::Result<void> refuse_nul(std::string_view text, std::string_view name) {
  const size_t at = text.find('\0');
  if (at == std::string_view::npos) return {};
  return make_error(Code::kInvalidInput, "{}:{}: holds NUL bytes, so it is no TOML file", name,
                    1 + std::ranges::count(text.substr(0, at), '\n'));
}

}  // namespace

base::Result<Recipe> parse_recipe(std::string_view text, std::string_view name) {
  TRY(refuse_nul(text, name));
  TRY_ASSIGN(const toml::table parsed, parse_toml(text, name));
  Recipe recipe;
  TableReader top(parsed, name, "");
  TRY(top.read("name", recipe.name));
  TRY(top.read("base", recipe.base));
  for (const char* section : {"teacher", "train", "eval"}) {
    const toml::node* node = top.take(section);
    if (node == nullptr) continue;
    const toml::table* table = node->as_table();
    if (table == nullptr) return top.fault(section, *node, "a table");
    const std::string_view which = section;
    const std::string prefix = std::string(which) + ".";
    if (which == "teacher") TRY(read_teacher(TableReader(*table, name, prefix), recipe.teacher));
    if (which == "train") TRY(read_train(*table, name, recipe.train));
    if (which == "eval") TRY(read_evaluation(TableReader(*table, name, prefix), name, recipe.eval));
  }
  TRY(top.refuse_unknown());
  if (recipe.name.empty()) return top.missing("name");
  if (parsed.get("teacher") == nullptr) return top.missing("[teacher]");
  if (auto checked = train::check_options(recipe.train); !checked) {
    return base::in_context(fmt::format("{}:{}", name, parsed.get("train")->source().begin.line),
                            std::move(checked).error());
  }
  return recipe;
}

base::Result<Recipe> load_recipe(const base::Path& path) {
  TRY_ASSIGN(const std::string text, base::read_file(path));
  TRY_ASSIGN(Recipe recipe, parse_recipe(text, path.string()));
  // Paths in a recipe are relative to the recipe.
  for (base::Path* file : {&recipe.base, &recipe.teacher.records_file}) {
    if (!file->empty() && file->is_relative()) *file = path.parent_path() / *file;
  }
  return recipe;
}

}  // namespace retort::loop
