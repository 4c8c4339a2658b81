#include <cmath>

#include "base/limits.h"
#include "engine/arch/arch.h"

namespace retort::engine::arch {
namespace {

using base::Code;
using base::make_error;
using base::Result;

/// Keys of variants whose computation differs, with the value at which they change nothing.
struct NeutralKey {
  std::string_view key;
  double neutral;
  std::string_view what;
};
constexpr NeutralKey kNeutral[] = {
    {"attention.sliding_window", 0, "sliding-window attention"},
    {"attention.causal", 1, "attention that is not causal"},
    {"attention.scale", 0, "a scale of attention"},
    {"attention.clamp_kqv", 0, "clamping of q, k and v"},
    {"attention.max_alibi_bias", 0, "ALiBi positions"},
    {"attention.temperature_scale", 0, "a temperature of attention"},
    {"attn_logit_softcapping", 0, "soft capping of attention"},
    {"final_logit_softcapping", 0, "soft capping of logits"},
    {"expert_count", 0, "a mixture of experts"},
    {"nextn_predict_layers", 0, "layers that predict further tokens"},
    {"use_parallel_residual", 0, "parallel residuals"},
    {"logit_scale", 0, "a scale of logits"},
    {"embedding_scale", 0, "a scale of embeddings"},
    {"residual_scale", 0, "a scale of residuals"},
    {"pooling_type", 0, "pooling (an embedding model)"},
};

/// Reads the keys that begin with the architecture's name.
class KeyReader {
 public:
  KeyReader(const Gguf& gguf, std::string_view architecture)
      : gguf_(gguf), prefix_(fmt::format("{}.", architecture)) {}

  bool has(std::string_view name) const { return gguf_.find(prefix_ + std::string(name)); }

  template <class... Args>
  tl::unexpected<base::Error> error(Code code, std::string_view name,
                                    fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: key '{}{}': {}", gguf_.path().string(), prefix_, name,
                      fmt::format(format, std::forward<Args>(args)...));
  }

  /// An integer in [low, high]; also an array of one value a layer, if all are equal.
  Result<int64_t> integer(std::string_view name, int64_t low, int64_t high) const {
    const std::string key = prefix_ + std::string(name);
    TRY_ASSIGN(const int64_t value, uniform(key));
    if (value < low || value > high) {
      return error(Code::kInvalidInput, name, "{} is not between {} and {}", value, low, high);
    }
    return value;
  }

  Result<int64_t> integer_or(std::string_view name, int64_t low, int64_t high,
                             int64_t missing) const {
    return has(name) ? integer(name, low, high) : Result<int64_t>(missing);
  }

  /// A number above zero.
  Result<float> positive(std::string_view name, double high) const {
    TRY_ASSIGN(const double value, gguf_.number(prefix_ + std::string(name)));
    if (!(value > 0 && value <= high)) {
      return error(Code::kInvalidInput, name, "{} is not above 0 and at most {}", value, high);
    }
    return static_cast<float>(value);
  }

  std::string_view text(std::string_view name) const {
    return gguf_.find_string(prefix_ + std::string(name)).value_or("");
  }

  Result<void> check_neutral() const {
    for (const NeutralKey& key : kNeutral) {
      if (!has(key.key)) continue;
      TRY_ASSIGN(const double value, gguf_.number(prefix_ + std::string(key.key)));
      if (value != key.neutral) {
        return error(Code::kUnsupported, key.key, "{} is not supported (value {})", key.what,
                     value);
      }
    }
    return {};
  }

 private:
  Result<int64_t> uniform(const std::string& key) const {
    const Gguf::Value* value = gguf_.find(key);
    const Gguf::Array* array = value ? std::get_if<Gguf::Array>(value) : nullptr;
    const auto* values = array ? std::get_if<std::vector<int64_t>>(array) : nullptr;
    if (!values || values->empty()) return gguf_.integer(key);
    for (const int64_t element : *values) {
      if (element != values->front()) {
        return make_error(Code::kUnsupported, "{}: key '{}' differs between layers ({} and {})",
                          gguf_.path().string(), key, values->front(), element);
      }
    }
    return values->front();
  }

  const Gguf& gguf_;
  std::string prefix_;
};

Result<void> read_attention(const KeyReader& keys, Config& config) {
  TRY_ASSIGN(config.heads, keys.integer("attention.head_count", 1, limits::kHeadsMax));
  TRY_ASSIGN(config.kv_heads,
             keys.integer_or("attention.head_count_kv", 1, config.heads, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return keys.error(Code::kInvalidInput, "attention.head_count_kv", "{} does not divide {} heads",
                      config.kv_heads, config.heads);
  }
  if (!keys.has("attention.key_length") && config.embedding % config.heads != 0) {
    return keys.error(Code::kInvalidInput, "attention.head_count", "{} does not divide {}",
                      config.heads, config.embedding);
  }
  TRY_ASSIGN(config.head_dim, keys.integer_or("attention.key_length", 8, limits::kHeadDimMax,
                                              config.embedding / config.heads));
  if (config.head_dim % 8 != 0 || config.head_dim > limits::kHeadDimMax) {
    return keys.error(Code::kUnsupported, "attention.key_length",
                      "heads of {}; a multiple of 8 up to {} is needed", config.head_dim,
                      limits::kHeadDimMax);
  }
  TRY_ASSIGN(const int64_t value_length,
             keys.integer_or("attention.value_length", 1, limits::kHeadDimMax, config.head_dim));
  if (value_length != config.head_dim) {
    return keys.error(Code::kUnsupported, "attention.value_length", "{} differs from key length {}",
                      value_length, config.head_dim);
  }
  return {};
}

Result<void> read_rope(const KeyReader& keys, Config& config) {
  TRY_ASSIGN(config.rotary_dims,
             keys.integer_or("rope.dimension_count", 2, config.head_dim, config.head_dim));
  if (config.rotary_dims % 2 != 0) {
    return keys.error(Code::kInvalidInput, "rope.dimension_count", "{} is odd", config.rotary_dims);
  }
  if (keys.has("rope.freq_base")) {
    TRY_ASSIGN(config.rope_base, keys.positive("rope.freq_base", 1e12));
  }
  const std::string_view type = keys.text("rope.scaling.type");
  if (!type.empty() && type != "none" && type != "linear") {
    return keys.error(Code::kUnsupported, "rope.scaling.type",
                      "RoPE scaling '{}' is not supported; none and linear are", type);
  }
  if (type == "none") return {};
  for (const std::string_view name : {"rope.scale_linear", "rope.scaling.factor"}) {
    if (!keys.has(name)) continue;
    TRY_ASSIGN(config.rope_scale, keys.positive(name, 1e6));
  }
  return {};
}

/// The widths that meet a kernel as the input of a matrix.
Result<void> check_widths(const KeyReader& keys, const Config& config) {
  const std::pair<std::string_view, int64_t> widths[] = {
      {"embedding_length", config.embedding},
      {"feed_forward_length", config.feed_forward},
      {"attention.head_count", config.q_dim()}};
  for (const auto& [name, width] : widths) {
    if (width % 32 != 0) {
      return keys.error(Code::kUnsupported, name, "a width of {} is not a multiple of 32", width);
    }
  }
  return {};
}

}  // namespace

Result<void> read_decoder(const Gguf& gguf, Config& config) {
  const KeyReader keys(gguf, config.architecture);
  TRY(keys.check_neutral());
  TRY_ASSIGN(config.layers, keys.integer("block_count", 1, limits::kLayersMax));
  TRY_ASSIGN(config.embedding, keys.integer("embedding_length", 32, limits::kEmbeddingMax));
  TRY_ASSIGN(config.feed_forward, keys.integer("feed_forward_length", 32, limits::kFeedForwardMax));
  TRY_ASSIGN(config.context, keys.integer("context_length", 1, limits::kContextMax));
  TRY_ASSIGN(config.rms_epsilon, keys.positive("attention.layer_norm_rms_epsilon", 1));
  TRY(read_attention(keys, config));
  TRY(read_rope(keys, config));
  TRY(check_widths(keys, config));
  const Gguf::Value* value = gguf.find("tokenizer.ggml.tokens");
  const Gguf::Array* array = value ? std::get_if<Gguf::Array>(value) : nullptr;
  const auto* tokens = array ? std::get_if<std::vector<std::string_view>>(array) : nullptr;
  if (!tokens || tokens->empty()) {
    return make_error(Code::kInvalidInput,
                      "{}: key 'tokenizer.ggml.tokens': an array of tokens is needed",
                      gguf.path().string());
  }
  config.vocabulary = static_cast<int64_t>(tokens->size());
  return {};
}

}  // namespace retort::engine::arch
