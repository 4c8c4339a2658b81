// Oracle: the allocator. After warm-up, steps of sessions under changing mixtures allocate nothing,
// on any lane; and the counter sees an allocation where there is one.
#include <gtest/gtest.h>

#include "adapter/slot.h"
#include "app/bench/allocations.h"
#include "app/bench/random_adapter.h"
#include "app/bench/temporary.h"
#include "engine/batcher.h"
#include "engine/random_model.h"

namespace retort::app {
namespace {

TEST(Allocations, AreCountedOnWatchedThreadsOnly) {
  base::Team team(2);
  const auto allocate = [](base::Lane) {
    auto* volatile kept = new std::vector<int>(100);
    delete kept;
  };
  const uint64_t before = watched_allocations();
  team.run(allocate);
  EXPECT_EQ(watched_allocations(), before);
  team.run([](base::Lane) { watch_allocations(true); });
  team.run(allocate);
  team.run([](base::Lane) { watch_allocations(false); });
  EXPECT_EQ(watched_allocations(), before + 4);  // an object and its array, on two lanes
  team.run(allocate);
  EXPECT_EQ(watched_allocations(), before + 4);
}

class TokenPath : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::create(0);
    ASSERT_TRUE(folder) << folder.error().message;
    const base::Path path = folder->path() / "tiny.gguf";
    const auto written = engine::write_random_model(path, {.config = engine::tiny_config("llama")});
    ASSERT_TRUE(written) << written.error().message;
    auto model = engine::Model::open(path, team_);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<engine::Model>(*std::move(model));
    const auto base = adapter::SlotBase::of(model_->config(), model_->fingerprint());
    for (const uint64_t seed : {1, 2}) {
      auto slot = adapter::SlotImage::parse(random_slot(base, seed).span(), base);
      ASSERT_TRUE(slot) << slot.error().message;
      slots_.push_back(std::make_unique<adapter::SlotImage>(*std::move(slot)));
    }
  }

  base::Team team_{2};
  std::unique_ptr<engine::Model> model_;
  std::vector<std::unique_ptr<adapter::SlotImage>> slots_;
};

TEST_F(TokenPath, AllocatesAndGrowsNothingAfterWarmUp) {
  engine::Executor executor(*model_, team_, {.rows_max = 64, .context_max = 512});
  engine::Batcher batcher(executor, {.sessions_max = 2, .context = 512});
  engine::Mix blend(slots_[0]->view());
  blend.add(slots_[1]->view(), 0.5f);
  const engine::Mix mixes[] = {engine::Mix(slots_[0]->view()), engine::Mix(slots_[1]->view()),
                               blend};
  std::vector<engine::Session*> sessions;
  const auto admit = [&] {
    for (engine::Session* session : sessions) batcher.release(session);
    sessions.clear();
    for (const engine::Token first : {5, 9}) {
      sessions.push_back(
          batcher.add({.prompt = {first, 7, 8}, .max_tokens = 400, .mix = &blend}).value());
    }
  };
  const auto step = [&](int i) {
    for (size_t s = 0; s < 2; ++s) sessions[s]->rebind(&mixes[(static_cast<size_t>(i) + s) % 3]);
    return batcher.step();
  };
  for (int i = 0; i < 3; ++i) {  // prompts and single tokens under every pair of mixtures
    admit();
    ASSERT_TRUE(step(i));
    ASSERT_TRUE(step(i));
  }
  team_.run([](base::Lane) { watch_allocations(true); });
  const int64_t growths = executor.growths();
  uint64_t allocations = 0;
  int steps = 0;
  for (int i = 0; i < 300; ++i) {
    const uint64_t before = watched_allocations();
    const bool stepped = step(i);
    allocations += watched_allocations() - before;
    steps += stepped;
    if (!stepped) admit();  // a random model may end its turn
  }
  team_.run([](base::Lane) { watch_allocations(false); });
  EXPECT_GT(steps, 150);
  EXPECT_EQ(allocations, 0u);
  EXPECT_EQ(executor.growths(), growths);
  EXPECT_GT(growths, 0);  // the warm-up did grow something: the count is alive
}

}  // namespace
}  // namespace retort::app
