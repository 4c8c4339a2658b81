// The contract that every verifier on the list keeps, whoever adds one. Oracle: the families' own
// exact solutions, and the same with the answer spoilt.
#include <gtest/gtest.h>

#include <set>

#include "gate/verifier.h"

namespace retort::gate {
namespace {

constexpr int kProblems = 30;

record::Draft draft_of(const symbolic::Family& family, uint64_t index) {
  base::Rng rng(11, index);
  const symbolic::Problem problem = family.sample(rng, symbolic::Split::kTrain);
  record::Draft draft;
  draft.task = family.name();
  draft.prompt = problem.prompt;
  draft.reasoning_chain = problem.chain;
  draft.final_answer = problem.answer;
  draft.canonical = problem.canonical;
  return draft;
}

/// Both verifiers apply to every family's problems.
Verifiers verifiers_with_key() {
  AnswerKey key;
  for (const symbolic::Family* family : symbolic::all_families()) {
    for (uint64_t i = 0; i < kProblems; ++i) {
      const record::Draft draft = draft_of(*family, i);
      EXPECT_TRUE(key.add_canonical(draft.canonical, {draft.final_answer}));
    }
  }
  return all_verifiers(symbolic::all_families(), std::move(key));
}

template <class Body>
void for_each_draft(const Body& body) {
  ASSERT_FALSE(symbolic::all_families().empty());
  for (const symbolic::Family* family : symbolic::all_families()) {
    for (uint64_t i = 0; i < kProblems; ++i) body(draft_of(*family, i));
  }
}

TEST(Verifiers, HaveDistinctNames) {
  std::set<std::string_view> names;
  for (const auto& verifier : all_verifiers({})) {
    EXPECT_FALSE(verifier->name().empty());
    EXPECT_TRUE(names.insert(verifier->name()).second);
  }
}

TEST(Verifiers, DoNotApplyWhereTheyKnowNothing) {
  record::Draft draft;
  draft.task = std::string("no such task");
  draft.prompt = draft.final_answer = std::string("p");
  for (const auto& verifier : verifiers_with_key()) {
    EXPECT_FALSE(verifier->applies(draft)) << verifier->name();
    EXPECT_FALSE(verifier->verify(draft).passed) << verifier->name();
  }
}

TEST(Verifiers, DoNotVouchForAPromptOfAnotherProblem) {
  const auto verifier = make_symbolic_verifier(symbolic::all_families());
  for_each_draft([&](record::Draft draft) {
    EXPECT_TRUE(verifier->applies(draft));
    const std::string prompt = draft.prompt;
    draft.prompt = draft_of(*symbolic::find_family(draft.task), kProblems + 1).prompt;
    EXPECT_FALSE(verifier->applies(draft)) << draft.prompt << draft.canonical;
    draft.prompt = "Hello. " + prompt;
    EXPECT_FALSE(verifier->applies(draft));
  });
}

TEST(Verifiers, PassTheExactSolutionTwiceAlike) {
  const Verifiers verifiers = verifiers_with_key();
  for_each_draft([&](const record::Draft& draft) {
    for (const auto& verifier : verifiers) {
      ASSERT_TRUE(verifier->applies(draft)) << verifier->name();
      for (int time = 0; time < 2; ++time) {
        const record::Verdict verdict = verifier->verify(draft);
        EXPECT_TRUE(verdict.passed) << draft.source << verdict.reason;
        EXPECT_EQ(verdict.reason, "");
        EXPECT_EQ(verdict.verifier, verifier->name());
      }
    }
  });
}

TEST(Verifiers, RefuseASpoiltAnswerWithAReason) {
  const Verifiers verifiers = verifiers_with_key();
  for_each_draft([&](record::Draft draft) {
    for (const std::string& spoilt :
         {fmt::format("{} 99999", draft.final_answer), std::string("zebra")}) {
      draft.final_answer = spoilt;
      for (const auto& verifier : verifiers) {
        const record::Verdict verdict = verifier->verify(draft);
        EXPECT_FALSE(verdict.passed) << verifier->name() << " of " << draft.task << ": " << spoilt;
        EXPECT_FALSE(verdict.reason.empty());
      }
    }
  });
}

TEST(Verifiers, ReadTheAnswerLineOfChatTurns) {
  const Verifiers verifiers = verifiers_with_key();
  for_each_draft([&](record::Draft draft) {
    const std::string answer = draft.final_answer;
    draft.form = record::Form::kMessages;
    draft.reasoning_chain.clear();
    draft.final_answer = fmt::format("So Answer: zebra? No.\n**Answer:** {}", answer);
    for (const auto& verifier : verifiers) {
      EXPECT_TRUE(verifier->verify(draft).passed)
          << verifier->name() << ": " << verifier->verify(draft).reason;
    }
    draft.final_answer = answer;
    for (const auto& verifier : verifiers) {
      EXPECT_FALSE(verifier->verify(draft).passed) << verifier->name() << ": no answer line";
    }
  });
}

}  // namespace
}  // namespace retort::gate
