// Linear layers: y = z (1 + sum g d) + sum g B'h + bias, z = W x.
//
// Quantised: for a panel (16 outputs) and a block (32 inputs), integer dot products of the bytes,
// exact, then  z = fma(w_scale * x_scale, float(dot), z)  and, for formats with an offset,
// z = fma(w_offset, x_sum, z). Blocks ascend. Nothing depends on how many rows share the unpacking,
// so one row and many have the same bits. Many rows unpack a block into L1 once for up to 16 of
// them.

inline constexpr int kRowsAtOnce = 16;  // rows that share one unpacked block

/// Group g (4 inputs x 16 rows) of a block's planes, as the integers the dot product takes.
template <Format F, int g>
RETORT_INLINE Bytes unpack_group(const uint8_t* planes) {
  constexpr Layout L = layout_of(F);
  if constexpr (L.bits == 8) return load_bytes(planes + 64 * g);
  const Bytes low = field<(g < 4 ? 0 : 4)>(load_bytes(planes + 64 * (g % 4)), 0x0f);
  if constexpr (L.bits == 5) return bit_or(low, field<g - 4>(load_bytes(planes + 256), 0x10));
  if constexpr (L.bits == 6) {
    const Bytes high = field<g % 4 * 2 - 4>(load_bytes(planes + 256 + 64 * (g / 4)), 0x30);
    return subtract(bit_or(low, high), 32);
  }
  return low;
}

/// Groups from the packed planes, or from a block that was unpacked before.
template <Format F>
struct Packed {
  const uint8_t* planes;
  template <int g>
  RETORT_INLINE Bytes group(const Packed& s) {
    return unpack_group<F, g>(s.planes);
  }
};
struct Unpacked {
  const uint8_t* groups;
  template <int g>
  RETORT_INLINE Bytes group(const Unpacked& s) {
    return load_bytes(s.groups + 64 * g);
  }
};

/// Groups that 16-bit sums of pairs can hold: 2 * 127 * max|w| * groups < 2^15. Signed 6-bit
/// weights are in [-32, 31].
constexpr int groups_per_sum(Layout l) { return l.bits == 4 ? 8 : l.bits == 8 ? 1 : 4; }
constexpr bool is_signed(Layout l) { return l.bits == 6 || l.bits == 8; }

/// sum[i] += w . x[i] over groups [g0, g0 + n) of one block, for R rows.
template <Format F, int g0, int n, int R, class W>
RETORT_INLINE void dot_groups(W weights, const int8_t* x, int64_t stride, I32x16* sum) {
  constexpr Layout L = layout_of(F);
  Partial part[R];
  unroll<R>([&](auto i) { part[i.value] = zero_partial(); });
  unroll<n>([&](auto j) {
    constexpr int g = g0 + decltype(j)::value;
    const Bytes w = W::template group<g>(weights);
    if constexpr (is_signed(L)) {
      const SignedBytes s = to_signed(w);
      unroll<R>([&](auto i) {
        part[i.value] = dot_signed(part[i.value], s, load_four(x + i.value * stride + 4 * g));
      });
    } else {
      unroll<R>([&](auto i) {
        part[i.value] = dot_unsigned(part[i.value], w, load_four(x + i.value * stride + 4 * g));
      });
    }
  });
  unroll<R>([&](auto i) { sum[i.value] = widen_add(part[i.value], sum[i.value]); });
}

/// The integer sums for the inputs of one scale (32, or 16 in Q6_K).
template <Format F, int s, int R, class W>
RETORT_INLINE void dot_scale(W weights, const int8_t* x, int64_t stride, I32x16* sum) {
  constexpr Layout L = layout_of(F);
  constexpr int groups = 8 / L.scales, step = groups_per_sum(L);
  unroll<R>([&](auto i) { sum[i.value] = zero_int(); });
  unroll<groups / step>([&](auto j) {
    dot_groups<F, s * groups + decltype(j)::value * step, step, R>(weights, x, stride, sum);
  });
}

/// The scales of one block: 16 rows at a time.
struct BlockScales {
  F32x16 scale[2];
  F32x16 offset;
};

template <Format F>
RETORT_INLINE BlockScales block_scales(const uint8_t* header, const uint8_t* scales) {
  constexpr Layout L = layout_of(F);
  BlockScales r;
  r.offset = zero();
  if constexpr (!L.super) {
    r.scale[0] = load_half(scales);
    if constexpr (L.offset) r.offset = load_half(scales + 32);
    if constexpr (L.bits < 6 && L.zero != 0) r.offset = mul(r.scale[0], broadcast(-L.zero));
  } else if constexpr (L.scales == 2) {
    const F32x16 d = load_half(header);
    r.scale[0] = mul(d, load_i8(scales));
    r.scale[1] = mul(d, load_i8(scales + 16));
  } else {
    r.scale[0] = mul(load_half(header), load_u8(scales));
    r.offset = mul(load_half(header + 32), sub(zero(), load_u8(scales + 16)));
  }
  return r;
}

/// The block's products for R rows, added to z.
template <Format F, int R, class W>
RETORT_INLINE void add_block(W weights, const BlockScales& w, const Activations& x, int64_t row,
                             int64_t block, F32x16* z) {
  constexpr Layout L = layout_of(F);
  const int64_t blocks = x.cols / kBlock, at = row * blocks + block;
  const int8_t* q = x.q + row * x.cols + block * kBlock;
  unroll<L.scales>([&](auto s) {
    I32x16 sum[R];
    dot_scale<F, decltype(s)::value, R>(weights, q, x.cols, sum);
    unroll<R>([&](auto i) {
      const F32x16 scale = mul(w.scale[s.value], broadcast(x.scale[at + i.value * blocks]));
      z[i.value] = fma(scale, to_float(sum[i.value]), z[i.value]);
    });
  });
  if constexpr (!is_signed(L))
    unroll<R>([&](auto i) {
      z[i.value] = fma(w.offset, broadcast(x.sum[at + i.value * blocks]), z[i.value]);
    });
}

/// f(header, planes, block) for every block of a panel.
template <Format F, class Body>
RETORT_INLINE void for_blocks(const uint8_t* panel, int64_t blocks, const Body& body) {
  constexpr Layout L = layout_of(F);
  const uint8_t* p = panel;
  const uint8_t* header = panel;
  for (int64_t b = 0; b < blocks; ++b) {
    if (L.super && b % L.blocks() == 0) header = p, p += L.header_bytes();
    body(header, p, b);
    p += L.block_bytes();
  }
}

template <Format F, int R>
void few_rows(const uint8_t* panel, const Activations& x, int64_t row, F32x16* z) {
  constexpr Layout L = layout_of(F);
  F32x16 sum[R];
  unroll<R>([&](auto i) { sum[i.value] = zero(); });
  for_blocks<F>(panel, x.cols / kBlock,
                [&](const uint8_t* header, const uint8_t* planes, int64_t b) {
                  const BlockScales scales = block_scales<F>(header, planes + L.plane_bytes());
                  add_block<F, R>(Packed<F>{planes}, scales, x, row, b, sum);
                });
  unroll<R>([&](auto i) { z[i.value] = sum[i.value]; });
}

template <Format F>
void many_rows(const uint8_t* panel, const Activations& x, int64_t row, int64_t rows, F32x16* z) {
  constexpr Layout L = layout_of(F);
  for (int64_t i = 0; i < rows; ++i) z[i] = zero();
  alignas(64) uint8_t groups[512];
  for_blocks<F>(
      panel, x.cols / kBlock, [&](const uint8_t* header, const uint8_t* planes, int64_t b) {
        const BlockScales scales = block_scales<F>(header, planes + L.plane_bytes());
        if constexpr (L.bits != 8)
          unroll<8>([&](auto g) {
            store_bytes(groups + 64 * g.value, unpack_group<F, decltype(g)::value>(planes));
          });
        const Unpacked weights{L.bits == 8 ? planes : groups};
        int64_t i = 0;
        for (; i + kDotTile <= rows; i += kDotTile)
          add_block<F, kDotTile>(weights, scales, x, row + i, b, z + i);
        for (; i < rows; ++i) add_block<F, 1>(weights, scales, x, row + i, b, z + i);
      });
}

/// z = W x for up to kRowsAtOnce rows of one panel.
template <Format F>
void quantized_rows(const uint8_t* panel, const Activations& x, int64_t row, int64_t rows,
                    F32x16* z) {
  switch (rows) {
    case 1:
      return few_rows<F, 1>(panel, x, row, z);
    case 2:
      return few_rows<F, 2>(panel, x, row, z);
    default:
      return many_rows<F>(panel, x, row, rows, z);
  }
}

/// Long sums of one row are latency-bound, so a float sum over k is cut into four quarters (of
/// cols / 4, rounded up) that run side by side; z = (q0 + q1) + (q2 + q3) for any number of rows.
template <int R, class B>
RETORT_INLINE void multiply_quarters(const float* a, int64_t row, B b, int64_t n, F32x16* c) {
  const int64_t quarter = (n + 3) / 4;
  F32x16 sum[4][R];
  for (auto& s : sum)
    for (F32x16& v : s) v = zero();
  if constexpr (R == 1) {
    const int64_t common = n - 3 * quarter > 0 ? n - 3 * quarter : 0;  // the last one is shorter
    for (int64_t k = 0; k < common; ++k)
      unroll<4>([&](auto j) {
        const int64_t at = j.value * quarter + k;
        sum[j.value][0] = fma(broadcast(a[at]), B::at(b, at), sum[j.value][0]);
      });
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t at = j * quarter + common; at < smaller(n, (j + 1) * quarter); ++at)
        sum[j][0] = fma(broadcast(a[at]), B::at(b, at), sum[j][0]);
  } else {
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t begin = smaller(n, j * quarter), end = smaller(n, begin + quarter);
      multiply<R>(a + begin, row, 1, B{b.p + begin * b.stride, b.stride}, end - begin, sum[j]);
    }
  }
  unroll<R>([&](auto i) {
    c[i.value] = add(add(sum[0][i.value], sum[1][i.value]), add(sum[2][i.value], sum[3][i.value]));
  });
}

template <class B>
void float_rows(B panel, const Activations& x, int64_t row, int64_t rows, F32x16* z) {
  for_row_tiles(rows, [&](auto r, int64_t i) {
    multiply_quarters<decltype(r)::value>(x.x + (row + i) * x.cols, x.cols, panel, x.cols, z + i);
  });
}

template <Format F>
struct Of {
  static constexpr Format value = F;
};

/// f(Of<format>{}, panel) for a quantised format, f(source) for a float one; of panel p.
template <class Quantized, class Float>
RETORT_INLINE void for_format(const Weight::Impl& w, int64_t p, const Quantized& quantized,
                              const Float& in_floats) {
  const auto* panel =
      reinterpret_cast<const uint8_t*>(w.data.data()) + static_cast<size_t>(p) * w.panel_bytes;
  const void* values = panel;
  switch (w.format) {
    case Format::kQ4_0:
      return quantized(Of<Format::kQ4_0>{}, panel);
    case Format::kQ4_1:
      return quantized(Of<Format::kQ4_1>{}, panel);
    case Format::kQ5_0:
      return quantized(Of<Format::kQ5_0>{}, panel);
    case Format::kQ5_1:
      return quantized(Of<Format::kQ5_1>{}, panel);
    case Format::kQ8_0:
      return quantized(Of<Format::kQ8_0>{}, panel);
    case Format::kQ4_K:
      return quantized(Of<Format::kQ4_K>{}, panel);
    case Format::kQ5_K:
      return quantized(Of<Format::kQ5_K>{}, panel);
    case Format::kQ6_K:
      return quantized(Of<Format::kQ6_K>{}, panel);
    case Format::kF32:
      return in_floats(Floats{static_cast<const float*>(values), 16});
    case Format::kF16:
      return in_floats(Halves{static_cast<const uint16_t*>(values), 16});
    case Format::kBF16:
      return in_floats(Bfloats{static_cast<const uint16_t*>(values), 16});
  }
}

void base_rows(const Weight::Impl& w, int64_t p, const Activations& x, int64_t row, int64_t rows,
               F32x16* z) {
  for_format(
      w, p,
      [&](auto format, const uint8_t* panel) {
        quantized_rows<decltype(format)::value>(panel, x, row, rows, z);
      },
      [&](auto panel) { float_rows(panel, x, row, rows, z); });
}

// ---- The exact weights, a panel at a time

/// y[r] += sum_k m[k][r] panel[k], k in [0, cols).
template <class B>
void accumulate_panel(const float* m, int64_t cols, int64_t rank, B panel, float* y) {
  for_row_tiles(rank, [&](auto tile, int64_t r) {
    constexpr int R = decltype(tile)::value;
    F32x16 sum[R];
    unroll<R>([&](auto i) { sum[i.value] = load(y + (r + i.value) * kPanel); });
    multiply<R>(m + r, 1, rank, panel, cols, sum);
    unroll<R>([&](auto i) { store(y + (r + i.value) * kPanel, sum[i.value]); });
  });
}

/// One block as floats [32][16], value = scale q + offset.
template <Format F>
RETORT_INLINE void expand_block(const uint8_t* planes, const BlockScales& scales, float* values) {
  constexpr Layout L = layout_of(F);
  unroll<8>([&](auto g) {
    const Bytes q = unpack_group<F, decltype(g)::value>(planes);
    const F32x16 scale = scales.scale[g.value * L.scales / 8];
    unroll<4>([&](auto j) {
      const F32x16 value = to_float(signed_byte<decltype(j)::value>(q));
      store(values + (4 * g.value + j.value) * kPanel, fma(scale, value, scales.offset));
    });
  });
}

template <Format F>
void quantized_product(const uint8_t* panel, const float* m, int64_t cols, int64_t rank, float* y) {
  constexpr Layout L = layout_of(F);
  alignas(64) float values[kBlock * kPanel];
  for_blocks<F>(panel, cols / kBlock, [&](const uint8_t* header, const uint8_t* planes, int64_t b) {
    expand_block<F>(planes, block_scales<F>(header, planes + L.plane_bytes()), values);
    accumulate_panel(m + b * kBlock * rank, kBlock, rank, Floats{values, kPanel}, y);
  });
}

void panel_product(const Weight& weight, int64_t p, const float* m, int64_t rank, float* y) {
  const Weight::Impl& w = weight.impl();
  __builtin_memset(y, 0, static_cast<size_t>(rank * kPanel) * sizeof(float));
  for_format(
      w, p,
      [&](auto format, const uint8_t* panel) {
        quantized_product<decltype(format)::value>(panel, m, w.in, rank, y);
      },
      [&](auto panel) { accumulate_panel(m, w.in, rank, panel, y); });
}

/// delta[i] = B'h of rows [0, rows) of one panel.
RETORT_INLINE void adapter_panel(const float* h, int64_t rank, int64_t rows, const Half* panel,
                                 F32x16* delta) {
  for_row_tiles(rows, [&](auto r, int64_t i) {
    unroll<decltype(r)::value>([&](auto j) { delta[i + j.value] = zero(); });
    multiply<decltype(r)::value>(h + i * rank, rank, 1, Halves{panel, 16}, rank, delta + i);
  });
}

/// The law of a group for rows [begin, end) of panel p: z becomes y, but for the bias.
void apply_terms(const RowGroup& group, int64_t begin, int64_t end, int64_t p, F32x16* z) {
  const MixTerm* terms = group.terms.data();
  const size_t count = group.terms.size();
  const int64_t rows = end - begin, first = begin - group.row_begin;
  if (count == 0) return;
  const auto gate = [&](const MixTerm& t, int64_t i) {
    return broadcast(t.gates ? t.gates[first + i] : t.gate);
  };
  for (int64_t i = 0; i < rows; ++i) {
    F32x16 factor = broadcast(1.0f);
    for (size_t t = 0; t < count; ++t)
      factor = fma(gate(terms[t], i), load(terms[t].matrix->d + p * kPanel), factor);
    z[i] = mul(z[i], factor);
  }
  F32x16 delta[kRowsAtOnce];
  for (size_t t = 0; t < count; ++t) {
    const int64_t rank = terms[t].matrix->rank;
    adapter_panel(terms[t].h + first * rank, rank, rows, terms[t].matrix->b + p * rank * kPanel,
                  delta);
    for (int64_t i = 0; i < rows; ++i) z[i] = fma(gate(terms[t], i), delta[i], z[i]);
  }
}

void linear(const Weight& weight, const float* bias, const Activations& x, int64_t rows,
            std::span<const RowGroup> groups, int64_t panel_begin, int64_t panel_end, float* y) {
  const Weight::Impl& w = weight.impl();
  const RowGroup* group = groups.data();
  const size_t group_count = groups.size();
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t lanes = smaller(kPanel, w.out - p * kPanel);
    size_t g = 0;
    for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
      const int64_t end = smaller(rows, row + kRowsAtOnce);
      F32x16 z[kRowsAtOnce];
      base_rows(w, p, x, row, end - row, z);
      for (; g < group_count && group[g].row_begin < end; ++g) {
        const int64_t from = group[g].row_begin > row ? group[g].row_begin : row;
        const int64_t to = smaller(group[g].row_end, end);
        if (from < to) apply_terms(group[g], from, to, p, z + (from - row));
        if (group[g].row_end > end) break;
      }
      float* out = y + row * w.out + p * kPanel;
      const F32x16 b = bias ? load_first(bias + p * kPanel, lanes) : zero();
      for (int64_t i = 0; i < end - row; ++i, out += w.out)
        store_first(out, lanes, bias ? add(z[i], b) : z[i]);
    }
  }
}

void quantize_rows(const Activations& x, int64_t begin, int64_t end) {
  const int64_t blocks = x.cols / kBlock;
  for (int64_t b = begin * blocks; b < end * blocks; ++b) {
    const F32x16 lo = load(x.x + b * kBlock), hi = load(x.x + b * kBlock + 16);
    const float largest = reduce_max(max(abs(lo), abs(hi)));
    const float scale = largest / 127.0f;
    const F32x16 inverse = broadcast(largest > 1e-30f ? 127.0f / largest : 0.0f);
    const F32x16 limit = broadcast(127.0f), limit_low = broadcast(-127.0f);
    // The clamp also turns NaN into a number: -128 would break the exactness of the dot products.
    const I32x16 q_lo = round(max(min(mul(lo, inverse), limit), limit_low));
    const I32x16 q_hi = round(max(min(mul(hi, inverse), limit), limit_low));
    store_i8(x.q + b * kBlock, q_lo);
    store_i8(x.q + b * kBlock + 16, q_hi);
    x.scale[b] = largest > 1e-30f ? scale : 0.0f;
    x.sum[b] = x.scale[b] * static_cast<float>(reduce_add(add(q_lo, q_hi)));
  }
}

void adapter_down(const float* x, int64_t rows, int64_t cols, const Half* m, int64_t rank,
                  float* h) {
  for_column_tiles(rank, [&](auto width, int64_t r) {
    constexpr int W = decltype(width)::value;
    for_row_tiles(rows, [&](auto tile, int64_t i) {
      constexpr int R = decltype(tile)::value;
      F32x16 sum[R];
      multiply_quarters<R>(x + i * cols, cols, halves<W>(m + r, rank), cols, sum);
      unroll<R>([&](auto j) { store_width<W>(h + (i + j.value) * rank + r, sum[j.value]); });
    });
  });
}

void adapter_up(const float* h, int64_t rows, int64_t rank, const Half* m, int64_t cols, float* y) {
  for (int64_t p = 0; p * kPanel < cols; ++p) {
    const int64_t lanes = smaller(kPanel, cols - p * kPanel);
    for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
      const int64_t count = smaller(kRowsAtOnce, rows - row);
      F32x16 delta[kRowsAtOnce];
      adapter_panel(h + row * rank, rank, count, m + p * rank * kPanel, delta);
      for (int64_t i = 0; i < count; ++i) {
        float* out = y + (row + i) * cols + p * kPanel;
        store_first(out, lanes, add(load_first(out, lanes), delta[i]));
      }
    }
  }
}
