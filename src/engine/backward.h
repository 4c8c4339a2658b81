// The backward pass of a step: gradients of one adapter's factors, W0 frozen. Explicit code a
// layer, no tape; it reads the activations that an Executor with keep_layers left behind,
// recomputes elementwise parts, and needs every quantised matrix once more, dequantised and
// transposed (BackwardWeights).
//
// Rounding (of activations to 8 bits, of K and V to binary16) is passed straight through. The row
// norm in DoRA's c is a constant to the gradient, as in PEFT.
#pragma once

#include <vector>

#include "engine/executor.h"

namespace retort::engine {

/// Every linear layer's W0 as dx = W0^T dy reads it. Immutable; the model outlives it.
class BackwardWeights {
 public:
  /// Both give the same bits: the values come from the same code.
  enum class Mode {
    kResident,  // all matrices in memory as floats: made once
    kStreamed,  // two panels a lane, made anew in every pass from the packed weights
  };
  BackwardWeights(const Model& model, base::Team& team, Mode mode = Mode::kResident);
  Mode mode() const { return mode_; }
  /// dx = W0^T dy for panels [panel_begin, panel_end) of the layer's inputs, as
  /// kernels::linear_input_gradient. `window`: this lane's own, of window_floats(); unused if
  /// resident.
  void input_gradient(int layer, Target target, const float* dy, int64_t rows, int64_t panel_begin,
                      int64_t panel_end, kernels::TransposedWeight& window, float* dx) const;

  /// Of the windows that a streamed pass needs.
  static int64_t window_floats(const Config& config);
  /// What it holds beside the model's weights: nothing if streamed.
  static int64_t bytes(const Config& config, Mode mode = Mode::kResident);

 private:
  const Model& model_;
  Mode mode_;
  std::vector<kernels::TransposedWeight> matrices_;  // by matrix_index; none if streamed
};

/// One module of the adapter in training: what the backward pass reads beside the serving form, and
/// where it adds gradients. All null (rank 0) for a layer without adapter.
struct ModuleGradient {
  const kernels::Half* a_panels = nullptr;  // A as panels [panels_of(in)][rank][16]
  const kernels::Half* b_rows = nullptr;    // B' as [out][rank]
  float* a = nullptr;                       // += dL/dA transposed, [in][rank]
  float* b = nullptr;                       // += dL/dB', [out][rank]
  float* product = nullptr;                 // += sum_t dy_t y_t per output (without bias), [out]
};

class Backward {
 public:
  /// `executor` keeps layers; both outlive this object.
  Backward(Executor& executor, const BackwardWeights& weights);

  /// Cross-entropy of the next token at `rows` (ascending step rows) against `targets`, each row's
  /// gradient scaled by `weight`; returns the sum of losses, unscaled, one double in row order.
  /// Call after executor.forward(); then propagate().
  double loss(std::span<const int32_t> rows, std::span<const Token> targets, float weight);

  /// From the gradient that loss() left at the top down to every module of `slot` (the mixture the
  /// step ran under, gate 1, all rows): adds to `gradients`, indexed like SlotView::matrices.
  /// `segments` are the ones of the forward call; each began at position 0.
  void propagate(std::span<const Segment> segments, const SlotView& slot,
                 std::span<const ModuleGradient> gradients);

  static int64_t bytes(const Config& config, const Executor::Options& executor, int threads,
                       BackwardWeights::Mode mode);

 private:
  struct Pass;

  Executor& executor_;
  const BackwardWeights& weights_;
  kernels::AlignedArray<float> logits_;   // [kLossRows x vocabulary]
  kernels::AlignedArray<float> dx_;       // residual stream, [rows x embedding]
  kernels::AlignedArray<float> wide_[5];  // [rows x widest]
  kernels::AlignedArray<float> x_;        // recomputed input of a linear layer
  kernels::AlignedArray<float> h_, dh_;   // [rows x rank]
  kernels::AlignedArray<float> scaled_;   // dy * c, [rows x widest]
  kernels::AlignedArray<float> scratch_;  // attention, per lane
  std::vector<float> row_losses_;
  std::vector<kernels::TransposedWeight> windows_;  // one a lane, for streamed weights
};

}  // namespace retort::engine
