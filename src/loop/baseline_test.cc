// Oracle: how often the measurement was run.
#include "loop/baseline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/random_model.h"

namespace retort::loop {
namespace {

class BaseAnswers : public ::testing::Test {
 protected:
  void SetUp() override {
    const base::Path path = folder_ / "model.gguf";
    ASSERT_TRUE(base::create_directories(folder_));
    ASSERT_TRUE(engine::write_random_model(path, {.config = engine::tiny_config("llama")}));
    base::Team team(1);
    auto model = engine::Model::open(path, team);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<engine::Model>(*std::move(model));
    problems_.resize(2);
    problems_[0].prompt = "one", problems_[1].prompt = "two";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  base::Result<Evaluation> ask(const EvaluationOptions& options, const Judge& judge) {
    return base_answers(folder_ / "kept", *model_, problems_, judge, options, [&] {
      ++measured_;
      Evaluation evaluation{.answers = {{"a", true, engine::Finish::kEndOfTurn, 3},
                                        {"b", false, engine::Finish::kLength, 5}},
                            .seconds = 2};
      return base::Result<Evaluation>(evaluation);
    });
  }

  const base::Path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("retort-baseline-{}", getpid());
  std::unique_ptr<engine::Model> model_;
  std::vector<record::Draft> problems_;
  int measured_ = 0;
};

TEST_F(BaseAnswers, MeasuresOnceAndJudgesEachTime) {
  const Judge says_a = [](const record::Draft&, std::string_view text) { return text == "a"; };
  const Judge says_b = [](const record::Draft&, std::string_view text) { return text == "b"; };
  ASSERT_TRUE(ask({.max_tokens = 9}, says_a));
  const auto again = ask({.max_tokens = 9}, says_b);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(measured_, 1);
  EXPECT_FALSE(again->answers[0].correct);
  EXPECT_TRUE(again->answers[1].correct);
  EXPECT_EQ(again->answers[0].finish, engine::Finish::kEndOfTurn);
  EXPECT_EQ(again->answers[1].finish, engine::Finish::kLength);
  EXPECT_EQ(again->tokens(), 8);
  EXPECT_EQ(again->seconds, 2);
}

TEST_F(BaseAnswers, AnotherQuestionIsMeasuredAnew) {
  const Judge judge = [](const record::Draft&, std::string_view) { return true; };
  ASSERT_TRUE(ask({.max_tokens = 9}, judge));
  ASSERT_TRUE(ask({.max_tokens = 10}, judge));
  EXPECT_EQ(measured_, 2);
  const std::vector<record::Record> shots(1);
  ASSERT_TRUE(ask({.shots = shots, .max_tokens = 9}, judge));
  EXPECT_EQ(measured_, 3);
  problems_[1].prompt = "three";
  ASSERT_TRUE(ask({.max_tokens = 9}, judge));
  EXPECT_EQ(measured_, 4);
}

TEST_F(BaseAnswers, DamagedFilesAreReplaced) {
  const Judge judge = [](const record::Draft&, std::string_view) { return true; };
  ASSERT_TRUE(ask({}, judge));
  for (const char* damaged : {"", "{", R"({"seconds": 1, "answers": [{"text": "a"}]})",
                              R"({"seconds": 1, "answers": [1, 2]})",
                              R"({"seconds": 1, "answers": [{"text": "a", "tokens": 1}]})"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "kept")) {
      std::ofstream(file.path()) << damaged;
    }
    const int before = measured_;
    ASSERT_TRUE(ask({}, judge)) << damaged;
    EXPECT_EQ(measured_, before + 1) << damaged;
  }
  const int before = measured_;
  ASSERT_TRUE(ask({}, judge));
  EXPECT_EQ(measured_, before) << "the replaced file is whole";
}

}  // namespace
}  // namespace retort::loop
