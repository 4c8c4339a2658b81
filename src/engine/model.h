// A model: hyper-parameters and packed weights of one GGUF file. Immutable after open(), shared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/team.h"
#include "engine/gguf.h"
#include "engine/mix.h"
#include "engine/vocabulary.h"
#include "kernels/weight.h"

namespace retort::engine {

/// The hyper-parameters of a decoder-only transformer, as read from the file by its architecture.
struct Config {
  std::string architecture;
  std::string name;  // general.name, may be empty
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t embedding = 0;  // width of the residual stream
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions the model was trained for
  int rotary_dims = 0;
  float rms_epsilon = 1e-5f;
  float rope_base = 10000.0f;
  float rope_scale = 1.0f;  // "linear" scaling; already in Model::inverse_frequencies()
  bool rope_interleaved = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool rope_factors = false;  // the file may hold rope_freqs.weight

  int64_t q_dim() const { return int64_t{heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{kv_heads} * head_dim; }
  /// (out, in) of a target's matrix.
  std::pair<int64_t, int64_t> shape(Target target) const;
};

struct Layer {
  std::vector<float> attention_norm, feed_forward_norm;  // [embedding]
  std::vector<float> q_norm, k_norm;                     // [head_dim], qk_norm only
  std::vector<float> q_bias, k_bias, v_bias;             // [padded(out)], qkv_bias only
  kernels::Weight q, k, v, o, gate, up, down;

  const kernels::Weight& weight(Target target) const;
};

class Model {
 public:
  /// Maps, validates and packs. Errors name the file and the key or tensor. `chat_template` as in
  /// Vocabulary::open. The caller's thread and the team's work; the file is unmapped at the end.
  [[nodiscard]] static base::Result<Model> open(const base::Path& path, base::Team& team,
                                                std::string_view chat_template = {});

  const Config& config() const { return config_; }
  const Layer& layer(int i) const { return layers_[static_cast<size_t>(i)]; }
  const std::vector<float>& output_norm() const { return output_norm_; }
  const kernels::Weight& embedding() const { return embedding_; }
  /// The output matrix; the embedding itself where the file ties them.
  const kernels::Weight& output() const { return output_ ? *output_ : embedding_; }
  bool tied() const { return !output_; }
  const kernels::Weight& weight(int layer, Target target) const;
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const base::Path& path() const { return path_; }
  /// Hash of the tensors' names, types, shapes and bytes: what an adapter is bound to.
  const base::Hash256& fingerprint() const { return fingerprint_; }
  /// What the packed weights, norms and biases take in memory.
  int64_t weight_bytes() const;
  /// The same from the header of a file, before anything is packed.
  [[nodiscard]] static base::Result<int64_t> weight_bytes_of(const Gguf& gguf,
                                                             const Config& config);
  /// Inverse frequencies, [rotary_dims / 2], with rope_freqs and rope_scale applied: the angle of
  /// frequency i at position p is p * inverse_frequencies()[i], nothing else.
  const std::vector<float>& inverse_frequencies() const { return inverse_frequencies_; }

 private:
  friend struct ModelLoader;
  base::Path path_;
  Config config_;
  std::vector<Layer> layers_;
  std::vector<float> output_norm_, inverse_frequencies_;
  kernels::Weight embedding_;
  std::optional<kernels::Weight> output_;
  std::optional<Vocabulary> vocabulary_;
  base::Hash256 fingerprint_;
};

}  // namespace retort::engine
