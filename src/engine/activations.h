// The intermediate values of a step. Inference uses one layer's worth over and over; training keeps
// every layer's, because the backward pass reads them. The forward pass is the same code for both.
#pragma once

#include <vector>

#include "engine/model.h"
#include "kernels/kernels.h"

namespace retort::engine {

/// What one transformer block computes for `rows` token rows, [rows x width] each.
struct LayerActivations {
  kernels::AlignedArray<float> input;      // residual stream entering the block, [embedding]
  kernels::AlignedArray<float> q, k, v;    // after bias, norm and RoPE, [q_dim], [kv_dim], [kv_dim]
  kernels::AlignedArray<float> attention;  // heads' outputs, [q_dim]
  kernels::AlignedArray<float> o;          // output projection, [embedding]
  kernels::AlignedArray<float> middle;     // input + o, [embedding]
  kernels::AlignedArray<float> gate, up;   // [feed_forward]
  kernels::AlignedArray<float> down;       // [embedding]
  kernels::AlignedArray<float> q_raw, k_raw;  // before norm and RoPE; kept only with qk_norm

  LayerActivations(const Config& config, int64_t rows);
  static int64_t bytes(const Config& config, int64_t rows);
};

/// The activations of a whole step, and the residual stream that leaves the last block.
class Activations {
 public:
  /// keep_layers: one set a layer (training) instead of one for all (inference).
  Activations(const Config& config, int64_t rows_max, bool keep_layers);

  int64_t rows_max() const { return rows_max_; }
  bool keeps_layers() const { return keep_layers_; }
  LayerActivations& layer(int i) { return layers_[keep_layers_ ? static_cast<size_t>(i) : 0]; }
  float* output() { return output_.data(); }  // [rows x embedding]

  static int64_t bytes(const Config& config, int64_t rows, bool keep_layers);

 private:
  int64_t rows_max_;
  bool keep_layers_;
  std::vector<LayerActivations> layers_;
  kernels::AlignedArray<float> output_;
};

}  // namespace retort::engine
