// Oracles: finite differences of the loss, the trainer itself after a kill, with other threads and
// other micro-batches, and counts known by construction. Agreement with PyTorch is in
// tests/golden_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "engine/random_model.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace retort::train {
namespace {

constexpr int kF32 = 0, kQ4_1 = 3;

base::Path temporary(std::string_view name) {
  return std::filesystem::temp_directory_path() / fmt::format("retort-train-{}-{}", getpid(), name);
}

std::unique_ptr<engine::Model> open_random(std::string_view architecture, int type) {
  const base::Path path = temporary("model.gguf");
  EXPECT_TRUE(engine::write_random_model(path, {.config = engine::tiny_config(architecture),
                                                .type = type,
                                                .output_type = type == kF32 ? kF32 : 8}));
  base::Team team(1);
  auto model = engine::Model::open(path, team);
  std::filesystem::remove(path);
  EXPECT_TRUE(model) << model.error().message;
  return std::make_unique<engine::Model>(*std::move(model));
}

std::vector<Example> random_examples(const engine::Model& model, size_t n) {
  base::Rng rng(11);
  std::vector<Example> examples(n);
  for (Example& example : examples) {
    const auto length = static_cast<size_t>(rng.between(4, 20));
    for (size_t i = 0; i < length; ++i) {
      const auto vocabulary = static_cast<uint64_t>(model.config().vocabulary);
      example.tokens.push_back(static_cast<engine::Token>(rng.below(vocabulary)));
      example.supervised.push_back(i >= 2);
      example.targets += i >= 2;
    }
  }
  return examples;
}

Options small_options() {
  Options options;
  options.rank = 4;
  options.alpha = 8;
  options.batch = 3;
  options.epochs = 2;
  options.micro_batch_rows = 64;
  options.tokens_max = 64;
  return options;
}

/// Gives B and A values that binary16 holds exactly, so that finite differences meet no rounding.
void set_exact_factors(Trainer& trainer, base::Team& team) {
  base::Rng rng(3);
  auto state = trainer.trainable().state();
  for (size_t i = 0; i < trainer.weights().modules.size(); ++i) {
    for (const size_t part : {size_t{0}, size_t{1}}) {
      for (float& x : state[3 * i + part]) x = static_cast<float>(rng.between(-32, 32)) / 128.0f;
    }
  }
  team.run([&](base::Lane lane) { trainer.trainable().fold(lane); });
}

class GradientCheck : public ::testing::TestWithParam<const char*> {};

TEST_P(GradientCheck, AgreesWithFiniteDifferencesForEveryTargetAndLayer) {
  const auto model = open_random(GetParam(), kF32);
  base::Team team(2);
  for (const bool dora : {false, true}) {
    Options options = small_options();
    options.dora = dora;
    const auto examples = random_examples(*model, 3);
    auto trainer = Trainer::create(*model, team, examples, options).value();
    set_exact_factors(*trainer, team);
    auto& trainable = trainer->trainable();
    const auto loss = [&] {
      team.run([&](base::Lane lane) { trainable.fold(lane); });
      return trainer->evaluate_loss(examples);
    };
    trainer->accumulate(examples);
    team.run([&](base::Lane lane) { trainable.finish_gradients(lane); });
    auto state = trainable.state();
    for (size_t i = 0; i < trainer->weights().modules.size(); ++i) {
      const auto gradients = trainable.module_gradients(i);
      // LoRA: A and B. DoRA: m, and A and B only through goldens, as its norm is held constant.
      for (size_t part = dora ? 2 : 0; part < (dora ? 3u : 2u); ++part) {
        // Along the signs of the gradient, so that K and V in binary16 (1e-4 of noise in the loss)
        // weigh little: the slope there is the gradient's 1-norm if every entry is right.
        std::span<float> values = state[3 * i + part];
        const std::vector<float> saved(values.begin(), values.end());
        double expected = 0;
        const auto loss_at = [&](double sign) {
          for (size_t at = 0; at < values.size(); ++at) {
            const double step = (dora ? 0.01 * std::abs(saved[at]) : 1.0 / 512) * sign;
            values[at] =
                static_cast<float>(saved[at] + std::copysign(step, step * gradients[part][at]));
          }
          return loss();
        };
        for (size_t at = 0; at < values.size(); ++at) {
          const double step = dora ? 0.01 * std::abs(saved[at]) : 1.0 / 512;
          expected += 2 * step * std::abs(gradients[part][at]);
        }
        const double difference = loss_at(1) - loss_at(-1);
        std::ranges::copy(saved, values.begin());
        EXPECT_NEAR(difference, expected, 0.03 * expected + 2e-4)
            << GetParam() << (dora ? " DoRA" : " LoRA") << " module " << i << " part " << part;
        EXPECT_GT(expected, 1e-3) << "no gradient reaches module " << i << " part " << part;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientCheck, ::testing::Values("llama", "qwen2", "qwen3"));

bool same_weights(const adapter::AdapterWeights& a, const adapter::AdapterWeights& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  };
  for (size_t i = 0; i < a.modules.size(); ++i) {
    const auto &p = a.modules[i], &q = b.modules[i];
    if (!same(p.a, q.a) || !same(p.b, q.b) || !same(p.m, q.m)) return false;
  }
  return a.modules.size() == b.modules.size();
}

TEST(Trainer, ResumesToTheSameBytesAtAnyNumberOfThreads) {
  const auto model = open_random("llama", kQ4_1);
  const auto examples = random_examples(*model, 8);
  base::Team one(1), two(2);
  auto unbroken = Trainer::create(*model, two, examples, small_options()).value();
  ASSERT_EQ(unbroken->steps_total(), 5);
  while (!unbroken->done()) unbroken->step();
  for (const int64_t kill_after : {1, 3, 4}) {  // within the first epoch, at and in the second
    const base::Path path = temporary("checkpoint");
    {
      auto killed = Trainer::create(*model, one, examples, small_options()).value();
      for (int64_t i = 0; i < kill_after; ++i) killed->step();
      killed->offer(0.5);
      ASSERT_TRUE(killed->save(path));
    }
    auto resumed = Trainer::create(*model, two, examples, small_options()).value();
    ASSERT_TRUE(resumed->resume(path));
    EXPECT_EQ(resumed->steps_done(), kill_after);
    EXPECT_EQ(resumed->best_step(), kill_after);
    while (!resumed->done()) resumed->step();
    EXPECT_TRUE(same_weights(unbroken->weights(), resumed->weights()))
        << "killed after " << kill_after;
    EXPECT_FALSE(same_weights(unbroken->weights(), resumed->best_weights()));
    std::filesystem::remove(path);
  }
}

TEST(Trainer, RefusesAForeignOrDamagedCheckpoint) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(1);
  const base::Path path = temporary("foreign");
  auto trainer = Trainer::create(*model, team, random_examples(*model, 8), small_options()).value();
  trainer->step();
  ASSERT_TRUE(trainer->save(path));
  Options other = small_options();
  other.learning_rate *= 2;
  auto stranger = Trainer::create(*model, team, random_examples(*model, 8), other).value();
  EXPECT_EQ(stranger->resume(path).error().code, base::Code::kMismatch);
  std::string bytes = base::read_file(path).value();
  for (const size_t size : {size_t{0}, size_t{10}, size_t{100}, bytes.size() - 1}) {
    ASSERT_TRUE(base::write_file_atomic(path, std::string_view(bytes).substr(0, size)));
    EXPECT_FALSE(trainer->resume(path)) << size;
  }
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(base::write_file_atomic(path, bytes));
  EXPECT_FALSE(trainer->resume(path));
  std::filesystem::remove(path);
}

/// The gradient of a step is one sum over its tokens, however it is cut into micro-batches and
/// whatever stands beside a record (packing never leaks).
TEST(Trainer, MicroBatchesDoNotChangeTheGradient) {
  const auto model = open_random("qwen2", kQ4_1);
  base::Team team(2);
  const auto examples = random_examples(*model, 4);
  std::vector<std::vector<float>> gradients[2];
  for (int which = 0; which < 2; ++which) {
    Options options = small_options();
    options.micro_batch_rows = which == 0 ? 80 : 20;  // all four at once, or one or two at a time
    auto trainer = Trainer::create(*model, team, examples, options).value();
    set_exact_factors(*trainer, team);
    trainer->accumulate(examples);
    team.run([&](base::Lane lane) { trainer->trainable().finish_gradients(lane); });
    for (size_t i = 0; i < trainer->weights().modules.size(); ++i) {
      for (const auto part : trainer->trainable().module_gradients(i)) {
        gradients[which].emplace_back(part.begin(), part.end());
      }
    }
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    double largest = 0, worst = 0;
    for (size_t j = 0; j < gradients[0][i].size(); ++j) {
      largest = std::max(largest, std::abs(double{gradients[0][i][j]}));
      worst = std::max(worst, std::abs(double{gradients[0][i][j]} - gradients[1][i][j]));
    }
    EXPECT_LE(worst, 1e-5 * largest) << i;
  }
}

TEST(Trainer, KeepsTheBestOfferNotTheLast) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(1);
  auto trainer = Trainer::create(*model, team, random_examples(*model, 8), small_options()).value();
  int64_t best = 0;
  for (const double score : {0.5, 0.7, 0.6, 0.6}) {
    trainer->step();
    if (trainer->offer(score)) best = trainer->steps_done();
  }
  EXPECT_EQ(best, 2);
  EXPECT_EQ(trainer->best_step(), 2);
  EXPECT_FALSE(same_weights(trainer->best_weights(), trainer->weights()));
}

TEST(Trainer, MagnitudesAndBothFactorsMove) {
  const auto model = open_random("qwen3", kQ4_1);
  base::Team team(1);
  auto trainer = Trainer::create(*model, team, random_examples(*model, 8), small_options()).value();
  const adapter::AdapterWeights start = trainer->weights();
  while (!trainer->done()) trainer->step();
  for (size_t i = 0; i < start.modules.size(); ++i) {
    EXPECT_NE(start.modules[i].a, trainer->weights().modules[i].a) << i;
    EXPECT_NE(start.modules[i].b, trainer->weights().modules[i].b) << i;
    EXPECT_NE(start.modules[i].m, trainer->weights().modules[i].m) << i;
  }
}

TEST(Trainer, LearnsToEndItsTurn) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(2);
  record::Record record;
  record.draft = {.task = "t", .prompt = "say hi", .reasoning_chain = "hi", .final_answer = "hi"};
  const auto example = make_example(record, model->vocabulary(), 64).value();
  // The answer and exactly one end of turn are learnt, and the end of turn comes last.
  EXPECT_TRUE(model->vocabulary().is_end_of_generation(example.tokens.back()));
  EXPECT_EQ(example.supervised.back(), 1);
  std::vector<engine::Token> learnt;
  for (size_t i = 0; i < example.tokens.size(); ++i) {
    if (example.supervised[i] != 0) learnt.push_back(example.tokens[i]);
  }
  learnt.pop_back();
  EXPECT_EQ(model->vocabulary().decode(learnt), record.completion());
}

TEST(Trainer, RefusesOptionsAndRecordsOutOfRange) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(1);
  EXPECT_FALSE(Trainer::create(*model, team, {}, small_options()));
  Options options = small_options();
  options.rank = 0;
  EXPECT_FALSE(Trainer::create(*model, team, random_examples(*model, 2), options));
  options = small_options();
  options.micro_batch_rows = 3;
  const auto refused = Trainer::create(*model, team, random_examples(*model, 8), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::Code::kLimit);
  record::Record record;
  record.draft = {.task = "t", .prompt = std::string(4000, 'x'), .final_answer = "1"};
  EXPECT_EQ(make_example(record, model->vocabulary(), 64).error().code, base::Code::kLimit);
}

}  // namespace
}  // namespace retort::train
