#include "kernels/kernels.h"

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/half.h"

namespace retort::kernels {

float half_to_float(Half h) { return half_bits_to_float(h); }
Half float_to_half(float x) { return float_to_half_bits(x); }
void to_half(const float* x, int64_t n, Half* y) { active().to_half(x, n, y); }

void to_float(const Half* x, int64_t n, float* y) { active().to_float(x, n, y); }

void quantize_rows(const Activations& x, int64_t begin, int64_t end) {
  active().quantize_rows(x, begin, end);
}

void adapter_down(const float* x, int64_t rows, int64_t cols, const Half* m, int64_t rank,
                  float* h) {
  CHECK(rank % 8 == 0, "rank {}", rank);
  active().adapter_down(x, rows, cols, m, rank, h);
}

void adapter_up(const float* h, int64_t rows, int64_t rank, const Half* m, int64_t cols, float* y) {
  active().adapter_up(h, rows, rank, m, cols, y);
}

void linear(const Weight& w, const float* bias, const Activations& x, int64_t rows,
            std::span<const RowGroup> groups, int64_t panel_begin, int64_t panel_end, float* y) {
  CHECK(x.cols == w.in(), "{} columns for {} inputs", x.cols, w.in());
  active().linear(w, bias, x, rows, groups, panel_begin, panel_end, y);
}

void panel_product(const Weight& w, int64_t panel, const float* m, int64_t rank, float* y) {
  active().panel_product(w, panel, m, rank, y);
}

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t cols,
              float* y) {
  active().rms_norm(x, weight, eps, rows, cols, y);
}

void rope(float* x, int64_t heads, int64_t head_dim, int64_t rotary_dims, const float* cos,
          const float* sin, bool interleaved, bool inverse) {
  active().rope(x, heads, head_dim, rotary_dims, cos, sin, interleaved, inverse);
}

void silu_mul(const float* gate, const float* up, int64_t n, float* y) {
  active().silu_mul(gate, up, n, y);
}

void add(const float* x, int64_t n, float* y) { active().add(x, n, y); }

void attend(const float* q, int64_t group, const Half* k, const Half* v, int64_t length,
            int64_t head_dim, float scale, float* scores, float* out) {
  CHECK(head_dim % 8 == 0 && head_dim <= kHeadDimMax && length > 0, "{} {}", head_dim, length);
  active().attend(q, group, k, v, length, head_dim, scale, scores, out);
}

void linear_input_gradient(const TransposedWeight& w, const float* dy, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, float* dx) {
  active().linear_input_gradient(w, dy, rows, panel_begin, panel_end, dx);
}

void accumulate_outer(const float* x, int64_t rows, int64_t cols, const float* h, int64_t rank,
                      int64_t begin, int64_t end, float* g) {
  CHECK(rank % 8 == 0, "rank {}", rank);
  active().accumulate_outer(x, rows, cols, h, rank, begin, end, g);
}

void accumulate_product(const float* a, const float* b, int64_t rows, int64_t cols, int64_t begin,
                        int64_t end, float* g) {
  active().accumulate_product(a, b, rows, cols, begin, end, g);
}

void rms_norm_gradient(const float* x, const float* weight, float eps, const float* dy,
                       int64_t rows, int64_t cols, float* dx) {
  active().rms_norm_gradient(x, weight, eps, dy, rows, cols, dx);
}

void silu_mul_gradient(const float* gate, const float* up, const float* dy, int64_t n, float* dgate,
                       float* dup) {
  active().silu_mul_gradient(gate, up, dy, n, dgate, dup);
}

void attend_gradient(const AttentionGradient& arguments, float* scratch) {
  CHECK(arguments.head_dim % 8 == 0 && arguments.head_dim <= kHeadDimMax, "{}", arguments.head_dim);
  active().attend_gradient(arguments, scratch);
}

float cross_entropy_gradient(float* logits, int64_t n, int64_t target, float weight) {
  CHECK(target >= 0 && target < n, "target {} of {}", target, n);
  return active().cross_entropy_gradient(logits, n, target, weight);
}

float cross_entropy(const float* logits, int64_t n, int64_t target) {
  CHECK(target >= 0 && target < n, "target {} of {}", target, n);
  return active().cross_entropy(logits, n, target);
}

void adamw(const AdamW& options, const float* gradient, int64_t n, float* parameter, float* m,
           float* v) {
  active().adamw(options, gradient, n, parameter, m, v);
}

double sum_of_squares(const float* x, int64_t n) { return active().sum_of_squares(x, n); }

}  // namespace retort::kernels
