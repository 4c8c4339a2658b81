// Oracle: membership of each digit by truth tables over std::set, with the expression rewritten
// from its innermost parentheses; the family keeps ordered lists in a tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

using Set = std::set<char>;

Set combine(char op, const Set& a, const Set& b) {
  Set result;
  for (char digit = '0'; digit <= '9'; ++digit) {
    const bool in_a = a.contains(digit), in_b = b.contains(digit);
    const bool member = op == '|'   ? in_a || in_b
                        : op == '&' ? in_a && in_b
                        : op == '-' ? in_a && !in_b
                                    : in_a != in_b;
    if (member) result.insert(digit);
  }
  return result;
}

/// Each result becomes a new set named by the next letter.
Set evaluate(std::string text, std::vector<Set> sets) {
  text = "(" + text + ")";
  for (size_t close; (close = text.find(')')) != std::string::npos;) {
    const size_t open = text.rfind('(', close);
    sets.push_back(combine(text[open + 2], sets[text[open + 1] - 'A'], sets[text[open + 3] - 'A']));
    text.replace(open, close - open + 1, 1, static_cast<char>('A' + sets.size() - 1));
  }
  return sets.back();
}

Set digits(const std::string& text) {
  Set set;
  std::ranges::copy_if(text, std::inserter(set, set.end()),
                       [](char c) { return c >= '0' && c <= '9'; });
  return set;
}

TEST(Sets, AnswersAndEveryLineAgreeWithTruthTables) {
  const Family& family = *find_family("sets");
  std::set<std::pair<size_t, bool>> sizes[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 2000; ++i) {
      base::Rng rng(15, i);
      const Problem problem = family.sample(rng, split);
      std::istringstream words(problem.canonical);
      std::string mark, expression, set;
      words >> mark >> expression;
      std::vector<Set> sets;
      bool large = false;
      for (; words >> set; large |= set.size() > 4) sets.push_back(digits(set));
      sizes[split == Split::kExtrapolation].insert({sets.size(), large});
      EXPECT_EQ(evaluate(expression, sets), digits(problem.answer)) << problem.canonical;
      std::istringstream chain(problem.chain);
      std::string last;
      for (std::string line; std::getline(chain, line);) {
        std::string left, op, right, equals;
        std::istringstream(line) >> left >> op >> right >> equals >> last;
        const char symbol = op == "union"       ? '|'
                            : op == "intersect" ? '&'
                            : op == "minus"     ? '-'
                                                : '^';
        EXPECT_EQ(combine(symbol, digits(left), digits(right)), digits(last)) << line;
      }
      EXPECT_EQ(last, problem.answer);
    }
  }
  for (const auto& size : sizes[1]) EXPECT_FALSE(sizes[0].contains(size));
}

TEST(Sets, AcceptsAnyOrderAndNoRepeats) {
  const Family& family = *find_family("sets");
  for (const char* answer : {"{1,5}", "{5, 1}", "5 1", "(A | B) - C = { 1, 5 }."}) {
    EXPECT_TRUE(family.check("sets (A|B)-C 135 23 23", fmt::format("Answer: {}", answer))->correct)
        << answer;
  }
  for (const char* answer : {"{1,5", "{1,5,1}", "{1}", "{}", "{1,5}}", "{1,5,7}"}) {
    EXPECT_FALSE(family.check("sets (A|B)-C 135 23 23", fmt::format("Answer: {}", answer))->correct)
        << answer;
  }
  EXPECT_TRUE(family.check("sets A-B 13 13", "Answer: {}")->correct);
  EXPECT_FALSE(family.check("sets (A|B)-C 135 23", "Answer: {}"));
  EXPECT_FALSE(family.check("sets A|B 133 23", "Answer: {}"));
}

}  // namespace
}  // namespace retort::symbolic
