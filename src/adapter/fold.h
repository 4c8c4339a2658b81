// The fold: from A, B, m of one module to the form that the kernels read. The trainer runs it every
// step and the server once an adapter, so both multiply by the same bits.
//
//   c_i = m_i / ||W0 + s B A||_i           (DoRA: Liu et al. 2024, equation 5; LoRA: c = 1)
//   B'  = diag(c) s B,   d = c - 1
//
// W is never formed: with A rounded to binary16 (that is what is served) and B in full precision,
//   ||W0 + s B A||_i^2 = ||w_i||^2 + 2 s <B_i, (W0 A^T)_i> + s^2 B_i (A A^T) B_i^T.
//
// Finite input gives finite output: values past binary16 saturate, a row that the adapter cancels
// is floored, and a zero base row keeps c = 1.
//
// Pure functions, one thread each, no allocation. fold_down once a module, then fold_up on disjoint
// ranges of panels in any order and on any number of threads: the bits do not depend on the split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace retort::adapter {

/// Ranks are padded with zeros to what the kernels take.
constexpr int64_t padded_rank(int64_t rank) { return (rank + 7) / 8 * 8; }

/// The largest finite binary16; the fold saturates there.
inline constexpr float kHalfMax = 65504.0f;

struct FoldInput {
  const kernels::Weight* base = nullptr;  // W0; not read for LoRA
  const double* row_norms_squared =
      nullptr;  // [out] of W0, or null: then measured, to the same bits
  int64_t out = 0, in = 0, rank = 0;
  float scale = 1.0f;
  const float* a = nullptr;  // [rank x in]
  const float* b = nullptr;  // [out x rank]
  const float* m = nullptr;  // [out]; null for LoRA
};

struct FoldOutput {
  kernels::Half* a = nullptr;  // [in][padded_rank]
  kernels::Half* b = nullptr;  // [panels_of(out)][padded_rank][16]
  float* d = nullptr;          // [padded(out)]
  float* c = nullptr;          // [out], or null
  float* norm =
      nullptr;  // [out] or null; DoRA only. dm = dc / norm; infinite where c is fixed at 1
};

/// Floats that fold_down writes and fold_up reads: A A^T, [rank x padded_rank].
constexpr int64_t fold_gram_floats(int64_t rank) { return rank * padded_rank(rank); }
/// Floats of scratch that either function needs.
constexpr int64_t fold_scratch_floats(int64_t in, int64_t rank) {
  return padded_rank(rank) * (in + kernels::kPanel) + in;
}

/// ||w_i||^2 of rows [begin, end) into norms[begin, end), accumulated in double. scratch: in
/// floats.
void row_norms_squared(const kernels::Weight& w, int64_t begin, int64_t end, float* scratch,
                       double* norms);

/// Fills output.a and gram.
void fold_down(const FoldInput& input, const FoldOutput& output, float* gram, float* scratch);

/// Fills b, d, c and norm of panels [panel_begin, panel_end) from output.a and gram.
void fold_up(const FoldInput& input, const FoldOutput& output, const float* gram,
             int64_t panel_begin, int64_t panel_end, float* scratch);

}  // namespace retort::adapter
