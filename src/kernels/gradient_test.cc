// Backward kernels. Oracles: the formulas in double, and central differences of a double forward.
#include "kernels/kernels.h"
#include "kernels/reference_test.h"

namespace retort::kernels {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

TEST(LinearInputGradient, MatchesDoubleAndAnyRows) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{37, 64}, {5, 96}, {100, 32}}) {
    const Weight w = packed(GGML_TYPE_Q8_0, out, in, 1);
    TransposedWeight t(w);
    t.fill_panels(w, 0, panels_of(in));
    const int64_t rows = 23;
    const Floats dy = random_floats(rows * out, 2);
    Floats dx(at(rows * in)), row(at(in)), one(at(in));
    linear_input_gradient(t, dy.data(), rows, 0, panels_of(in), dx.data());
    Doubles want(dx.size());
    for (int64_t o = 0; o < out; ++o) {
      w.dequantize_row(o, row.data());
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = 0; k < in; ++k)
          want[at(i * in + k)] += double{dy[at(i * out + o)]} * row[at(k)];
    }
    expect_near(dx, want, 1e-5);  // 100 terms of size 1, 2^-24 each
    for (int64_t i = 0; i < rows; ++i) {
      linear_input_gradient(t, dy.data() + i * out, 1, 0, panels_of(in), one.data());
      ASSERT_EQ(0, std::memcmp(one.data(), dx.data() + i * in, one.size() * 4)) << i;
    }
  }
}

TEST(AccumulateOuter, MatchesDoubleInAnyRanges) {
  for (const int64_t rank : {8, 16, 24}) {
    const int64_t rows = 11, cols = 45;
    const Floats x = random_floats(rows * cols, 3), h = random_floats(rows * rank, 4);
    Floats g(at(cols * rank), 2), pieces = g;
    accumulate_outer(x.data(), rows, cols, h.data(), rank, 0, cols, g.data());
    Doubles want(g.size(), 2);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t p = 0; p < cols; ++p)
        for (int64_t r = 0; r < rank; ++r)
          want[at(p * rank + r)] += double{x[at(i * cols + p)]} * h[at(i * rank + r)];
    expect_near(g, want, 2e-6);
    for (const auto& [b, e] : {std::pair{20, 45}, {0, 7}, {7, 20}})
      accumulate_outer(x.data(), rows, cols, h.data(), rank, b, e, pieces.data());
    expect_same_bits(pieces, g);
  }
}

TEST(AccumulateProduct, MatchesDoubleInAnyRanges) {
  const int64_t rows = 9, cols = 53;
  const Floats a = random_floats(rows * cols, 5), b = random_floats(rows * cols, 6);
  Floats g(at(cols), 1), pieces = g;
  accumulate_product(a.data(), b.data(), rows, cols, 0, cols, g.data());
  Doubles want(g.size(), 1);
  for (int64_t i = 0; i < rows * cols; ++i) want[at(i % cols)] += double{a[at(i)]} * b[at(i)];
  expect_near(g, want, 1e-6);
  for (const auto& [begin, end] : {std::pair{30, 53}, {0, 30}})
    accumulate_product(a.data(), b.data(), rows, cols, begin, end, pieces.data());
  expect_same_bits(pieces, g);
}

TEST(RmsNormGradient, MatchesCentralDifferences) {
  const int64_t cols = 40;
  const Floats x = random_floats(cols, 7), w = random_floats(cols, 8), dy = random_floats(cols, 9);
  Floats dx(at(cols), 0.25f);
  rms_norm_gradient(x.data(), w.data(), 1e-5f, dy.data(), 1, cols, dx.data());
  const auto loss = [&](const Doubles& v) {
    double square = 0, sum = 0;
    for (const double c : v) square += c * c;
    for (size_t k = 0; k < v.size(); ++k)
      sum += v[k] / std::sqrt(square / static_cast<double>(cols) + 1e-5) * w[k] * dy[k];
    return sum;
  };
  for (size_t k = 0; k < x.size(); ++k) {
    Doubles plus(x.begin(), x.end()), minus = plus;
    plus[k] += 1e-5, minus[k] -= 1e-5;
    ASSERT_NEAR(dx[k], 0.25 + (loss(plus) - loss(minus)) / 2e-5, 1e-5) << k;
  }
}

TEST(SiluMulGradient, MatchesTheDerivative) {
  const int64_t n = 75;
  const Floats gate = random_floats(n, 10, 4), up = random_floats(n, 11), dy = random_floats(n, 12);
  Floats dgate(at(n)), dup(at(n));
  silu_mul_gradient(gate.data(), up.data(), dy.data(), n, dgate.data(), dup.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i], s = 1 / (1 + std::exp(-g));
    ASSERT_NEAR(dup[i], dy[i] * g * s, 2e-6);
    ASSERT_NEAR(dgate[i], double{dy[i]} * up[i] * s * (1 + g * (1 - s)), 2e-6);
  }
}

// ---- Attention
// -----------------------------------------------------------------------------------

struct AttentionCase {
  AttentionCase(int64_t length_, int64_t group_, int64_t head_dim_)
      : length(length_),
        group(group_),
        head_dim(head_dim_),
        q_stride(group_ * head_dim_ + 8),
        kv_stride(head_dim_ + 8),
        scale(1 / std::sqrt(static_cast<float>(head_dim_))),
        q(random_floats(length_ * q_stride, 21)),
        dout(random_floats(length_ * q_stride, 22)),
        out(q.size()),
        k(halves_of(random_floats(length_ * head_dim_, 23))),
        v(halves_of(random_floats(length_ * head_dim_, 24))) {
    Floats scores(at(group * padded(length)));
    for (int64_t i = 0; i < length; ++i)
      attend(q.data() + i * q_stride, group, k.data(), v.data(), i + 1, head_dim, scale,
             scores.data(), out.data() + i * q_stride);
  }
  void run(const Table& table, Floats& dq, Floats& dk, Floats& dv) const {
    dq.assign(q.size(), 7), dk.assign(at(length * kv_stride), 7), dv = dk;
    Floats scratch(at(2 * padded(length)));
    table.attend_gradient(
        {q.data(), out.data(), dout.data(), k.data(), v.data(), dq.data(), dk.data(), dv.data(),
         q_stride, kv_stride, length, group, head_dim, scale},
        scratch.data());
  }
  int64_t length, group, head_dim, q_stride, kv_stride;
  float scale;
  Floats q, dout, out;
  std::vector<Half> k, v;
};

/// The textbook backward in double: dq, dk, dv in the strides of the case, 7 in the gaps.
void reference_attention(const AttentionCase& c, Doubles& dq, Doubles& dk, Doubles& dv) {
  dq.assign(c.q.size(), 7), dk.assign(at(c.length * c.kv_stride), 7);
  for (int64_t i = 0; i < c.length; ++i) {
    for (int64_t d = 0; d < c.group * c.head_dim; ++d) dq[at(i * c.q_stride + d)] = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) dk[at(i * c.kv_stride + d)] = 0;
  }
  dv = dk;
  const auto key = [&](const std::vector<Half>& m, int64_t t, int64_t d) {
    return double{half_to_float(m[at(t * c.head_dim + d)])};
  };
  for (int64_t h = 0; h < c.group; ++h)
    for (int64_t i = 0; i < c.length; ++i) {
      const int64_t base = i * c.q_stride + h * c.head_dim;
      Doubles p(at(i + 1)), dp(at(i + 1));
      double sum = 0, mean = 0;
      for (int64_t t = 0; t <= i; ++t) {
        double s = 0;
        for (int64_t d = 0; d < c.head_dim; ++d) {
          s += c.q[at(base + d)] * key(c.k, t, d);
          dp[at(t)] += c.dout[at(base + d)] * key(c.v, t, d);
        }
        sum += p[at(t)] = std::exp(s * c.scale);
      }
      for (int64_t t = 0; t <= i; ++t) mean += (p[at(t)] /= sum) * dp[at(t)];
      for (int64_t t = 0; t <= i; ++t) {
        const double ds = p[at(t)] * (dp[at(t)] - mean) * c.scale;
        for (int64_t d = 0; d < c.head_dim; ++d) {
          dq[at(base + d)] += ds * key(c.k, t, d);
          dk[at(t * c.kv_stride + d)] += ds * c.q[at(base + d)];
          dv[at(t * c.kv_stride + d)] += p[at(t)] * c.dout[at(base + d)];
        }
      }
    }
}

TEST(AttendGradient, MatchesDouble) {
  for (const int64_t head_dim : {8, 24, 64, 128})
    for (const int64_t length : {1, 2, 15, 16, 17, 40, 97}) {
      const AttentionCase c(length, length % 3 + 1, head_dim);
      Floats dq, dk, dv;
      c.run(active(), dq, dk, dv);
      Doubles want_q, want_k, want_v;
      reference_attention(c, want_q, want_k, want_v);
      expect_near(dq, want_q,
                  2e-5);  // sums over up to 300 (query, head) pairs; lse rounds at 2^-21
      expect_near(dk, want_k, 2e-5);
      expect_near(dv, want_v, 2e-5);
    }
}

TEST(AttendGradient, InstructionSetsHaveTheSameBits) {
  const AttentionCase c(40, 2, 24);
  Floats want[3], got[3];
  c.run(active(), want[0], want[1], want[2]);
  for (const Table* table : available()) {
    c.run(*table, got[0], got[1], got[2]);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << table->name << i;
  }
}

// ---- Loss and optimiser
// --------------------------------------------------------------------------

TEST(CrossEntropy, MatchesDouble) {
  for (const int64_t n : {1, 5, 16, 1000, 49152}) {
    const Floats logits = random_floats(n, 31, 5);
    const int64_t target = n / 3;
    double sum = 0;
    for (const float x : logits) sum += std::exp(double{x});
    const double want = std::log(sum) - logits[at(target)];
    EXPECT_NEAR(cross_entropy(logits.data(), n, target), want, 2e-6 * (1 + want));
    Floats g = logits;
    EXPECT_NEAR(cross_entropy_gradient(g.data(), n, target, 0.5f), want, 2e-6 * (1 + want));
    for (int64_t i = 0; i < n; ++i) {
      const double p = std::exp(double{logits[at(i)]}) / sum;
      ASSERT_NEAR(g[at(i)], (p - (i == target)) * 0.5, 2e-6 * p + 1e-7) << i;
    }
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  Floats logits = {1000, -1000, 999};
  EXPECT_NEAR(cross_entropy(logits.data(), 3, 2), 1 + std::log1p(std::exp(-1.0)), 1e-6);
}

TEST(AdamW, MatchesTheFormula) {  // Loshchilov and Hutter 2019, algorithm 2
  const int64_t n = 37;
  const Floats g = random_floats(n, 41), start = random_floats(n, 42);
  Floats p = start, m = random_floats(n, 43, 0.1f), v(at(n), 0.02f);
  const Floats m0 = m;
  adamw({0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.271f, 0.0297f, 0.5f}, g.data(), n, p.data(), m.data(),
        v.data());
  for (size_t i = 0; i < p.size(); ++i) {
    const double grad = g[i] * 0.5, mi = 0.9 * m0[i] + 0.1 * grad,
                 vi = 0.99 * 0.02 + 0.01 * grad * grad;
    const double step = mi / 0.271 / (std::sqrt(vi / 0.0297) + 1e-8);
    ASSERT_NEAR(p[i], start[i] - 0.01 * (step + 0.1 * start[i]), 1e-6);
    ASSERT_NEAR(m[i], mi, 1e-6);
    ASSERT_NEAR(v[i], vi, 1e-6);
  }
}

TEST(SumOfSquares, MatchesLongDouble) {
  const Floats x = random_floats(1003, 51);
  long double want = 0;
  for (const float v : x) want += static_cast<long double>(v) * v;
  EXPECT_NEAR(sum_of_squares(x.data(), 1003), static_cast<double>(want), 1e-10);
}

/// Every remaining kernel, on every table that runs here, against the portable one.
TEST(InstructionSets, HaveTheSameBits) {
  const Table& portable = *available().back();
  const int64_t rows = 7, cols = 61, rank = 24;
  const Floats x = random_floats(rows * cols, 61), y = random_floats(rows * cols, 62);
  const Floats h = random_floats(rows * rank, 63);
  const OwnedAdapter adapter(cols, cols, rank, 64);
  const auto run = [&](const Table& t) {
    Floats all;
    const auto keep = [&](const Floats& v) { all.insert(all.end(), v.begin(), v.end()); };
    Floats a(x.size()), b(x.size()), c(at(cols * rank)), hidden(h.size());
    t.rms_norm(x.data(), y.data(), 1e-5f, 1, cols, a.data()), keep(a);
    t.rms_norm_gradient(x.data(), y.data(), 1e-5f, y.data(), 1, cols, a.data()), keep(a);
    t.silu_mul(x.data(), y.data(), rows * cols, a.data()), keep(a);
    t.silu_mul_gradient(x.data(), y.data(), x.data(), rows * cols, a.data(), b.data()), keep(a),
        keep(b);
    t.accumulate_outer(x.data(), rows, cols, h.data(), rank, 0, cols, c.data()), keep(c);
    t.accumulate_product(x.data(), y.data(), rows, cols, 0, cols, a.data()), keep(a);
    t.adapter_down(x.data(), rows, cols, adapter.a.data(), rank, hidden.data()), keep(hidden);
    t.adapter_up(h.data(), rows, rank, adapter.b.data(), cols, a.data()), keep(a);
    t.rope(a.data(), 3, 16, 16, x.data(), y.data(), false, false), keep(a);
    t.add(x.data(), rows * cols, a.data()), keep(a);
    all.push_back(t.cross_entropy(x.data(), cols, 3));
    all.push_back(t.cross_entropy_gradient(a.data(), cols, 3, 1)), keep(a);
    Floats m(x.size()), v(x.size());
    t.adamw({0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.1f, 0.01f, 1}, x.data(), cols, a.data(), m.data(),
            v.data());
    keep(a), keep(m), keep(v);
    all.push_back(static_cast<float>(t.sum_of_squares(x.data(), cols)));
    const auto k = halves_of(random_floats(24 * 24, 65));
    Floats scores(32 * 2), out(48);
    t.attend(x.data(), 2, k.data(), k.data(), 24, 24, 0.3f, scores.data(), out.data()), keep(out);
    OwnedActivations act(random_floats(64 * 3, 66), 32);
    t.quantize_rows(act.view, 0, act.rows), keep(act.scale), keep(act.sum);
    for (const int8_t q : act.q) all.push_back(q);
    return all;
  };
  const Floats want = run(portable);
  for (const Table* table : available()) EXPECT_TRUE(same_bits(run(*table), want)) << table->name;
}

TEST(Dispatch, ListsThePortableKernelsLast) { EXPECT_STREQ(available().back()->name, "portable"); }

}  // namespace
}  // namespace retort::kernels
