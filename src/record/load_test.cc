// Oracle: a corpus of bad lines, each with the reason that a person should read.
#include "record/load.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "record/testing.h"

namespace retort::record {
namespace {

const std::string kGood = R"({"prompt": "p", "reasoning_chain": "c", "final_answer": "a"})";

std::string good(int i) {
  return fmt::format(R"({{"prompt": "good {}", "reasoning_chain": "c", "final_answer": "a"}})", i);
}

struct Bad {
  std::string line;
  std::string reason;  // a part of it
};

std::string over_long() {
  return R"({"prompt": "p", "final_answer": ")" + std::string(limits::kRecordLineBytesMax, 'x') +
         "\"}";
}

std::string damaged() {
  std::string line = to_line(make_record("p", "4"));
  line.pop_back();
  return line.replace(line.find("think"), 5, "THINK");
}

const std::vector<Bad>& corpus() {
  static const std::vector<Bad> kCorpus = {
      {"", "the line is blank"},
      {" \t ", "the line is blank"},
      {"\u3000", "the line is blank"},
      {R"({"prompt": "", "final_answer": "a"})", "\"prompt\" is empty"},
      {R"({"prompt": " \n\t", "final_answer": "a"})", "\"prompt\" is empty"},
      {R"({"prompt": "\u00a0\u3000", "final_answer": "a"})", "\"prompt\" is empty"},
      {R"({"final_answer": "a"})", "\"prompt\" is missing"},
      {R"({"prompt": null, "final_answer": "a"})", "\"prompt\" should be a string, but is null"},
      {R"({"prompt": 7, "final_answer": "a"})", "\"prompt\" should be a string, but is number"},
      {R"({"prompt": "p"})", "\"final_answer\" is missing"},
      {R"({"prompt": "p", "final_answer": null})", "should be a string, but is null"},
      {R"({"prompt": "p", "final_answer": ""})", "\"final_answer\" is empty"},
      {R"({"prompt": "p", "final_answer": "  "})", "\"final_answer\" is empty"},
      {R"({"prompt": "p", "final_code": "\n"})", "\"final_code\" is empty"},
      {R"({"prompt": "p", "final_answer": ["a"]})", "should be a string, but is array"},
      {R"({"prompt": "p", "final_answer": "a", "final_code": "b"})", "both \"final_answer\" and"},
      {R"({"prompt": "p", "reasoning_chain": null, "final_answer": "a"})", "\"reasoning_chain\""},
      {R"({"prompt": "p", "reasoning_chain": " ", "final_answer": "a"})",
       "\"reasoning_chain\" is empty"},
      {R"({"prompt": "p\u0000q", "final_answer": "a"})", "NUL character"},
      {R"({"prompt": "p", "final_answer": "a", "task": "x\u0000"})", "NUL character"},
      {std::string("{\"prompt\": \"p\0\", \"final_answer\": \"a\"}", 35), "NUL byte"},
      {std::string(64, '\0'), "NUL byte"},
      {"{\"prompt\": \"\xff\", \"final_answer\": \"a\"}", "not valid UTF-8"},
      {"{\"prompt\": \"\xc3\", \"final_answer\": \"a\"}", "not valid UTF-8"},
      {"{\"prompt\": \"\xed\xa0\x80\", \"final_answer\": \"a\"}", "not valid UTF-8"},
      {"{\"prompt\": \"\xc0\xaf\", \"final_answer\": \"a\"}", "not valid UTF-8"},
      {R"({"prompt": "\ud800", "final_answer": "a"})", "surrogate"},
      {R"({"prompt": "p", "final_answer": "\udc00 x"})", "surrogate"},
      {R"({"prompt": "p", "final_answer": "a")", "not valid JSON"},
      {R"({"prompt": "p", "final_answer": "a"}})", "not valid JSON"},
      {R"({"prompt": 'p', "final_answer": "a"})", "not valid JSON"},
      {R"({"prompt": "p", "final_answer": "a", "prompt": "q"})", "twice"},
      {"GGUF\x03", "not valid JSON"},
      {"[\"p\", \"a\"]", "expected a JSON object, found array"},
      {"\"text\"", "expected a JSON object, found string"},
      {"17", "expected a JSON object, found number"},
      {"null", "expected a JSON object, found null"},
      {over_long(), "bytes; at most 4194304"},
      {good(0), "duplicate of line 1"},
      {R"({"prompt": "p", "final_answer": "a", "standing": "certain"})", "but is \"certain\""},
      {R"({"prompt": "p", "final_answer": "a", "standing": 1})", "\"standing\" should be a string"},
      {R"({"prompt": "p", "final_answer": "a", "level": -2})", "\"level\""},
      {R"({"prompt": "p", "final_answer": "a", "level": 1e300})", "\"level\" should be an integer"},
      {R"({"prompt": "p", "final_answer": "a", "verdicts": {}})",
       "\"verdicts\" should be an array"},
      {R"({"prompt": "p", "final_answer": "a", "verdicts": [3]})",
       "\"verdicts\": expected an object"},
      {R"({"prompt": "p", "final_answer": "a", "verdicts": [{"verifier": "v", "passed": 1}]})",
       "\"passed\" should be true or false"},
      {R"({"prompt": "p", "final_answer": "a", "verdicts": )"
       R"([{"verifier": "v", "passed": false, "reason": "r"}]})",
       "verifier \"v\" did not pass it: r"},
      {R"({"messages": "hello"})", "\"messages\" should be an array"},
      {R"({"messages": []})", "but are []"},
      {R"({"messages": [{"role": "user", "content": "p"}]})", "but are [user]"},
      {R"({"messages": [{"role": "user", "content": "p"}, )"
       R"({"role": "assistant", "content": null}]})",
       "\"content\" should be a string, but is null"},
      {R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "p"}]})",
       "but are [assistant user]"},
      {R"({"messages": [{"content": "p"}]})", "\"role\" is missing"},
      {R"({"messages": [7]})", "expected an object"},
      {R"({"messages": [], "prompt": "p"})", "both \"messages\" and \"prompt\""},
      {damaged(), "checksum does not match"},
  };
  return kCorpus;
}

TEST(Load, RefusesEachBadLineWithItsNumberAndLoadsTheRest) {
  std::string text;
  for (size_t i = 0; i < corpus().size(); ++i) {
    text += good(static_cast<int>(i)) + "\n" + corpus()[i].line + "\n";
  }
  const Loaded loaded = parse_records(text, "corpus").value();
  EXPECT_EQ(loaded.lines, 2 * std::ssize(corpus()));
  EXPECT_EQ(loaded.records.size(), corpus().size());
  EXPECT_EQ(loaded.refused, std::ssize(corpus()));
  ASSERT_EQ(loaded.refusals.size(), corpus().size());
  for (size_t i = 0; i < corpus().size(); ++i) {
    EXPECT_EQ(loaded.refusals[i].line, 2 * static_cast<int64_t>(i) + 2);
    EXPECT_NE(loaded.refusals[i].reason.find(corpus()[i].reason), std::string::npos)
        << loaded.refusals[i].reason << "\nwanted: " << corpus()[i].reason;
  }
}

TEST(Load, ToleratesByteOrderMarkAndCrLf) {
  const std::string text = "\xef\xbb\xbf" + good(1) + "\r\n" + good(2) + "\r\n" + good(3);
  const Loaded loaded = parse_records(text, "dos.jsonl").value();
  EXPECT_EQ(loaded.refused, 0);
  ASSERT_EQ(loaded.records.size(), 3u);
  EXPECT_EQ(loaded.records[0].draft.prompt, "good 1");
  EXPECT_EQ(loaded.records[1].draft.final_answer, "a");
  EXPECT_EQ(loaded.records[2].draft.source, "dos.jsonl:3");
}

TEST(Load, AByteOrderMarkDoesNotHideDamage) {
  const std::string line = to_line(make_record("p", "4"));
  EXPECT_EQ(parse_records("\xef\xbb\xbf" + line, "log").value().records.size(), 1u);
  EXPECT_EQ(parse_records("\xef\xbb\xbf" + damaged(), "log").value().refused, 1);
}

TEST(Load, UserKeysNamedLikeOursDoNotMatter) {
  const std::string text =
      R"({"id": 17, "prompt": "p", "final_answer": "a", "sum": 5, "tokens": [1, 2]})"
      "\n"
      R"({"prompt": "q", "final_answer": "a", "sum": "0123456789abcdef"})";
  EXPECT_EQ(parse_records(text, "user").value().records.size(), 2u);
}

TEST(Load, AnyChangedByteOfALogLineIsNoticed) {
  const std::string line = to_line(make_record("What is 2 + 2?", "4"));
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    std::string changed = line;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    const Loaded loaded = parse_records(changed, "log").value();
    const size_t sum = line.rfind(",\"sum\"");
    // Damage to the key itself leaves a line without a sum: an ordinary, intact record.
    const bool in_key = i > sum + 1 && i < sum + 5;
    EXPECT_EQ(loaded.refused, in_key ? 0 : 1) << i << " " << changed;
  }
}

TEST(Load, KeepsABoundedNumberOfRefusals) {
  const std::string text(static_cast<size_t>(limits::kRecordRefusalsKept + 5), '\n');
  const Loaded loaded = parse_records(text, "blank").value();
  EXPECT_EQ(loaded.refused, limits::kRecordRefusalsKept + 5);
  EXPECT_EQ(std::ssize(loaded.refusals), limits::kRecordRefusalsKept);
}

TEST(Load, NamesTheFileThatCannotBeRead) {
  const base::Path folder = temporary_folder("load");
  const auto missing = load_records(folder / "none.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::Code::kNotFound);
  EXPECT_NE(missing.error().message.find("none.jsonl"), std::string::npos);
  EXPECT_FALSE(load_records(folder));
  EXPECT_FALSE(load_records("/dev/zero"));
  ASSERT_TRUE(base::write_file_atomic(folder / "array.json", "[\n" + kGood + "\n]\n"));
  const auto array = load_records(folder / "array.json");
  ASSERT_FALSE(array);
  EXPECT_NE(array.error().message.find("one object a line"), std::string::npos);
  ASSERT_TRUE(base::write_file_atomic(folder / "empty.jsonl", ""));
  EXPECT_EQ(load_records(folder / "empty.jsonl").value().lines, 0);
}

TEST(Load, AFileLargerThanTheLimitIsRefusedUnread) {
  const base::Path path = temporary_folder("large") / "large.jsonl";
  ASSERT_TRUE(base::write_file_atomic(path, "x"));
  std::filesystem::resize_file(path, limits::kRecordFileBytesMax + 1);  // sparse
  const auto large = load_records(path);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, base::Code::kLimit);
}

TEST(Load, WrittenRecordsLoadTheSame) {
  const base::Path path = temporary_folder("write") / "records.jsonl";
  std::vector<Record> records = {make_record("a", "1"), make_record("b", "2")};
  records[1].draft.form = Form::kCode;
  ASSERT_TRUE(write_records(path, records));
  const Loaded loaded = load_records(path).value();
  ASSERT_EQ(loaded.records.size(), 2u);
  EXPECT_EQ(to_line(loaded.records[0]), to_line(records[0]));
  EXPECT_EQ(to_line(loaded.records[1]), to_line(records[1]));
}

}  // namespace
}  // namespace retort::record
