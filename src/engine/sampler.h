// Chooses the next token from logits. Greedy, or seeded sampling through libllama's samplers.
#pragma once

#include <memory>
#include <span>

#include "engine/vocabulary.h"

namespace retort::engine {

struct SamplingOptions {
  float temperature = 0.0f;  // 0: greedy
  int top_k = 40;            // 0: all
  float top_p = 0.95f;       // 1: all
  float min_p = 0.05f;       // 0: all
  uint64_t seed = 0;
};

/// One sequence's sampler; owned by its session, no allocation after the first call.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  Token sample(std::span<const float> logits);

 private:
  struct Chain;
  std::unique_ptr<Chain> chain_;  // null: greedy
};

/// The index of the largest logit, the lowest of equals.
Token argmax(std::span<const float> logits);

}  // namespace retort::engine
