// Oracle: the evaluation one bit at a time by rewriting the text, innermost parentheses first; the
// family computes on whole words in a tree. Every line of a chain is derived again the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

/// Value of an expression without parentheses: bit strings, "~" before them, one "&" or "|".
std::string evaluate_flat(std::string text) {
  for (size_t not_at; (not_at = text.rfind('~')) != std::string::npos; text.erase(not_at, 1)) {
    for (size_t i = not_at + 1; i < text.size() && (text[i] == '0' || text[i] == '1'); ++i) {
      text[i] = text[i] == '0' ? '1' : '0';
    }
  }
  const size_t op = text.find_first_of("&|");
  if (op == std::string::npos) return text;
  std::string result;
  for (size_t i = 0; i < op; ++i) {
    const bool a = text[i] == '1', b = text[op + 1 + i] == '1';
    result += (text[op] == '&' ? a && b : a || b) ? '1' : '0';
  }
  return result;
}

std::string evaluate(std::string text) {
  for (size_t close; (close = text.find(')')) != std::string::npos;) {
    const size_t open = text.rfind('(', close);
    text.replace(open, close - open + 1, evaluate_flat(text.substr(open + 1, close - open - 1)));
  }
  return evaluate_flat(text);
}

TEST(Lattice, AnswersAndEveryLineAgreeWithBitByBitEvaluation) {
  const Family& family = *find_family("lattice");
  std::set<std::pair<int, long>> sizes[2];
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 2000; ++i) {
      base::Rng rng(11, i);
      const Problem problem = family.sample(rng, split);
      std::istringstream words(problem.canonical);
      std::string mark, expression;
      int width = 0;
      words >> mark >> width >> expression;
      sizes[split == Split::kExtrapolation].insert(
          {width, std::count_if(expression.begin(), expression.end(),
                                [](char c) { return c == '&' || c == '|'; })});
      EXPECT_EQ(evaluate(expression), problem.answer) << problem.canonical;
      std::istringstream chain(problem.chain);
      std::string last;
      for (std::string line; std::getline(chain, line);) {
        std::erase(line, ' ');
        const size_t equals = line.find('=');
        last = line.substr(equals + 1);
        EXPECT_EQ(evaluate(line.substr(0, equals)), last) << problem.chain;
      }
      EXPECT_EQ(last, problem.answer);
    }
  }
  for (const auto& size : sizes[1]) EXPECT_FALSE(sizes[0].contains(size));
}

TEST(Lattice, JudgesTheBitsAlone) {
  const Family& family = *find_family("lattice");
  EXPECT_TRUE(family.check("lattice 3 (101&011)|~110", "Answer: 001")->correct);
  EXPECT_TRUE(family.check("lattice 3 (101&011)|~110", "Answer: ~110 = 001.")->correct);
  EXPECT_EQ(family.check("lattice 3 (101&011)|~110", "Answer: 1")->reason, "says 1, should be 001");
  EXPECT_FALSE(family.check("lattice 3 (101&01)|~110", "Answer: 001"));
  EXPECT_FALSE(family.check("lattice 40 1", "Answer: 1"));
}

}  // namespace
}  // namespace retort::symbolic
