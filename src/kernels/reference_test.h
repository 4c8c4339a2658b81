// What the kernel tests share: random data, double-precision references, and a matrix of every
// type.
#pragma once

#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/kernels.h"

namespace retort::kernels {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_floats(int64_t n, uint64_t seed, float scale = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats x(static_cast<size_t>(n));
  for (float& v : x) v = normal(generator);
  return x;
}

inline std::vector<Half> halves_of(const Floats& x) {
  std::vector<Half> h(x.size());
  for (size_t i = 0; i < x.size(); ++i) h[i] = float_to_half(x[i]);
  return h;
}

inline constexpr ggml_type kTypes[] = {
    GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K,
    GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
};

/// A random matrix in ggml's bytes.
inline std::vector<std::byte> random_matrix(ggml_type type, int64_t out, int64_t in,
                                            uint64_t seed) {
  const Floats x = random_floats(out * in, seed, 0.5f);
  std::vector<std::byte> bytes(static_cast<size_t>(out) * ggml_row_size(type, in));
  if (type == GGML_TYPE_F32)
    std::memcpy(bytes.data(), x.data(), bytes.size());
  else
    ggml_quantize_chunk(type, x.data(), bytes.data(), 0, out, in, nullptr);
  return bytes;
}

inline Weight packed(ggml_type type, int64_t out, int64_t in, uint64_t seed) {
  auto w = Weight::pack(type, random_matrix(type, out, in, seed), out, in);
  EXPECT_TRUE(w.has_value());
  return *std::move(w);
}

/// Activations with their own storage.
struct OwnedActivations {
  OwnedActivations(Floats values, int64_t cols) : x(std::move(values)) {
    const size_t blocks = x.size() / 32 + 1;
    q.resize(x.size()), scale.resize(blocks), sum.resize(blocks);
    view = {x.data(), q.data(), scale.data(), sum.data(), cols};
    rows = static_cast<int64_t>(x.size()) / cols;
    if (cols % 32 == 0) quantize_rows(view, 0, rows);
  }
  Floats x;
  std::vector<int8_t> q;
  Floats scale, sum;
  Activations view;
  int64_t rows;
};

/// An adapter matrix with its own storage, and in plain form: a[r][k], b[o][r].
struct OwnedAdapter {
  OwnedAdapter(int64_t out, int64_t in, int64_t rank, uint64_t seed)
      : a(halves_of(random_floats(in * rank, seed, 0.1f))),
        b(halves_of(random_floats(padded(out) * rank, seed + 1, 0.1f))),
        d(random_floats(padded(out), seed + 2, 0.1f)),
        matrix{rank, a.data(), b.data(), d.data()} {}
  double b_at(int64_t o, int64_t r) const {
    return half_to_float(b[static_cast<size_t>((o / 16 * matrix.rank + r) * 16 + o % 16)]);
  }
  std::vector<Half> a, b;
  Floats d;
  AdapterMatrix matrix;
};

/// |got - want| <= tolerance * (1 + |want|) for every element.
template <class Want>
void expect_near(const Floats& got, const Want& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << "element " << i;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void expect_same_bits(const Floats& a, const Floats& b) { EXPECT_TRUE(same_bits(a, b)); }

}  // namespace retort::kernels
