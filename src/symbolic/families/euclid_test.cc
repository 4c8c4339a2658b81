// Oracle: the greatest common divisor by trying every divisor, and the Bezout identity itself.
// Every statement of a chain is derived again, and every remainder line must satisfy r = x a + y b.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

int greatest_common_divisor(int a, int b) {
  int g = b;
  while (a % g != 0 || b % g != 0) --g;
  return g;
}

int divisions(int a, int b) { return b == 0 ? 0 : 1 + divisions(b, a % b); }

void expect_true_statement(const std::string& statement, int a, int b) {
  int p = 0, q = 0, r = 0, s = 0;
  char op = 0;
  const char* text = statement.c_str();
  if (std::sscanf(text, "%d * %d + %d = %d", &p, &q, &r, &s) == 4) {
    EXPECT_EQ(p * q + r, s) << statement;
  } else if (std::sscanf(text, "%d: %d %d", &p, &q, &r) == 3) {
    EXPECT_EQ(q * a + r * b, p) << statement;
  } else {
    ASSERT_EQ(std::sscanf(text, "%d %c %d = %d", &p, &op, &q, &r), 4) << statement;
    EXPECT_EQ(op == '*' ? p * q : p - q, r) << statement;
  }
}

TEST(Euclid, AnswersAndEveryStatementAreTrue) {
  const Family& family = *find_family("euclid");
  std::set<int> steps[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 3000; ++i) {
      base::Rng rng(16, i);
      const Problem problem = family.sample(rng, split);
      int a = 0, b = 0, g = 0, x = 0, y = 0;
      ASSERT_EQ(std::sscanf(problem.canonical.c_str(), "euclid %d %d", &a, &b), 2);
      ASSERT_EQ(std::sscanf(problem.answer.c_str(), "g=%d x=%d y=%d", &g, &x, &y), 3);
      EXPECT_EQ(g, greatest_common_divisor(a, b));
      EXPECT_EQ(x * a + y * b, g) << problem.completion();
      steps[split == Split::kExtrapolation].insert(divisions(a, b));
      std::istringstream chain(problem.chain);
      for (std::string line; std::getline(chain, line);) {
        for (size_t start = 0, stop = 0; stop != line.npos; start = stop + 2) {
          stop = line.find(". ", start);
          expect_true_statement(line.substr(start, stop - start), a, b);
        }
      }
    }
  }
  EXPECT_EQ(steps[0], (std::set<int>{2, 3}));
  EXPECT_EQ(steps[1], (std::set<int>{4, 5}));
}

TEST(Euclid, AcceptsEveryBezoutPair) {
  const Family& family = *find_family("euclid");
  for (int x = -20; x <= 20; ++x) {
    for (int y = -20; y <= 20; ++y) {
      const std::string answer = fmt::format("Answer: g=6 x={} y={}", x, y);
      EXPECT_EQ(family.check("euclid 48 18", answer)->correct, 48 * x + 18 * y == 6) << answer;
    }
  }
  EXPECT_TRUE(family.check("euclid 48 18", "Answer: g = 6, x = -1, y = 3.")->correct);
  EXPECT_TRUE(family.check("euclid 48 18", "Answer: 6, -1, 3")->correct);
  EXPECT_FALSE(family.check("euclid 48 18", "Answer: g=12 x=-2 y=6")->correct);
  EXPECT_FALSE(family.check("euclid 48 18", "Answer: x=-1 y=3")->correct);
  EXPECT_FALSE(family.check("euclid 48 18", "Answer: g=6 x=999999999 y=-999999999")->correct);
  EXPECT_FALSE(family.check("euclid 18 48", "Answer: 6 -1 3"));
  EXPECT_FALSE(family.check("euclid 48 0", "Answer: 6 -1 3"));
}

}  // namespace
}  // namespace retort::symbolic
