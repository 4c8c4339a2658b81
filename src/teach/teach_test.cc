// Oracles: a family with a known number of problems, a log beside the result, and every family of
// the list asked twice.
#include <gtest/gtest.h>

#include <set>

#include "base/limits.h"
#include "record/load.h"
#include "record/testing.h"
#include "teach/collect.h"

namespace retort::teach {
namespace {

using symbolic::Split;

/// Ten problems, "number 0" to "number 9", all of them in every split. Number 3 is solved wrongly.
class Ten final : public symbolic::Family {
 public:
  std::string_view name() const override { return "ten"; }
  std::string_view description() const override { return "ten numbers"; }
  int levels() const override { return 1; }
  symbolic::Problem sample(base::Rng& rng, Split split) const override {
    const uint64_t n = rng.below(10);
    const std::string ask = split == Split::kTrain ? "Which number is {}?" : "Say {}.";
    return {fmt::format(fmt::runtime(ask), n), "it is written", fmt::format("{}", n == 3 ? 4 : n),
            fmt::format("number {}", n)};
  }
  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::string_view n = canonical.substr(canonical.size() - 1);
    return {fmt::format("Which number is {}?", n), fmt::format("Say {}.", n)};
  }
  base::Result<symbolic::Check> check(std::string_view canonical,
                                      std::string_view text) const override {
    const bool correct = text.back() == canonical.back();
    return symbolic::Check{correct, correct ? "" : "another number"};
  }
};

const Ten kTen;
const symbolic::Family* const kFamilies[] = {&kTen};

gate::Gate make_gate() { return gate::Gate(gate::all_verifiers(kFamilies)); }

std::set<std::string> canonicals(const std::vector<record::Record>& records) {
  std::set<std::string> canonicals;
  for (const auto& record : records) canonicals.insert(record.draft.canonical);
  return canonicals;
}

TEST(SymbolicTeacher, TheSourceSaysHowToMakeADraftAgain) {
  const auto teacher = make_symbolic_teacher(kTen);
  Budget budget;
  const Task task{"ten", "", 7, 12, Split::kHeldOut};
  const record::Draft draft = teacher->ask(task, budget).value();
  EXPECT_EQ(draft.source, "symbolic:ten seed=7 index=12 split=held-out");
  EXPECT_EQ(draft.teacher, "symbolic:ten");
  EXPECT_EQ(draft.task, "ten");
  EXPECT_EQ(draft.level, 0);
}

TEST(SymbolicTeacher, IsDeterministicForEveryFamily) {
  for (const symbolic::Family* family : symbolic::all_families()) {
    const auto teacher = make_symbolic_teacher(*family);
    const auto again = make_symbolic_teacher(*family);
    Budget budget;
    for (const Split split : {Split::kTrain, Split::kHeldOut, Split::kExtrapolation}) {
      std::set<std::string> prompts;
      for (uint64_t index = 0; index < 20; ++index) {
        const Task task{std::string(family->name()), "", 3, index, split};
        const record::Draft a = teacher->ask(task, budget).value();
        const record::Draft b = again->ask(task, budget).value();
        EXPECT_EQ(a.prompt, b.prompt);
        EXPECT_EQ(a.completion(), b.completion());
        EXPECT_EQ(a.source, b.source);
        prompts.insert(a.prompt);
      }
      EXPECT_GT(prompts.size(), 10u) << family->name();
    }
  }
}

TEST(SymbolicTeacher, SplitsDrawFromStreamsOfTheirOwn) {
  for (const symbolic::Family* family : symbolic::all_families()) {
    const auto teacher = make_symbolic_teacher(*family);
    Budget budget;
    int same = 0;
    for (uint64_t index = 0; index < 100; ++index) {
      const auto train = teacher->ask({"", "", 3, index, Split::kTrain}, budget).value();
      const auto held_out = teacher->ask({"", "", 3, index, Split::kHeldOut}, budget).value();
      same += train.canonical == held_out.canonical;
    }
    EXPECT_LT(same, 20) << family->name();
  }
}

TEST(SymbolicTeacher, StopsAtItsBudget) {
  const auto teacher = make_symbolic_teacher(kTen);
  Budget budget{.calls = 2};
  EXPECT_TRUE(teacher->ask({}, budget));
  EXPECT_TRUE(teacher->ask({}, budget));
  EXPECT_EQ(teacher->ask({}, budget).error().code, base::Code::kLimit);
}

TEST(Collect, GivesDistinctVerifiedRecordsAndExcludesThem) {
  const auto teacher = make_symbolic_teacher(kTen);
  gate::Gate gate = make_gate();
  record::TwinSet seen;
  const auto train = collect(*teacher, gate, seen, {.task = "ten", .n = 5}).value();
  EXPECT_EQ(canonicals(train.records).size(), 5u);
  EXPECT_EQ(train.asked, 5 + train.twins + train.refused);
  EXPECT_EQ(train.next_index, static_cast<uint64_t>(train.asked));
  for (const auto& record : train.records) {
    EXPECT_EQ(record.standing, record::Standing::kVerified);
  }
  const auto held_out =
      collect(*teacher, gate, seen, {.task = "ten", .n = 4, .split = Split::kHeldOut}).value();
  EXPECT_EQ(record::overlap(train.records, held_out.records).total(), 0);
  EXPECT_EQ(gate.counts().verified, 9);
}

TEST(Collect, IsDeterministicInTheSeed) {
  const auto with_seed = [](uint64_t seed) {
    const auto teacher = make_symbolic_teacher(kTen);
    gate::Gate gate = make_gate();
    record::TwinSet seen;
    std::string lines;
    const CollectOptions options{.task = "ten", .n = 6, .seed = seed};
    const Collected collected = collect(*teacher, gate, seen, options).value();
    for (const auto& record : collected.records) {
      lines += record::to_line(record);
    }
    return lines;
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST(Collect, SaysSoWhenThereAreNotEnoughProblems) {
  const auto teacher = make_symbolic_teacher(kTen);
  gate::Gate gate = make_gate();
  record::TwinSet seen;
  const auto few = collect(*teacher, gate, seen, {.task = "ten", .n = 10});
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, base::Code::kLimit);
  EXPECT_NE(few.error().message.find("9 distinct records of the 10 wanted"), std::string::npos)
      << few.error().message;
  EXPECT_NE(few.error().message.find("another number"), std::string::npos)
      << "the refusal of number 3 is part of the story";
  EXPECT_LE(gate.counts().refused, limits::kTeacherStaleAsksMax * 2);
}

TEST(Collect, TheLogKeepsWhatWasMadeBeforeItStopped) {
  const base::Path path = record::temporary_folder("collect") / "records.jsonl";
  const auto teacher = make_symbolic_teacher(kTen);
  gate::Gate gate = make_gate();
  record::TwinSet seen;
  record::RecordLog log = record::RecordLog::open(path).value();
  CollectOptions options{.task = "ten", .n = 10};
  options.log = &log;
  ASSERT_FALSE(collect(*teacher, gate, seen, options));
  EXPECT_EQ(canonicals(record::load_records(path).value().records).size(), 9u);
}

TEST(Collect, StopsWhenToldTo) {
  const auto teacher = make_symbolic_teacher(kTen);
  gate::Gate gate = make_gate();
  record::TwinSet seen;
  const std::atomic<bool> cancel{true};
  CollectOptions options{.task = "ten", .n = 5};
  options.cancel = &cancel;
  EXPECT_EQ(collect(*teacher, gate, seen, options).error().code, base::Code::kCancelled);
}

TEST(Collect, PassesOnTheBudgetsEnd) {
  const auto teacher = make_symbolic_teacher(kTen);
  gate::Gate gate = make_gate();
  record::TwinSet seen;
  const auto ended = collect(*teacher, gate, seen, {.task = "ten", .n = 5, .budget = {.calls = 3}});
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message.find("no calls left"), std::string::npos);
}

TEST(Collect, EveryFamilyPassesItsOwnGate) {
  for (const symbolic::Family* family : symbolic::all_families()) {
    const auto teacher = make_symbolic_teacher(*family);
    gate::Gate gate(gate::all_verifiers(symbolic::all_families()));
    record::TwinSet seen;
    for (const Split split : {Split::kTrain, Split::kHeldOut, Split::kExtrapolation}) {
      const auto made = collect(*teacher, gate, seen,
                                {.task = std::string(family->name()), .n = 100, .split = split});
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(made->refused, 0) << family->name();
    }
    EXPECT_EQ(gate.counts().verified, 300);
  }
}

}  // namespace
}  // namespace retort::teach
