// Models with random weights and a small but valid vocabulary, of any shape and quantisation: tiny
// ones for tests, full-size ones to measure memory and speed where no real file is at hand.
#pragma once

#include <cstdint>

#include "base/disk.h"
#include "base/result.h"
#include "engine/gguf_writer.h"
#include "engine/model.h"

namespace retort::engine {

struct RandomModelOptions {
  /// Sizes, and "llama", "qwen2" or "qwen3". qkv_bias, qk_norm and rope_interleaved follow from the
  /// architecture and are ignored.
  Config config;
  int type = 8;               // ggml_type of the blocks' matrices; 8 is Q8_0
  int output_type = 8;        // of token_embd.weight and output.weight
  bool tied = true;           // no output.weight
  bool rope_factors = false;  // llama only: rope_freqs.weight
  uint64_t seed = 1;
};

/// 2 layers, 64 wide, 4 heads of 16 (2 of KV), 320 tokens: a model that tests can open in a blink.
Config tiny_config(std::string_view architecture);
/// The shape of Llama 2 7B with the given number of tokens.
Config llama_7b_config(int64_t vocabulary = 32'000);

/// Keys and tensors of the model; tests may alter them before they write.
GgufWriter random_model(const RandomModelOptions& options);
/// The data: every row depends on the seed, its tensor's place and its own, on nothing else.
GgufWriter::Fill random_weights(const RandomModelOptions& options, const GgufWriter& model);

/// Errors: a type that needs an importance matrix, rows that are no multiple of the type's block, a
/// vocabulary under 320, a full disk.
[[nodiscard]] base::Result<void> write_random_model(const base::Path& path,
                                                    const RandomModelOptions& options);

}  // namespace retort::engine
