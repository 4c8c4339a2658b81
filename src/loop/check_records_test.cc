// Oracle: files written here, line by line, whose fate is known; the answers come from the family's
// own solver.
#include "loop/check_records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "symbolic/family.h"

namespace retort::loop {
namespace {

class CheckRecords : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  base::Path write(const std::string& name, const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const base::Path path = folder_ / name;
    EXPECT_TRUE(base::write_file_atomic(path, text));
    return path;
  }

  /// A record of a real problem, under its right answer or another one.
  static std::string line(uint64_t seed, bool right) {
    const symbolic::Family* family = symbolic::find_family("euclid");
    base::Rng rng(seed);
    const symbolic::Problem problem = family->sample(rng, symbolic::Split::kTrain);
    return base::dump_json({{"prompt", problem.prompt},
                            {"reasoning_chain", problem.chain},
                            {"final_answer", right ? problem.answer : "none of this"},
                            {"task", "euclid"},
                            {"canonical", problem.canonical}});
  }

  const base::Path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("retort-check-{}", ::getpid());
};

constexpr const char* kDeclared =
    R"({"prompt": "Hello?", "reasoning_chain": "So.", "final_answer": "Hi"})";

TEST_F(CheckRecords, NamesLineAndReasonOfEachRefusal) {
  const base::Path path = write("a.jsonl", {line(1, true), line(2, false), "{", kDeclared,
                                            line(1, true), R"({"prompt": ""})"});
  const auto files = check_records(std::span(&path, 1));
  ASSERT_TRUE(files) << files.error().message;
  const CheckedFile& file = files->front();
  EXPECT_EQ(file.lines, 6);
  EXPECT_EQ(file.passed(), 2);
  EXPECT_EQ(file.refused, 4);
  EXPECT_EQ(file.duplicates, 1);
  EXPECT_EQ(file.standings, (std::map<std::string, int64_t>{{"declared", 1}, {"verified", 1}}));
  std::vector<int64_t> lines;
  for (const auto& refusal : file.refusals) lines.push_back(refusal.line);
  EXPECT_EQ(lines, (std::vector<int64_t>{2, 3, 5, 6}));
  EXPECT_TRUE(file.refusals[0].reason.starts_with("symbolic: ")) << file.refusals[0].reason;
  EXPECT_EQ(file.refusals[2].reason, "duplicate of line 1");
  const std::string text = to_text(file);
  EXPECT_NE(text.find(fmt::format("{}:2: symbolic: ", path.string())), std::string::npos) << text;
  EXPECT_EQ(to_json(file)["refusals"].size(), 4u);
}

TEST_F(CheckRecords, KnowsCopiesInOtherFiles) {
  const std::vector<base::Path> paths = {write("a.jsonl", {line(1, true)}),
                                         write("b.jsonl", {line(3, true), line(1, true)})};
  const auto files = check_records(paths);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ((*files)[0].refused, 0);
  ASSERT_EQ((*files)[1].refused, 1);
  EXPECT_EQ((*files)[1].duplicates, 1);
  EXPECT_EQ((*files)[1].refusals[0].reason, fmt::format("duplicate of {}:1", paths[0].string()));
}

TEST_F(CheckRecords, FailsOnlyWhereAFileCannotBeRead) {
  const base::Path missing = folder_ / "none.jsonl";
  EXPECT_EQ(check_records(std::span(&missing, 1)).error().code, base::Code::kNotFound);
}

}  // namespace
}  // namespace retort::loop
