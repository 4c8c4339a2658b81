// Oracle: libllama on the same file. Both round activations to 8 bits in their own way, so logits
// are compared by root mean square, and tokens only where libllama's choice is clear.
#include <gtest/gtest.h>

#include "app/bench/agreement.h"
#include "app/bench/fixed_text.h"
#include "engine/sampler.h"

namespace retort::app {
namespace {

constexpr int64_t kContext = 256;

class EnginePeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const base::Path path = base::cache_directory() / "models/smollm2-135m-instruct-q4_1.gguf";
    ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing; run scripts/setup";
    auto model = engine::Model::open(path, team_);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<engine::Model>(*std::move(model));
    executor_ = std::make_unique<engine::Executor>(
        *model_, team_, engine::Executor::Options{.rows_max = 64, .context_max = kContext});
    ours_ = std::make_unique<Sequence>(*executor_, kContext);
    auto peer = LlamaPeer::open(path, {.threads = team_.size(), .context = kContext, .batch = 64});
    ASSERT_TRUE(peer) << peer.error().message;
    peer_ = *std::move(peer);
  }

  base::Team team_{base::Team::default_threads()};
  std::unique_ptr<engine::Model> model_;
  std::unique_ptr<engine::Executor> executor_;
  std::unique_ptr<Sequence> ours_;
  std::unique_ptr<LlamaPeer> peer_;
};

TEST_F(EnginePeer, LogitsAgreeOverAPromptAndSingleTokens) {
  Agreement agreement;
  const auto tokens = fixed_text(model_->vocabulary(), 72, 0);
  const auto compared = compare_logits(tokens, 64, *ours_, *peer_, nullptr, agreement);
  ASSERT_TRUE(compared) << compared.error().message;
  EXPECT_EQ(agreement.positions, 72);
  EXPECT_GT(agreement.clear, 36);
  EXPECT_EQ(agreement.disagreements, 0);
  RecordProperty("rms", std::to_string(agreement.rms_between()));
  EXPECT_LT(agreement.rms_between(), 0.1 * agreement.deviation())
      << agreement.rms_between() << " of " << agreement.deviation();
  EXPECT_GT(agreement.rms_between(), 0);  // equal bits would mean one engine compared with itself
}

TEST_F(EnginePeer, GreedyTextIsTheSameWhileTheChoiceIsClear) {
  const engine::Message message{"user", "Count from one to twelve in digits, separated by commas."};
  auto chat = model_->vocabulary().encode_chat({&message, 1}, true);
  ASSERT_TRUE(chat) << chat.error().message;
  std::vector<engine::Token> piece = chat->tokens;
  std::string ours_text, peer_text;
  for (int i = 0; i < 32; ++i) {
    const engine::Token ours = engine::argmax(ours_->eval(piece));
    const auto logits = peer_->eval(piece);
    ASSERT_TRUE(logits) << logits.error().message;
    const engine::Token theirs = engine::argmax(*logits);
    if (model_->vocabulary().is_end_of_generation(theirs)) break;
    ours_text += model_->vocabulary().piece(ours);
    peer_text += model_->vocabulary().piece(theirs);
    piece = {theirs};
  }
  EXPECT_EQ(ours_text, peer_text);
  EXPECT_GT(peer_text.size(), 10u);
}

}  // namespace
}  // namespace retort::app
