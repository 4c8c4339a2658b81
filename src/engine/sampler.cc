#include "engine/sampler.h"

#include <llama.h>

#include <algorithm>
#include <vector>

namespace retort::engine {

struct Sampler::Chain {
  explicit Chain(const SamplingOptions& options)
      : chain(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
    if (options.top_k > 0) llama_sampler_chain_add(chain, llama_sampler_init_top_k(options.top_k));
    if (options.top_p < 1)
      llama_sampler_chain_add(chain, llama_sampler_init_top_p(options.top_p, 1));
    if (options.min_p > 0)
      llama_sampler_chain_add(chain, llama_sampler_init_min_p(options.min_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(static_cast<uint32_t>(options.seed)));
  }
  ~Chain() { llama_sampler_free(chain); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  llama_sampler* chain;
  std::vector<llama_token_data> candidates;
};

Sampler::Sampler(const SamplingOptions& options)
    : chain_(options.temperature > 0 ? std::make_unique<Chain>(options) : nullptr) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

Token argmax(std::span<const float> logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

Token Sampler::sample(std::span<const float> logits) {
  if (!chain_) return argmax(logits);
  chain_->candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    chain_->candidates[i] = {static_cast<llama_token>(i), logits[i], 0.0f};
  }
  llama_token_data_array array = {chain_->candidates.data(), logits.size(), -1, false};
  llama_sampler_apply(chain_->chain, &array);
  return array.data[array.selected].id;
}

}  // namespace retort::engine
