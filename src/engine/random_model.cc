#include "engine/random_model.h"

#include <ggml.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/rng.h"
#include "engine/byte_alphabet.h"

namespace retort::engine {
namespace {

using base::Code;
using base::make_error;
using base::Result;
using base::Rng;

constexpr int64_t kVocabularyMin = 320;                    // bytes, merges, special tokens
constexpr int32_t kNormal = 1, kControl = 3, kUnused = 5;  // llama_token_type

/// A byte-level vocabulary with a few merges, ChatML's special tokens, and unused tokens to fill
/// up.
void add_vocabulary(GgufWriter& model, int64_t size) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(3, kControl);
  for (const std::string& letter : byte_alphabet()) tokens.push_back(letter);
  std::vector<std::string> merges;
  const std::string space = byte_alphabet()[' '];
  const std::pair<std::string, std::string> pairs[] = {
      {"h", "e"}, {"i", "n"},   {"e", "r"},    {"o", "n"},   {space, "t"}, {space + "t", "he"},
      {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {space, "a"}, {"s", "t"},   {"a", "n"}};
  for (const auto& [left, right] : pairs) {
    merges.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  types.resize(tokens.size(), kNormal);
  while (static_cast<int64_t>(tokens.size()) < size) {
    tokens.push_back(fmt::format("<|unused_{}|>", tokens.size()));
    types.push_back(kUnused);
  }
  model.set("tokenizer.ggml.model", "gpt2");
  model.set("tokenizer.ggml.pre", "gpt-2");
  model.set("tokenizer.ggml.tokens", std::move(tokens));
  model.set("tokenizer.ggml.token_type", std::move(types));
  model.set("tokenizer.ggml.merges", std::move(merges));
  model.set("tokenizer.ggml.bos_token_id", uint32_t{0});
  model.set("tokenizer.ggml.eos_token_id", uint32_t{2});
  model.set("tokenizer.ggml.add_bos_token", false);
}

void add_keys(GgufWriter& model, const Config& c) {
  const auto set = [&](std::string_view key, GgufWriter::Value value) {
    model.set(fmt::format("{}.{}", c.architecture, key), std::move(value));
  };
  model.set("general.architecture", c.architecture);
  model.set("general.name", c.name);
  set("block_count", static_cast<uint32_t>(c.layers));
  set("context_length", static_cast<uint32_t>(c.context));
  set("embedding_length", static_cast<uint32_t>(c.embedding));
  set("feed_forward_length", static_cast<uint32_t>(c.feed_forward));
  set("attention.head_count", static_cast<uint32_t>(c.heads));
  set("attention.head_count_kv", static_cast<uint32_t>(c.kv_heads));
  set("attention.key_length", static_cast<uint32_t>(c.head_dim));
  set("attention.value_length", static_cast<uint32_t>(c.head_dim));
  set("attention.layer_norm_rms_epsilon", c.rms_epsilon);
  set("rope.dimension_count", static_cast<uint32_t>(c.rotary_dims));
  set("rope.freq_base", c.rope_base);
  if (c.rope_scale != 1) {
    set("rope.scaling.type", "linear");
    set("rope.scaling.factor", c.rope_scale);
  }
}

void add_layer(GgufWriter& model, const RandomModelOptions& options, int index) {
  const Config& c = options.config;
  const auto add = [&](std::string_view part, int type, std::vector<int64_t> shape) {
    model.tensors().push_back({fmt::format("blk.{}.{}", index, part), type, std::move(shape)});
  };
  constexpr std::pair<const char*, Target> kMatrices[] = {
      {"attn_q.weight", Target::kQ},      {"attn_k.weight", Target::kK},
      {"attn_v.weight", Target::kV},      {"attn_output.weight", Target::kO},
      {"ffn_gate.weight", Target::kGate}, {"ffn_up.weight", Target::kUp},
      {"ffn_down.weight", Target::kDown}};
  for (const auto& [part, target] : kMatrices) {
    const auto [out, in] = c.shape(target);
    add(part, options.type, {in, out});
  }
  add("attn_norm.weight", GGML_TYPE_F32, {c.embedding});
  add("ffn_norm.weight", GGML_TYPE_F32, {c.embedding});
  if (c.architecture == "qwen2") {
    add("attn_q.bias", GGML_TYPE_F32, {c.q_dim()});
    add("attn_k.bias", GGML_TYPE_F32, {c.kv_dim()});
    add("attn_v.bias", GGML_TYPE_F32, {c.kv_dim()});
  }
  if (c.architecture == "qwen3") {
    add("attn_q_norm.weight", GGML_TYPE_F32, {c.head_dim});
    add("attn_k_norm.weight", GGML_TYPE_F32, {c.head_dim});
  }
}

void random_bytes(Rng& rng, std::span<std::byte> bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = rng.next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  const uint64_t word = rng.next();
  std::memcpy(bytes.data() + i, &word, bytes.size() - i);
}

void put_half(std::byte* at, double value) {
  const ggml_fp16_t half = ggml_fp32_to_fp16(static_cast<float>(value));
  std::memcpy(at, &half, sizeof half);
}

/// Random quants under scales that give the weights the deviation 1 / sqrt(in): far cheaper than
/// quantising random floats. False if `type` has no such short cut.
bool fill_blocks(Rng& rng, int type, int64_t in, std::span<std::byte> row) {
  const double deviation = 1 / std::sqrt(static_cast<double>(in));
  const bool q4_1 = type == GGML_TYPE_Q4_1;
  if (type != GGML_TYPE_Q4_0 && type != GGML_TYPE_Q8_0 && !q4_1) return false;
  // Deviation of a uniform integer over 16 or 256 values.
  const double scale = deviation / (type == GGML_TYPE_Q8_0 ? 73.9 : 4.61);
  const size_t block = ggml_type_size(static_cast<ggml_type>(type));
  random_bytes(rng, row);
  for (size_t at = 0; at < row.size(); at += block) {
    const double d = scale * (0.5 + rng.uniform());
    put_half(row.data() + at, d);
    if (q4_1) put_half(row.data() + at + 2, -7.5 * d);
  }
  return true;
}

void fill_floats(Rng& rng, const GgufWriter::Tensor& tensor, std::span<std::byte> row) {
  const int64_t in = tensor.shape[0];
  std::vector<float> values(static_cast<size_t>(in));
  const bool vector = tensor.shape.size() == 1;
  const bool bias = tensor.name.ends_with(".bias");
  const double deviation = vector ? 0.1 : 1 / std::sqrt(static_cast<double>(in));
  for (float& value : values) {
    const double unit = (2 * rng.uniform() - 1) * std::numbers::sqrt3;  // variance 1
    value = static_cast<float>((vector && !bias ? 1 : 0) + deviation * unit);
  }
  ggml_quantize_chunk(static_cast<ggml_type>(tensor.type), values.data(), row.data(), 0, 1, in,
                      nullptr);
}

Result<void> check(const GgufWriter& model, const RandomModelOptions& options) {
  if (options.config.vocabulary < kVocabularyMin) {
    return make_error(Code::kInvalidInput, "a random model needs at least {} tokens, not {}",
                      kVocabularyMin, options.config.vocabulary);
  }
  for (const GgufWriter::Tensor& tensor : model.tensors()) {
    const auto type = static_cast<ggml_type>(tensor.type);
    if (tensor.type < 0 || tensor.type >= GGML_TYPE_COUNT || ggml_blck_size(type) < 1 ||
        ggml_quantize_requires_imatrix(type)) {
      return make_error(Code::kUnsupported, "tensor type {} cannot be made at random", tensor.type);
    }
    if (tensor.shape[0] % ggml_blck_size(type) != 0) {
      return make_error(Code::kInvalidInput, "tensor '{}': rows of {} do not suit type {}",
                        tensor.name, tensor.shape[0], ggml_type_name(type));
    }
  }
  return {};
}

}  // namespace

Config tiny_config(std::string_view architecture) {
  Config c;
  c.architecture = architecture;
  c.name = "tiny";
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = c.rotary_dims = 16;
  c.embedding = 64;
  c.feed_forward = 96;
  c.vocabulary = kVocabularyMin;
  c.context = 256;
  return c;
}

Config llama_7b_config(int64_t vocabulary) {
  Config c;
  c.architecture = "llama";
  c.name = "random 7B";
  c.layers = 32;
  c.heads = c.kv_heads = 32;
  c.head_dim = c.rotary_dims = 128;
  c.embedding = 4096;
  c.feed_forward = 11008;
  c.vocabulary = vocabulary;
  c.context = 4096;
  return c;
}

GgufWriter random_model(const RandomModelOptions& options) {
  const Config& c = options.config;
  GgufWriter model;
  add_keys(model, c);
  add_vocabulary(model, c.vocabulary);
  model.tensors().push_back(
      {"token_embd.weight", options.output_type, {c.embedding, c.vocabulary}});
  model.tensors().push_back({"output_norm.weight", GGML_TYPE_F32, {c.embedding}});
  if (!options.tied) {
    model.tensors().push_back({"output.weight", options.output_type, {c.embedding, c.vocabulary}});
  }
  if (options.rope_factors) {
    model.tensors().push_back({"rope_freqs.weight", GGML_TYPE_F32, {c.rotary_dims / 2}});
  }
  for (int i = 0; i < c.layers; ++i) add_layer(model, options, i);
  return model;
}

GgufWriter::Fill random_weights(const RandomModelOptions& options, const GgufWriter& model) {
  return [seed = options.seed, tensors = model.tensors()](size_t tensor, int64_t row,
                                                          std::span<std::byte> rows) {
    const GgufWriter::Tensor& t = tensors[tensor];
    const size_t bytes = GgufWriter::row_bytes(t);
    for (size_t at = 0; at < rows.size(); at += bytes, ++row) {
      Rng rng(seed, uint64_t{tensor} << 32 | static_cast<uint64_t>(row));
      if (!fill_blocks(rng, t.type, t.shape[0], rows.subspan(at, bytes))) {
        fill_floats(rng, t, rows.subspan(at, bytes));
      }
    }
  };
}

Result<void> write_random_model(const base::Path& path, const RandomModelOptions& options) {
  const GgufWriter model = random_model(options);
  TRY(check(model, options));
  return model.write(path, random_weights(options, model));
}

}  // namespace retort::engine
