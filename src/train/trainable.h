// An adapter in training: the float masters, their serving form, gradients and AdamW moments.
//
// The forward pass reads the serving form (A and B' in binary16, folded against the base after
// every update), so what is trained is what is served, bit for bit; gradients pass straight through
// the rounding. Methods taking a Lane run on every lane of a team in lockstep and end in step.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "adapter/crystallise.h"
#include "adapter/weights.h"
#include "base/team.h"
#include "engine/backward.h"
#include "kernels/kernels.h"
#include "train/options.h"

namespace retort::train {

/// A fresh adapter: A uniform in +-1/sqrt(in) (Kaiming with a = sqrt 5, as PEFT), B = 0, m = the
/// row norms of the dequantised base.
adapter::AdapterWeights initial_weights(const engine::Model& model, const Options& options,
                                        base::Team& team);

class Trainable {
 public:
  /// `model` outlives this object; the modules of `weights` fit it.
  Trainable(const engine::Model& model, adapter::AdapterWeights weights, base::Team& team);
  ~Trainable();

  const engine::SlotView& slot() const { return crystalliser_.view(); }
  std::span<const engine::ModuleGradient> gradients() const { return gradients_; }
  const adapter::AdapterWeights& weights() const { return weights_; }
  int64_t parameters() const;

  /// Masters -> serving form.
  void fold(base::Lane lane);
  void clear_gradients(base::Lane lane);
  /// Gradients of the serving form -> gradients of A, B and m. Returns their global 2-norm on every
  /// lane, summed in module order.
  double finish_gradients(base::Lane lane);
  /// One AdamW step on the finished gradients, each multiplied by options.gradient_scale.
  void update(base::Lane lane, const kernels::AdamW& options);

  /// Every float that a resumed run needs (masters, then both moments), in a fixed order.
  std::vector<std::span<float>> state();
  /// The finished gradients of module i: dA [rank x in], dB [out x rank], dm [out].
  std::array<std::span<const float>, 3> module_gradients(size_t i) const;

 private:
  struct Module;

  adapter::AdapterWeights weights_;
  adapter::Crystalliser crystalliser_;
  std::vector<std::unique_ptr<Module>> modules_;  // beside weights_.modules
  std::vector<engine::ModuleGradient> gradients_;
};

}  // namespace retort::train
