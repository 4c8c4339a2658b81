// Oracle: the trainer whose transposed weights stay in memory. One that makes them anew in every
// pass has to end in the same bits, at any number of threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/random_model.h"
#include "train/trainer.h"

namespace retort::train {
namespace {

using Mode = Trainer::WeightsMode;
constexpr int kF32 = 0, kF16 = 1, kQ4_1 = 3, kQ8_0 = 8;

engine::Model open_random(std::string_view architecture, int type, bool tied) {
  const base::Path path = std::filesystem::temp_directory_path() /
                          fmt::format("retort-modes-{}-{}-{}.gguf", architecture, type, ::getpid());
  engine::RandomModelOptions options{
      .config = engine::tiny_config(architecture), .type = type, .output_type = type, .tied = tied};
  EXPECT_TRUE(engine::write_random_model(path, options));
  base::Team team(1);
  auto model = engine::Model::open(path, team);
  std::filesystem::remove(path);
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

std::vector<Example> examples() {
  std::vector<Example> list;
  for (int32_t i = 0; i < 4; ++i) {
    Example& example = list.emplace_back();
    for (int32_t t = 0; t < 9 + 5 * i; ++t) {
      example.tokens.push_back((17 * i + 5 * t + t * t) % 320);
      example.supervised.push_back(t > 4 ? 1 : 0);
      example.targets += t > 4 ? 1 : 0;
    }
  }
  return list;
}

struct Trained {
  Mode mode;
  std::vector<double> losses;
  std::vector<float> values;
};

Trained train(const engine::Model& model, int threads, int64_t budget_mb) {
  base::Team team(threads);
  Options options{.rank = 8, .batch = 2, .epochs = 2, .micro_batch_rows = 64};
  options.memory_budget_mb = budget_mb;
  auto trainer = Trainer::create(model, team, examples(), options).value();
  Trained result{trainer->weights_mode(), {}, {}};
  while (!trainer->done()) result.losses.push_back(trainer->step().loss);
  for (const std::span<float> values : trainer->trainable().state()) {
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
  return result;
}

struct Made {
  const char* architecture;
  int type;
  bool tied;
};

class WeightsModes : public testing::TestWithParam<Made> {};

TEST_P(WeightsModes, EndInTheSameBits) {
  const auto [architecture, type, tied] = GetParam();
  const engine::Model model = open_random(architecture, type, tied);
  const Trained resident = train(model, 1, 10'000);
  ASSERT_EQ(resident.mode, Mode::kResident);
  ASSERT_GT(resident.losses.size(), 2u);
  EXPECT_NE(resident.losses.front(), resident.losses.back());
  for (const int threads : {1, 2, 3}) {
    const Trained streamed = train(model, threads, 1);
    EXPECT_EQ(streamed.mode, Mode::kStreamed);
    EXPECT_EQ(streamed.losses, resident.losses) << threads;
    EXPECT_TRUE(streamed.values == resident.values) << threads;  // weights and moments
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WeightsModes,
                         testing::Values(Made{"llama", kQ4_1, true}, Made{"llama", kF32, false},
                                         Made{"qwen2", kQ8_0, true}, Made{"qwen3", kF16, false}),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.architecture, info.param.type);
                         });

TEST(WeightsMode, FollowsTheBudget) {
  const engine::Config config = engine::llama_7b_config();
  Options options;
  const int64_t resident = Trainer::bytes(config, options, 512, 2, Mode::kResident);
  EXPECT_GT(resident, int64_t{24} << 30);
  options.memory_budget_mb = (resident >> 20) + 1;
  EXPECT_EQ(Trainer::weights_mode(config, options, 512, 2), Mode::kResident);
  options.memory_budget_mb = (resident >> 20) - 1;
  EXPECT_EQ(Trainer::weights_mode(config, options, 512, 2), Mode::kStreamed);
}

}  // namespace
}  // namespace retort::train
