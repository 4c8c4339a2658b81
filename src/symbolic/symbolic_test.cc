// Contract of every family in the list. Oracles: the contract in family.h; for the best constant
// answer, check() itself on every problem; the families' own tests hold the independent solvers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "symbolic/expression.h"
#include "symbolic/family.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr std::array kSplits = {Split::kTrain, Split::kHeldOut, Split::kExtrapolation};

std::vector<Problem> draw(const Family& family, Split split, int count, uint64_t seed = 1) {
  std::vector<Problem> problems;
  for (int i = 0; i < count; ++i) {
    base::Rng rng(seed, i);
    problems.push_back(family.sample(rng, split));
  }
  return problems;
}

class EachFamily : public testing::TestWithParam<const Family*> {
 protected:
  const Family& family_ = *GetParam();
};

INSTANTIATE_TEST_SUITE_P(Families, EachFamily,
                         testing::ValuesIn(all_families().begin(), all_families().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

TEST_P(EachFamily, IsFoundByItsNameAlone) {
  EXPECT_EQ(find_family(family_.name()), &family_);
  EXPECT_EQ(std::ranges::count(all_families(), family_.name(), &Family::name), 1);
  EXPECT_EQ(find_family("no such family"), nullptr);
}

TEST_P(EachFamily, SameSeedSameProblem) {
  for (Split split : kSplits) {
    const auto once = draw(family_, split, 100);
    const auto twice = draw(family_, split, 100);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].prompt, twice[i].prompt);
      EXPECT_EQ(once[i].completion(), twice[i].completion());
      EXPECT_EQ(once[i].canonical, twice[i].canonical);
    }
  }
}

TEST_P(EachFamily, AcceptsItsOwnCompletionAndTolerantForms) {
  for (Split split : kSplits) {
    for (const Problem& problem : draw(family_, split, 500)) {
      for (const std::string& text :
           {problem.completion(), "Answer: nonsense\n" + problem.completion(),
            "Sure!\n\n**Answer:** `" + problem.answer + "`.",
            "answer:" + problem.answer + " \r\n"}) {
        const auto check = family_.check(problem.canonical, text);
        ASSERT_TRUE(check) << problem.canonical;
        EXPECT_TRUE(check->correct) << problem.canonical << "\n" << text << "\n" << check->reason;
      }
    }
  }
}

TEST_P(EachFamily, RefusesGarbageWithAReason) {
  const Problem problem = draw(family_, Split::kTrain, 1)[0];
  const std::vector<std::string> garbage = {"",
                                            problem.answer,
                                            problem.chain,
                                            "Answer:",
                                            "Answer: ",
                                            problem.completion() + "\nAnswer: ?",
                                            "Answer: " + problem.answer + " or " + problem.answer,
                                            std::string("Answer: \0\xff\xfe", 11),
                                            "Answer: " + std::string(100'000, '1'),
                                            "Answer: " + std::string(100'000, '(')};
  for (const std::string& text : garbage) {
    const auto check = family_.check(problem.canonical, text);
    ASSERT_TRUE(check);
    EXPECT_FALSE(check->correct) << text.substr(0, 200);
    EXPECT_FALSE(check->reason.empty());
  }
}

TEST_P(EachFamily, RefusesCanonicalProblemsOfOthersAndDamagedOnes) {
  for (const Family* other : all_families()) {
    if (other == &family_) continue;
    const Problem problem = draw(*other, Split::kTrain, 1)[0];
    EXPECT_FALSE(family_.check(problem.canonical, "Answer: 1")) << problem.canonical;
  }
  for (const Problem& problem : draw(family_, Split::kTrain, 50)) {
    for (size_t length = 0; length < problem.canonical.size(); ++length) {
      std::string damaged = problem.canonical;
      damaged[length] = static_cast<char>(0x80 + length % 64);
      EXPECT_FALSE(family_.check(damaged, problem.completion())) << damaged;
      (void)family_.check(problem.canonical.substr(0, length), problem.completion());
    }
    EXPECT_FALSE(family_.check(problem.canonical + std::string(10'000, '('), "Answer: 1"));
    EXPECT_FALSE(family_.check(problem.canonical + " (", "Answer: 1"));
  }
}

/// The wording of a prompt: its words of four letters and more that every prompt of this wording
/// has.
std::string wording(const std::vector<std::string>& prompts) {
  std::map<std::string, size_t> seen;
  for (const std::string& prompt : prompts) {
    std::set<std::string> words;
    std::string word;
    for (char c : prompt + " ") {
      if (std::isalpha(static_cast<unsigned char>(c))) {
        word += c;
      } else {
        if (word.size() >= 4) words.insert(word);
        word.clear();
      }
    }
    for (const std::string& each : words) ++seen[each];
  }
  std::string common;
  for (const auto& [word, count] : seen) {
    if (count == prompts.size()) common += word + " ";
  }
  return common;
}

TEST_P(EachFamily, KnowsThePromptsOfAProblem) {
  for (int i = 0; i < 50; ++i) {
    base::Rng rng(13, i);
    const Split split = i % 2 == 0 ? Split::kTrain : Split::kExtrapolation;
    const Problem problem = GetParam()->sample(rng, split);
    const auto prompts = GetParam()->prompts(problem.canonical);
    EXPECT_GE(prompts.size(), 10u);
    EXPECT_EQ(std::ranges::count(prompts, problem.prompt), 1) << problem.prompt;
  }
  EXPECT_TRUE(GetParam()->prompts("nothing 1 2").empty());
}

TEST_P(EachFamily, KeepsThreePhrasingsForEvaluation) {
  std::map<int, std::vector<std::string>> training, evaluation;
  for (const Problem& problem : draw(family_, Split::kTrain, 2000)) {
    training[problem.phrasing].push_back(problem.prompt);
  }
  for (Split split : {Split::kHeldOut, Split::kExtrapolation}) {
    for (const Problem& problem : draw(family_, split, 1000)) {
      evaluation[problem.phrasing].push_back(problem.prompt);
    }
  }
  EXPECT_GE(training.size(), 7u);
  EXPECT_EQ(evaluation.size(), 3u);
  std::set<std::string> wordings;
  for (const auto* phrasings : {&training, &evaluation}) {
    for (const auto& [index, prompts] : *phrasings) wordings.insert(wording(prompts));
  }
  EXPECT_EQ(wordings.size(), training.size() + evaluation.size());
}

TEST_P(EachFamily, ExtrapolationIsDisjointFromTraining) {
  std::set<std::string> trained;
  for (Split split : {Split::kTrain, Split::kHeldOut}) {
    for (const Problem& problem : draw(family_, split, 4000)) {
      EXPECT_GE(problem.level, 0);
      EXPECT_LT(problem.level, family_.levels());
      trained.insert(problem.canonical);
    }
  }
  for (const Problem& problem : draw(family_, Split::kExtrapolation, 2000)) {
    EXPECT_GE(problem.level, family_.levels());
    EXPECT_FALSE(trained.contains(problem.canonical)) << problem.canonical;
  }
}

TEST_P(EachFamily, HasEnoughDistinctProblems) {
  std::set<std::string> distinct;
  std::set<int> levels;
  for (const Problem& problem : draw(family_, Split::kTrain, 1200)) {
    distinct.insert(problem.canonical);
    levels.insert(problem.level);
  }
  // A task of 1,000 records and 200 to evaluate must not need many draws to be distinct.
  EXPECT_GE(distinct.size(), 900u);
  EXPECT_EQ(static_cast<int>(levels.size()), family_.levels());
  for (const Problem& problem : draw(family_, Split::kTrain, 12'000, 2)) {
    distinct.insert(problem.canonical);
  }
  EXPECT_GE(distinct.size(), 3000u);
}

TEST_P(EachFamily, PromptsAndChainsAreShort) {
  size_t total = 0;
  const auto problems = draw(family_, Split::kTrain, 1000);
  for (const Problem& problem : problems) {
    EXPECT_LE(problem.prompt.size(), 260u) << problem.prompt;
    EXPECT_LE(problem.completion().size(), 420u) << problem.completion();
    EXPECT_FALSE(problem.chain.empty());
    EXPECT_EQ(problem.completion().find("\n\n"), std::string::npos);
    total += problem.completion().size();
  }
  EXPECT_LE(total / problems.size(), 240u);
}

/// The greatest share of `problems` that one answer gets right, among the most frequent ones.
double best_constant(const Family& family, const std::vector<Problem>& problems) {
  std::map<std::string, int> counts;
  for (const Problem& problem : problems) ++counts[problem.answer];
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [answer, count] : counts) ranked.emplace_back(count, answer);
  std::ranges::sort(ranked, std::greater());
  if (ranked.size() > 50) ranked.resize(50);
  int best = 0;
  std::string best_answer;
  for (const auto& [count, answer] : ranked) {
    int right = 0;
    for (const Problem& problem : problems) {
      right += family.check(problem.canonical, "Answer: " + answer)->correct;
    }
    if (right > best) best_answer = answer;
    best = std::max(best, right);
  }
  const double share = static_cast<double>(best) / static_cast<double>(problems.size());
  testing::Test::RecordProperty("best_constant", fmt::format("{} {:.3f}", best_answer, share));
  return share;
}

TEST_P(EachFamily, NoConstantAnswerIsOftenRight) {
  for (Split split : kSplits) {
    EXPECT_LE(best_constant(family_, draw(family_, split, 2000)), 0.15);
  }
}

TEST(Answer, IsTheLastLineWithTheMark) {
  EXPECT_EQ(last_answer("Answer: 3\nno, Answer: 4\nbye"), "4");
  EXPECT_EQ(last_answer("**ANSWER: 2 April.**"), "2 april");
  EXPECT_EQ(last_answer("the answer is 3"), std::nullopt);
  EXPECT_EQ(last_answer("Answer:\n3"), "");
}

TEST(Expression, ReadsBackWhatItWrites) {
  for (const char* text : {"((3*4)+5)*2", "(1+2)*(3+4)", "~(101&011)|~110", "~~1", "7"}) {
    const auto expression = parse_expression(text, "+*&|~");
    ASSERT_TRUE(expression) << text;
    EXPECT_EQ(compact(*expression), text);
  }
  for (const char* text : {"", "(", "1+", "1+2+3", "(1+2", "1 2", "+1", "()", "1+2)"}) {
    EXPECT_FALSE(parse_expression(text, "+*")) << text;
  }
  EXPECT_FALSE(parse_expression(std::string(40, '(') + "1" + std::string(40, ')'), "+*"));
}

}  // namespace
}  // namespace retort::symbolic
