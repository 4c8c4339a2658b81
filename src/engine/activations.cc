#include "engine/activations.h"

namespace retort::engine {
namespace {

kernels::AlignedArray<float> rows_of(int64_t rows, int64_t width) {
  return kernels::AlignedArray<float>(static_cast<size_t>(rows * width));
}

}  // namespace

LayerActivations::LayerActivations(const Config& config, int64_t rows)
    : input(rows_of(rows, config.embedding)),
      q(rows_of(rows, config.q_dim())),
      k(rows_of(rows, config.kv_dim())),
      v(rows_of(rows, config.kv_dim())),
      attention(rows_of(rows, config.q_dim())),
      o(rows_of(rows, config.embedding)),
      middle(rows_of(rows, config.embedding)),
      gate(rows_of(rows, config.feed_forward)),
      up(rows_of(rows, config.feed_forward)),
      down(rows_of(rows, config.embedding)),
      q_raw(rows_of(config.qk_norm ? rows : 0, config.q_dim())),
      k_raw(rows_of(config.qk_norm ? rows : 0, config.kv_dim())) {}

int64_t LayerActivations::bytes(const Config& config, int64_t rows) {
  const int64_t raw = config.qk_norm ? config.q_dim() + config.kv_dim() : 0;
  const int64_t width = 4 * config.embedding + 2 * config.q_dim() + 2 * config.kv_dim() +
                        2 * config.feed_forward + raw;
  return width * rows * static_cast<int64_t>(sizeof(float));
}

Activations::Activations(const Config& config, int64_t rows_max, bool keep_layers)
    : rows_max_(rows_max), keep_layers_(keep_layers), output_(rows_of(rows_max, config.embedding)) {
  const int count = keep_layers ? config.layers : 1;
  layers_.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) layers_.emplace_back(config, rows_max);
}

int64_t Activations::bytes(const Config& config, int64_t rows, bool keep_layers) {
  return (keep_layers ? config.layers : 1) * LayerActivations::bytes(config, rows) +
         rows * config.embedding * static_cast<int64_t>(sizeof(float));
}

}  // namespace retort::engine
