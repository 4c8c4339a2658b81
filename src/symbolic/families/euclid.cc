// Euclid's algorithm with Bezout coefficients: g = gcd(a, b) = x a + y b.
//
// The coefficients of the remainders alternate in sign and grow by |x''| = q |x'| + |x|, so the
// chain runs forwards with natural numbers and sets the signs at the end of each line. Substituting
// backwards, as taught, would need the lines in reverse and products of negative numbers.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr int kNumberMax = 100'000;

// {0} > {1}: the numbers.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "Find g = gcd({0}, {1}) and x, y with g = {0}x + {1}y.",
    "Run the extended Euclidean algorithm on a = {0}, b = {1}.",
    "Compute Bezout coefficients x, y for {0} and {1}, and their gcd g.",
    "What is the gcd g of {0} and {1}, as {0}x + {1}y?",
    "Write the greatest common divisor g of {0} and {1} as {0}x + {1}y.",
    "Solve {0}x + {1}y = g, where g is the greatest common divisor.",
    "Give integers x, y so that {0}x + {1}y is the gcd g.",
    "Extended Euclid: {0}, {1}. Report g, x, y.",
    "Determine the gcd g of {0} and {1} with multipliers x and y.",
    "Express g, the highest common factor of {0} and {1}, by {0}x + {1}y.",
    "Apply the division algorithm to {0} and {1} until you have g = {0}x + {1}y.",
    "Which combination {0}x + {1}y yields the largest number g dividing both?",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: g=.. x=.. y=..\".";

struct Task {
  int a = 0;
  int b = 0;
};

/// A remainder r = x a + y b of the algorithm.
struct Row {
  int r = 0;
  int x = 0;
  int y = 0;
};

struct Solution {
  std::string chain;
  Row result;
  int divisions = 0;
  int quotient_max = 0;
};

/// "18 * 2 = 36. 48 - 36 = 12".
std::string division_line(int dividend, int divisor) {
  const int quotient = dividend / divisor;
  return fmt::format("{} * {} = {}. {} - {} = {}", divisor, quotient, divisor * quotient, dividend,
                     divisor * quotient, dividend % divisor);
}

/// "2 * 0 + 1 = 1. 2 * 1 + 0 = 2. 12: 1 -2", the signs by the number of the division.
std::string coefficient_line(int quotient, const Row& before, const Row& last, const Row& next) {
  return fmt::format("{} * {} + {} = {}. {} * {} + {} = {}. {}: {} {}", quotient, std::abs(last.x),
                     std::abs(before.x), std::abs(next.x), quotient, std::abs(last.y),
                     std::abs(before.y), std::abs(next.y), next.r, next.x, next.y);
}

Solution solve(const Task& task) {
  Solution solution;
  std::vector<std::string> chain;
  Row before{task.a, 1, 0};
  Row last{task.b, 0, 1};
  while (last.r != 0) {
    const int quotient = before.r / last.r;
    const Row next{before.r % last.r, before.x - quotient * last.x, before.y - quotient * last.y};
    ++solution.divisions;
    solution.quotient_max = std::max(solution.quotient_max, quotient);
    chain.push_back(division_line(before.r, last.r));
    if (next.r != 0) chain.push_back(coefficient_line(quotient, before, last, next));
    before = last;
    last = next;
  }
  solution.chain = lines(chain);
  solution.result = before;
  return solution;
}

struct Level {
  int divisions;
  int number_max;
};

constexpr int kQuotientMax = 9;
constexpr std::array<Level, 2> kTraining = {{{2, 299}, {3, 299}}};
constexpr std::array<Level, 2> kExtrapolation = {{{4, 499}, {5, 999}}};

std::span<const Level> levels_of(Split split) {
  if (split == Split::kExtrapolation) return kExtrapolation;
  return kTraining;
}

/// Builds the numbers from their quotients upwards; drawn uniformly, most would divide too often.
Task draw(base::Rng& rng, const Level& level) {
  while (true) {
    Task task{static_cast<int>(rng.between(1, 20)), 0};
    for (int i = 0; i < level.divisions; ++i) {
      const int quotient = static_cast<int>(rng.between(i == 0 ? 2 : 1, kQuotientMax));
      task = {task.a * quotient + task.b, task.a};
      if (task.a > level.number_max) break;
    }
    if (task.a <= level.number_max) return task;
  }
}

std::string answer_text(const Row& row) {
  return fmt::format("g={} x={} y={}", row.r, row.x, row.y);
}

/// Three integers, labelled or not.
std::optional<Row> parse_answer(std::string_view answer) {
  Scanner scanner(answer);
  Row row;
  const auto read = [&](std::string_view label, int& value) {
    scanner.eat(",");
    if (scanner.eat(label)) scanner.eat("=");
    const auto number = scanner.integer();
    value = number.value_or(0);
    return number.has_value();
  };
  const bool complete = read("g", row.r) && read("x", row.x) && read("y", row.y);
  return complete && scanner.done() ? std::optional(row) : std::nullopt;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("euclid ")) return std::nullopt;
  const Task task{scanner.integer().value_or(0), scanner.integer().value_or(0)};
  const bool in_range = task.b >= 1 && task.a >= task.b && task.a <= kNumberMax;
  return in_range && scanner.done() ? std::optional(task) : std::nullopt;
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, task.a, task.b);
}

class Euclid final : public Family {
 public:
  std::string_view name() const override { return "euclid"; }
  std::string_view description() const override {
    return "Euclid's algorithm with Bezout coefficients";
  }
  int levels() const override { return static_cast<int>(kTraining.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const auto choices = levels_of(split);
    // Two divisions have fewer problems: one in four.
    const bool first = split != Split::kExtrapolation ? rng.below(4) == 0 : rng.below(2) == 0;
    const int level = first ? 0 : 1;
    const Task task = draw(rng, choices[level]);
    const Solution solution = solve(task);
    CHECK(solution.divisions == choices[level].divisions, "a={} b={}", task.a, task.b);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = solution.chain;
    problem.answer = answer_text(solution.result);
    problem.canonical = fmt::format("euclid {} {}", task.a, task.b);
    problem.level = level + (split == Split::kExtrapolation ? levels() : 0);
    return problem;
  }

  /// Any coefficients that give the greatest common divisor are right.
  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::optional<Task> task = parse(canonical);
    return task ? prompts_of(*task) : std::vector<std::string>();
  }

  base::Result<Check> check(std::string_view canonical, std::string_view text) const override {
    const std::optional<Task> task = parse(canonical);
    if (!task) return foreign(name(), canonical);
    const int g = std::gcd(task->a, task->b);
    return judge_answer(text, [&](std::string_view answer) {
      const auto said = parse_answer(answer);
      if (!said) return wrong("not of the form g=.. x=.. y=..: '{}'", answer);
      if (said->r != g) return wrong("says g={}, should be {}", said->r, g);
      const int64_t sum = int64_t{said->x} * task->a + int64_t{said->y} * task->b;
      return sum == g ? right() : wrong("x={} y={} give {}, not {}", said->x, said->y, sum, g);
    });
  }
};

}  // namespace

const Family& euclid() {
  static const Euclid family;
  return family;
}

}  // namespace retort::symbolic
