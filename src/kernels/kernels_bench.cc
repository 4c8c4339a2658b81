// Speed of the kernels on one core, for the shapes of a 135M model. Not a test.
//   kernels_bench [--benchmark_filter=...]      RETORT_KERNELS=portable|avx2|... chooses the
//   kernels
// gflops counts 2 per multiply-add; peak is F32 FMA on this core; ggml_dot is the same product by
// ggml's dot product for the type. Compare within one run; take medians of repetitions.
#include <benchmark/benchmark.h>
#include <ggml-cpu.h>

#include "kernels/reference_test.h"

namespace retort::kernels {
namespace {

void count(benchmark::State& state, double flops, double bytes = 0) {
  using benchmark::Counter;
  state.counters["gflops"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  if (bytes > 0) state.counters["GB_s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
}

/// 16 panels' worth of L1-resident float products: what the micro-kernel reaches at best.
void peak(benchmark::State& state) {
  const int64_t out = 256, rows = 240;
  const Weight w = packed(GGML_TYPE_F32, out, 16, 1);
  TransposedWeight t(w);
  t.fill_panels(w, 0, 1);
  const Floats dy = random_floats(rows * out, 2);
  Floats dx(rows * 16);
  for (auto _ : state) linear_input_gradient(t, dy.data(), rows, 0, 1, dx.data());
  count(state, 2.0 * out * 16 * rows);
}

void linear_rows(benchmark::State& state, ggml_type type, int64_t out, int64_t in) {
  const int64_t rows = state.range(0);
  const Weight w = packed(type, out, in, 1);
  const OwnedActivations x(random_floats(rows * in, 2), in);
  Floats y(static_cast<size_t>(rows * out));
  for (auto _ : state) linear(w, nullptr, x.view, rows, {}, 0, panels_of(out), y.data());
  count(state, 2.0 * static_cast<double>(out * in * rows), static_cast<double>(w.bytes()));
}

void adapted_rows(benchmark::State& state) {
  const int64_t rows = state.range(0), out = 1536, in = 576, rank = 16;
  const Weight w = packed(GGML_TYPE_Q4_1, out, in, 1);
  const OwnedActivations x(random_floats(rows * in, 2), in);
  const OwnedAdapter adapter(out, in, rank, 3);
  Floats y(static_cast<size_t>(rows * out)), h(static_cast<size_t>(rows * rank));
  const MixTerm term[] = {{&adapter.matrix, nullptr, 1, h.data()}};
  const RowGroup group[] = {{0, rows, term}};
  for (auto _ : state) {
    adapter_down(x.x.data(), rows, in, adapter.a.data(), rank, h.data());
    linear(w, nullptr, x.view, rows, group, 0, panels_of(out), y.data());
  }
  count(state, 2.0 * static_cast<double>(out * in * rows));
}

/// The same product, one row, by ggml's vec_dot on the file's layout.
void ggml_dot(benchmark::State& state, ggml_type type, int64_t out, int64_t in) {
  const auto bytes = random_matrix(type, out, in, 1);
  const auto* traits = ggml_get_type_traits_cpu(type);
  const Floats x = random_floats(in, 2);
  std::vector<std::byte> q(ggml_row_size(traits->vec_dot_type, in));
  ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float(x.data(), q.data(), in);
  Floats y(static_cast<size_t>(out));
  const size_t row = ggml_row_size(type, in);
  for (auto _ : state)
    for (int64_t o = 0; o < out; ++o)
      traits->vec_dot(static_cast<int>(in), &y[static_cast<size_t>(o)], 0,
                      bytes.data() + static_cast<size_t>(o) * row, 0, q.data(), 0, 1);
  count(state, 2.0 * static_cast<double>(out * in), static_cast<double>(bytes.size()));
}

void quantize(benchmark::State& state) {
  OwnedActivations x(random_floats(64 * 576, 2), 576);
  for (auto _ : state) quantize_rows(x.view, 0, 64);
  count(state, 0, 64 * 576 * 4);
}

void input_gradient(benchmark::State& state) {
  const int64_t out = 1536, in = 576, rows = state.range(0);
  const Weight w = packed(GGML_TYPE_Q4_1, out, in, 1);
  TransposedWeight t(w);
  t.fill_panels(w, 0, panels_of(in));
  const Floats dy = random_floats(rows * out, 2);
  Floats dx(static_cast<size_t>(rows * in));
  for (auto _ : state) linear_input_gradient(t, dy.data(), rows, 0, panels_of(in), dx.data());
  count(state, 2.0 * static_cast<double>(out * in * rows));
}

void down(benchmark::State& state) {
  const int64_t rows = state.range(0), in = 576, rank = 16;
  const Floats x = random_floats(rows * in, 1);
  const auto m = halves_of(random_floats(in * rank, 2));
  Floats h(static_cast<size_t>(rows * rank));
  for (auto _ : state) adapter_down(x.data(), rows, in, m.data(), rank, h.data());
  count(state, 2.0 * static_cast<double>(rows * in * rank), static_cast<double>(2 * in * rank));
}

void outer(benchmark::State& state) {
  const int64_t rows = 500, cols = 1536, rank = 16;
  const Floats x = random_floats(rows * cols, 1), h = random_floats(rows * rank, 2);
  Floats g(cols * rank);
  for (auto _ : state) accumulate_outer(x.data(), rows, cols, h.data(), rank, 0, cols, g.data());
  count(state, 2.0 * rows * cols * rank);
}

void attention(benchmark::State& state) {
  const int64_t length = state.range(0), group = 3, head_dim = 64;
  const auto k = halves_of(random_floats(length * head_dim, 1));
  const Floats q = random_floats(group * head_dim, 2);
  Floats scores(static_cast<size_t>(group * padded(length))), out(q.size());
  for (auto _ : state)
    attend(q.data(), group, k.data(), k.data(), length, head_dim, 0.125f, scores.data(),
           out.data());
  count(state, 4.0 * static_cast<double>(length * group * head_dim));
}

void attention_gradient(benchmark::State& state) {
  const int64_t length = state.range(0), group = 3, head_dim = 64, n = length * group * head_dim;
  const auto k = halves_of(random_floats(length * head_dim, 1));
  const Floats q = random_floats(n, 2);
  Floats dq(static_cast<size_t>(n)), dk(static_cast<size_t>(length * head_dim)), dv = dk;
  Floats scratch(static_cast<size_t>(2 * padded(length)));
  for (auto _ : state)
    attend_gradient({q.data(), q.data(), q.data(), k.data(), k.data(), dq.data(), dk.data(),
                     dv.data(), group * head_dim, head_dim, length, group, head_dim, 0.125f},
                    scratch.data());
  count(state, 5.0 * static_cast<double>(length * length * group * head_dim));  // 5 causal products
}

void silu(benchmark::State& state) {
  const Floats a = random_floats(1536 * 8, 1);
  Floats y(a.size());
  for (auto _ : state) silu_mul(a.data(), a.data(), static_cast<int64_t>(a.size()), y.data());
  count(state, 0, static_cast<double>(a.size()) * 4);
}

void loss(benchmark::State& state) {
  const Floats logits = random_floats(49152, 1, 4);
  for (auto _ : state) {
    Floats copy = logits;
    benchmark::DoNotOptimize(cross_entropy_gradient(copy.data(), 49152, 7, 1));
  }
  count(state, 0, 49152 * 4);
}

void norm(benchmark::State& state) {
  const Floats x = random_floats(64 * 576, 1), w = random_floats(576, 2);
  Floats y(x.size());
  for (auto _ : state) rms_norm(x.data(), w.data(), 1e-5f, 64, 576, y.data());
  count(state, 0, 64 * 576 * 4);
}

void optimiser(benchmark::State& state) {
  const int64_t n = 1 << 14;
  const Floats g = random_floats(n, 1);
  Floats p(n), m(n), v(n);
  for (auto _ : state)
    adamw({1e-3f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.5f, 0.5f, 1}, g.data(), n, p.data(), m.data(),
          v.data());
  count(state, 0, n * 4);
}

BENCHMARK(peak);
#define RETORT_LINEAR(type, out, in)                                             \
  BENCHMARK_CAPTURE(linear_rows, type##_##out##x##in, GGML_TYPE_##type, out, in) \
      ->Arg(1)                                                                   \
      ->Arg(4)                                                                   \
      ->Arg(256);                                                                \
  BENCHMARK_CAPTURE(ggml_dot, type##_##out##x##in, GGML_TYPE_##type, out, in)
RETORT_LINEAR(Q4_1, 1536, 576);
RETORT_LINEAR(Q4_1, 576, 1536);
RETORT_LINEAR(Q4_1, 576, 576);
RETORT_LINEAR(Q4_0, 4864, 896);
RETORT_LINEAR(Q5_0, 4864, 896);
RETORT_LINEAR(Q8_0, 4864, 896);
RETORT_LINEAR(Q4_K, 4864, 768);
RETORT_LINEAR(Q5_K, 4864, 768);
RETORT_LINEAR(Q6_K, 4864, 768);
BENCHMARK_CAPTURE(linear_rows, Q8_0_49152x576, GGML_TYPE_Q8_0, 49152, 576)->Arg(1);
BENCHMARK_CAPTURE(ggml_dot, Q8_0_49152x576, GGML_TYPE_Q8_0, 49152, 576);
BENCHMARK_CAPTURE(linear_rows, F16_4864x896, GGML_TYPE_F16, 4864, 896)->Arg(1)->Arg(64);
BENCHMARK(adapted_rows)->Arg(1)->Arg(256);
BENCHMARK(quantize);
BENCHMARK(input_gradient)->Arg(6)->Arg(126)->Arg(510);
BENCHMARK(down)->Arg(1)->Arg(126);
BENCHMARK(outer);
BENCHMARK(attention)->Arg(64)->Arg(512);
BENCHMARK(attention_gradient)->Arg(128)->Arg(512);
BENCHMARK(silu);
BENCHMARK(loss);
BENCHMARK(norm);
BENCHMARK(optimiser);

}  // namespace
}  // namespace retort::kernels

BENCHMARK_MAIN();
