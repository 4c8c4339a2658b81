// Oracle: the allocator. What is alive after the parts have worked is what their bytes() promised.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/batcher.h"
#include "engine/random_model.h"
#include "train/trainer.h"

namespace {
std::atomic<int64_t> live_bytes{0};

void* counted(void* p) {
  if (p == nullptr) std::abort();
  live_bytes += static_cast<int64_t>(::malloc_usable_size(p));
  return p;
}

void release(void* p) {
  if (p != nullptr) live_bytes -= static_cast<int64_t>(::malloc_usable_size(p));
  std::free(p);
}
}  // namespace

void* operator new(size_t n) { return counted(std::malloc(n)); }
void* operator new(size_t n, std::align_val_t align) {
  const auto a = static_cast<size_t>(align);
  return counted(std::aligned_alloc(a, (n + a - 1) / a * a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { release(p); }

namespace retort::train {
namespace {

using Mode = Trainer::WeightsMode;
constexpr int kQ4_0 = 2;
constexpr double kTolerance = 0.02;  // of small lists, and of rounding by the allocator

class HeldMemory : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const base::Path path = std::filesystem::temp_directory_path() /
                            fmt::format("retort-memory-{}-{}.gguf", GetParam(), ::getpid());
    engine::Config config = engine::tiny_config(GetParam());
    config.layers = 4, config.embedding = 256, config.feed_forward = 512, config.vocabulary = 2000;
    config.heads = 8, config.kv_heads = 4, config.head_dim = config.rotary_dims = 32;
    ASSERT_TRUE(engine::write_random_model(path, {.config = config, .type = kQ4_0}));
    auto model = engine::Model::open(path, team_);
    std::filesystem::remove(path);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<engine::Model>(*std::move(model));
  }

  void expect_near(int64_t promised, int64_t held) const {
    const auto wanted = static_cast<double>(held);
    EXPECT_NEAR(static_cast<double>(promised), wanted, kTolerance * wanted);
  }

  base::Team team_{2};
  std::unique_ptr<engine::Model> model_;
};

TEST_P(HeldMemory, OfServingIsWhatWasPromised) {
  const engine::Config& config = model_->config();
  const engine::Executor::Options options{.rows_max = 64, .context_max = 300};
  const engine::Batcher::Options sessions{.sessions_max = 3, .context = 300};
  const int64_t before = live_bytes;
  engine::Executor executor(*model_, team_, options);
  engine::Batcher batcher(executor, sessions);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(batcher.add({.prompt = std::vector<engine::Token>(40, 7), .max_tokens = 4}));
  }
  while (batcher.step()) {
  }
  expect_near(
      engine::Executor::bytes(config, options, 2) + engine::Batcher::bytes(config, sessions),
      live_bytes - before);
}

TEST_P(HeldMemory, OfTrainingIsWhatWasPromised) {
  const Example example{std::vector<engine::Token>(65, 7), std::vector<uint8_t>(65, 1), 64};
  Options options{.rank = 12, .batch = 2, .micro_batch_rows = 128};
  for (const Mode mode : {Mode::kResident, Mode::kStreamed}) {
    options.memory_budget_mb = mode == Mode::kResident ? 1000 : 1;
    const int64_t before = live_bytes;
    auto trainer = Trainer::create(*model_, team_, {example, example}, options).value();
    ASSERT_EQ(trainer->weights_mode(), mode);
    trainer->step();
    trainer->offer(1.0);
    expect_near(Trainer::bytes(model_->config(), options, 64, 2, mode), live_bytes - before);
    EXPECT_EQ(Trainer::parameters(model_->config(), options), trainer->trainable().parameters());
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, HeldMemory, testing::Values("llama", "qwen2", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace retort::train
