// Backward products, all on the micro-kernel: 16 columns by kRowTile rows in registers.

void linear_input_gradient(const TransposedWeight& w, const float* dy, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, float* dx) {
  const int64_t in = w.in(), out = w.out();
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t lanes = smaller(kPanel, in - p * kPanel);
    const Floats panel{w.panel(p), kPanel};
    for_row_tiles(rows, [&](auto tile, int64_t i) {
      constexpr int R = decltype(tile)::value;
      F32x16 sum[R];
      unroll<R>([&](auto j) { sum[j.value] = zero(); });
      multiply<R>(dy + i * out, out, 1, panel, out, sum);
      unroll<R>(
          [&](auto j) { store_first(dx + (i + j.value) * in + p * kPanel, lanes, sum[j.value]); });
    });
  }
}

void accumulate_outer(const float* x, int64_t rows, int64_t cols, const float* h, int64_t rank,
                      int64_t begin, int64_t end, float* g) {
  for_column_tiles(rank, [&](auto width, int64_t r) {
    constexpr int W = decltype(width)::value;
    for_row_tiles(end - begin, [&](auto tile, int64_t i) {
      constexpr int R = decltype(tile)::value;
      float* out = g + (begin + i) * rank + r;
      F32x16 sum[R];
      unroll<R>([&](auto j) { sum[j.value] = load_width<W>(out + j.value * rank); });
      multiply<R>(x + begin + i, 1, cols, floats<W>(h + r, rank), rows, sum);
      unroll<R>([&](auto j) { store_width<W>(out + j.value * rank, sum[j.value]); });
    });
  });
}

void accumulate_product(const float* a, const float* b, int64_t rows, int64_t cols, int64_t begin,
                        int64_t end, float* g) {
  for (int64_t o = begin; o < end; o += 16) {
    const int64_t lanes = smaller(16, end - o);
    F32x16 sum = load_first(g + o, lanes);
    for (int64_t i = 0; i < rows; ++i)
      sum = fma(load_first(a + i * cols + o, lanes), load_first(b + i * cols + o, lanes), sum);
    store_first(g + o, lanes, sum);
  }
}
