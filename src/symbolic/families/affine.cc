// Affine maps f(x) = ax + b over Z_n: apply two, compose two, solve f(x) = y, invert one. Products
// and sums are reduced in writing; an inverse of a is found by adding a until 1 comes up.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr int kModulusMax = 99;

// {0}: n, {1}: the maps, {2}: what is asked.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "Modulo {0}: {1}. Find {2}.",
    "Over Z_{0}, {1}. What is {2}?",
    "Let {1}, all modulo {0}. Compute {2}.",
    "Affine maps mod {0}: {1}. Determine {2}.",
    "Working mod {0} with {1}, calculate {2}.",
    "In Z_{0} take {1} and give {2}.",
    "Arithmetic is modulo {0}. Where {1}, evaluate {2}.",
    "The ring is Z_{0}. Maps: {1}. Wanted: {2}.",
    "Suppose {1} over Z_{0}; work out {2}.",
    "Integers mod {0} are mapped by {1}. Derive {2}.",
    "Define {1} in the ring Z_{0}. State {2}.",
    "Reducing everything by {0}, we have {1}. Obtain {2}.",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: number\" or \"Answer: ax + b\".";

struct Map {
  int a = 0;
  int b = 0;
};

enum class Kind { kApply, kCompose, kSolve, kInvert };
constexpr std::array<std::string_view, 4> kKindNames = {"apply", "compose", "solve", "invert"};

struct Task {
  Kind kind = Kind::kApply;
  int n = 0;
  Map f;
  Map g;          // kApply and kCompose
  int point = 0;  // x of f(g(x)), y of f(x) = y

  bool has_g() const { return kind == Kind::kApply || kind == Kind::kCompose; }
  bool has_point() const { return kind == Kind::kApply || kind == Kind::kSolve; }
  bool asks_map() const { return kind == Kind::kCompose || kind == Kind::kInvert; }
};

/// Does the arithmetic and writes it down, reducing where needed: "3 * 5 = 15" and "7 * 2 = 14.
/// 15 - 14 = 1".
class Slate {
 public:
  explicit Slate(int n) : n_(n) {}

  int multiply(int a, int b) { return write(fmt::format("{} * {} = {}", a, b, a * b), a * b); }
  int add(int a, int b) { return write(fmt::format("{} + {} = {}", a, b, a + b), a + b); }
  int subtract(int a, int b) {
    std::string line = fmt::format("{} - {} = {}", a, b, a - b);
    if (a < b) line += fmt::format(". {} + {} = {}", a - b, n_, a - b + n_);
    lines_.push_back(line);
    return a < b ? a - b + n_ : a - b;
  }
  int apply(const Map& map, int x) { return add(multiply(map.a, x), map.b); }

  /// The k with k a = 1, by "k: sum + a = ..." for k = 2, 3, ...; a is a unit.
  int invert(int a) {
    int sum = a;
    int k = 1;
    lines_.push_back(fmt::format("1: {}", a));
    while (sum != 1) {
      std::string line = fmt::format("{}: {} + {} = {}", ++k, sum, a, sum + a);
      if (sum + a >= n_) line += fmt::format(". {} - {} = {}", sum + a, n_, sum + a - n_);
      lines_.push_back(line);
      sum = (sum + a) % n_;
    }
    return k;
  }
  std::string text() const { return lines(lines_); }

 private:
  int write(std::string line, int value) {
    lines_.push_back(std::move(line));
    if (value < n_) return value;
    const int multiple = value / n_ * n_;
    lines_.push_back(fmt::format("{} * {} = {}. {} - {} = {}", n_, value / n_, multiple, value,
                                 multiple, value - multiple));
    return value - multiple;
  }

  int n_;
  std::vector<std::string> lines_;
};

struct Solution {
  std::string chain;
  Map map;        // if a map is asked
  int value = 0;  // if a number is asked
};

Solution solve(const Task& task) {
  Slate slate(task.n);
  Solution solution;
  switch (task.kind) {
    case Kind::kApply:
      solution.value = slate.apply(task.f, slate.apply(task.g, task.point));
      break;
    case Kind::kCompose:
      solution.map.a = slate.multiply(task.f.a, task.g.a);
      solution.map.b = slate.apply(task.f, task.g.b);
      break;
    case Kind::kSolve: {
      const int product = slate.subtract(task.point, task.f.b);
      solution.value = slate.multiply(slate.invert(task.f.a), product);
      break;
    }
    case Kind::kInvert:
      solution.map.a = slate.invert(task.f.a);
      solution.map.b = slate.subtract(0, slate.multiply(solution.map.a, task.f.b));
      break;
  }
  solution.chain = slate.text();
  return solution;
}

int inverse(int n, int a) {
  int k = 1;
  while (k * a % n != 1) ++k;
  return k;
}

struct Sizes {
  std::vector<int> moduli;
  int inverse_max;  // bounds the length of the search in a chain
};

const Sizes& sizes_of(Split split) {
  static const Sizes training{{7, 8, 9, 10, 11}, 4};
  static const Sizes extrapolation{{12, 13, 14, 15}, 7};
  return split == Split::kExtrapolation ? extrapolation : training;
}

int draw_unit(base::Rng& rng, int n, int inverse_max) {
  while (true) {
    const int a = static_cast<int>(rng.between(2, n - 1));
    if (std::gcd(a, n) == 1 && inverse(n, a) <= inverse_max) return a;
  }
}

/// There are only some hundred maps to invert, so one problem in ten asks that.
Kind draw_kind(base::Rng& rng) {
  constexpr std::array<Kind, 3> kOften = {Kind::kApply, Kind::kCompose, Kind::kSolve};
  return rng.below(10) == 0 ? Kind::kInvert : rng.pick(kOften);
}

Task draw(base::Rng& rng, Kind kind, int n, int inverse_max) {
  const auto any = [&](int low) { return static_cast<int>(rng.between(low, n - 1)); };
  Task task{.kind = kind, .n = n, .f = {any(2), any(1)}, .g = {any(2), any(1)}, .point = any(1)};
  if (!task.has_g()) {
    task.f.a = draw_unit(rng, n, inverse_max);
    task.g = {};
  }
  if (!task.has_point()) task.point = 0;
  return task;
}

/// Uniform in a number asked for: composite moduli would favour multiples of their divisors.
Task draw_balanced(base::Rng& rng, const Sizes& sizes) {
  const Kind kind = draw_kind(rng);
  const int n = rng.pick(sizes.moduli);
  Task task = draw(rng, kind, n, sizes.inverse_max);
  if (task.asks_map()) return task;
  const int target = static_cast<int>(rng.below(n));
  while (solve(task).value != target) task = draw(rng, kind, n, sizes.inverse_max);
  return task;
}

std::string spaced_map(const Map& map) { return fmt::format("{}x + {}", map.a, map.b); }

std::string maps_text(const Task& task) {
  std::string text = "f(x) = " + spaced_map(task.f);
  if (task.has_g()) text += ", g(x) = " + spaced_map(task.g);
  return text;
}

std::string wanted_text(const Task& task) {
  switch (task.kind) {
    case Kind::kApply:
      return fmt::format("f(g({}))", task.point);
    case Kind::kCompose:
      return "f(g(x))";
    case Kind::kSolve:
      return fmt::format("the x with f(x) = {}", task.point);
    case Kind::kInvert:
      return "the inverse of f";
  }
  return "";
}

std::string canonical_text(const Task& task) {
  std::string text = fmt::format("affine {} {} {}x+{}", task.n,
                                 kKindNames[static_cast<int>(task.kind)], task.f.a, task.f.b);
  if (task.has_g()) text += fmt::format(" {}x+{}", task.g.a, task.g.b);
  if (task.has_point()) text += fmt::format(" {}", task.point);
  return text;
}

/// A residue, reduced or not counts as foreign: nothing but 0 to n - 1.
std::optional<int> parse_residue(Scanner& scanner, int n) {
  const auto value = scanner.integer();
  return value && *value >= 0 && *value < n ? value : std::nullopt;
}

/// "3x + 2"; also "x + 2" and "3x".
std::optional<Map> parse_map(Scanner& scanner, int n) {
  Map map{.a = 1, .b = 0};
  if (!scanner.eat("x")) {
    const auto a = parse_residue(scanner, n);
    if (!a) return std::nullopt;
    if (!scanner.eat("x")) return Map{.a = 0, .b = *a};
    map.a = *a;
  }
  if (!scanner.eat("+")) return map;
  const auto b = parse_residue(scanner, n);
  if (!b) return std::nullopt;
  map.b = *b;
  return map;
}

std::optional<Task> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("affine ")) return std::nullopt;
  Task task;
  task.n = scanner.integer().value_or(0);
  const auto kind = std::ranges::find(kKindNames, scanner.letters().value_or(""));
  if (task.n < 2 || task.n > kModulusMax || kind == kKindNames.end()) return std::nullopt;
  task.kind = static_cast<Kind>(kind - kKindNames.begin());
  const auto f = parse_map(scanner, task.n);
  if (!f || (!task.has_g() && std::gcd(f->a, task.n) != 1)) return std::nullopt;
  task.f = *f;
  if (task.has_g()) {
    const auto g = parse_map(scanner, task.n);
    if (!g) return std::nullopt;
    task.g = *g;
  }
  if (task.has_point()) {
    const auto point = parse_residue(scanner, task.n);
    if (!point) return std::nullopt;
    task.point = *point;
  }
  return scanner.done() ? std::optional(task) : std::nullopt;
}

std::vector<std::string> prompts_of(const Task& task) {
  return fill_all(kPhrasings, kFormat, task.n, maps_text(task), wanted_text(task));
}

class Affine final : public Family {
 public:
  std::string_view name() const override { return "affine"; }
  std::string_view description() const override {
    return "affine maps over Z_n: apply, compose, solve, invert";
  }
  int levels() const override { return static_cast<int>(kKindNames.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const Task task = draw_balanced(rng, sizes_of(split));
    const Solution solution = solve(task);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(task));
    problem.chain = solution.chain;
    problem.answer = task.asks_map() ? spaced_map(solution.map) : fmt::format("{}", solution.value);
    problem.canonical = canonical_text(task);
    problem.level = static_cast<int>(task.kind) + (split == Split::kExtrapolation ? levels() : 0);
    return problem;
  }

  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::optional<Task> task = parse(canonical);
    return task ? prompts_of(*task) : std::vector<std::string>();
  }

  base::Result<Check> check(std::string_view canonical, std::string_view text) const override {
    const std::optional<Task> task = parse(canonical);
    if (!task) return foreign(name(), canonical);
    const Solution solution = solve(*task);
    return judge_answer(text, [&](std::string_view answer) {
      Scanner scanner(after_equals(answer));
      if (!task->asks_map()) {
        const auto said = scanner.integer();
        if (!said || !scanner.done()) return wrong("not a number: '{}'", answer);
        return *said == solution.value ? right()
                                       : wrong("says {}, should be {}", *said, solution.value);
      }
      const auto said = parse_map(scanner, task->n);
      if (!said || !scanner.done()) return wrong("not a map ax + b mod {}: '{}'", task->n, answer);
      const bool equal = said->a == solution.map.a && said->b == solution.map.b;
      return equal ? right()
                   : wrong("says {}, should be {}", spaced_map(*said), spaced_map(solution.map));
    });
  }
};

}  // namespace

const Family& affine() {
  static const Affine family;
  return family;
}

}  // namespace retort::symbolic
