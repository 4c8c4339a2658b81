#include "adapter/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/limits.h"

namespace retort::adapter {
namespace {

using kernels::Half;
using kernels::kPanel;

/// The radicand cancels where s B A ~ -W0; below this share of ||w||^2 it is rounding noise.
constexpr double kRadicandFloor = 0x1p-40;

struct RowScale {
  float c = 1.0f;
  float norm = std::numeric_limits<float>::infinity();
};

double row_norm_squared(const kernels::Weight& w, int64_t row, float* scratch) {
  w.dequantize_row(row, scratch);
  return kernels::sum_of_squares(scratch, w.in());
}

/// b G b^T in double. The inner loop runs over independent sums, so it vectorises without
/// reordering.
double quadratic_form(const float* b, const float* gram, int64_t rank, int64_t stride) {
  double product[limits::kRankMax] = {};
  for (int64_t r = 0; r < rank; ++r) {
    const double factor = b[r];
    for (int64_t q = 0; q < rank; ++q) product[q] += factor * double{gram[r * stride + q]};
  }
  double total = 0.0;
  for (int64_t q = 0; q < rank; ++q) total += product[q] * b[q];
  return total;
}

/// wa[16 r] = (W0 A^T)_r. The norm is rounded to float before the division, so that m =
/// float(||w||), B = 0 gives c = 1.
RowScale row_scale(const FoldInput& in, int64_t row, double base_squared, const float* wa,
                   const float* gram) {
  if (base_squared == 0.0) return {};
  const float* b = in.b + row * in.rank;
  const double s = in.scale;
  double cross = 0.0;
  for (int64_t r = 0; r < in.rank; ++r) cross += double{b[r]} * wa[r * kPanel];
  const double radicand = base_squared + 2.0 * s * cross +
                          s * s * quadratic_form(b, gram, in.rank, padded_rank(in.rank));
  RowScale scale;
  scale.norm = static_cast<float>(std::sqrt(std::max(radicand, base_squared * kRadicandFloor)));
  constexpr float kMax = std::numeric_limits<float>::max();
  scale.c = std::clamp(in.m[row] / scale.norm, -kMax, kMax);
  return scale;
}

/// Scales of the (at most 16) rows of a DoRA panel. wa: W0 A^T of these rows, [rank][16].
void panel_scales(const FoldInput& in, const float* gram, int64_t first, int64_t rows,
                  const float* wa, float* scratch, RowScale* scales) {
  for (int64_t j = 0; j < rows; ++j) {
    const double squared = in.row_norms_squared != nullptr
                               ? in.row_norms_squared[first + j]
                               : row_norm_squared(*in.base, first + j, scratch);
    scales[j] = row_scale(in, first + j, squared, wa + j, gram);
  }
}

/// One panel of B' = diag(c) s B. The product is formed in double: c s alone could overflow.
void write_panel(const FoldInput& in, int64_t first, int64_t rows, const RowScale* scales,
                 float* tile, Half* b) {
  const int64_t rank = padded_rank(in.rank);
  std::fill_n(tile, rank * kPanel, 0.0f);
  for (int64_t j = 0; j < rows; ++j) {
    const double factor = double{scales[j].c} * in.scale;
    const float* row = in.b + (first + j) * in.rank;
    for (int64_t r = 0; r < in.rank; ++r) {
      const double value = std::clamp(factor * row[r], -double{kHalfMax}, double{kHalfMax});
      tile[r * kPanel + j] = static_cast<float>(value);
    }
  }
  kernels::to_half(tile, rank * kPanel, b);
}

}  // namespace

void row_norms_squared(const kernels::Weight& w, int64_t begin, int64_t end, float* scratch,
                       double* norms) {
  for (int64_t row = begin; row < end; ++row) norms[row] = row_norm_squared(w, row, scratch);
}

void fold_down(const FoldInput& input, const FoldOutput& output, float* gram, float* scratch) {
  constexpr int64_t kChunk = 256;
  float clamped[kChunk];
  Half half[kChunk];
  const int64_t rank = padded_rank(input.rank), cols = input.in;
  for (int64_t r = 0; r < rank; ++r) {
    for (int64_t begin = 0; begin < cols; begin += kChunk) {
      const int64_t n = std::min(kChunk, cols - begin);
      const float* row = r < input.rank ? input.a + r * cols + begin : nullptr;
      for (int64_t k = 0; k < n; ++k) {
        clamped[k] = row != nullptr ? std::clamp(row[k], -kHalfMax, kHalfMax) : 0.0f;
      }
      kernels::to_half(clamped, n, half);
      for (int64_t k = 0; k < n; ++k) output.a[(begin + k) * rank + r] = half[k];
      if (row == nullptr || input.m == nullptr) continue;
      for (int64_t k = 0; k < n; ++k)
        scratch[r * cols + begin + k] = kernels::half_to_float(half[k]);
    }
  }
  if (input.m != nullptr) {
    kernels::adapter_down(scratch, input.rank, cols, output.a, rank, gram);
  }
}

void fold_up(const FoldInput& input, const FoldOutput& output, const float* gram,
             int64_t panel_begin, int64_t panel_end, float* scratch) {
  const int64_t rank = padded_rank(input.rank);
  float* const product = scratch;              // [rank][16]
  float* const row = scratch + rank * kPanel;  // [in]
  float* const factor = row + input.in;        // [in][rank]: A as served, in floats
  if (input.m != nullptr) kernels::to_float(output.a, input.in * rank, factor);
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t first = p * kPanel, rows = std::min<int64_t>(kPanel, input.out - first);
    RowScale scales[kPanel];
    if (input.m != nullptr) {
      kernels::panel_product(*input.base, p, factor, rank, product);
      panel_scales(input, gram, first, rows, product, row, scales);
    }
    write_panel(input, first, rows, scales, scratch, output.b + p * rank * kPanel);
    for (int64_t j = 0; j < kPanel; ++j) output.d[first + j] = scales[j].c - 1.0f;
    for (int64_t j = 0; j < rows && output.c != nullptr; ++j) output.c[first + j] = scales[j].c;
    for (int64_t j = 0; j < rows && output.norm != nullptr && input.m != nullptr; ++j) {
      output.norm[first + j] = scales[j].norm;
    }
  }
}

}  // namespace retort::adapter
