// Arithmetic in Galois fields: primes by decimal arithmetic and repeated subtraction, GF(4),
// GF(8) and GF(9) by exponents of x, which generates the non-zero elements: a product is a sum of
// exponents, where shifting and reducing polynomials would take a line per digit. The few
// correspondences "101 = x^6" are learnt by heart: a table of them in every chain would be read
// backwards, which a small student does badly, and would double its length.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "symbolic/expression.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr std::string_view kOps = "+*";

// {0}: the field, {1}: the expression.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "Compute {1} in {0}.",
    "In {0}, what is {1}?",
    "Evaluate {1} over {0}.",
    "Work in {0}. Find the value of {1}.",
    "What does {1} equal in {0}?",
    "Field: {0}. Expression: {1}. Give its value.",
    "Using the arithmetic of {0}, simplify {1}.",
    "Calculate {1}, all operations in {0}.",
    "Let the field be {0}. Reduce {1} to one element.",
    "Over {0}, determine the result of {1}.",
    "Take {0} as the field and work out {1}.",
    "Which element of {0} is {1}?",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: element\".";

/// Elements are numbered 0 to order - 1. Of an extension field, the number's digits in base
/// `characteristic` are the coefficients, the highest power first.
struct Field {
  int order;
  int characteristic;
  int degree;
  int power_of_x;             // the element x^degree
  std::string_view relation;  // as the prompt states it

  bool is_prime() const { return degree == 1; }
  std::string text() const {
    return is_prime() ? fmt::format("GF({})", order)
                      : fmt::format("GF({}) with {}", order, relation);
  }
};

// The polynomials are primitive, so that x generates every non-zero element.
constexpr std::array<Field, 8> kFields = {{
    {5, 5, 1, 0, ""},
    {7, 7, 1, 0, ""},
    {11, 11, 1, 0, ""},
    {13, 13, 1, 0, ""},
    {17, 17, 1, 0, ""},
    {4, 2, 2, 0b11, "x^2 = x + 1"},
    {8, 2, 3, 0b011, "x^3 = x + 1"},
    {9, 3, 2, 2 * 3 + 1, "x^2 = 2x + 1"},
}};

const Field* find_field(int order) {
  const auto found = std::ranges::find(kFields, order, &Field::order);
  return found == kFields.end() ? nullptr : &*found;
}

std::string element_text(const Field& field, int element) {
  if (field.is_prime()) return fmt::format("{}", element);
  std::string text(field.degree, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit) {
    *digit = static_cast<char>('0' + element % field.characteristic);
    element /= field.characteristic;
  }
  return text;
}

std::optional<int> parse_element(const Field& field, std::string_view text) {
  for (int element = 0; element < field.order; ++element) {
    if (element_text(field, element) == text) return element;
  }
  return std::nullopt;
}

int add(const Field& field, int a, int b) {
  int sum = 0;
  for (int weight = 1; weight < field.order; weight *= field.characteristic) {
    const int digit = (a / weight + b / weight) % field.characteristic;
    sum += digit * weight;
  }
  return sum;
}

int times_x(const Field& field, int a) {
  const int shifted = a * field.characteristic;
  int product = shifted % field.order;
  for (int i = 0; i < shifted / field.order; ++i) product = add(field, product, field.power_of_x);
  return product;
}

int power(const Field& field, int exponent) {
  int element = 1;
  for (int i = 0; i < exponent; ++i) element = times_x(field, element);
  return element;
}

int exponent_of(const Field& field, int element) {
  int exponent = 0;
  while (power(field, exponent) != element) ++exponent;
  return exponent;
}

int multiply(const Field& field, int a, int b) {
  if (field.is_prime()) return a * b % field.order;
  if (a == 0 || b == 0) return 0;
  return power(field, (exponent_of(field, a) + exponent_of(field, b)) % (field.order - 1));
}

int apply(const Field& field, char op, int a, int b) {
  return op == '*' ? multiply(field, a, b) : add(field, a, b);
}

struct Task {
  const Field* field;
  Expression expression;
};

/// Element of each node. The leaves have been checked to be elements.
std::vector<int> evaluate(const Task& task) {
  std::vector<int> values;
  for (const Expression::Node& node : task.expression.nodes) {
    values.push_back(node.op == 0
                         ? parse_element(*task.field, node.leaf).value_or(0)
                         : apply(*task.field, node.op, values[node.left], values[node.right]));
  }
  return values;
}

/// "4 * 5 = 20. 20 - 7 = 13. 13 - 7 = 6": taking the prime away until the rest fits asks for no
/// guess at the quotient, which is where a small student goes wrong ("20 - 21 = 9").
std::string prime_step(int p, char op, int a, int b) {
  int value = op == '*' ? a * b : a + b;
  std::string line = fmt::format("{} {} {} = {}", a, op, b, value);
  for (; value >= p; value -= p) line += fmt::format(". {} - {} = {}", value, p, value - p);
  return line;
}

/// "101 = x^6. 011 = x^3" and "6 + 3 = 9. 9 - 7 = 2. x^2 = 100".
void write_product_by_exponents(const Field& field, int a, int b, std::vector<std::string>& lines) {
  const int i = exponent_of(field, a);
  const int j = exponent_of(field, b);
  lines.push_back(
      fmt::format("{} = x^{}. {} = x^{}", element_text(field, a), i, element_text(field, b), j));
  const int period = field.order - 1;
  std::string line = fmt::format("{} + {} = {}", i, j, i + j);
  if (i + j >= period) line += fmt::format(". {} - {} = {}", i + j, period, i + j - period);
  const int exponent = (i + j) % period;
  lines.push_back(
      fmt::format("{}. x^{} = {}", line, exponent, element_text(field, power(field, exponent))));
}

void write_step(const Field& field, char op, int a, int b, std::vector<std::string>& lines) {
  if (field.is_prime()) {
    lines.push_back(prime_step(field.order, op, a, b));
  } else if (op == '*' && a != 0 && b != 0) {
    write_product_by_exponents(field, a, b, lines);
  } else {
    lines.push_back(fmt::format("{} {} {} = {}", element_text(field, a), op, element_text(field, b),
                                element_text(field, apply(field, op, a, b))));
  }
}

/// "GF(7)" or "GF(9): x^8 = 1".
std::string field_line(const Field& field) {
  return field.is_prime() ? fmt::format("GF({})", field.order)
                          : fmt::format("GF({}): x^{} = 1", field.order, field.order - 1);
}

/// The field comes first: every later step depends on it, and prompts name it in many places.
std::string write_chain(const Task& task, const std::vector<int>& values) {
  std::vector<std::string> chain = {field_line(*task.field)};
  for (const Expression::Node& node : task.expression.nodes) {
    if (node.op == 0) continue;
    write_step(*task.field, node.op, values[node.left], values[node.right], chain);
  }
  return lines(chain);
}

struct Level {
  std::vector<int> orders;
  int operations;
};

// GF(4) has one operation more than its neighbours: it has too few problems of two.
const std::vector<Level>& levels_of(Split split) {
  static const std::vector<Level> training = {
      {{7, 11}, 2}, {{5, 7, 11}, 3}, {{8, 9}, 2}, {{4, 4, 8, 9}, 3}};
  static const std::vector<Level> extrapolation = {{{13, 17}, 3}, {{5, 7, 11}, 5}, {{4, 8, 9}, 4}};
  return split == Split::kExtrapolation ? extrapolation : training;
}

Task draw(base::Rng& rng, const Field& field, int operations) {
  std::vector<std::string> leaves;
  for (int i = 0; i <= operations; ++i) {
    leaves.push_back(element_text(field, static_cast<int>(rng.between(1, field.order - 1))));
  }
  std::string ops(operations, '+');
  for (char& op : ops) op = rng.pick(kOps);
  ops[rng.below(ops.size())] = '*';
  return {&field, left_nested(leaves, ops)};
}

/// Uniform in its value: drawn leaves alone would make 0 the answer twice as often as another.
Task draw_balanced(base::Rng& rng, const Field& field, int operations) {
  const int target = static_cast<int>(rng.below(field.order));
  Task task = draw(rng, field, operations);
  while (evaluate(task).back() != target) task = draw(rng, field, operations);
  return task;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("gf ")) return std::nullopt;
  const auto order = scanner.integer();
  const Field* field = order ? find_field(*order) : nullptr;
  if (field == nullptr) return std::nullopt;
  std::optional<Expression> expression = parse_expression(scanner.rest(), kOps);
  if (!expression) return std::nullopt;
  for (const Expression::Node& node : expression->nodes) {
    if (node.op == 0 && !parse_element(*field, node.leaf)) return std::nullopt;
  }
  return Task{field, *std::move(expression)};
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, task.field->text(), spaced(task.expression));
}

class Galois final : public Family {
 public:
  std::string_view name() const override { return "galois"; }
  std::string_view description() const override {
    return "sums and products in prime fields and in GF(4), GF(8), GF(9)";
  }
  int levels() const override { return static_cast<int>(levels_of(Split::kTrain).size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const std::vector<Level>& choices = levels_of(split);
    const int level = static_cast<int>(rng.below(choices.size()));
    const Field* field = find_field(rng.pick(choices[level].orders));
    CHECK(field != nullptr);
    const Task task = draw_balanced(rng, *field, choices[level].operations);
    const std::vector<int> values = evaluate(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = write_chain(task, values);
    problem.answer = element_text(*field, values.back());
    problem.canonical = fmt::format("gf {} {}", field->order, compact(task.expression));
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
    const std::string expected = element_text(*task->field, evaluate(*task).back());
    return judge_answer(text, [&](std::string_view answer) {
      Scanner scanner(after_equals(answer));
      const auto said = scanner.word();
      if (!said || !scanner.done()) return wrong("not an element: '{}'", answer);
      return *said == expected ? right() : wrong("says {}, should be {}", *said, expected);
    });
  }
};

}  // namespace

const Family& galois() {
  static const Galois family;
  return family;
}

}  // namespace retort::symbolic
