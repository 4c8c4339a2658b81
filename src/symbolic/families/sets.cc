// Algebra of finite sets of digits. Results keep the order in which their elements come up (the
// left operand's, then the right one's), so that every operation is a copy that leaves elements
// out; a sorted result would hide a merge in the line. The checker takes any order.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "symbolic/expression.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr std::string_view kOps = "|&-^";
constexpr size_t kSetsMax = 8;

// {0}: the sets, {1}: the expression.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "{0}. Find {1}.",
    "Let {0}. Compute {1}.",
    "Given {0}, what is {1}?",
    "Sets: {0}. Evaluate {1}.",
    "With {0}, list the elements of {1}.",
    "We have {0}. Determine {1}.",
    "For {0} calculate {1}.",
    "Take {0}. Which elements are in {1}?",
    "Suppose {0}. Simplify {1} to one set.",
    "Consider {0}. Enumerate {1}.",
    "The sets are {0}. Write out {1}.",
    "If {0}, then which numbers belong to {1}?",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: {...}\".";

using Set = std::vector<int>;  // distinct digits

struct Task {
  Expression expression;  // leaves "A", "B", ...
  std::vector<Set> sets;
};

bool contains(const Set& set, int element) { return std::ranges::find(set, element) != set.end(); }

/// The elements of `set` that are, or are not, in `other`; in the order of `set`.
Set keep(const Set& set, const Set& other, bool common) {
  Set kept;
  for (int element : set) {
    if (contains(other, element) == common) kept.push_back(element);
  }
  return kept;
}

Set apply(char op, const Set& a, const Set& b) {
  if (op == '&') return keep(a, b, true);
  Set result = op == '|' ? a : keep(a, b, false);
  if (op == '-') return result;
  for (int element : keep(b, a, false)) result.push_back(element);
  return result;
}

std::string digits(const Set& set) {
  std::string text;
  for (int element : set) text += static_cast<char>('0' + element);
  return text;
}

std::string braces(const Set& set) {
  std::vector<std::string> elements;
  for (int element : set) elements.push_back(fmt::format("{}", element));
  return fmt::format("{{{}}}", join(elements, ","));
}

std::string op_word(char op) {
  switch (op) {
    case '|':
      return " union ";
    case '&':
      return " intersect ";
    case '-':
      return " minus ";
    default:
      return " xor ";
  }
}

/// Value of each node. The leaves have been checked to name sets.
std::vector<Set> evaluate(const Task& task) {
  std::vector<Set> values;
  for (const Expression::Node& node : task.expression.nodes) {
    values.push_back(node.op == 0 ? task.sets[node.leaf[0] - 'A']
                                  : apply(node.op, values[node.left], values[node.right]));
  }
  return values;
}

std::string write_chain(const Task& task, const std::vector<Set>& values) {
  std::vector<std::string> chain;
  for (size_t i = 0; i < values.size(); ++i) {
    const Expression::Node& node = task.expression.nodes[i];
    if (node.op == 0) continue;
    chain.push_back(braces(values[node.left]) + op_word(node.op) + braces(values[node.right]) +
                    " = " + braces(values[i]));
  }
  return lines(chain);
}

struct Level {
  int operations;
  int size_min;
  int size_max;
  int largest_element;
};

constexpr std::array<Level, 3> kTraining = {{{1, 3, 4, 8}, {2, 2, 4, 8}, {3, 2, 3, 8}}};
constexpr std::array<Level, 2> kExtrapolation = {{{2, 5, 6, 9}, {4, 2, 4, 8}}};

std::span<const Level> levels_of(Split split) {
  if (split == Split::kExtrapolation) return kExtrapolation;
  return kTraining;
}

Set draw_set(base::Rng& rng, const Level& level) {
  Set all;
  for (int element = 1; element <= level.largest_element; ++element) all.push_back(element);
  rng.shuffle(std::span(all));
  all.resize(rng.between(level.size_min, level.size_max));
  std::ranges::sort(all);
  return all;
}

/// ((A o B) o C) o D, or with three operations also (A o B) o (C o D).
Expression draw_expression(base::Rng& rng, int operations) {
  std::vector<std::string> leaves;
  for (int i = 0; i <= operations; ++i) leaves.emplace_back(1, static_cast<char>('A' + i));
  std::string ops(operations, '|');
  for (char& op : ops) op = rng.pick(kOps);
  if (operations != 3 || rng.below(2) == 0) return left_nested(leaves, ops);
  Expression expression = left_nested(std::span(leaves).first(2), ops.substr(0, 1));
  const int left = expression.root();
  const int c = expression.add_leaf(leaves[2]);
  const int d = expression.add_leaf(leaves[3]);
  const int right = expression.add(ops[1], c, d);
  expression.add(ops[2], left, right);
  return expression;
}

Task draw(base::Rng& rng, const Level& level) {
  Task task{draw_expression(rng, level.operations), {}};
  for (int i = 0; i <= level.operations; ++i) task.sets.push_back(draw_set(rng, level));
  return task;
}

/// No empty set on the way: with few elements it would be the answer too often.
Task draw_without_empty(base::Rng& rng, const Level& level) {
  while (true) {
    Task task = draw(rng, level);
    if (std::ranges::none_of(evaluate(task), &Set::empty)) return task;
  }
}

std::string sets_text(const Task& task) {
  std::vector<std::string> definitions;
  for (size_t i = 0; i < task.sets.size(); ++i) {
    definitions.push_back(fmt::format("{} = {}", static_cast<char>('A' + i), braces(task.sets[i])));
  }
  return join(definitions, ", ");
}

std::string canonical_text(const Task& task) {
  std::string text = "sets " + compact(task.expression);
  for (const Set& set : task.sets) text += fmt::format(" {}", digits(set));
  return text;
}

std::optional<Set> parse_digits(std::string_view text) {
  Set set;
  for (char c : text) {
    if (c < '0' || c > '9' || contains(set, c - '0')) return std::nullopt;
    set.push_back(c - '0');
  }
  return set;
}

/// "sets (A|B)-C 135 23 12".
std::optional<Task> parse(std::string_view canonical) {
  constexpr std::string_view kMark = "sets ";
  if (!canonical.starts_with(kMark)) return std::nullopt;
  canonical.remove_prefix(kMark.size());
  const size_t space = canonical.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto expression = parse_expression(canonical.substr(0, space), kOps);
  if (!expression) return std::nullopt;
  Task task{*std::move(expression), {}};
  Scanner scanner(canonical.substr(space));
  while (!scanner.done()) {
    const auto set = parse_digits(scanner.word().value_or("?"));
    if (!set || task.sets.size() >= kSetsMax) return std::nullopt;
    task.sets.push_back(*set);
  }
  for (const Expression::Node& node : task.expression.nodes) {
    if (node.op != 0) continue;
    if (node.leaf.size() != 1 || node.leaf[0] < 'A') return std::nullopt;
    if (static_cast<size_t>(node.leaf[0] - 'A') >= task.sets.size()) return std::nullopt;
  }
  return task;
}

/// "{1,3}" or the elements without braces.
std::optional<Set> parse_answer(std::string_view answer) {
  Scanner scanner(after_equals(answer));
  const bool braced = scanner.eat("{");
  Set set;
  while (!scanner.done() && !scanner.eat("}")) {
    if (!set.empty()) scanner.eat(",");
    const auto element = scanner.integer();
    if (!element) return std::nullopt;
    set.push_back(*element);
    if (braced && scanner.done()) return std::nullopt;  // never closed
  }
  return scanner.done() && (braced || !set.empty()) ? std::optional(set) : std::nullopt;
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, sets_text(task), infix(task.expression, op_word));
}

class Sets final : public Family {
 public:
  std::string_view name() const override { return "sets"; }
  std::string_view description() const override {
    return "union, intersection and differences of finite sets";
  }
  int levels() const override { return static_cast<int>(kTraining.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const auto choices = levels_of(split);
    const int level = static_cast<int>(rng.below(choices.size()));
    const Task task = draw_without_empty(rng, choices[level]);
    const std::vector<Set> values = evaluate(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = write_chain(task, values);
    problem.answer = braces(values.back());
    problem.canonical = canonical_text(task);
    problem.level = level + (split == Split::kExtrapolation ? levels() : 0);
    return problem;
  }

  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::optional<Task> task = parse(canonical);
    return task ? prompts_of(*task) : std::vector<std::string>();
  }

  base::Result<Check> check(std::string_view canonical, std::string_view text) const override {
    const std::optional<Task> task = parse(canonical);
    if (!task) return foreign(name(), canonical);
    Set expected = evaluate(*task).back();
    std::ranges::sort(expected);
    return judge_answer(text, [&](std::string_view answer) {
      std::optional<Set> said = parse_answer(answer);
      if (!said) return wrong("not a set of numbers: '{}'", answer);
      std::ranges::sort(*said);
      if (std::ranges::adjacent_find(*said) != said->end()) {
        return wrong("names an element twice: '{}'", answer);
      }
      return *said == expected ? right()
                               : wrong("says {}, should be {}", braces(*said), braces(expected));
    });
  }
};

}  // namespace

const Family& sets() {
  static const Sets family;
  return family;
}

}  // namespace retort::symbolic
