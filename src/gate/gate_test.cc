// Oracles: the rules of the design, one by one; a tiny family whose right answers are known.
#include "gate/gate.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "record/testing.h"

namespace retort::gate {
namespace {

using record::Standing;

/// "double N": the answer is 2 N, whatever stands before it.
class Doubling final : public symbolic::Family {
 public:
  std::string_view name() const override { return "double"; }
  std::string_view description() const override { return "twice a number"; }
  int levels() const override { return 1; }
  symbolic::Problem sample(base::Rng& rng, symbolic::Split) const override {
    const uint64_t n = rng.below(1000);
    return {fmt::format("Double {}.", n), fmt::format("{0}+{0}", n), fmt::format("{}", 2 * n),
            fmt::format("double {}", n)};
  }
  std::vector<std::string> prompts(std::string_view canonical) const override {
    if (!canonical.starts_with("double ")) return {};
    return {fmt::format("Double {}.", canonical.substr(7))};
  }
  base::Result<symbolic::Check> check(std::string_view canonical,
                                      std::string_view text) const override {
    if (!canonical.starts_with("double ")) {
      return base::make_error(base::Code::kInvalidInput, "not a doubling problem");
    }
    const int n = std::atoi(canonical.substr(7).data());
    const bool correct = text.ends_with(fmt::format("Answer: {}", 2 * n));
    return symbolic::Check{correct, correct ? "" : fmt::format("should be {}", 2 * n)};
  }
};

const Doubling kDoubling;
const symbolic::Family* const kFamilies[] = {&kDoubling};

Gate make_gate(const GateOptions& options = {}, AnswerKey key = {}) {
  return Gate(all_verifiers(kFamilies, std::move(key)), options);
}

record::Draft right_draft() {
  record::Draft draft = record::make_record("Double 21.", "42").draft;
  draft.task = kDoubling.name();
  draft.canonical = fmt::format("double {}", 21);
  return draft;
}

std::string reason_of(const Outcome& outcome) {
  const auto* refusal = std::get_if<Refusal>(&outcome);
  return refusal == nullptr ? "passed" : refusal->verifier + ": " + refusal->reason;
}

TEST(Gate, VerifiesARightDraft) {
  Gate gate = make_gate();
  const Outcome outcome = gate.judge(right_draft());
  const auto* record = std::get_if<record::Record>(&outcome);
  ASSERT_NE(record, nullptr) << reason_of(outcome);
  EXPECT_EQ(record->standing, Standing::kVerified);
  ASSERT_EQ(record->verdicts.size(), 1u);
  EXPECT_EQ(record->verdicts[0].verifier, "symbolic");
  EXPECT_EQ(gate.counts().verified, 1);
}

TEST(Gate, RefusesEachFaultWithItsReason) {
  struct Fault {
    std::string record::Draft::*field;
    std::string content;
    std::string_view reason;
  };
  using record::Draft;
  const std::vector<Fault> faults = {
      {&Draft::final_answer, "43", "symbolic: should be 42"},
      {&Draft::final_answer, "", "gate: no answer"},
      {&Draft::final_answer, " \n", "gate: no answer"},
      {&Draft::reasoning_chain, "", "gate: no reasoning chain"},
      {&Draft::reasoning_chain, "\t", "gate: no reasoning chain"},
      {&Draft::prompt, " ", "gate: no prompt"},
      {&Draft::reasoning_chain, std::string(70'000, 'x'), "gate: too long: 700"},
      {&Draft::reasoning_chain, "\xff", "gate: the chain is not valid UTF-8"},
      {&Draft::prompt, std::string("a\0", 2), "gate: the prompt contains a NUL character"},
      {&Draft::source, "\xc3", "gate: the source is not valid UTF-8"},
      {&Draft::canonical, "triple 21", "gate: declared only"},
      {&Draft::canonical, "double 20", "gate: declared only"},  // another problem than the prompt's
      {&Draft::task, "unknown", "gate: declared only"},
      {&Draft::canonical, "", "gate: declared only"},
  };
  Gate gate = make_gate();
  for (const Fault& fault : faults) {
    record::Draft draft = right_draft();
    draft.*fault.field = fault.content;
    const std::string reason = reason_of(gate.judge(draft));
    EXPECT_EQ(reason.substr(0, fault.reason.size()), fault.reason);
  }
  EXPECT_EQ(gate.counts().refused, std::ssize(faults));
  EXPECT_EQ(gate.counts().refused_by.at("symbolic"), 1);
  EXPECT_EQ(gate.counts().verified, 0);
}

TEST(Gate, EveryVerifierThatAppliesHasToPass) {
  AnswerKey wrong;
  ASSERT_TRUE(wrong.add_canonical("double 21", {"41"}));
  Gate gate = make_gate({.trust = true}, std::move(wrong));
  EXPECT_EQ(reason_of(gate.judge(right_draft())), "answer: says 42, should be 41")
      << "trust does not excuse a failed check";

  AnswerKey key;
  ASSERT_TRUE(key.add_canonical("double 21", {"42.0", Match::kNumeric}));
  Gate both = make_gate({}, std::move(key));
  const Outcome outcome = both.judge(right_draft());
  EXPECT_EQ(std::get<record::Record>(outcome).verdicts.size(), 2u);
}

TEST(Gate, TrustIsExplicitAndCounted) {
  record::Record own = record::make_record("Name the cat.", "Tom");
  Gate strict = make_gate();
  EXPECT_NE(reason_of(strict.admit(own)).find("--trust"), std::string::npos);
  Gate trusting = make_gate({.trust = true});
  const Outcome outcome = trusting.admit(own);
  ASSERT_EQ(reason_of(outcome), "passed");
  EXPECT_EQ(std::get<record::Record>(outcome).standing, Standing::kDeclared);
  EXPECT_EQ(trusting.counts().trusted, 1);
  EXPECT_EQ(trusting.counts().verified, 0);
}

TEST(Gate, AStandingInAFileCountsForNothing) {
  record::Record forged = record::make_record("Name the cat.", "Tom");
  forged.standing = Standing::kVerified;
  forged.verdicts = {{"symbolic", true, ""}};
  Gate gate = make_gate({.trust = true});
  const auto admitted = std::get<record::Record>(gate.admit(forged));
  EXPECT_EQ(admitted.standing, Standing::kDeclared);
  EXPECT_TRUE(admitted.verdicts.empty());

  record::Record wrong;
  wrong.draft = right_draft();
  wrong.draft.final_answer = fmt::format("{}", 43);
  wrong.standing = Standing::kVerified;
  wrong.verdicts = {{"symbolic", true, ""}};
  EXPECT_EQ(reason_of(gate.admit(wrong)), "symbolic: should be 42");
}

TEST(Gate, ARecordThatChecksIsVerifiedWithoutAChain) {
  record::Record record;
  record.draft = right_draft();
  record.draft.reasoning_chain.clear();
  Gate gate = make_gate();
  const Outcome outcome = gate.admit(record);
  ASSERT_EQ(reason_of(outcome), "passed");
  EXPECT_EQ(std::get<record::Record>(outcome).standing, Standing::kVerified);
}

}  // namespace
}  // namespace retort::gate
