// Oracles: the page that describes the format, values worked out by hand, and the round trip.
#include "record/record.h"

#include <gtest/gtest.h>

#include "record/stats.h"
#include "record/testing.h"
#include "record/text.h"

namespace retort::record {
namespace {

Record parse(const std::string& text) {
  auto record = record_from_json(base::parse_json(text).value());
  EXPECT_TRUE(record) << (record ? "" : record.error().message);
  return record.value_or(Record{});
}

TEST(Fold, IgnoresCaseAndWhiteSpace) {
  EXPECT_EQ(fold("  What IS\t\n 2 +\u00a02? "), "what is 2 + 2?");
  EXPECT_EQ(fold("\u00dcBER \u00c9t\u00c9 \u0391\u03a9 \u041f\u0420\u0418"),
            "\u00fcber \u00e9t\u00e9 \u03b1\u03c9 \u043f\u0440\u0438");
  EXPECT_EQ(fold("\u0160koda \u0141\u00d3D\u0179 \u0178"), "\u0161koda \u0142\u00f3d\u017a \u0178");
  EXPECT_EQ(fold("\U0001f600 \u6f22\u5b57"), "\U0001f600 \u6f22\u5b57");
  EXPECT_EQ(fold("3 \u00d7 4"), "3 \u00d7 4") << "the multiplication sign lies among capitals";
  EXPECT_EQ(fold("a\xff\xc3"), "a\xff\xc3") << "malformed bytes stay";
  EXPECT_TRUE(is_blank(" \u3000\n\ufeff"));
  EXPECT_FALSE(is_blank(" . "));
  EXPECT_TRUE(is_blank(""));
}

TEST(Record, TheThreeKeysAreEnough) {
  const Record record =
      parse(R"({"prompt": "2+2?", "reasoning_chain": "2+2 = 4", "final_answer": "4"})");
  EXPECT_EQ(record.completion(), "2+2 = 4\nAnswer: 4");
  EXPECT_EQ(record.standing, Standing::kDeclared);
  EXPECT_EQ(record.group(), "2+2?");
  EXPECT_EQ(record.id().size(), 32u);
}

TEST(Record, WithoutAChainTheAnswerLineStandsAlone) {
  EXPECT_EQ(parse(R"({"prompt": "2+2?", "final_answer": "4"})").completion(), "Answer: 4");
}

TEST(Record, CodeStaysCode) {
  const Record record =
      parse(R"({"prompt": "f", "reasoning_chain": "c", "final_code": "def f():\n  return 1"})");
  EXPECT_EQ(record.completion(), "c\nAnswer: def f():\n  return 1");
  const base::Json json = to_json(record);
  EXPECT_EQ(json.at("final_code"), "def f():\n  return 1");
  EXPECT_FALSE(json.contains("final_answer"));
}

TEST(Record, ChatTurnsLoadAndTheSystemTurnComesFirst) {
  const Record record = parse(
      R"({"messages": [{"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "2+2?"},
          {"role": "assistant", "content": "It is 4."}]})");
  EXPECT_EQ(record.draft.prompt, "Be brief.\n\n2+2?");
  EXPECT_EQ(record.completion(), "It is 4.");
  const Record again = record_from_json(to_json(record)).value();
  EXPECT_EQ(again.id(), record.id());
  EXPECT_EQ(again.completion(), "It is 4.");
}

TEST(Record, RoundTripKeepsEverything) {
  Record record = make_record(
      "caf\u00e9 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u6f22\u5b57 e\u0301", "\"4\"\n\\");
  record.draft.canonical = "sum 2 2";
  record.draft.level = 3;
  record.standing = Standing::kVerified;
  record.verdicts = {{"symbolic", true, ""}, {"answer", true, "within 1e-9"}};
  const auto json = base::parse_json(base::dump_json(to_json(record))).value();
  const Record again = record_from_json(json).value();
  EXPECT_EQ(to_json(again), to_json(record));
  EXPECT_EQ(again.draft.prompt, record.draft.prompt);
  EXPECT_EQ(again.draft.final_answer, record.draft.final_answer);
  EXPECT_EQ(again.draft.level, 3);
  EXPECT_EQ(again.standing, Standing::kVerified);
  ASSERT_EQ(again.verdicts.size(), 2u);
  EXPECT_EQ(again.verdicts[1].reason, "within 1e-9");
  EXPECT_EQ(again.group(), "sum 2 2");
}

TEST(Record, AStandingNeedsAVerdict) {
  EXPECT_EQ(parse(R"({"prompt": "p", "final_answer": "a", "standing": "verified"})").standing,
            Standing::kDeclared);
  EXPECT_EQ(parse(R"({"prompt": "p", "final_answer": "a", "standing": "agreed",
                      "verdicts": [{"verifier": "agreement", "passed": true}]})")
                .standing,
            Standing::kAgreed);
}

TEST(Record, TheIdCoversPromptAndCompletionOnly) {
  const Record record = make_record("ab", "c");
  Record other = record;
  other.draft.teacher = "someone else";
  other.standing = Standing::kVerified;
  EXPECT_EQ(other.id(), record.id());
  other.draft.final_answer = "d";
  EXPECT_NE(other.id(), record.id());
  Record shifted = record;  // the same bytes in a row, cut elsewhere
  shifted.draft.form = Form::kMessages;
  shifted.draft.prompt = "a";
  shifted.draft.final_answer = "b" + record.completion();
  EXPECT_NE(shifted.id(), record.id());
}

TEST(Stats, CountsAndLengths) {
  std::vector<Record> records;
  for (int i = 1; i <= 20; ++i) records.push_back(make_record(std::string(i, 'p'), "a"));
  records[0].draft.task = "";
  records[1].draft.level = 2;
  records[2].draft.prompt = "PP";  // a twin of records[1]
  records[3].standing = Standing::kVerified;
  const Stats stats = stats_of(records);
  EXPECT_EQ(stats.records, 20);
  EXPECT_EQ(stats.groups, 19);
  EXPECT_EQ(stats.by_task.at("sum"), 19);
  EXPECT_EQ(stats.by_task.at("(none)"), 1);
  EXPECT_EQ(stats.by_level.at("2"), 1);
  EXPECT_EQ(stats.by_standing.at("verified"), 1);
  EXPECT_EQ(stats.by_standing.at("declared"), 19);
  EXPECT_EQ(stats.prompt.min, 1);
  EXPECT_EQ(stats.prompt.p50, 10);
  EXPECT_EQ(stats.prompt.p95, 19);
  EXPECT_EQ(stats.prompt.max, 20);
  EXPECT_NEAR(stats.prompt.mean, (210.0 - 1) / 20, 1e-12);
  EXPECT_EQ(to_json(stats).at("by_teacher").at("test"), 20);
  EXPECT_NE(to_text(stats).find("verified 1"), std::string::npos);
  EXPECT_EQ(stats_of({}).prompt.max, 0);
}

}  // namespace
}  // namespace retort::record
