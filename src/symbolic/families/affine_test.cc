// Oracle: the maps tabulated over all of Z_n; a map or a number is right if the tables agree at
// every point. The sums and products of a chain are derived again as integers.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "symbolic/family.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

using Table = std::vector<int>;

Table tabulate(int n, const std::string& map) {
  int a = 0, b = 0;
  EXPECT_EQ(std::sscanf(map.c_str(), "%dx + %d", &a, &b), 2) << map;
  Table table;
  for (int x = 0; x < n; ++x) table.push_back((a * x + b) % n);
  return table;
}

/// Whether the answer satisfies the canonical problem, by tables alone.
bool satisfies(const std::string& canonical, const std::string& answer, int& n) {
  std::istringstream words(canonical);
  std::string mark, kind, f_text, g_text;
  words >> mark >> n >> kind >> f_text;
  const Table f = tabulate(n, f_text);
  if (kind == "solve") {
    int y = 0;
    words >> y;
    return f[std::stoi(answer)] == y;
  }
  if (kind == "invert") {
    const Table inverse = tabulate(n, answer);
    for (int x = 0; x < n; ++x) {
      if (inverse[f[x]] != x) return false;
    }
    return true;
  }
  words >> g_text;
  const Table g = tabulate(n, g_text);
  if (kind == "apply") {
    int x = 0;
    words >> x;
    return f[g[x]] == std::stoi(answer);
  }
  const Table composed = tabulate(n, answer);
  for (int x = 0; x < n; ++x) {
    if (composed[x] != f[g[x]]) return false;
  }
  return true;
}

/// "a o b = c" as integers.
void expect_true_statement(const std::string& statement) {
  std::istringstream words(statement);
  int a = 0, b = 0, c = 0;
  char op = 0, equals = 0;
  words >> a >> op >> b >> equals >> c;
  ASSERT_TRUE(words && equals == '=') << statement;
  EXPECT_EQ(op == '*' ? a * b : op == '+' ? a + b : a - b, c) << statement;
}

TEST(Affine, AnswersAndEverySumAgreeWithTables) {
  const Family& family = *find_family("affine");
  std::set<int> moduli[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 3000; ++i) {
      base::Rng rng(12, i);
      const Problem problem = family.sample(rng, split);
      int n = 0;
      EXPECT_TRUE(satisfies(problem.canonical, problem.answer, n)) << problem.completion();
      moduli[split == Split::kExtrapolation].insert(n);
      std::istringstream chain(problem.chain);
      for (std::string line; std::getline(chain, line);) {
        if (line.starts_with("1: ")) continue;  // the start of a search for an inverse
        if (const size_t colon = line.find(": "); colon != line.npos) line.erase(0, colon + 2);
        for (size_t start = 0, stop = 0; stop != line.npos; start = stop + 2) {
          stop = line.find(". ", start);
          expect_true_statement(line.substr(start, stop - start));
        }
      }
    }
  }
  for (int n : moduli[1]) EXPECT_FALSE(moduli[0].contains(n)) << n;
}

TEST(Affine, OneAnswerAloneIsRight) {
  const Family& family = *find_family("affine");
  for (int i = 0; i < 200; ++i) {
    base::Rng rng(13, i);
    const Problem problem = family.sample(rng, Split::kTrain);
    int n = 0;
    for (int b = 0; b < 11; ++b) {
      const bool map = problem.answer.find('x') != std::string::npos;
      const std::string answer =
          map ? fmt::format("{}x + {}", problem.answer[0], b) : fmt::format("{}", b);
      std::istringstream(problem.canonical.substr(7)) >> n;
      if (b >= n) continue;
      EXPECT_EQ(family.check(problem.canonical, "Answer: " + answer)->correct,
                answer == problem.answer || satisfies(problem.canonical, answer, n))
          << problem.canonical << " " << answer;
    }
  }
}

TEST(Affine, ToleratesFormsAndRefusesUnits) {
  const Family& family = *find_family("affine");
  EXPECT_TRUE(family.check("affine 7 compose 3x+2 5x+1", "Answer: f(g(x)) = x + 5")->correct);
  EXPECT_TRUE(family.check("affine 7 compose 3x+2 5x+1", "Answer: 1x+5.")->correct);
  EXPECT_FALSE(family.check("affine 7 compose 3x+2 5x+1", "Answer: 15x + 5")->correct);
  EXPECT_FALSE(family.check("affine 7 compose 3x+2 5x+1", "Answer: 5")->correct);
  EXPECT_FALSE(family.check("affine 8 invert 2x+1", "Answer: 5"));  // 2 has no inverse
  EXPECT_FALSE(family.check("affine 0 invert 2x+1", "Answer: 5"));
}

}  // namespace
}  // namespace retort::symbolic
