// Keys and values of one sequence, binary16, in one block allocated at creation:
// [layer][k or v][kv_head][capacity][head_dim], so that one head's keys are contiguous.
//
// Owned by its session (or the trainer); written by the step that holds it, one step at a time.
#pragma once

#include "base/result.h"
#include "engine/model.h"
#include "kernels/kernels.h"

namespace retort::engine {

class KvCache {
 public:
  KvCache() = default;
  /// kLimit if `capacity` exceeds limits::kContextMax or is not positive.
  [[nodiscard]] static base::Result<KvCache> create(const Config& config, int64_t capacity);

  static int64_t bytes(const Config& config, int64_t capacity);

  int64_t capacity() const { return capacity_; }
  int64_t length() const { return length_; }
  /// Forgets all positions from `length` on; 0 <= length <= length().
  void truncate(int64_t length);
  /// Takes over all positions of `prefix`, of the same model; what was here is forgotten. kLimit if
  /// they do not fit.
  [[nodiscard]] base::Result<void> copy_from(const KvCache& prefix);
  /// Called by the executor once the rows of a step are written.
  void advance(int64_t rows);

  kernels::Half* keys(int layer, int kv_head) { return head(2 * layer, kv_head); }
  kernels::Half* values(int layer, int kv_head) { return head(2 * layer + 1, kv_head); }

 private:
  kernels::Half* head(int plane, int kv_head) {
    return cells_.data() + (int64_t{plane} * kv_heads_ + kv_head) * capacity_ * head_dim_;
  }

  int64_t capacity_ = 0, length_ = 0;
  int kv_heads_ = 0, head_dim_ = 0;
  kernels::AlignedArray<kernels::Half> cells_;
};

}  // namespace retort::engine
