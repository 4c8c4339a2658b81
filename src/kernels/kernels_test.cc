// Forward kernels. Oracles: double-precision sums over dequantised weights and the quantised
// activations; memcmp between row counts, panel ranges and instruction sets.
#include "kernels/kernels.h"

#include "kernels/reference_test.h"

namespace retort::kernels {
namespace {

struct Shape {
  int64_t out, in, rows;
};

/// z = W x in double, over what the kernel is given (the 8-bit activations, where it takes those).
Doubles reference_linear(const Weight& w, const OwnedActivations& x, Doubles* magnitude = nullptr) {
  const int64_t in = w.in(), out = w.out();
  Doubles y(static_cast<size_t>(x.rows * out));
  if (magnitude != nullptr) magnitude->resize(y.size());
  Floats row(static_cast<size_t>(in));
  for (int64_t o = 0; o < out; ++o) {
    w.dequantize_row(o, row.data());
    for (int64_t i = 0; i < x.rows; ++i) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < in; ++k) {
        const auto at = static_cast<size_t>(i * in + k);
        const double value =
            w.quantized() ? static_cast<double>(x.q[at]) * x.scale[at / 32] : double{x.x[at]};
        sum += value * row[static_cast<size_t>(k)];
        size += std::fabs(value * row[static_cast<size_t>(k)]);
      }
      y[static_cast<size_t>(i * out + o)] = sum;
      if (magnitude != nullptr) (*magnitude)[static_cast<size_t>(i * out + o)] = size;
    }
  }
  return y;
}

Floats run_linear(const Weight& w, const OwnedActivations& x, std::span<const RowGroup> groups = {},
                  const float* bias = nullptr) {
  Floats y(static_cast<size_t>(x.rows * w.out()), -1);
  linear(w, bias, x.view, x.rows, groups, 0, panels_of(w.out()), y.data());
  return y;
}

class LinearTypes : public testing::TestWithParam<ggml_type> {};
INSTANTIATE_TEST_SUITE_P(All, LinearTypes, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(ggml_type_name(info.param)); });

class QuantizedTypes : public testing::TestWithParam<ggml_type> {};
INSTANTIATE_TEST_SUITE_P(All, QuantizedTypes, testing::ValuesIn(std::span(kTypes).first(8)),
                         [](const auto& info) { return std::string(ggml_type_name(info.param)); });

TEST_P(LinearTypes, MatchesDoubleReference) {
  for (const Shape s :
       {Shape{48, 256, 5}, Shape{37, 512, 3}, Shape{1, 256, 1}, Shape{20, 768, 21}}) {
    const Weight w = packed(GetParam(), s.out, s.in, 11);
    const OwnedActivations x(random_floats(s.rows * s.in, 12), s.in);
    Doubles size;
    const Doubles want = reference_linear(w, x, &size);
    const Floats got = run_linear(w, x);
    // A float sum of in/32 (or in) terms errs by at most terms * 2^-24 of the terms' magnitudes;
    // the offset formats split each term in two of up to 16 times the size: 1e-5 covers both.
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (size[i] + 1)) << i;
  }
}

TEST_P(LinearTypes, SmallestInputs) {  // the blocks of tiny models
  const bool k_quant = ggml_blck_size(GetParam()) == 256;
  const int64_t in = k_quant ? 256 : 32;
  const Weight w = packed(GetParam(), 8, in, 13);
  const OwnedActivations x(random_floats(2 * in, 14), in);
  expect_near(run_linear(w, x), reference_linear(w, x), 1e-4);
}

TEST_P(QuantizedTypes,
       ExtremeIntegersStayExact) {  // q at its limits: 16-bit sums must not overflow
  const int64_t in = 256, out = 32;
  std::vector<std::byte> bytes(out * ggml_row_size(GetParam(), in));
  for (const int fill : {0x00, 0x3b, 0x7b, 0x80, 0xbb, 0xfb}) {  // no fill is an infinite half
    std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(fill));
    const auto w = Weight::pack(GetParam(), bytes, out, in);
    for (const float sign : {1.0f, -1.0f}) {
      const OwnedActivations x(Floats(5 * in, sign * 3), in);
      Doubles size;
      const Doubles want = reference_linear(*w, x, &size);
      const Floats got = run_linear(*w, x);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 2e-5 * (size[i] + 1)) << fill << " " << i;
    }
  }
}

TEST_P(LinearTypes, RowsHaveTheSameBitsInAnyCompany) {
  const int64_t out = 52, in = 512;
  const Weight w = packed(GetParam(), out, in, 15);
  const OwnedActivations all(random_floats(33 * in, 16), in);
  const Floats want = run_linear(w, all);
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17}) {
    for (int64_t begin = 0; begin + rows <= 33; begin += rows) {
      const OwnedActivations x(
          Floats(all.x.begin() + begin * in, all.x.begin() + (begin + rows) * in), in);
      const Floats got = run_linear(w, x);
      ASSERT_EQ(0, std::memcmp(got.data(), want.data() + begin * out, got.size() * 4)) << rows;
    }
  }
  Floats pieces(want.size());
  for (const auto& [begin, end] : {std::pair{3, 4}, {0, 1}, {1, 3}})
    linear(w, nullptr, all.view, all.rows, {}, begin, end, pieces.data());
  expect_same_bits(pieces, want);
}

TEST_P(LinearTypes, InstructionSetsHaveTheSameBits) {
  const Weight w = packed(GetParam(), 33, 256, 17);
  const OwnedActivations x(random_floats(7 * 256, 18), 256);
  const Floats want = run_linear(w, x);
  for (const Table* table : available()) {
    Floats y(want.size());
    table->linear(w, nullptr, x.view, x.rows, {}, 0, 3, y.data());
    EXPECT_TRUE(same_bits(y, want)) << table->name;
  }
  const Floats m = random_floats(256 * 24, 19);
  Floats product(24 * kPanel), other(product.size());
  panel_product(w, 2, m.data(), 24, product.data());
  for (const Table* table : available()) {
    table->panel_product(w, 2, m.data(), 24, other.data());
    EXPECT_TRUE(same_bits(other, product)) << table->name;
  }
}

TEST_P(LinearTypes, PanelProductUsesTheExactWeights) {
  const int64_t out = 40, in = 512, rank = 24;
  const Weight w = packed(GetParam(), out, in, 1);
  const Floats m = random_floats(in * rank, 2);
  Floats row(in), y(rank * kPanel);
  for (int64_t p = 0; p < panels_of(out); ++p) {
    panel_product(w, p, m.data(), rank, y.data());
    for (int64_t i = 0; i < kPanel; ++i) {
      const bool inside = p * kPanel + i < out;
      if (inside) w.dequantize_row(p * kPanel + i, row.data());
      for (int64_t r = 0; r < rank; ++r) {
        double expected = 0, size = 0;
        for (int64_t k = 0; k < in && inside; ++k) {
          expected += double{m[k * rank + r]} * row[k];
          size += std::abs(double{m[k * rank + r]} * row[k]);
        }
        ASSERT_NEAR(y[r * kPanel + i], expected, 1e-6 * size) << p << " " << i << " " << r;
      }
    }
  }
}

// ---- The adapter law
// ------------------------------------------------------------------------------

struct LawCase {
  LawCase()
      : w(packed(GGML_TYPE_Q4_1, out, in, 21)),
        x(random_floats(rows * in, 22), in),
        first(out, in, 8, 23),
        second(out, in, 24, 24),
        bias(random_floats(out, 25)),
        gates(random_floats(rows, 26)) {
    for (const OwnedAdapter* adapter : {&first, &second}) {
      h.emplace_back(static_cast<size_t>(rows * adapter->matrix.rank));
      adapter_down(x.x.data(), rows, in, adapter->a.data(), adapter->matrix.rank, h.back().data());
    }
  }
  /// Terms of rows from `begin`: the first adapter with a constant gate, the second with row gates.
  std::vector<MixTerm> terms(int64_t begin) const {
    return {{&first.matrix, nullptr, 0.7f, h[0].data() + begin * 8},
            {&second.matrix, gates.data() + begin, 0, h[1].data() + begin * 24}};
  }
  double law(int64_t i, int64_t o, double z) const {
    double y = z, factor = 1;
    const OwnedAdapter* adapters[] = {&first, &second};
    for (int t = 0; t < 2; ++t) {
      const OwnedAdapter& adapter = *adapters[t];
      const double gate = t == 0 ? 0.7f : gates[static_cast<size_t>(i)];
      factor += gate * adapter.d[static_cast<size_t>(o)];
      for (int64_t r = 0; r < adapter.matrix.rank; ++r) {
        double down = 0;
        for (int64_t k = 0; k < in; ++k)
          down += double{x.x[static_cast<size_t>(i * in + k)]} *
                  half_to_float(adapter.a[static_cast<size_t>(k * adapter.matrix.rank + r)]);
        y += gate * adapter.b_at(o, r) * down;
      }
    }
    return y + z * (factor - 1) + bias[static_cast<size_t>(o)];
  }
  static constexpr int64_t out = 40, in = 96, rows = 37;
  Weight w;
  OwnedActivations x;
  OwnedAdapter first, second;
  Floats bias, gates;
  std::vector<Floats> h;
};

TEST(Linear, FollowsTheAdapterLaw) {
  const LawCase c;
  const Doubles z = reference_linear(c.w, c.x);
  const auto a = c.terms(2), b = c.terms(14);
  const RowGroup groups[] = {{2, 5, a}, {5, 9, {}}, {14, 35, b}};  // 14..35 spans tiles of rows
  const Floats got = run_linear(c.w, c.x, groups, c.bias.data());
  const Floats plain = run_linear(c.w, c.x, {}, c.bias.data());
  for (int64_t i = 0; i < c.rows; ++i) {
    const bool adapted = (i >= 2 && i < 5) || (i >= 14 && i < 35);
    for (int64_t o = 0; o < c.out; ++o) {
      const auto at = static_cast<size_t>(i * c.out + o);
      if (!adapted) {
        ASSERT_EQ(got[at], plain[at]) << i << " " << o;
      }
      const double want = adapted ? c.law(i, o, z[at]) : z[at] + c.bias[static_cast<size_t>(o)];
      ASSERT_NEAR(got[at], want, 1e-4) << i << " " << o;  // ~100 float terms of size 1
    }
  }
}

TEST(Linear, AdaptedRowsHaveTheSameBitsInAnyCompany) {
  const LawCase c;
  const auto all = c.terms(0);
  const RowGroup whole[] = {{0, c.rows, all}};
  const Floats want = run_linear(c.w, c.x, whole, c.bias.data());
  for (int64_t i = 0; i < c.rows; ++i) {
    const auto terms = c.terms(i);
    const RowGroup one[] = {{0, 1, terms}};
    const OwnedActivations x(Floats(c.x.x.begin() + i * c.in, c.x.x.begin() + (i + 1) * c.in),
                             c.in);
    const Floats got = run_linear(c.w, x, one, c.bias.data());
    ASSERT_EQ(0, std::memcmp(got.data(), want.data() + i * c.out, got.size() * 4)) << i;
  }
}

TEST(QuantizeRows, MatchesItsDefinition) {
  const OwnedActivations x(random_floats(3 * 96, 31), 96);
  for (size_t b = 0; b < 9; ++b) {
    float largest = 0;
    int sum = 0;
    for (size_t k = 0; k < 32; ++k) largest = std::max(largest, std::fabs(x.x[b * 32 + k]));
    EXPECT_FLOAT_EQ(x.scale[b], largest / 127);
    for (size_t k = 0; k < 32; ++k) {
      EXPECT_NEAR(x.q[b * 32 + k], x.x[b * 32 + k] / x.scale[b], 0.5001);
      sum += x.q[b * 32 + k];
    }
    EXPECT_FLOAT_EQ(x.sum[b], x.scale[b] * static_cast<float>(sum));
  }
}

TEST(QuantizeRows, KeepsZerosAndOddValuesInRange) {
  Floats x(96, 0);
  x[32] = std::numeric_limits<float>::infinity(), x[40] = std::nanf("");
  x[64] = 1e-42f;
  const OwnedActivations a(x, 96);
  for (const int8_t q : a.q) EXPECT_GE(q, -127);
  EXPECT_EQ(a.scale[0], 0);
  EXPECT_EQ(a.scale[2], 0);
}

TEST(Adapter, DownAndUpMatchDouble) {
  for (const int64_t rank : {8, 16, 24, 32}) {
    for (const int64_t rows : {1, 2, 5, 6, 13}) {
      const int64_t in = 57, out = 41;
      const OwnedAdapter adapter(out, in, rank, 41);
      const Floats x = random_floats(rows * in, 42);
      Floats h(static_cast<size_t>(rows * rank)), y(static_cast<size_t>(rows * out), 0.5f);
      adapter_down(x.data(), rows, in, adapter.a.data(), rank, h.data());
      adapter_up(h.data(), rows, rank, adapter.b.data(), out, y.data());
      Doubles want_h(h.size()), want_y(y.size(), 0.5);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t r = 0; r < rank; ++r) {
          double& sum = want_h[static_cast<size_t>(i * rank + r)];
          for (int64_t k = 0; k < in; ++k)
            sum += double{x[static_cast<size_t>(i * in + k)]} *
                   half_to_float(adapter.a[static_cast<size_t>(k * rank + r)]);
          for (int64_t o = 0; o < out; ++o)
            want_y[static_cast<size_t>(i * out + o)] += sum * adapter.b_at(o, r);
        }
      expect_near(h, want_h, 57 * 6e-8 * 4);
      expect_near(y, want_y, 57 * 6e-8 * 4);
    }
  }
}

TEST(Adapter, DownHasTheSameBitsForAnyRows) {
  const int64_t in = 131, rank = 24;
  const OwnedAdapter adapter(16, in, rank, 43);
  const Floats x = random_floats(19 * in, 44);
  Floats want(19 * rank), got(rank);
  adapter_down(x.data(), 19, in, adapter.a.data(), rank, want.data());
  for (int64_t i = 0; i < 19; ++i) {
    adapter_down(x.data() + i * in, 1, in, adapter.a.data(), rank, got.data());
    ASSERT_EQ(0, std::memcmp(got.data(), want.data() + i * rank, rank * 4)) << i;
  }
}

// ---- Attention and the small ones
// -----------------------------------------------------------------

TEST(Attend, MatchesDouble) {
  for (const int64_t head_dim : {8, 24, 64, 128, 256}) {
    for (const int64_t length : {1, 2, 7, 8, 16, 33, 100}) {
      const int64_t group = length % 7 + 1;
      const auto k = halves_of(random_floats(length * head_dim, 51)),
                 v = halves_of(random_floats(length * head_dim, 52));
      const Floats q = random_floats(group * head_dim, 53);
      const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
      Floats out(q.size()), scores(static_cast<size_t>(group * padded(length)));
      attend(q.data(), group, k.data(), v.data(), length, head_dim, scale, scores.data(),
             out.data());
      Doubles want(q.size());
      for (int64_t h = 0; h < group; ++h) {
        Doubles p(static_cast<size_t>(length));
        double sum = 0;
        for (int64_t t = 0; t < length; ++t) {
          double dot = 0;
          for (int64_t d = 0; d < head_dim; ++d)
            dot += double{q[static_cast<size_t>(h * head_dim + d)]} *
                   half_to_float(k[static_cast<size_t>(t * head_dim + d)]);
          sum += p[static_cast<size_t>(t)] = std::exp(dot * scale);
        }
        for (int64_t t = 0; t < length; ++t)
          for (int64_t d = 0; d < head_dim; ++d)
            want[static_cast<size_t>(h * head_dim + d)] +=
                p[static_cast<size_t>(t)] / sum *
                half_to_float(v[static_cast<size_t>(t * head_dim + d)]);
      }
      expect_near(out, want, 3e-6);
    }
  }
}

TEST(Attend, LargeScoresDoNotOverflow) {
  const auto k =
      halves_of(Floats{100, 100, 100, 100, 100, 100, 100, 100, -100, 0, 0, 0, 0, 0, 0, 0});
  const auto v = halves_of(Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9});
  const Floats q(8, 50);
  Floats out(8), scores(16);
  attend(q.data(), 1, k.data(), v.data(), 2, 8, 1, scores.data(), out.data());
  expect_near(out, Doubles{1, 2, 3, 4, 5, 6, 7, 8}, 1e-6);
}

TEST(RmsNorm, MatchesDouble) {
  for (const int64_t cols : {8, 40, 576}) {
    const Floats x = random_floats(3 * cols, 61), weight = random_floats(cols, 62);
    Floats y(x.size());
    rms_norm(x.data(), weight.data(), 1e-5f, 3, cols, y.data());
    Doubles want(x.size());
    for (int64_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += std::pow(x[static_cast<size_t>(i * cols + c)], 2);
      for (int64_t c = 0; c < cols; ++c) {
        const auto at = static_cast<size_t>(i * cols + c);
        want[at] = x[at] / std::sqrt(sum / static_cast<double>(cols) + 1e-5) *
                   weight[static_cast<size_t>(c)];
      }
    }
    expect_near(y, want, 1e-6);
  }
}

TEST(Rope, TurnsPairsAndInverts) {
  for (const bool interleaved : {false, true}) {
    const int64_t heads = 3, head_dim = 24, rotary = 16;
    const Floats x = random_floats(heads * head_dim, 71);
    Floats cos(8), sin(8);
    for (size_t i = 0; i < 8; ++i) cos[i] = std::cos(0.3f * i), sin[i] = std::sin(0.3f * i);
    Floats y = x;
    rope(y.data(), heads, head_dim, rotary, cos.data(), sin.data(), interleaved, false);
    Doubles want(x.begin(), x.end());
    for (size_t h = 0; h < 3; ++h)
      for (size_t i = 0; i < 8; ++i) {
        const size_t a = h * 24 + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + 8;
        want[a] = double{x[a]} * cos[i] - double{x[b]} * sin[i];
        want[b] = double{x[a]} * sin[i] + double{x[b]} * cos[i];
      }
    expect_near(y, want, 1e-6);
    rope(y.data(), heads, head_dim, rotary, cos.data(), sin.data(), interleaved, true);
    expect_near(y, Doubles(x.begin(), x.end()), 1e-6);
  }
}

TEST(SiluMul, MatchesDoubleOverTheWholeRange) {
  Floats gate, up;
  for (float g = -120; g < 120; g += 0.37f) gate.push_back(g), up.push_back(1.5f);
  Floats y(gate.size());
  silu_mul(gate.data(), up.data(), static_cast<int64_t>(gate.size()), y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    const double want = gate[i] / (1 + std::exp(-double{gate[i]})) * 1.5;
    ASSERT_NEAR(y[i], want, 5e-7 * std::fabs(want) + 1e-36) << gate[i];  // 8 ulp of 2^-24
  }
}

TEST(Add, AddsEveryElement) {
  const Floats x = random_floats(77, 81);
  Floats y(77, 1);
  add(x.data(), 77, y.data());
  for (size_t i = 0; i < 77; ++i) EXPECT_EQ(y[i], x[i] + 1);
}

TEST(ToHalf, RoundsAsFloatToHalf) {
  Floats x = random_floats(1000, 82, 100);
  for (float& v : x) v = std::exp2(v / 4);  // 2^-75 ... 2^75
  std::vector<Half> y(x.size());
  to_half(x.data(), 1000, y.data());
  EXPECT_EQ(y, halves_of(x));
  Floats back(x.size());
  to_float(y.data(), 1000, back.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(back[i], half_to_float(y[i]));
}

}  // namespace
}  // namespace retort::kernels
