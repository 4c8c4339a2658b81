// The Boolean lattice of n-bit strings: meet &, join |, complement ~. One operation a line: each
// bit of a result stands at a fixed distance from the bits that it comes from.
#include <array>

#include "base/check.h"
#include "symbolic/expression.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr std::string_view kOps = "&|~";
constexpr std::string_view kBinaryOps = "&|";
constexpr int kWidthMax = 12;

// {0}: the width, {1}: the expression.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "In the Boolean lattice of {0}-bit strings, compute {1}.",
    "Evaluate {1} bit by bit ({0} bits).",
    "With & as meet, | as join, ~ as complement on {0} bits, find {1}.",
    "What is {1} in the Boolean algebra of {0}-bit strings?",
    "Calculate the {0}-bit value of {1}.",
    "Elements are {0}-bit strings under AND, OR and NOT. Simplify {1}.",
    "Reduce {1} to one string of {0} bits.",
    "Which {0}-bit string equals {1}?",
    "Boolean lattice, width {0}: give the element {1}.",
    "Take meets, joins and complements over {0} bits to determine {1}.",
    "Bitwise on {0} positions, work out {1}.",
    "Where in the lattice of {0}-bit vectors does {1} lie?",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: bits\".";

struct Task {
  int width = 0;
  Expression expression;
};

std::string bits_text(int width, uint32_t value) {
  std::string text(width, '0');
  for (int i = 0; i < width; ++i) text[width - 1 - i] = static_cast<char>('0' + (value >> i & 1));
  return text;
}

std::optional<uint32_t> parse_bits(int width, std::string_view text) {
  if (static_cast<int>(text.size()) != width) return std::nullopt;
  uint32_t value = 0;
  for (char c : text) {
    if (c != '0' && c != '1') return std::nullopt;
    value = value * 2 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

/// Value of each node. The leaves have been checked to be bit strings.
std::vector<uint32_t> evaluate(const Task& task) {
  const uint32_t all = (uint32_t{1} << task.width) - 1;
  std::vector<uint32_t> values;
  for (const Expression::Node& node : task.expression.nodes) {
    switch (node.op) {
      case 0:
        values.push_back(parse_bits(task.width, node.leaf).value_or(0));
        break;
      case '&':
        values.push_back(values[node.left] & values[node.right]);
        break;
      case '|':
        values.push_back(values[node.left] | values[node.right]);
        break;
      default:
        values.push_back(~values[node.left] & all);
    }
  }
  return values;
}

std::string write_chain(const Task& task, const std::vector<uint32_t>& values) {
  std::vector<std::string> chain;
  for (size_t i = 0; i < values.size(); ++i) {
    const Expression::Node& node = task.expression.nodes[i];
    if (node.op == 0) continue;
    const std::string left = bits_text(task.width, values[node.left]);
    const std::string result = bits_text(task.width, values[i]);
    chain.push_back(node.op == kUnary
                        ? fmt::format("~{} = {}", left, result)
                        : fmt::format("{} {} {} = {}", left, node.op,
                                      bits_text(task.width, values[node.right]), result));
  }
  return lines(chain);
}

struct Level {
  int width;
  int operations;
};

constexpr std::array<Level, 3> kTraining = {{{3, 2}, {4, 2}, {4, 3}}};
constexpr std::array<Level, 3> kExtrapolation = {{{5, 3}, {6, 3}, {4, 5}}};

std::span<const Level> levels_of(Split split) {
  if (split == Split::kExtrapolation) return kExtrapolation;
  return kTraining;
}

Task draw(base::Rng& rng, const Level& level) {
  Task task{.width = level.width, .expression = {}};
  Expression& expression = task.expression;
  const auto maybe_complement = [&](int node) {
    return rng.below(4) == 0 ? expression.add(kUnary, node) : node;
  };
  const auto leaf = [&] {
    const auto value = static_cast<uint32_t>(rng.below(uint64_t{1} << level.width));
    return maybe_complement(expression.add_leaf(bits_text(level.width, value)));
  };
  int left = leaf();
  for (int i = 0; i < level.operations; ++i) {
    const int right = leaf();
    left = expression.add(rng.pick(kBinaryOps), left, right);
    if (i + 1 < level.operations) left = maybe_complement(left);
  }
  return task;
}

/// Uniform in its value: meets and joins alone would favour the bottom and the top.
Task draw_balanced(base::Rng& rng, const Level& level) {
  const uint64_t target = rng.below(uint64_t{1} << level.width);
  Task task = draw(rng, level);
  while (evaluate(task).back() != target) task = draw(rng, level);
  return task;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("lattice ")) return std::nullopt;
  const int width = scanner.integer().value_or(0);
  if (width < 1 || width > kWidthMax) return std::nullopt;
  std::optional<Expression> expression = parse_expression(scanner.rest(), kOps);
  if (!expression) return std::nullopt;
  for (const Expression::Node& node : expression->nodes) {
    if (node.op == 0 && !parse_bits(width, node.leaf)) return std::nullopt;
  }
  return Task{width, *std::move(expression)};
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, task.width, spaced(task.expression));
}

class Lattice final : public Family {
 public:
  std::string_view name() const override { return "lattice"; }
  std::string_view description() const override {
    return "meet, join and complement in the Boolean lattice of bit strings";
  }
  int levels() const override { return static_cast<int>(kTraining.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const auto choices = levels_of(split);
    const int level = static_cast<int>(rng.below(choices.size()));
    const Task task = draw_balanced(rng, choices[level]);
    const std::vector<uint32_t> values = evaluate(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = write_chain(task, values);
    problem.answer = bits_text(task.width, values.back());
    problem.canonical = fmt::format("lattice {} {}", task.width, compact(task.expression));
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
    const std::string expected = bits_text(task->width, evaluate(*task).back());
    return judge_answer(text, [&](std::string_view answer) {
      Scanner scanner(after_equals(answer));
      const auto said = scanner.word();
      if (!said || !scanner.done()) return wrong("not a bit string: '{}'", answer);
      return *said == expected ? right() : wrong("says {}, should be {}", *said, expected);
    });
  }
};

}  // namespace

const Family& lattice() {
  static const Lattice family;
  return family;
}

}  // namespace retort::symbolic
