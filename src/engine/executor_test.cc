// Oracles: the executor itself under another batch, chunking or team, bit for bit; a Mix that
// changes nothing; and a KV-preserving swap against a cold run on the same keys and values.
#include "engine/executor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "engine/batcher.h"
#include "engine/random_model.h"

namespace retort::engine {
namespace {

constexpr int kQ4_1 = 3, kF32 = 0;

std::unique_ptr<Model> open_random(std::string_view architecture, int type) {
  const base::Path path =
      std::filesystem::temp_directory_path() /
      fmt::format("retort-executor-{}-{}-{}.gguf", architecture, type, getpid());
  EXPECT_TRUE(write_random_model(
      path,
      {.config = tiny_config(architecture), .type = type, .output_type = type == kF32 ? kF32 : 8}));
  base::Team team(1);
  auto model = Model::open(path, team);
  std::filesystem::remove(path);
  EXPECT_TRUE(model) << model.error().message;
  return std::make_unique<Model>(*std::move(model));
}

/// A random adapter in serving form on every block matrix.
class RandomSlot {
 public:
  RandomSlot(const Config& config, uint64_t seed, int64_t rank = 8) {
    base::Rng rng(seed);
    const int layers = config.layers;
    matrices_.resize(static_cast<size_t>(layers * kLayerTargets + 1));
    for (int layer = 0; layer < layers; ++layer) {
      for (int t = 0; t < kLayerTargets; ++t) {
        const auto [out, in] = config.shape(static_cast<Target>(t));
        const auto* a = halves_.emplace_back(random_halves(rng, in * rank)).data();
        const auto* b =
            halves_.emplace_back(random_halves(rng, kernels::padded(out) * rank)).data();
        auto& d = floats_.emplace_back(static_cast<size_t>(kernels::padded(out)));
        for (float& x : d) x = static_cast<float>(0.1 * rng.normal());
        matrices_[static_cast<size_t>(matrix_index(layer, static_cast<Target>(t), layers))] = {
            rank, a, b, d.data()};
      }
    }
    view_.matrices = matrices_;
    view_.content = base::hash_text(std::to_string(seed));
  }
  const SlotView& view() const { return view_; }

 private:
  static std::vector<kernels::Half> random_halves(base::Rng& rng, int64_t n) {
    std::vector<kernels::Half> values(static_cast<size_t>(n));
    for (auto& x : values) x = kernels::float_to_half(static_cast<float>(0.1 * rng.normal()));
    return values;
  }
  std::vector<std::vector<kernels::Half>> halves_;
  std::vector<std::vector<float>> floats_;
  std::vector<kernels::AdapterMatrix> matrices_;
  SlotView view_;
};

std::vector<Token> random_tokens(const Model& model, size_t n, uint64_t seed) {
  base::Rng rng(seed);
  std::vector<Token> tokens(n);
  for (Token& token : tokens)
    token = static_cast<Token>(rng.below(static_cast<uint64_t>(model.config().vocabulary)));
  return tokens;
}

/// Logits of every position of `tokens`, fed in chunks of `chunk`, beside `others` in each step.
std::vector<float> run(const Model& model, int threads, const std::vector<Token>& tokens,
                       size_t chunk, const Mix& mix,
                       const std::vector<std::vector<Token>>& others = {},
                       const std::vector<Mix>& other_mixes = {}, bool keep_layers = false) {
  base::Team team(threads);
  Executor executor(model, team, {.rows_max = 256, .context_max = 64, .keep_layers = keep_layers});
  const auto width = static_cast<size_t>(model.config().vocabulary);
  std::vector<KvCache> caches;
  for (size_t i = 0; i <= others.size(); ++i) {
    caches.push_back(KvCache::create(model.config(), 64).value());
  }
  std::vector<float> result;
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t n = std::min(chunk, tokens.size() - at);
    std::vector<Segment> segments;
    int32_t first = 0;
    for (size_t i = 0; i < others.size(); ++i) {
      // Half of the others stand before the sequence in the step, half behind.
      if (i == others.size() / 2) {
        segments.push_back(
            {.cache = &caches[0], .tokens = std::span(tokens).subspan(at, n), .mix = mix});
      }
      if (i < others.size() / 2) first += static_cast<int32_t>(others[i].size());
      caches[i + 1].truncate(0);
      segments.push_back({.cache = &caches[i + 1], .tokens = others[i], .mix = other_mixes[i]});
    }
    if (others.empty()) {
      segments.push_back(
          {.cache = &caches[0], .tokens = std::span(tokens).subspan(at, n), .mix = mix});
    }
    std::vector<int32_t> rows;
    for (size_t i = 0; i < n; ++i) rows.push_back(first + static_cast<int32_t>(i));
    std::vector<float> logits(n * width);
    executor.forward(segments, rows, logits.data());
    result.insert(result.end(), logits.begin(), logits.end());
  }
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ExecutorBits : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(ExecutorBits, DoNotDependOnBatchChunkingThreadsOrKeptLayers) {
  const auto [architecture, type] = GetParam();
  const auto model = open_random(architecture, type);
  const RandomSlot a(model->config(), 1), b(model->config(), 2, 16);
  const auto tokens = random_tokens(*model, 37, 5);
  Mix blend(a.view());
  blend.add(b.view(), -0.5f);
  for (const Mix& mix : {Mix(), Mix(a.view()), blend}) {
    const auto alone = run(*model, 1, tokens, tokens.size(), mix);
    EXPECT_TRUE(std::ranges::all_of(alone, [](float x) { return std::isfinite(x); }));
    for (const size_t chunk : {1, 5, 16})
      EXPECT_TRUE(same_bits(alone, run(*model, 1, tokens, chunk, mix)));
    for (const int threads : {2, 3})
      EXPECT_TRUE(same_bits(alone, run(*model, threads, tokens, 9, mix)));
    EXPECT_TRUE(same_bits(alone, run(*model, 2, tokens, 37, mix, {}, {}, true)));
    std::vector<std::vector<Token>> others;
    std::vector<Mix> mixes;
    for (uint64_t i = 0; i < 7; ++i) {
      others.push_back(random_tokens(*model, 1 + i % 3, 100 + i));
      mixes.push_back(i % 3 == 0 ? Mix() : i % 3 == 1 ? Mix(b.view()) : blend);
    }
    EXPECT_TRUE(same_bits(alone, run(*model, 2, tokens, 4, mix, others, mixes)));
  }
}

TEST_P(ExecutorBits, AdapterChangesTheLogits) {
  const auto [architecture, type] = GetParam();
  const auto model = open_random(architecture, type);
  const RandomSlot a(model->config(), 1), b(model->config(), 2);
  const auto tokens = random_tokens(*model, 8, 5);
  const auto base = run(*model, 1, tokens, 8, Mix());
  const auto under_a = run(*model, 1, tokens, 8, Mix(a.view()));
  EXPECT_FALSE(same_bits(base, under_a));
  EXPECT_FALSE(same_bits(under_a, run(*model, 1, tokens, 8, Mix(b.view()))));
  Mix off;
  off.add(a.view(), 0.0f);
  const auto gated_off = run(*model, 1, tokens, 8, off);
  for (size_t i = 0; i < base.size(); ++i)
    EXPECT_NEAR(gated_off[i], base[i], 1e-4f * (1 + std::abs(base[i])));
}

INSTANTIATE_TEST_SUITE_P(All, ExecutorBits,
                         ::testing::Combine(::testing::Values("llama", "qwen2", "qwen3"),
                                            ::testing::Values(kF32, kQ4_1)));

TEST(Executor, LinearRopeScalingIsAppliedOnce) {
  Config config = tiny_config("llama");
  const auto open = [&](float scale) {
    config.rope_scale = scale;
    const base::Path path = std::filesystem::temp_directory_path() /
                            fmt::format("retort-executor-rope-{}.gguf", getpid());
    EXPECT_TRUE(write_random_model(path, {.config = config}));
    base::Team team(1);
    auto model = Model::open(path, team).value();
    std::filesystem::remove(path);
    return std::make_unique<Model>(std::move(model));
  };
  const auto plain = open(1), scaled = open(2);
  base::Team team(1);
  const Executor a(*plain, team, {.rows_max = 1, .context_max = 64});
  const Executor b(*scaled, team, {.rows_max = 1, .context_max = 64});
  for (int i = 0; i < config.rotary_dims / 2; ++i) {
    EXPECT_NEAR(b.rope_cos(40)[i], a.rope_cos(20)[i], 1e-6) << i;
    EXPECT_NEAR(b.rope_sin(40)[i], a.rope_sin(20)[i], 1e-6) << i;
  }
}

TEST(Executor, EmbeddingsOfAPromptEqualThePrompt) {
  const auto model = open_random("llama", kQ4_1);
  const auto tokens = random_tokens(*model, 20, 3);
  const auto width = static_cast<size_t>(model->config().embedding);
  std::vector<float> embeddings(tokens.size() * width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    model->embedding().dequantize_row(tokens[i], embeddings.data() + i * width);
  }
  base::Team team(2);
  Executor executor(*model, team, {.rows_max = 64, .context_max = 64});
  Batcher batcher(executor, {.sessions_max = 2, .context = 64});
  Session* by_id = batcher.add({.prompt = tokens, .max_tokens = 20}).value();
  Session* by_value = batcher.add({.embeddings = embeddings, .max_tokens = 20}).value();
  while (batcher.step()) {
  }
  EXPECT_TRUE(std::ranges::equal(by_id->tokens(), by_value->tokens()));
  EXPECT_EQ(by_id->finish(), by_value->finish());
}

/// A session that swaps after five tokens, against a fresh executor that is given the same keys and
/// values (by computing them under the first adapter) and then runs under the second.
TEST(Batcher, SwapTakesEffectAtTheNextStepAndKeepsTheCache) {
  const auto model = open_random("llama", kQ4_1);
  const RandomSlot a(model->config(), 1), b(model->config(), 2);
  const Mix mix_a(a.view()), mix_b(b.view());
  base::Team team(2);
  Executor executor(*model, team, {.rows_max = 64, .context_max = 64});
  Batcher batcher(executor, {.sessions_max = 1, .context = 64});
  const auto prompt = random_tokens(*model, 10, 3);
  Session* session = batcher.add({.prompt = prompt, .max_tokens = 30, .mix = &mix_a}).value();
  for (int i = 0; i < 5; ++i) batcher.step();
  ASSERT_EQ(session->finish(), Finish::kRunning);
  std::vector<Token> fed = prompt;
  const auto so_far = session->tokens();
  fed.insert(fed.end(), so_far.begin(), so_far.end() - 1);
  const Token last = so_far.back();
  session->rebind(&mix_b);
  batcher.step();
  const auto swapped = batcher.last_logits(*session);

  Executor cold(*model, team, {.rows_max = 64, .context_max = 64});
  KvCache cache = KvCache::create(model->config(), 64).value();
  const Segment before{.cache = &cache, .tokens = fed, .mix = mix_a};
  cold.forward(std::span(&before, 1), {}, nullptr);
  std::vector<float> expected(swapped.size());
  const Segment after{.cache = &cache, .tokens = std::span(&last, 1), .mix = mix_b};
  const int32_t row = 0;
  cold.forward(std::span(&after, 1), std::span(&row, 1), expected.data());
  EXPECT_TRUE(same_bits(expected, {swapped.begin(), swapped.end()}));

  cache.truncate(static_cast<int64_t>(fed.size()));
  const Segment unswapped{.cache = &cache, .tokens = std::span(&last, 1), .mix = mix_a};
  cold.forward(std::span(&unswapped, 1), std::span(&row, 1), expected.data());
  EXPECT_FALSE(same_bits(expected, {swapped.begin(), swapped.end()})) << "the swap did nothing";
}

TEST(Batcher, APrefixComputedOnceGivesTheSameTokens) {
  const auto model = open_random("llama", kQ4_1);
  const RandomSlot a(model->config(), 1);
  const Mix mix(a.view());
  base::Team team(2);
  Executor executor(*model, team, {.rows_max = 64, .context_max = 64});
  Batcher batcher(executor, {.sessions_max = 2, .context = 64});
  const auto prompt = random_tokens(*model, 20, 3);
  const KvCache prefix = batcher.prefill(std::span(prompt).first(13), &mix).value();
  const KvCache foreign = batcher.prefill(std::span(prompt).first(13), nullptr).value();
  std::vector<std::vector<float>> logits;
  for (const KvCache* start : {static_cast<const KvCache*>(nullptr), &prefix, &foreign}) {
    Session* session =
        batcher.add({.prompt = prompt, .max_tokens = 4, .prefix = start, .mix = &mix}).value();
    batcher.step();
    const auto last = batcher.last_logits(*session);
    logits.emplace_back(last.begin(), last.end());
    batcher.release(session);
  }
  EXPECT_TRUE(same_bits(logits[0], logits[1]));
  EXPECT_FALSE(same_bits(logits[0], logits[2])) << "a prefix of another mixture should show";
}

TEST(Batcher, ReleasingASessionLeavesTheOthersTheirLogits) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(1);
  Executor executor(*model, team, {.rows_max = 64, .context_max = 64});
  Batcher batcher(executor, {.sessions_max = 2, .context = 64});
  Session* first = batcher.add({.prompt = random_tokens(*model, 5, 1), .max_tokens = 4}).value();
  Session* second = batcher.add({.prompt = random_tokens(*model, 5, 2), .max_tokens = 4}).value();
  batcher.step();
  const auto logits = batcher.last_logits(*second);
  batcher.release(first);
  EXPECT_EQ(batcher.last_logits(*second).data(), logits.data());
  EXPECT_FALSE(logits.empty());
}

TEST(Batcher, RefusesWhatDoesNotFit) {
  const auto model = open_random("llama", kQ4_1);
  base::Team team(1);
  Executor executor(*model, team, {.rows_max = 16, .context_max = 32});
  Batcher batcher(executor, {.sessions_max = 1, .context = 32});
  EXPECT_FALSE(batcher.add({.prompt = {}, .max_tokens = 4}));
  EXPECT_FALSE(batcher.add({.prompt = {1, 2}, .max_tokens = 31}));
  EXPECT_FALSE(batcher.add({.prompt = {1, 1 << 24}, .max_tokens = 4}));
  EXPECT_FALSE(batcher.add({.prompt = {-1}, .max_tokens = 4}));
  Session* session = batcher.add({.prompt = random_tokens(*model, 30, 1), .max_tokens = 2}).value();
  EXPECT_FALSE(batcher.add({.prompt = {1}, .max_tokens = 1}));
  while (batcher.step()) {
  }
  EXPECT_NE(session->finish(), Finish::kRunning);
  batcher.release(session);
  EXPECT_TRUE(batcher.add({.prompt = {1}, .max_tokens = 1}));
}

}  // namespace
}  // namespace retort::engine
