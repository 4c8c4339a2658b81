// Attention, forward for one query row and backward for a whole sequence.

inline constexpr int64_t kKeys = 16;     // keys of a tile, backward
inline constexpr int64_t kQueries = 24;  // query rows of a tile, backward: a multiple of kRowTile
static_assert(kQueries % kRowTile == 0);

/// scores[h][t] = q[h] . k[t] * scale for up to 8 keys from t; reads no key past `keys`.
void score_keys(const float* q, int64_t group, const Half* k, int64_t keys, int64_t head_dim,
                float scale, float* scores, int64_t stride) {
  alignas(64) float row[8][kHeadDimMax];
  for (int64_t j = 0; j < 8; ++j)
    for_column_tiles(head_dim, [&](auto width, int64_t d) {
      constexpr int W = decltype(width)::value;
      store_width<W>(&row[j][d], load_half_width<W>(k + smaller(j, keys - 1) * head_dim + d));
    });
  for (int64_t h = 0; h < group; ++h) {
    F32x16 sum[8];
    unroll<8>([&](auto j) { sum[j.value] = zero(); });
    for_column_tiles(head_dim, [&](auto width, int64_t d) {
      constexpr int W = decltype(width)::value;
      const F32x16 query = load_width<W>(q + h * head_dim + d);
      unroll<8>([&](auto j) {
        sum[j.value] = fma(query, load_width<W>(&row[j.value][d]), sum[j.value]);
      });
    });
    float dots[8];
    reduce_add8(sum, dots);
    for (int64_t j = 0; j < keys; ++j) scores[h * stride + j] = dots[j] * scale;
  }
}

/// scores become exp(scores - max); returns their sum. The row is padded with -infinity.
float softmax_numerators(float* scores, int64_t n) {
  F32x16 top = load(scores);
  for (int64_t t = 16; t < n; t += 16) top = max(top, load(scores + t));
  const F32x16 largest = broadcast(reduce_max(top));
  F32x16 sum = zero();
  for (int64_t t = 0; t < n; t += 16) {
    const F32x16 p = exp(sub(load(scores + t), largest));
    store(scores + t, p);
    sum = add(sum, p);
  }
  return reduce_add(sum);
}

void attend(const float* q, int64_t group, const Half* k, const Half* v, int64_t length,
            int64_t head_dim, float scale, float* scores, float* out) {
  const int64_t stride = padded(length);
  for (int64_t t = 0; t < length; t += 8)
    score_keys(q, group, k + t * head_dim, smaller(8, length - t), head_dim, scale, scores + t,
               stride);
  for (int64_t h = 0; h < group; ++h) {
    float* row = scores + h * stride;
    for (int64_t t = length; t < stride; ++t) row[t] = -__builtin_inff();
    const float inverse = 1.0f / softmax_numerators(row, stride);
    for (int64_t t = 0; t < stride; t += 16) store(row + t, mul(load(row + t), broadcast(inverse)));
  }
  for_column_tiles(head_dim, [&](auto width, int64_t d) {
    constexpr int W = decltype(width)::value;
    for_row_tiles(group, [&](auto tile, int64_t h) {
      constexpr int R = decltype(tile)::value;
      F32x16 sum[R];
      multiply_quarters<R>(scores + h * stride, stride, halves<W>(v + d, head_dim), length, sum);
      unroll<R>([&](auto i) { store_width<W>(out + (h + i.value) * head_dim + d, sum[i.value]); });
    });
  });
}

// ---- Backward
// ------------------------------------------------------------------------------------ For each
// head, in tiles of kKeys keys by query rows (Dao et al., FlashAttention, 2022, algorithm 4): first
// lse[i] = log sum_t exp(s_it) and D_i = dout_i . out_i; then, with p = exp(s - lse) and ds = p
// (dout v^T - D) scale:  dq += ds k,  dk += ds^T q,  dv += p^T dout. Scratch is lse and D.

/// 16 rows of Half, from `first`, transposed to [head_dim][16] floats; rows past `length` are 0.
void transpose_keys(const Half* k, int64_t first, int64_t length, int64_t head_dim, float* out) {
  for (int64_t j = 0; j < kKeys; ++j)
    for (int64_t d = 0; d < head_dim; ++d)
      out[d * kKeys + j] =
          first + j < length ? half_bits_to_float(k[(first + j) * head_dim + d]) : 0.0f;
}

/// One head of the gradient, in the strides of AttentionGradient.
struct HeadGradient {
  const AttentionGradient& a;
  const float *q, *out, *dout;
  float* dq;
  float *lse, *d;
};

/// f(Int<R>{}, first) over query rows [begin, end).
template <class F>
RETORT_INLINE void for_queries(int64_t begin, int64_t end, const F& f) {
  for_row_tiles(end - begin, [&](auto tile, int64_t i) { f(tile, begin + i); });
}

/// x[i] . m for R rows against 16 transposed keys.
template <int R>
RETORT_INLINE void against_keys(const HeadGradient& h, const float* x, int64_t i, const float* keys,
                                F32x16* c) {
  unroll<R>([&](auto r) { c[r.value] = zero(); });
  multiply<R>(x + i * h.a.q_stride, h.a.q_stride, 1, Floats{keys, kKeys}, h.a.head_dim, c);
}

/// Lanes of keys that row i may not see become `value`.
RETORT_INLINE F32x16 mask_future(F32x16 s, int64_t first_key, int64_t i, float value) {
  return i - first_key >= kKeys - 1 ? s : mask_lanes(s, i - first_key + 1, value);
}

/// Running maximum (lse) and sum of exponentials (d) of each row over the keys from `first`.
void accumulate_lse(const HeadGradient& h, const float* keys, int64_t first) {
  for_queries(first, h.a.length, [&](auto tile, int64_t i) {
    constexpr int R = decltype(tile)::value;
    F32x16 s[R];
    against_keys<R>(h, h.q, i, keys, s);
    unroll<R>([&](auto r) {
      const int64_t row = i + r.value;
      const F32x16 score =
          mask_future(mul(s[r.value], broadcast(h.a.scale)), first, row, -__builtin_inff());
      const float top = reduce_max(score);
      if (top > h.lse[row]) {
        float factor[16];
        store(factor, exp(broadcast(h.lse[row] - top)));
        h.d[row] *= factor[0];
        h.lse[row] = top;
      }
      h.d[row] += reduce_add(exp(sub(score, broadcast(h.lse[row]))));
    });
  });
}

void finish_lse(const HeadGradient& h) {
  for (int64_t i = 0; i < h.a.length; ++i) {
    h.lse[i] += static_cast<float>(__builtin_log(static_cast<double>(h.d[i])));
    F32x16 sum = zero();
    for_column_tiles(h.a.head_dim, [&](auto width, int64_t d) {
      constexpr int W = decltype(width)::value;
      const int64_t at = i * h.a.q_stride + d;
      sum = fma(load_width<W>(h.dout + at), load_width<W>(h.out + at), sum);
    });
    h.d[i] = reduce_add(sum);
  }
}

/// p and ds of rows [begin, end) against the keys from `first`, as [row][16].
void probabilities(const HeadGradient& h, const float* keys, const float* values, int64_t first,
                   int64_t begin, int64_t end, float* p, float* ds) {
  for_queries(begin, end, [&](auto tile, int64_t i) {
    constexpr int R = decltype(tile)::value;
    F32x16 s[R], dp[R];
    against_keys<R>(h, h.q, i, keys, s);
    unroll<R>([&](auto r) {
      const int64_t row = i + r.value;
      const F32x16 e = exp(fma(s[r.value], broadcast(h.a.scale), broadcast(-h.lse[row])));
      s[r.value] = mask_future(e, first, row, 0.0f);
      store(p + (row - begin) * kKeys, s[r.value]);
    });
    against_keys<R>(h, h.dout, i, values, dp);
    unroll<R>([&](auto r) {
      const F32x16 centred = sub(dp[r.value], broadcast(h.d[i + r.value]));
      store(ds + (i + r.value - begin) * kKeys,
            mul(mul(s[r.value], centred), broadcast(h.a.scale)));
    });
  });
}

/// g[t] += sum_i m[i][t] x[i] for `keys` keys and `rows` rows: dk from (ds, q), dv from (p, dout).
void add_to_keys(const AttentionGradient& a, const float* m, const float* x, int64_t rows,
                 int64_t keys, float* g) {
  for_column_tiles(a.head_dim, [&](auto width, int64_t d) {
    constexpr int W = decltype(width)::value;
    for_row_tiles(keys, [&](auto tile, int64_t t) {
      constexpr int R = decltype(tile)::value;
      float* to = g + t * a.kv_stride + d;
      F32x16 sum[R];
      unroll<R>([&](auto r) { sum[r.value] = load_width<W>(to + r.value * a.kv_stride); });
      multiply<R>(m + t, 1, kKeys, floats<W>(x + d, a.q_stride), rows, sum);
      unroll<R>([&](auto r) { store_width<W>(to + r.value * a.kv_stride, sum[r.value]); });
    });
  });
}

/// dq[i] += sum_t ds[i][t] k[t].
void add_to_queries(const AttentionGradient& a, const float* ds, const Half* k, int64_t keys,
                    int64_t rows, float* dq) {
  for_column_tiles(a.head_dim, [&](auto width, int64_t d) {
    constexpr int W = decltype(width)::value;
    for_row_tiles(rows, [&](auto tile, int64_t i) {
      constexpr int R = decltype(tile)::value;
      float* to = dq + i * a.q_stride + d;
      F32x16 sum[R];
      unroll<R>([&](auto r) { sum[r.value] = load_width<W>(to + r.value * a.q_stride); });
      multiply<R>(ds + i * kKeys, kKeys, 1, halves<W>(k + d, a.head_dim), keys, sum);
      unroll<R>([&](auto r) { store_width<W>(to + r.value * a.q_stride, sum[r.value]); });
    });
  });
}

void head_gradient(const HeadGradient& h) {
  const AttentionGradient& a = h.a;
  alignas(64) float keys[kHeadDimMax * kKeys], values[kHeadDimMax * kKeys];
  alignas(64) float p[kQueries * kKeys], ds[kQueries * kKeys];
  for (int64_t i = 0; i < a.length; ++i) h.lse[i] = -__builtin_inff(), h.d[i] = 0;
  for (int64_t first = 0; first < a.length; first += kKeys) {
    transpose_keys(a.k, first, a.length, a.head_dim, keys);
    accumulate_lse(h, keys, first);
  }
  finish_lse(h);
  for (int64_t first = 0; first < a.length; first += kKeys) {
    const int64_t count = smaller(kKeys, a.length - first);
    transpose_keys(a.k, first, a.length, a.head_dim, keys);
    transpose_keys(a.v, first, a.length, a.head_dim, values);
    for (int64_t begin = first; begin < a.length; begin += kQueries) {
      const int64_t end = smaller(begin + kQueries, a.length), at = begin * a.q_stride;
      probabilities(h, keys, values, first, begin, end, p, ds);
      add_to_queries(a, ds, a.k + first * a.head_dim, count, end - begin, h.dq + at);
      add_to_keys(a, ds, h.q + at, end - begin, count, a.dk + first * a.kv_stride);
      add_to_keys(a, p, h.dout + at, end - begin, count, a.dv + first * a.kv_stride);
    }
  }
}

void attend_gradient(const AttentionGradient& a, float* scratch) {
  for (int64_t i = 0; i < a.length; ++i) {
    __builtin_memset(a.dq + i * a.q_stride, 0, static_cast<size_t>(a.group * a.head_dim) * 4);
    __builtin_memset(a.dk + i * a.kv_stride, 0, static_cast<size_t>(a.head_dim) * 4);
    __builtin_memset(a.dv + i * a.kv_stride, 0, static_cast<size_t>(a.head_dim) * 4);
  }
  for (int64_t h = 0; h < a.group; ++h) {
    const int64_t at = h * a.head_dim;
    head_gradient(
        {a, a.q + at, a.out + at, a.dout + at, a.dq + at, scratch, scratch + padded(a.length)});
  }
}
