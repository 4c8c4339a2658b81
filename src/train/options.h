// What a training run can be told, with the defaults that the main job measured best.
#pragma once

#include <array>
#include <cstdint>

#include "engine/mix.h"

namespace retort::train {

struct Options {
  // The adapter.
  int64_t rank = 16;    // 1..limits::kRankMax
  float alpha = 32.0f;  // scale s = alpha / rank, or alpha / sqrt(rank) with rslora
  bool dora = true;     // false: LoRA, the control
  bool rslora = false;
  std::array<int64_t, engine::kLayerTargets>
      target_ranks{};  // 0: `rank`; -1: leave the target alone

  // The optimiser: AdamW (Loshchilov & Hutter 2019), warm-up then cosine.
  float learning_rate = 1.5e-3f;
  float final_rate = 0.02f;  // fraction of learning_rate that the cosine ends at
  float warmup = 0.05f;      // fraction of the steps
  float beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-8f, weight_decay = 0.0f;
  float clip = 0.3f;  // global gradient norm; 0: none

  // The data.
  int batch = 1;                                         // records a step
  double epochs = 1.0;                                   // passes over the records
  double checkpoint_seconds = 60;                        // what a kill may lose; 0: no step
  uint64_t seed = 1;                                     // of A and of the order of records
  int64_t tokens_max = limits::kRecordTokensMaxDefault;  // longer records are left out and listed
  int64_t micro_batch_rows = 512;  // rows a forward and backward pass holds; bounds memory

  /// What the trainer may hold beside the model; 0: what the machine has free. A budget that does
  /// not hold W0 in floats costs time: each pass makes them anew (engine/backward.h). The bits are
  /// the same.
  int64_t memory_budget_mb = 0;
};

}  // namespace retort::train
