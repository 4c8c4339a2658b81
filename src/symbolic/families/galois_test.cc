// Oracle: field tables by polynomial multiplication and long division by the modulus, and integer
// arithmetic; the family itself multiplies by exponents. Every "=" in a chain is derived again.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <sstream>

#include "symbolic/family.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

struct Modulus {
  int p;
  std::vector<int> coefficients;  // lowest power first, monic
};

const std::map<int, Modulus> kModuli = {
    {4, {2, {1, 1, 1}}}, {8, {2, {1, 1, 0, 1}}}, {9, {3, {2, 1, 1}}}};

/// Polynomials are the digit strings of the problems: highest power first.
std::string multiply(int order, const std::string& a, const std::string& b) {
  const auto& [p, modulus] = kModuli.at(order);
  const size_t degree = modulus.size() - 1;
  std::vector<int> product(2 * degree - 1);
  for (size_t i = 0; i < degree; ++i) {
    for (size_t j = 0; j < degree; ++j) {
      product[i + j] += (a[degree - 1 - i] - '0') * (b[degree - 1 - j] - '0');
    }
  }
  for (size_t top = product.size() - 1; top >= degree; --top) {
    const int factor = product[top] % p;
    for (size_t i = 0; i <= degree; ++i) {
      product[top - degree + i] += (p - factor) * modulus[i];
    }
  }
  std::string text;
  for (size_t i = degree; i-- > 0;) text += static_cast<char>('0' + product[i] % p);
  return text;
}

std::string add(int order, const std::string& a, const std::string& b) {
  std::string sum = a;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<char>('0' + (a[i] - '0' + b[i] - '0') % kModuli.at(order).p);
  }
  return sum;
}

std::string combine(int order, char op, const std::string& a, const std::string& b) {
  if (kModuli.contains(order)) return op == '*' ? multiply(order, a, b) : add(order, a, b);
  const int value = op == '*' ? std::stoi(a) * std::stoi(b) : std::stoi(a) + std::stoi(b);
  return std::to_string(value % order);
}

/// Evaluates "gf 7 ((3*4)+5)*2" by rewriting the innermost parentheses until none is left.
std::string evaluate(int order, std::string text) {
  text = "(" + text + ")";
  while (text.front() == '(') {
    const size_t close = text.find(')');
    const size_t open = text.rfind('(', close);
    const std::string inner = text.substr(open + 1, close - open - 1);
    const size_t op = inner.find_first_of("+*");
    text.replace(open, close - open + 1,
                 combine(order, inner[op], inner.substr(0, op), inner.substr(op + 1)));
  }
  return text;
}

/// "a = b" of a chain, where sides are integers, digit strings, powers of x or one operation.
void expect_true_statement(int order, const std::string& statement) {
  std::istringstream words(statement);
  std::vector<std::string> w;
  for (std::string word; words >> word;) w.push_back(word);
  const bool extension = kModuli.contains(order);
  const size_t width = extension ? kModuli.at(order).coefficients.size() - 1 : 0;
  if (w.size() == 3) {  // 101 = x^6 or x^2 = 100
    const bool power_first = w[0].starts_with("x^");
    const std::string& power = w[power_first ? 0 : 2];
    std::string element(width, '0'), x(width, '0');
    element[width - 1] = x[width - 2] = '1';
    for (int i = std::stoi(power.substr(2)); i > 0; --i) element = multiply(order, element, x);
    EXPECT_EQ(element, w[power_first ? 2 : 0]) << statement;
    return;
  }
  ASSERT_EQ(w.size(), 5u) << statement;
  if (extension && w[1] != "-" && w[0].size() == width) {  // exponents have one digit
    EXPECT_EQ(combine(order, w[1][0], w[0], w[2]), w[4]) << statement;
    return;
  }
  const int a = std::stoi(w[0]), b = std::stoi(w[2]);
  EXPECT_EQ(w[1] == "*" ? a * b : w[1] == "+" ? a + b : a - b, std::stoi(w[4])) << statement;
}

TEST(Galois, AnswersAndEveryStepAgreeWithPolynomialArithmetic) {
  const Family& family = *find_family("galois");
  std::set<int> orders[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 3000; ++i) {
      base::Rng rng(3, i);
      const Problem problem = family.sample(rng, split);
      std::istringstream words(problem.canonical);
      std::string mark, expression;
      int order = 0;
      words >> mark >> order >> expression;
      orders[split == Split::kExtrapolation].insert(order);
      EXPECT_EQ(evaluate(order, expression), problem.answer) << problem.canonical;
      std::istringstream chain(problem.chain);
      std::string line, last;
      ASSERT_TRUE(std::getline(chain, line));
      const std::string field = "GF(" + std::to_string(order) + ")";
      const std::string period = ": x^" + std::to_string(order - 1) + " = 1";
      EXPECT_EQ(line, kModuli.contains(order) ? field + period : field);
      while (std::getline(chain, line)) {
        for (size_t start = 0, stop = 0; stop != std::string::npos; start = stop + 2) {
          stop = line.find(". ", start);
          last = line.substr(start, stop - start);
          expect_true_statement(order, last);
        }
      }
      EXPECT_TRUE(last.ends_with("= " + problem.answer)) << problem.completion();
    }
  }
  EXPECT_EQ(orders[0], (std::set<int>{4, 5, 7, 8, 9, 11}));
  EXPECT_TRUE(orders[1].contains(13) && orders[1].contains(17));
}

TEST(Galois, JudgesTheElementAlone) {
  const Family& family = *find_family("galois");
  EXPECT_TRUE(family.check("gf 7 ((3*4)+5)*2", "Answer: 6")->correct);  // 34 = 4 * 7 + 6
  EXPECT_TRUE(family.check("gf 7 ((3*4)+5)*2", "Answer: ((3 * 4) + 5) * 2 = 6")->correct);
  EXPECT_EQ(family.check("gf 7 ((3*4)+5)*2", "Answer: 5")->reason, "says 5, should be 6");
  EXPECT_FALSE(family.check("gf 7 ((3*4)+5)*2", "Answer: 34")->correct);
  EXPECT_FALSE(family.check("gf 7 ((3*4)+5)*2", "Answer: 06")->correct);
  EXPECT_FALSE(family.check("gf 7 ((3*9)+5)*2", "Answer: 6"));
  EXPECT_FALSE(family.check("gf 6 (3*4)+5", "Answer: 6"));
}

}  // namespace
}  // namespace retort::symbolic
