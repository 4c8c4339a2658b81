// The compute kernels: pure functions on raw arrays, one thread each, no allocation and no locks.
// The caller shares work out by passing ranges; a kernel never knows how many threads there are.
//
// Bits. Every output element is accumulated in an order that depends on nothing but its own row and
// column: not on how many rows a call holds, on the ranges, or on threads. Batch invariance, exact
// resume and "trainer = server" rest on this. Portable code, AVX2, AVX-VNNI and AVX-512 are chosen
// at run time (kernels/dispatch.h: active().name), and all give the same bits, NaN payloads aside:
// 8-bit dot products are exact integers, each float product-sum is one FMA rounded once (a slow
// library call where portable code runs on a processor without FMA), and horizontal sums have one
// order (lane i + lane i + 8, then neighbours). The one thing from outside is libm's log, of the
// losses and of attend_gradient's row sums. Accuracy: exp is within 2 ulp; other sums are plain
// float sums. Quantised activations do not carry NaN: a block with infinities gives infinities or
// NaN, a block whose only odd values are NaN may give finite numbers.
//
// Layouts, all dense, row-major, 64-byte aligned where we allocate:
//   rows      [n x k] float: n token rows of k features
//   panels    a matrix M (out x in) as [ceil(out/16)][in][16]: 16 outputs side by side, zero-padded
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/weight.h"

namespace retort::kernels {

using Half = uint16_t;  // IEEE binary16 bits

inline constexpr int kPanel = 16;
inline constexpr int64_t kHeadDimMax = 256;
constexpr int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }
constexpr int64_t padded(int64_t n) { return panels_of(n) * kPanel; }

float half_to_float(Half h);
Half float_to_half(float x);  // round to nearest even
/// Rounds n floats to binary16.
void to_half(const float* x, int64_t n, Half* y);
void to_float(const Half* x, int64_t n, float* y);

// ---- Linear layers
// -------------------------------------------------------------------------------

/// Activations of a linear layer: the float rows and, for quantised weights, their 8-bit form.
/// q[row][k], scale[row][k/32], sum[row][k/32] with x ~ scale * q and sum = scale * sum(q) of the
/// block, where scale = max|x| / 127 (as ggml's Q8_1). `q`, `scale`, `sum` belong to the caller.
struct Activations {
  const float* x = nullptr;  // [rows x cols]
  int8_t* q = nullptr;       // [rows x cols]
  float* scale = nullptr;    // [rows x cols/32]
  float* sum = nullptr;      // [rows x cols/32]
  int64_t cols = 0;
};

/// Fills q, scale and sum for rows [begin, end).
void quantize_rows(const Activations& x, int64_t begin, int64_t end);

/// One adapter on one linear layer, in serving form: y = z (1 + g d) + g B' (A x), z = W0 x.
/// `rank` is a multiple of 8 (zero-padded).
struct AdapterMatrix {
  int64_t rank = 0;
  const Half* a = nullptr;   // [in][rank]: A transposed
  const Half* b = nullptr;   // [panels_of(out)][rank][16]: panels of B' = diag(c) s B
  const float* d = nullptr;  // [padded(out)]: c - 1
};

/// A term of a mixture for a range of rows. gates: one per row of the range, or null for `gate`.
struct MixTerm {
  const AdapterMatrix* matrix = nullptr;
  const float* gates = nullptr;
  float gate = 1.0f;
  const float* h = nullptr;  // A x of these rows, [range rows x rank], from adapter_down
};

/// Rows [row_begin, row_end) of a step that share one mixture.
struct RowGroup {
  int64_t row_begin = 0, row_end = 0;
  std::span<const MixTerm> terms;
};

/// h[i][r] = sum_k x[i][k] m[k][r], i in [0, rows). m is [cols][rank] Half, rank a multiple of 8.
/// Used for A x, and in the backward pass for B'^T dy (with m = B' as [out][rank]).
void adapter_down(const float* x, int64_t rows, int64_t cols, const Half* m, int64_t rank,
                  float* h);

/// y[i][o] += sum_r h[i][r] m[o/16][r][o%16], o in [0, cols): the other factor, as panels.
void adapter_up(const float* h, int64_t rows, int64_t rank, const Half* m, int64_t cols, float* y);

/// The law for panels [panel_begin, panel_end) of all rows of `groups` (disjoint, ascending; rows
/// in no group get the plain base): y[i][o] = z (1 + sum g d) + sum g B'h + bias. y is [rows x
/// out]. z is not scaled at all where a row has no terms, so base rows pay nothing. bias may be
/// null.
void linear(const Weight& w, const float* bias, const Activations& x, int64_t rows,
            std::span<const RowGroup> groups, int64_t panel_begin, int64_t panel_end, float* y);

/// y[r][i] = sum_k m[k][r] W[16 panel + i][k], i in [0, 16): with the weights themselves, where
/// linear() rounds its activations to 8 bits. m is [in][rank], y is [rank][16]; past the last
/// output y is 0.
void panel_product(const Weight& w, int64_t panel, const float* m, int64_t rank, float* y);

// ---- Elementwise and reductions, forward
// ---------------------------------------------------------

/// y = x / sqrt(mean(x^2) + eps) * weight, per row; rows [0, rows).
void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t cols, float* y);

/// Rotary embedding of one row's heads, in place. x is [heads x head_dim]; the first `rotary_dims`
/// of a head turn. cos/sin are [rotary_dims/2] for that position. interleaved: pairs (2i, 2i+1), as
/// llama GGUFs; otherwise (i, i + rotary_dims/2). inverse: the transpose, for the backward pass.
void rope(float* x, int64_t heads, int64_t head_dim, int64_t rotary_dims, const float* cos,
          const float* sin, bool interleaved, bool inverse);

/// y = silu(gate) * up over n elements. silu(x) = x / (1 + exp(-x)).
void silu_mul(const float* gate, const float* up, int64_t n, float* y);

/// y += x.
void add(const float* x, int64_t n, float* y);

/// One query row of attention for the query heads of one KV head: out = softmax(q K^T scale) V.
/// q, out: [group x head_dim]; k, v: [length x head_dim] Half, keys 0..length-1 of that KV head.
/// scores: scratch of [group x padded(length)] floats. head_dim is a multiple of 8, <= kHeadDimMax.
void attend(const float* q, int64_t group, const Half* k, const Half* v, int64_t length,
            int64_t head_dim, float scale, float* scores, float* out);

// ---- Backward
// ------------------------------------------------------------------------------------

/// A float matrix as panels for dx = W^T dy: [panels_of(in)][out][16].
class TransposedWeight;  // kernels/weight.h

/// dx[i][k] = sum_o dy[i][o] W[o][k] for in-panels [panel_begin, panel_end); overwrites dx.
void linear_input_gradient(const TransposedWeight& w, const float* dy, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, float* dx);

/// g[p][r] += sum_i x[i][p] h[i][r], p in [begin, end): the gradient of a factor. x is [rows x
/// cols], h [rows x rank], g [cols x rank]; i ascends. rank is a multiple of 8.
void accumulate_outer(const float* x, int64_t rows, int64_t cols, const float* h, int64_t rank,
                      int64_t begin, int64_t end, float* g);

/// g[o] += sum_i a[i][o] b[i][o], o in [begin, end).
void accumulate_product(const float* a, const float* b, int64_t rows, int64_t cols, int64_t begin,
                        int64_t end, float* g);

/// dx += gradient of rms_norm for rows [0, rows); weight is frozen.
void rms_norm_gradient(const float* x, const float* weight, float eps, const float* dy,
                       int64_t rows, int64_t cols, float* dx);

/// Gradients of silu_mul: dgate, dup (overwritten; may alias nothing).
void silu_mul_gradient(const float* gate, const float* up, const float* dy, int64_t n, float* dgate,
                       float* dup);

/// Attention of one sequence and one KV head, backward. Row strides in floats for q/dq/dout/out
/// (`q_stride`) and dk/dv (`kv_stride`); k, v as in attend(). Probabilities are recomputed.
/// dq, dk, dv are overwritten. scratch: 2 * padded(length) floats.
struct AttentionGradient {
  const float *q, *out, *dout;
  const Half *k, *v;
  float *dq, *dk, *dv;
  int64_t q_stride, kv_stride;
  int64_t length, group, head_dim;
  float scale;
};
void attend_gradient(const AttentionGradient& arguments, float* scratch);

/// Softmax cross-entropy of one row of logits against `target`: returns -log p(target) and
/// overwrites logits with (p - onehot(target)) * weight.
float cross_entropy_gradient(float* logits, int64_t n, int64_t target, float weight);
/// -log p(target) only.
float cross_entropy(const float* logits, int64_t n, int64_t target);

/// AdamW on n parameters. m, v: moments; the bias corrections are 1 - beta^step.
struct AdamW {
  float learning_rate, beta1, beta2, epsilon, weight_decay, correction1, correction2,
      gradient_scale;
};
void adamw(const AdamW& options, const float* gradient, int64_t n, float* parameter, float* m,
           float* v);

/// Sum of squares in double, in a fixed order.
double sum_of_squares(const float* x, int64_t n);

}  // namespace retort::kernels
