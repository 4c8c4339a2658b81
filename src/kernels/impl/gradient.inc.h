// Backward products, all on the micro-kernel: 16 columns by kRowTile rows in registers.

inline constexpr int64_t kPanelBytes = 256 << 10;  // of a group of panels that stays in L2

void linear_input_gradient(const TransposedWeight& w, const float* dy, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, float* dx) {
  const int64_t in = w.in(), out = w.out();
  const int64_t fit = kPanelBytes / (out * kPanel * 4), step = fit > 1 ? fit : 1;
  for (int64_t first = panel_begin; first < panel_end; first += step)
    for_row_tiles(rows, [&](auto tile, int64_t i) {
      constexpr int R = decltype(tile)::value;
      for (int64_t p = first; p < smaller(first + step, panel_end); ++p) {
        F32x16 sum[R];
        unroll<R>([&](auto j) { sum[j.value] = zero(); });
        multiply<R>(dy + i * out, out, 1, Floats{w.panel(p), kPanel}, out, sum);
        float* to = dx + i * in + p * kPanel;
        unroll<R>([&](auto j) {
          store_first(to + j.value * in, smaller(kPanel, in - p * kPanel), sum[j.value]);
        });
      }
    });
}

/// Rows of x that a pass over the columns takes: few enough for their lines to stay in L1 until the
/// next tile of columns wants the rest of them, even where the row stride maps them to few sets.
inline constexpr int64_t kOuterRows = 16;

template <int W>
void outer_rows(const float* x, int64_t rows, int64_t stride, const float* h, int64_t rank,
                int64_t cols, float* g) {
  for_row_tiles(cols, [&](auto tile, int64_t i) {
    constexpr int R = decltype(tile)::value;
    F32x16 sum[R];
    unroll<R>([&](auto j) { sum[j.value] = load_width<W>(g + (i + j.value) * rank); });
    multiply<R>(x + i, 1, stride, floats<W>(h, rank), rows, sum);
    unroll<R>([&](auto j) { store_width<W>(g + (i + j.value) * rank, sum[j.value]); });
  });
}

void accumulate_outer(const float* x, int64_t rows, int64_t cols, const float* h, int64_t rank,
                      int64_t begin, int64_t end, float* g) {
  for (int64_t i = 0; i < rows; i += kOuterRows)
    for_column_tiles(rank, [&](auto width, int64_t r) {
      constexpr int W = decltype(width)::value;
      outer_rows<W>(x + i * cols + begin, smaller(kOuterRows, rows - i), cols, h + i * rank + r,
                    rank, end - begin, g + begin * rank + r);
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
