// Oracles: the writer's own tensors (a model read is the model written), ggml's dequantisation, the
// published hyper-parameters of two real models, and libllama, which opens what our writer writes.
#include <ggml.h>
#include <gtest/gtest.h>
#include <llama.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "engine/arch/arch.h"
#include "engine/excerpt.h"
#include "engine/random_model.h"
#include "kernels/kernels.h"

namespace retort::engine {
namespace {

base::Path temporary(std::string_view name) {
  return std::filesystem::temp_directory_path() /
         fmt::format("retort-model-{}-{}.gguf", getpid(), name);
}

Model open_or_die(const base::Path& path, int threads = 2) {
  base::Team team(threads);
  auto model = Model::open(path, team);
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

RandomModelOptions tiny(std::string_view architecture, int type, bool tied = true) {
  RandomModelOptions options;
  options.config = tiny_config(architecture);
  options.type = options.output_type = type;
  options.tied = tied;
  options.rope_factors = architecture == "llama";
  return options;
}

/// The floats of a tensor as ggml dequantises them.
std::vector<float> floats_of(const Gguf& gguf, const std::string& name) {
  const TensorView* tensor = gguf.find_tensor(name);
  EXPECT_TRUE(tensor) << name;
  const auto type = static_cast<ggml_type>(tensor->type);
  const int64_t n = tensor->shape[0] * tensor->shape[1];
  std::vector<float> values(static_cast<size_t>(n));
  if (type == GGML_TYPE_F32) {
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  } else {
    ggml_get_type_traits(type)->to_float(tensor->data.data(), values.data(), n);
  }
  return values;
}

void expect_weight(const Gguf& gguf, const std::string& name, const kernels::Weight& weight) {
  const std::vector<float> want = floats_of(gguf, name);
  ASSERT_EQ(static_cast<size_t>(weight.out() * weight.in()), want.size()) << name;
  std::vector<float> row(static_cast<size_t>(weight.in()));
  for (int64_t r = 0; r < weight.out(); ++r) {
    weight.dequantize_row(r, row.data());
    for (size_t i = 0; i < row.size(); ++i) {
      const float expected = want[static_cast<size_t>(r) * row.size() + i];
      ASSERT_NEAR(row[i], expected, 1e-6 + 1e-3 * std::abs(expected)) << name << " row " << r;
    }
  }
}

struct Made {
  const char* architecture;
  int type;
  bool tied;
};

class RandomModel : public testing::TestWithParam<Made> {};

TEST_P(RandomModel, ReadsBackWhatWasWritten) {
  const auto [architecture, type, tied] = GetParam();
  const base::Path path = temporary(architecture);
  const RandomModelOptions options = tiny(architecture, type, tied);
  ASSERT_TRUE(write_random_model(path, options));
  const Model model = open_or_die(path);
  const Gguf gguf = *Gguf::open(path);
  const Config& c = model.config();
  EXPECT_EQ(c.architecture, architecture);
  EXPECT_EQ(c.rope_interleaved, c.architecture == "llama");
  EXPECT_EQ(c.qkv_bias, c.architecture == "qwen2");
  EXPECT_EQ(c.qk_norm, c.architecture == "qwen3");
  EXPECT_EQ(model.tied(), tied);
  EXPECT_EQ(&model.output() == &model.embedding(), tied);
  expect_weight(gguf, "token_embd.weight", model.embedding());
  expect_weight(gguf, tied ? "token_embd.weight" : "output.weight", model.output());
  EXPECT_EQ(model.output_norm(), floats_of(gguf, "output_norm.weight"));
  const std::pair<const char*, Target> names[] = {
      {"attn_q", Target::kQ},      {"attn_k", Target::kK},      {"attn_v", Target::kV},
      {"attn_output", Target::kO}, {"ffn_gate", Target::kGate}, {"ffn_up", Target::kUp},
      {"ffn_down", Target::kDown}};
  for (int i = 0; i < c.layers; ++i) {
    const Layer& layer = model.layer(i);
    for (const auto& [name, target] : names) {
      expect_weight(gguf, fmt::format("blk.{}.{}.weight", i, name), model.weight(i, target));
      EXPECT_EQ(c.shape(target), std::pair(layer.weight(target).out(), layer.weight(target).in()));
    }
    EXPECT_EQ(layer.attention_norm, floats_of(gguf, fmt::format("blk.{}.attn_norm.weight", i)));
    EXPECT_EQ(layer.feed_forward_norm, floats_of(gguf, fmt::format("blk.{}.ffn_norm.weight", i)));
    if (c.qkv_bias) {
      auto bias = floats_of(gguf, fmt::format("blk.{}.attn_k.bias", i));
      bias.resize(static_cast<size_t>(kernels::padded(c.kv_dim())));
      EXPECT_EQ(layer.k_bias, bias);
    }
    if (c.qk_norm) {
      EXPECT_EQ(layer.q_norm, floats_of(gguf, fmt::format("blk.{}.attn_q_norm.weight", i)));
    }
  }
  std::filesystem::remove(path);
}

TEST_P(RandomModel, TakesTheMemoryThatItsHeaderSays) {
  const auto [architecture, type, tied] = GetParam();
  const base::Path path = temporary(std::string(architecture) + "-bytes");
  ASSERT_TRUE(write_random_model(path, tiny(architecture, type, tied)));
  const Model model = open_or_die(path);
  EXPECT_EQ(Model::weight_bytes_of(Gguf::open(path).value(), model.config()), model.weight_bytes());
  std::filesystem::remove(path);
}

/// Oracle: the layers of the model that the excerpt was cut from.
TEST_P(RandomModel, AnExcerptHoldsTheLayersNamed) {
  const auto [architecture, type, tied] = GetParam();
  const base::Path path = temporary(std::string(architecture) + "-whole");
  const base::Path cut = temporary(std::string(architecture) + "-cut");
  RandomModelOptions options = tiny(architecture, type, tied);
  options.config.vocabulary = 400;
  ASSERT_TRUE(write_random_model(path, options));
  const Model whole = open_or_die(path);
  const Gguf gguf = Gguf::open(path).value();
  const auto written = write_excerpt(gguf, whole.config(), {.layers = {1}, .vocabulary = 330}, cut);
  ASSERT_TRUE(written) << written.error().message;
  const Model part = open_or_die(cut);
  EXPECT_EQ(part.config().layers, 1);
  EXPECT_EQ(part.config().vocabulary, 330);
  EXPECT_EQ(part.tied(), tied);
  EXPECT_EQ(part.inverse_frequencies(), whole.inverse_frequencies());
  EXPECT_EQ(part.layer(0).attention_norm, whole.layer(1).attention_norm);
  EXPECT_EQ(part.layer(0).q_bias, whole.layer(1).q_bias);
  for (int t = 0; t < kLayerTargets; ++t) {
    const auto target = static_cast<Target>(t);
    const kernels::Weight &a = part.weight(0, target), &b = whole.weight(1, target);
    std::vector<float> x(static_cast<size_t>(a.in())), y(x);
    a.dequantize_row(a.out() - 1, x.data());
    b.dequantize_row(b.out() - 1, y.data());
    EXPECT_EQ(x, y) << target_name(target);
  }
  EXPECT_GT(layer_file_bytes(gguf, 1), 0);
  for (const base::Path& file : {path, cut}) std::filesystem::remove(file);
}

TEST_P(RandomModel, IsAModelToLibllamaToo) {
  const auto [architecture, type, tied] = GetParam();
  const base::Path path = temporary(architecture);
  ASSERT_TRUE(write_random_model(path, tiny(architecture, type, tied)));
  const Model model = open_or_die(path);
  llama_model* peer = llama_model_load_from_file(path.c_str(), llama_model_default_params());
  ASSERT_TRUE(peer);
  EXPECT_EQ(llama_model_n_embd(peer), model.config().embedding);
  EXPECT_EQ(llama_model_n_head_kv(peer), model.config().kv_heads);
  EXPECT_EQ(llama_vocab_n_tokens(llama_model_get_vocab(peer)), model.vocabulary().size());
  const std::string text = "hello then\n 12 \xc3\xa9\xf0\x9f\x98\x80";
  std::vector<Token> tokens(64);
  tokens.resize(static_cast<size_t>(llama_tokenize(llama_model_get_vocab(peer), text.data(),
                                                   static_cast<int>(text.size()), tokens.data(),
                                                   static_cast<int>(tokens.size()), false, false)));
  EXPECT_EQ(model.vocabulary().encode(text), tokens);
  EXPECT_EQ(model.vocabulary().decode(tokens), text);
  EXPECT_LT(tokens.size(), text.size());  // the merges work
  llama_model_free(peer);
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RandomModel,
    testing::Values(Made{"llama", GGML_TYPE_Q4_0, true}, Made{"llama", GGML_TYPE_Q4_1, false},
                    Made{"llama", GGML_TYPE_F32, true}, Made{"qwen2", GGML_TYPE_Q8_0, false},
                    Made{"qwen3", GGML_TYPE_Q8_0, true}, Made{"qwen3", GGML_TYPE_F16, false}),
    [](const auto& info) {
      return fmt::format("{}_{}", info.param.architecture, info.param.type);
    });

TEST(Architectures, EveryMemberOpensAModelOfItsName) {
  for (const arch::Architecture* member : arch::all()) {
    const base::Path path = temporary(member->name());
    ASSERT_TRUE(write_random_model(path, tiny(member->name(), GGML_TYPE_Q8_0)));
    EXPECT_EQ(open_or_die(path).config().architecture, member->name());
    std::filesystem::remove(path);
  }
}

TEST(Fingerprint, DependsOnTheTensorsAndNothingElse) {
  const base::Path path = temporary("fingerprint");
  const RandomModelOptions options = tiny("llama", GGML_TYPE_Q8_0);
  ASSERT_TRUE(write_random_model(path, options));
  const base::Hash256 first = open_or_die(path, 1).fingerprint();
  EXPECT_EQ(open_or_die(path, 3).fingerprint(), first);

  GgufWriter renamed = random_model(options);
  const auto weights = random_weights(options, renamed);
  renamed.set("general.name", "another name");
  ASSERT_TRUE(renamed.write(path, weights));
  EXPECT_EQ(open_or_die(path).fingerprint(), first);

  ASSERT_TRUE(renamed.write(path, [&](size_t tensor, int64_t row, std::span<std::byte> rows) {
    weights(tensor, row, rows);
    if (tensor == 0) rows.back() ^= std::byte{1};
  }));
  EXPECT_NE(open_or_die(path).fingerprint(), first);
  std::filesystem::remove(path);
}

TEST(Frequencies, FollowTheFormulaWithFactorsAndScale) {
  const base::Path path = temporary("frequencies");
  RandomModelOptions options = tiny("llama", GGML_TYPE_Q8_0);
  options.config.rope_base = 5000;
  options.config.rope_scale = 4;
  ASSERT_TRUE(write_random_model(path, options));
  const Model model = open_or_die(path);
  const std::vector<float> factors = floats_of(*Gguf::open(path), "rope_freqs.weight");
  ASSERT_EQ(model.inverse_frequencies().size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const double want = std::pow(5000.0, -static_cast<double>(i) / 8) / factors[i] / 4;
    EXPECT_NEAR(model.inverse_frequencies()[i], want, 1e-6 * want);
  }
  std::filesystem::remove(path);
}

TEST(RandomModels, RefuseWhatTheyCannotMake) {
  RandomModelOptions options = tiny("llama", GGML_TYPE_IQ2_XXS);
  EXPECT_FALSE(write_random_model(temporary("none"), options));
  options = tiny("llama", GGML_TYPE_Q4_K);  // blocks of 256, rows of 64
  EXPECT_FALSE(write_random_model(temporary("none"), options));
  options = tiny("llama", GGML_TYPE_Q8_0);
  options.config.vocabulary = 100;
  EXPECT_FALSE(write_random_model(temporary("none"), options));
  EXPECT_FALSE(std::filesystem::exists(temporary("none")));
}

TEST(RealModels, SmolLM2HasItsPublishedSizes) {
  const Model model =
      open_or_die(base::cache_directory() / "models" / "smollm2-135m-instruct-q4_1.gguf");
  const Config& c = model.config();
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.layers, 30);
  EXPECT_EQ(c.heads, 9);
  EXPECT_EQ(c.kv_heads, 3);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.rotary_dims, 64);
  EXPECT_EQ(c.embedding, 576);
  EXPECT_EQ(c.feed_forward, 1536);
  EXPECT_EQ(c.vocabulary, 49152);
  EXPECT_EQ(c.context, 8192);
  EXPECT_EQ(c.rope_base, 100000.0f);
  EXPECT_NEAR(c.rms_epsilon, 1e-5, 1e-10);
  EXPECT_TRUE(c.rope_interleaved);
  EXPECT_TRUE(model.tied());
}

TEST(RealModels, QwenCoderHasItsPublishedSizes) {
  const Model model =
      open_or_die(base::cache_directory() / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
  const Config& c = model.config();
  EXPECT_EQ(c.architecture, "qwen2");
  EXPECT_EQ(c.layers, 24);
  EXPECT_EQ(c.heads, 14);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.embedding, 896);
  EXPECT_EQ(c.feed_forward, 4864);
  EXPECT_EQ(c.vocabulary, 151936);
  EXPECT_EQ(c.context, 32768);
  EXPECT_EQ(c.rope_base, 1000000.0f);
  EXPECT_NEAR(c.rms_epsilon, 1e-6, 1e-11);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(model.tied());
}

}  // namespace
}  // namespace retort::engine
