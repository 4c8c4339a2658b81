// An adapter as it is trained and exchanged: A, B and m unfolded, in float. This is what a PEFT
// directory holds; the serving form (slot.h) is derived from it for one base.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/mix.h"
#include "engine/model.h"

namespace retort::adapter {

/// One adapted linear layer: dW = diag(c) (W0 + s B A) - W0, c = m / row_norm(W0 + s B A).
/// DoRA: Liu et al. 2024, equation 5 (arXiv 2402.09353); without m it is LoRA (c = 1).
struct ModuleWeights {
  int layer = 0;
  engine::Target target = engine::Target::kQ;
  int64_t out = 0, in = 0, rank = 0;
  float scale = 1.0f;    // s = alpha / r, or alpha / sqrt(r) with rsLoRA
  std::vector<float> a;  // [rank x in]
  std::vector<float> b;  // [out x rank]
  std::vector<float> m;  // [out]; empty for LoRA
};

struct AdapterWeights {
  int64_t rank = 16;  // the default rank; a module's own may differ
  float alpha = 32.0f;
  bool dora = true;
  bool rslora = false;
  std::vector<ModuleWeights> modules;  // ascending engine::matrix_index; lm_head last
};

}  // namespace retort::adapter
