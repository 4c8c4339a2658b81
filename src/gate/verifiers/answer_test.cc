// Oracle: pairs of expected and given answers, judged by hand.
#include <gtest/gtest.h>

#include "gate/answer_key.h"

namespace retort::gate {
namespace {

struct Pair {
  std::string expected;
  std::string given;
  bool equal;
};

void check(Match match, double tolerance, const std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs) {
    const std::string reason = difference({pair.expected, match, tolerance}, pair.given);
    EXPECT_EQ(reason.empty(), pair.equal)
        << pair.expected << " against " << pair.given << ": " << reason;
  }
}

TEST(Answer, ExactIgnoresWhiteSpaceMarksAndAClosingStop) {
  check(Match::kExact, 0,
        {{"Monday", "Monday", true},
         {"Monday", " **Monday**. ", true},
         {"Monday", "`Monday`", true},
         {"x + 1", "x  +\n1", true},
         {"x + 1", "$x + 1$", true},
         {"3.", "3.", true},
         {"Monday", "monday", false},
         {"Monday", "Monday Tuesday", false},
         {"Monday", "", false},
         {"Monday", "\u3000", false},
         {"Monday", "**", false},
         {"4", "14", false},
         {"4", "4..", false}});
}

TEST(Answer, NumericComparesValuesNotText) {
  check(Match::kNumeric, 1e-9,
        {{"1234.5", "1,234.50", true},
         {"1234567", "1,234,567", true},
         {"-3",
          "\u2212"
          "3",
          true},
         {"3", "+3.", true},
         {"3", "**3**.", true},
         {"3", ".", false},
         {"0.5", "1/2", true},
         {"0.5", "-1/-2", true},
         {"1e3", "1000", true},
         {"0", "-0.0", true},
         {"1000", "1000.0000005", true},  // 1e-9 of 1000 is 1e-6
         {"1000", "1000.000002", false},
         {"0", "0.0000000005", true},
         {"3", "4", false},
         {"3", "three", false},
         {"3", "3 apples", false},
         {"3", "3 4", false},
         {"3", "0x3", false},
         {"3", "nan", false},
         {"3", "inf", false},
         {"3", "3/0", false},
         {"1234", "12,34", false},
         {"1234", ",1234", false},
         {"3", "+-3", false},
         {"3", "1e999", false},
         {"3", "", false}});
  check(Match::kNumeric, 0.01, {{"3.14159", "3.14", true}, {"3.14159", "3.2", false}});
}

TEST(Answer, SetsIgnoreOrderAndRepeats) {
  check(Match::kSet, 0,
        {{"{a, b}", "b, a", true},
         {"{a, b}", "[a,b,b]", true},
         {"{(1, 2), (3, 4)}", "{(3, 4), (1, 2)}", true},
         {"{{1, 2}, 3}", "{3, {1, 2}}", true},
         {"{}", "{}", true},
         {"{}", "[ ]", true},
         {"{a, b}", "{a}", false},
         {"{a}", "{a, b}", false},
         {"{(1, 2)}", "{(2, 1)}", false},
         {"{a}", "{}", false},
         {"{a}", "", false},
         {"{a, b}", "{a b}", false}});
}

TEST(AnswerKey, RefusesWhatCannotBeChecked) {
  AnswerKey key;
  EXPECT_FALSE(key.add_prompt("", {"4"}));
  EXPECT_FALSE(key.add_prompt("p", {" "}));
  EXPECT_FALSE(key.add_prompt("p", {"four", Match::kNumeric}));
  EXPECT_FALSE(key.add_prompt("p", {"4", Match::kNumeric, -1}));
  ASSERT_TRUE(key.add_prompt("What is 2+2?", {"4", Match::kNumeric}));
  EXPECT_TRUE(key.add_prompt("what IS  2+2?", {"4.0", Match::kNumeric}));
  EXPECT_FALSE(key.add_prompt("what is 2+2?", {"5", Match::kNumeric})) << "contradicts the first";
  EXPECT_EQ(key.size(), 1u);
  ASSERT_TRUE(key.add_canonical("union {A} {b}", {"{A, b}"}));
  EXPECT_TRUE(key.add_canonical("union {a} {b}", {"{a, b}"})) << "case may matter in a problem";
}

TEST(AnswerKey, FindsByCanonicalProblemThenByPrompt) {
  AnswerKey key;
  ASSERT_TRUE(key.add_canonical("sum 2 2", {"4"}));
  ASSERT_TRUE(key.add_prompt("What is 2+3?", {"5"}));
  record::Draft draft;
  draft.prompt = "what is 2+3?";
  EXPECT_EQ(key.find(draft)->answer, "5");
  draft.canonical = "sum 2 2";
  EXPECT_EQ(key.find(draft)->answer, "4");
  draft.canonical = "sum 9 9";
  EXPECT_EQ(key.find(draft)->answer, "5");
  draft.prompt = "unknown";
  EXPECT_EQ(key.find(draft), nullptr);
}

}  // namespace
}  // namespace retort::gate
