// All that the engine knows of adapters: views of slots in serving form, and weighted sums of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "kernels/kernels.h"

namespace retort::engine {

/// The linear layers an adapter may change, in the order the forward pass meets them.
enum class Target : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown, kOutput };
inline constexpr int kLayerTargets = 7;  // per block; kOutput exists once a model

/// PEFT's module name of a target: "q_proj" ... "down_proj", "lm_head".
constexpr std::string_view target_name(Target target) {
  constexpr std::array<std::string_view, 8> names = {
      "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"};
  return names[static_cast<size_t>(target)];
}

/// Where the matrix of (layer, target) stands in SlotView::matrices; kOutput ignores the layer.
constexpr int matrix_index(int layer, Target target, int layers) {
  return target == Target::kOutput ? layers * kLayerTargets
                                   : layer * kLayerTargets + static_cast<int>(target);
}

/// An adapter as the kernels read it. The memory belongs to the slot arena (or to the trainer) and
/// outlives every step that uses the view. Rank 0 marks an unadapted layer.
struct SlotView {
  std::span<const kernels::AdapterMatrix> matrices;  // layers * kLayerTargets + 1
  base::Hash256 content;  // of the serving form: orders a mixture's terms
};

/// A weighted sum of adapters: y = W0 x + sum_j gate_j dW_j x. A small value, copied freely. Terms
/// are kept sorted by content hash, so that the order of add() cannot change a bit.
class Mix {
 public:
  struct Term {
    const SlotView* slot = nullptr;
    float gate = 1.0f;
  };

  Mix() = default;
  explicit Mix(const SlotView& slot) { add(slot, 1.0f); }
  /// At most limits::kMixTermsMax terms; callers check user input first.
  void add(const SlotView& slot, float gate) {
    CHECK(count_ < limits::kMixTermsMax);
    int at = count_++;
    for (; at > 0 && slot.content < terms_[static_cast<size_t>(at) - 1].slot->content; --at) {
      terms_[static_cast<size_t>(at)] = terms_[static_cast<size_t>(at) - 1];
    }
    terms_[static_cast<size_t>(at)] = {&slot, gate};
  }
  std::span<const Term> terms() const { return {terms_.data(), static_cast<size_t>(count_)}; }
  bool empty() const { return count_ == 0; }

 private:
  std::array<Term, limits::kMixTermsMax> terms_{};
  int count_ = 0;
};

}  // namespace retort::engine
