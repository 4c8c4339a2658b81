// For tests and fuzzers: a two-layer base with random F32 matrices, and random adapters of it.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "adapter/crystallise.h"
#include "base/rng.h"

namespace retort::adapter {

inline engine::Config small_config() {
  engine::Config config;
  config.architecture = "llama";
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.embedding = 32;
  config.feed_forward = 48;
  config.vocabulary = 40;
  config.rope_interleaved = true;
  return config;
}

inline std::vector<float> random_floats(int64_t n, float scale, base::Rng& rng) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = scale * static_cast<float>(rng.normal());
  return values;
}

inline kernels::Weight pack_f32(const std::vector<float>& values, int64_t out, int64_t in) {
  constexpr int kGgmlF32 = 0;
  return kernels::Weight::pack(kGgmlF32, std::as_bytes(std::span(values)), out, in).value();
}

/// Owns what BaseWeights views.
struct SmallBase {
  engine::Config config = small_config();
  std::vector<std::vector<float>> dense;
  std::vector<kernels::Weight> packed;
  BaseWeights weights;

  explicit SmallBase(uint64_t seed) {
    base::Rng rng(seed);
    weights.shape = SlotBase::of(config, base::hash_text("small base"));
    const int n = weights.shape.matrices();
    for (int i = 0; i < n; ++i) {
      const auto [out, in] = weights.shape.shape(i);
      dense.push_back(random_floats(out * in, 0.2f, rng));
      packed.push_back(pack_f32(dense.back(), out, in));
    }
    for (const kernels::Weight& weight : packed) weights.matrices.push_back(&weight);
  }
};

inline ModuleWeights random_module(const engine::Config& config, int layer, engine::Target target,
                                   int64_t rank, bool dora, base::Rng& rng) {
  ModuleWeights module;
  module.layer = layer;
  module.target = target;
  const auto [out, in] = config.shape(target);
  module.out = out, module.in = in, module.rank = rank;
  module.scale = 2.0f;
  module.a = random_floats(rank * in, 0.3f, rng);
  module.b = random_floats(out * rank, 0.1f, rng);
  if (dora) {
    module.m = random_floats(out, 0.2f, rng);
    for (float& m : module.m) m = 1.0f + std::abs(m);
  }
  return module;
}

/// Every matrix adapted, at ranks that need padding and ranks that do not.
inline AdapterWeights random_adapter(const engine::Config& config, bool dora, uint64_t seed) {
  base::Rng rng(seed);
  AdapterWeights adapter;
  adapter.rank = 4;
  adapter.alpha = 8.0f;
  adapter.dora = dora;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (int t = 0; t < engine::kLayerTargets; ++t) {
      const int64_t rank = layer == 1 && t == 2 ? 9 : 4;
      adapter.modules.push_back(
          random_module(config, layer, static_cast<engine::Target>(t), rank, dora, rng));
    }
  }
  adapter.modules.push_back(random_module(config, 0, engine::Target::kOutput, 8, dora, rng));
  return adapter;
}

}  // namespace retort::adapter
