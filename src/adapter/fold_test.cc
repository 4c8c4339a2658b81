// Oracle: the law written out densely in double: W = W0 + s B A is formed, its rows normed, and
// y = W0 x + (diag(c) W - W0) x multiplied out.
#include "adapter/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "adapter/crystallise.h"
#include "adapter/small_base.h"

namespace retort::adapter {
namespace {

using engine::Target;
using kernels::kPanel;

/// One module with everything the fold reads and writes.
struct Bench {
  int64_t out, in, rank;
  std::vector<float> w;
  ModuleWeights module;
  kernels::Weight packed;
  std::vector<kernels::Half> a, b;
  std::vector<float> d, c, norm, gram, scratch;
  std::vector<double> squared;

  Bench(int64_t out_, int64_t in_, int64_t rank_, bool dora, uint64_t seed)
      : out(out_), in(in_), rank(rank_) {
    base::Rng rng(seed);
    w = random_floats(out * in, 0.2f, rng);
    module.out = out, module.in = in, module.rank = rank, module.scale = 1.5f;
    module.a = random_floats(rank * in, 0.3f, rng);
    module.b = random_floats(out * rank, 0.1f, rng);
    if (dora) module.m = random_floats(out, 1.0f, rng);
    pack();
    const auto rank8 = static_cast<size_t>(padded_rank(rank));
    const auto outs = static_cast<size_t>(kernels::padded(out));
    a.resize(static_cast<size_t>(in) * rank8);
    b.resize(outs * rank8);
    d.resize(outs), c.resize(outs), norm.resize(outs);
    gram.resize(static_cast<size_t>(fold_gram_floats(rank)));
    scratch.resize(static_cast<size_t>(fold_scratch_floats(in, rank)));
  }
  void pack() {
    packed = pack_f32(w, out, in);
    squared.resize(static_cast<size_t>(out));
    std::vector<float> row(static_cast<size_t>(in));
    row_norms_squared(packed, 0, out, row.data(), squared.data());
  }
  FoldInput input() const {
    return {&packed,
            squared.data(),
            out,
            in,
            rank,
            module.scale,
            module.a.data(),
            module.b.data(),
            module.m.empty() ? nullptr : module.m.data()};
  }
  FoldOutput output() { return {a.data(), b.data(), d.data(), c.data(), norm.data()}; }
  void fold() {
    fold_down(input(), output(), gram.data(), scratch.data());
    fold_up(input(), output(), gram.data(), 0, kernels::panels_of(out), scratch.data());
  }
  double served_a(int64_t r, int64_t k) const {
    return kernels::half_to_float(a[static_cast<size_t>(k * padded_rank(rank) + r)]);
  }
  double served_b(int64_t o, int64_t r) const {
    const int64_t at = (o / kPanel * padded_rank(rank) + r) * kPanel + o % kPanel;
    return kernels::half_to_float(b[static_cast<size_t>(at)]);
  }
  /// Row o of W0 + s B A, with A as served.
  std::vector<double> adapted_row(int64_t o) const {
    std::vector<double> row(static_cast<size_t>(in));
    for (int64_t k = 0; k < in; ++k) {
      double sum = w[static_cast<size_t>(o * in + k)];
      for (int64_t r = 0; r < rank; ++r) {
        sum += double{module.scale} * module.b[static_cast<size_t>(o * rank + r)] * served_a(r, k);
      }
      row[static_cast<size_t>(k)] = sum;
    }
    return row;
  }
};

double norm_of(const std::vector<double>& row) {
  double sum = 0;
  for (double x : row) sum += x * x;
  return std::sqrt(sum);
}

class FoldShapes : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(FoldShapes, DoraEqualsTheDenseLaw) {
  const auto [out, in, rank] = GetParam();
  Bench bench(out, in, rank, true, 11);
  bench.fold();
  for (int64_t o = 0; o < out; ++o) {
    const auto i = static_cast<size_t>(o);
    const double norm = norm_of(bench.adapted_row(o));
    const double c = bench.module.m[i] / norm;
    // Float sums of `in` products: about in * 2^-24 of the norm; 1e-5 leaves a factor of five here.
    EXPECT_NEAR(bench.norm[i], norm, 1e-5 * norm);
    EXPECT_NEAR(bench.c[i], c, 1e-5 * std::abs(c));
    EXPECT_EQ(bench.d[i], bench.c[i] - 1.0f);
    for (int64_t r = 0; r < rank; ++r) {
      const double expected =
          c * bench.module.scale * bench.module.b[static_cast<size_t>(o * rank + r)];
      EXPECT_NEAR(bench.served_b(o, r), expected, 0x1p-11 * std::abs(expected) + 0x1p-24);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FoldShapes,
                         testing::Values(std::tuple{16, 32, 8}, std::tuple{40, 64, 5},
                                         std::tuple{7, 24, 1}, std::tuple{33, 576, 16},
                                         std::tuple{16, 304, 31}));

TEST(Fold, LoraLeavesTheBaseUnscaled) {
  Bench bench(20, 32, 4, false, 3);
  bench.fold();
  for (int64_t o = 0; o < bench.out; ++o) {
    EXPECT_EQ(bench.d[static_cast<size_t>(o)], 0.0f);
    for (int64_t r = 0; r < bench.rank; ++r) {
      const float expected = bench.module.scale * bench.module.b[static_cast<size_t>(o * 4 + r)];
      EXPECT_EQ(bench.served_b(o, r), kernels::half_to_float(kernels::float_to_half(expected)));
    }
  }
}

TEST(Fold, PaddingIsZero) {
  Bench bench(20, 32, 5, true, 3);
  std::fill(bench.a.begin(), bench.a.end(), kernels::Half{0x1234});
  std::fill(bench.b.begin(), bench.b.end(), kernels::Half{0x1234});
  std::fill(bench.d.begin(), bench.d.end(), 9.0f);
  bench.fold();
  for (int64_t k = 0; k < bench.in; ++k) {
    for (int64_t r = 5; r < 8; ++r) EXPECT_EQ(bench.served_a(r, k), 0.0);
  }
  for (int64_t o = 0; o < 32; ++o) {
    for (int64_t r = o < 20 ? 5 : 0; r < 8; ++r) EXPECT_EQ(bench.served_b(o, r), 0.0);
  }
  for (size_t o = 20; o < 32; ++o) EXPECT_EQ(bench.d[o], 0.0f);
}

TEST(Fold, BitsDoNotDependOnTheSplitNorOnCachedNorms) {
  Bench whole(70, 64, 6, true, 5), split(70, 64, 6, true, 5);
  whole.fold();
  FoldInput input = split.input();
  input.row_norms_squared = nullptr;
  fold_down(input, split.output(), split.gram.data(), split.scratch.data());
  for (int64_t p : {3, 0, 4, 1, 2}) {
    fold_up(input, split.output(), split.gram.data(), p, p + 1, split.scratch.data());
  }
  EXPECT_EQ(whole.a, split.a);
  EXPECT_EQ(whole.b, split.b);
  EXPECT_EQ(whole.d, split.d);
  EXPECT_EQ(whole.c, split.c);
}

TEST(Fold, AnUntrainedAdapterIsTheBaseExactly) {
  Bench bench(48, 64, 8, true, 6);
  std::fill(bench.module.b.begin(), bench.module.b.end(), 0.0f);
  for (size_t i = 0; i < bench.module.m.size(); ++i) {
    bench.module.m[i] = static_cast<float>(std::sqrt(bench.squared[i]));
  }
  bench.fold();
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(bench.d[i], 0.0f);
}

TEST(Fold, StaysFiniteAtTheEdges) {
  Bench bench(16, 32, 8, true, 7);
  std::fill_n(bench.w.begin(), 32, 0.0f);            // row 0 of the base is zero
  std::fill_n(bench.module.b.begin() + 8, 8, 0.0f);  // row 1: s B A = -W0, cancelled whole
  bench.module.b[8] = -1.0f;
  for (size_t k = 0; k < 32; ++k) {
    bench.module.a[k] = kernels::half_to_float(kernels::float_to_half(bench.module.a[k]));
    bench.w[32 + k] = 1.5f * bench.module.a[k];
  }
  bench.module.m[2] = 3e38f;
  bench.module.a[40] = 1e9f;
  bench.pack();
  bench.fold();
  EXPECT_EQ(bench.c[0], 1.0f);
  EXPECT_EQ(1.0f / bench.norm[0], 0.0f);  // dm = dc / norm vanishes there
  EXPECT_GT(bench.norm[1], 0.0f);
  for (float value : bench.d) EXPECT_TRUE(std::isfinite(value));
  for (kernels::Half value : bench.b) EXPECT_TRUE(std::isfinite(kernels::half_to_float(value)));
  for (kernels::Half value : bench.a) EXPECT_TRUE(std::isfinite(kernels::half_to_float(value)));
}

/// y by the kernels under one adapter.
std::vector<float> served(const kernels::Weight& weight, const kernels::AdapterMatrix& matrix,
                          float gate, const std::vector<float>& x) {
  std::vector<float> h(static_cast<size_t>(matrix.rank)), y(static_cast<size_t>(weight.out()));
  kernels::adapter_down(x.data(), 1, weight.in(), matrix.a, matrix.rank, h.data());
  const kernels::MixTerm term{&matrix, nullptr, gate, h.data()};
  const kernels::RowGroup group{0, 1, {&term, 1}};
  const kernels::Activations activations{x.data(), nullptr, nullptr, nullptr, weight.in()};
  kernels::linear(weight, nullptr, activations, 1, {&group, 1}, 0, kernels::panels_of(weight.out()),
                  y.data());
  return y;
}

TEST(Crystallise, ServedOutputEqualsTheDenseLaw) {
  const SmallBase small(1);
  base::Team team(2);
  for (const bool dora : {true, false}) {
    const AdapterWeights adapter = random_adapter(small.config, dora, 2);
    Crystalliser crystalliser = Crystalliser::create(adapter, small.weights, 2).value();
    team.run([&](const base::Lane& lane) { crystalliser.fold(lane, adapter); });
    base::Rng rng(9);
    for (const ModuleWeights& module : adapter.modules) {
      const auto i = static_cast<size_t>(engine::matrix_index(module.layer, module.target, 2));
      const std::vector<float> x = random_floats(module.in, 1.0f, rng);
      const std::vector<float> y =
          served(small.packed[i], crystalliser.view().matrices[i], 0.7f, x);
      for (int64_t o = 0; o < module.out; ++o) {
        double base = 0, adapted = 0, squared = 0;
        for (int64_t k = 0; k < module.in; ++k) {
          const double w0 = small.dense[i][static_cast<size_t>(o * module.in + k)];
          double w = w0;
          for (int64_t r = 0; r < module.rank; ++r) {
            w += double{module.scale} * module.b[static_cast<size_t>(o * module.rank + r)] *
                 module.a[static_cast<size_t>(r * module.in + k)];
          }
          base += w0 * x[static_cast<size_t>(k)];
          adapted += w * x[static_cast<size_t>(k)];
          squared += w * w;
        }
        const double c = dora ? module.m[static_cast<size_t>(o)] / std::sqrt(squared) : 1.0;
        // Half-precision factors: 2^-11 each, on sums of terms of about one.
        EXPECT_NEAR(y[static_cast<size_t>(o)], base + 0.7 * (c * adapted - base), 1e-2);
      }
    }
  }
}

TEST(Crystallise, BytesDoNotDependOnThreadsNorOnMeasuring) {
  const SmallBase small(1);
  const AdapterWeights adapter = random_adapter(small.config, true, 2);
  base::Team one(1), three(3);
  const auto plain = build_slot(adapter, small.weights, one).value();
  Crystalliser other = Crystalliser::create(adapter, small.weights, 3).value();
  three.run([&](const base::Lane& lane) {
    other.measure(lane);
    lane.barrier();
    other.fold(lane, adapter);
  });
  const auto bytes = other.seal().value();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), plain.span().begin(), plain.span().end()));
  for (size_t i = 0; i < adapter.modules.size(); ++i) {
    const auto module = static_cast<int>(i);
    const ModuleWeights& weights = adapter.modules[i];
    for (size_t o = 0; o < weights.m.size(); ++o) {
      EXPECT_EQ(other.c(module)[o], weights.m[o] / other.norm(module)[o]);
    }
  }
}

TEST(Crystallise, InitialMagnitudesMakeTheBase) {
  const SmallBase small(4);
  base::Team team(2);
  AdapterWeights adapter = random_adapter(small.config, false, 2);
  for (ModuleWeights& module : adapter.modules) std::fill(module.b.begin(), module.b.end(), 0.0f);
  set_initial_magnitudes(adapter, small.weights, team);
  Crystalliser crystalliser = Crystalliser::create(adapter, small.weights, 2).value();
  team.run([&](const base::Lane& lane) { crystalliser.fold(lane, adapter); });
  for (size_t i = 0; i < adapter.modules.size(); ++i) {
    EXPECT_GT(adapter.modules[i].m[0], 0.0f);
    for (float c : crystalliser.c(static_cast<int>(i))) EXPECT_EQ(c, 1.0f);
  }
}

TEST(Crystallise, RefusesWhatDoesNotFit) {
  const SmallBase small(1);
  base::Team team(1);
  const AdapterWeights good = random_adapter(small.config, true, 2);
  const auto refusal = [&](auto change) {
    AdapterWeights bad = good;
    change(bad);
    const auto result = build_slot(bad, small.weights, team);
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_NE(refusal([](auto& a) { a.modules.clear(); }).find("no module"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[0].layer = 7; }).find("2 layers"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[0].out = 31; }).find("31 x 32"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[3].rank = 0; }).find("rank 0"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[3].m.pop_back(); }).find("size"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[1] = a.modules[0]; }).find("twice"), std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[2].b[0] = NAN; }).find("v_proj of layer 0"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& a) { a.modules[2].a[0] = 1e6f; }).find("too large"),
            std::string::npos);
}

}  // namespace
}  // namespace retort::adapter
