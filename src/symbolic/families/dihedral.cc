// The dihedral group of the regular n-gon: r is a rotation, s a reflection, s r = r^-1 s. Products
// of elements r^k s^e from left to right, one product a line with its sum of exponents written out.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr int kOrderMax = 99;
constexpr size_t kFactorsMax = 32;

// {0}: n, {1}: the product.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "In the dihedral group D{0} with s r = r^-1 s, compute {1}.",
    "Simplify {1}, where r^{0} = s^2 = 1 and s r = r^-1 s.",
    "Symmetries of the regular {0}-gon: r rotates, s reflects. Find {1}.",
    "What is {1} in the dihedral group D{0}?",
    "Given r^{0} = 1, s^2 = 1, s r s = r^-1, reduce {1} to normal form.",
    "Compose in D{0}: {1}.",
    "Multiply out {1} in the symmetry group of a {0}-gon.",
    "Which element of D{0} (rotations r, reflection s) equals {1}?",
    "Group D{0}, relation s r = r^-1 s. Evaluate {1}.",
    "Let r have order {0} and let s invert it, s^2 = 1. Determine {1}.",
    "Work out the product {1} of symmetries of a polygon with {0} sides.",
    "Bring {1} to the shape r^k or r^k s, using D{0} relations.",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: rK\" or \"Answer: rKs\".";

struct Element {
  int rotation = 0;
  bool reflects = false;
  bool operator==(const Element&) const = default;
};

struct Task {
  int n = 0;
  std::vector<Element> factors;
};

std::string element_text(const Element& element) {
  return fmt::format("r{}{}", element.rotation, element.reflects ? "s" : "");
}

/// r^a s r^b = r^(a - b) s.
Element multiply(int n, const Element& x, const Element& y) {
  const int sum = x.reflects ? x.rotation - y.rotation + n : x.rotation + y.rotation;
  return {sum % n, x.reflects != y.reflects};
}

/// "r3s * r4: 3 - 4 = -1. -1 + 5 = 4. r4s".
std::string write_step(int n, const Element& x, const Element& y) {
  const char sign = x.reflects ? '-' : '+';
  const int sum = x.reflects ? x.rotation - y.rotation : x.rotation + y.rotation;
  std::string line = fmt::format("{} * {}: {} {} {} = {}", element_text(x), element_text(y),
                                 x.rotation, sign, y.rotation, sum);
  if (sum < 0) line += fmt::format(". {} + {} = {}", sum, n, sum + n);
  if (sum >= n) line += fmt::format(". {} - {} = {}", sum, n, sum - n);
  return fmt::format("{}. {}", line, element_text(multiply(n, x, y)));
}

struct Solution {
  std::string chain;
  Element product;
};

Solution solve(const Task& task) {
  std::vector<std::string> chain;
  Element product = task.factors[0];
  for (size_t i = 1; i < task.factors.size(); ++i) {
    chain.push_back(write_step(task.n, product, task.factors[i]));
    product = multiply(task.n, product, task.factors[i]);
  }
  return {lines(chain), product};
}

std::string product_text(const Task& task, std::string_view separator) {
  std::vector<std::string> factors;
  for (const Element& factor : task.factors) factors.push_back(element_text(factor));
  return join(factors, separator);
}

struct Level {
  std::vector<int> orders;
  int factors;
};

const std::vector<Level>& levels_of(Split split) {
  static const std::vector<Level> training = {{{5, 6, 7}, 3}, {{5, 6, 7}, 4}};
  static const std::vector<Level> extrapolation = {{{8, 9, 11}, 4}, {{5, 6, 7}, 6}};
  return split == Split::kExtrapolation ? extrapolation : training;
}

/// Drawn factors are uniform in the group, so their product is too.
Task draw(base::Rng& rng, const Level& level) {
  Task task{.n = rng.pick(level.orders), .factors = {}};
  for (int i = 0; i < level.factors; ++i) {
    const int rotation = static_cast<int>(rng.below(task.n));
    task.factors.push_back({rotation, rng.below(2) == 1});
  }
  return task;
}

/// "r3s", "r^3 s", and the usual short forms "r", "s", "1".
std::optional<Element> parse_element(Scanner& scanner, int n) {
  if (scanner.eat("1") || scanner.eat("e")) return Element{};
  Element element;
  const bool rotates = scanner.eat("r");
  if (rotates) {
    scanner.eat("^");
    element.rotation = scanner.integer().value_or(1);
  }
  element.reflects = scanner.eat("s");
  const bool in_range = element.rotation >= 0 && element.rotation < n;
  return (rotates || element.reflects) && in_range ? std::optional(element) : std::nullopt;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("dihedral ")) return std::nullopt;
  Task task;
  task.n = scanner.integer().value_or(0);
  if (task.n < 1 || task.n > kOrderMax) return std::nullopt;
  while (!scanner.done()) {
    const auto factor = parse_element(scanner, task.n);
    if (!factor || task.factors.size() >= kFactorsMax) return std::nullopt;
    task.factors.push_back(*factor);
  }
  return task.factors.empty() ? std::nullopt : std::optional(task);
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, task.n, product_text(task, " * "));
}

class Dihedral final : public Family {
 public:
  std::string_view name() const override { return "dihedral"; }
  std::string_view description() const override {
    return "products of rotations and reflections of a regular polygon";
  }
  int levels() const override { return static_cast<int>(levels_of(Split::kTrain).size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const auto& choices = levels_of(split);
    const int level = static_cast<int>(rng.below(choices.size()));
    const Task task = draw(rng, choices[level]);
    const Solution solution = solve(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = solution.chain;
    problem.answer = element_text(solution.product);
    problem.canonical = fmt::format("dihedral {} {}", task.n, product_text(task, " "));
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
    const Element expected = solve(*task).product;
    return judge_answer(text, [&](std::string_view answer) {
      Scanner scanner(after_equals(answer));
      const auto said = parse_element(scanner, task->n);
      if (!said || !scanner.done()) return wrong("not an element of D{}: '{}'", task->n, answer);
      return *said == expected
                 ? right()
                 : wrong("says {}, should be {}", element_text(*said), element_text(expected));
    });
  }
};

}  // namespace

const Family& dihedral() {
  static const Dihedral family;
  return family;
}

}  // namespace retort::symbolic
