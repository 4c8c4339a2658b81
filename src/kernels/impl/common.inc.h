// Parts that the kernels share: loop helpers, ragged loads, exp, and the one float micro-kernel.

template <int N>
struct Int {
  static constexpr int value = N;
};

/// f(Int<0>{}), f(Int<1>{}) ... f(Int<N - 1>{}), unrolled.
template <int N, int I = 0, class F>
RETORT_INLINE void unroll(const F& f) {
  if constexpr (I < N) {
    f(Int<I>{});
    unroll<N, I + 1>(f);
  }
}

RETORT_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// The first n lanes, the others `rest`; n >= 1, and all lanes from 16 on.
RETORT_INLINE F32x16 load_first(const float* p, int64_t n, float rest = 0) {
  if (n >= 16) return load(p);
  float lanes[16];
  for (int64_t i = 0; i < 16; ++i) lanes[i] = i < n ? p[i] : rest;
  return load(lanes);
}
RETORT_INLINE void store_first(float* p, int64_t n, F32x16 x) {
  if (n >= 16) return store(p, x);
  float lanes[16];
  store(lanes, x);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

/// The first n lanes of x, the others `rest`.
RETORT_INLINE F32x16 mask_lanes(F32x16 x, int64_t n, float rest) {
  float lanes[16];
  store(lanes, x);
  return load_first(lanes, n > 0 ? n : 0, rest);
}

/// e^x: 0 below -87.3, 2.4e38 above 88.37, else within 2 ulp (Cephes' polynomial, Cody-Waite
/// reduction). NaN stays NaN.
RETORT_INLINE F32x16 exp(F32x16 x) {
  const F32x16 lowest = broadcast(-87.3f);
  const F32x16 y = min(broadcast(88.37f), max(lowest, x));
  const I32x16 n = round(mul(y, broadcast(1.44269504f)));
  const F32x16 nf = to_float(n);
  F32x16 r = fma(nf, broadcast(-0.693359375f), y);
  r = fma(nf, broadcast(2.12194440e-4f), r);
  F32x16 p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, broadcast(1.0f)));
  return select_below(x, lowest, zero(), mul(p, pow2(n)));
}

/// Sources of 16 values side by side: element k of a matrix with a row stride.
struct Floats {
  const float* p;
  int64_t stride;
  RETORT_INLINE F32x16 at(const Floats& s, int64_t k) { return load(s.p + k * s.stride); }
};
struct Floats8 {
  const float* p;
  int64_t stride;
  RETORT_INLINE F32x16 at(const Floats8& s, int64_t k) { return load8(s.p + k * s.stride); }
};
struct Halves {
  const uint16_t* p;
  int64_t stride;
  RETORT_INLINE F32x16 at(const Halves& s, int64_t k) { return load_half(s.p + k * s.stride); }
};
struct Halves8 {
  const uint16_t* p;
  int64_t stride;
  RETORT_INLINE F32x16 at(const Halves8& s, int64_t k) { return load_half8(s.p + k * s.stride); }
};
struct Bfloats {
  const uint16_t* p;
  int64_t stride;
  RETORT_INLINE F32x16 at(const Bfloats& s, int64_t k) { return load_bf16(s.p + k * s.stride); }
};

/// The float micro-kernel: c[i] += sum_k a[i][k] b[k], k ascending, one FMA each.
/// a[i][k] = a[i * row + k * step]. Every float product of this library is made of it.
template <int R, class B>
RETORT_INLINE void multiply(const float* a, int64_t row, int64_t step, B b, int64_t n, F32x16* c) {
  F32x16 sum[R];
  unroll<R>([&](auto i) { sum[i.value] = c[i.value]; });
  for (int64_t k = 0; k < n; ++k, a += step) {
    const F32x16 w = B::at(b, k);
    unroll<R>([&](auto i) { sum[i.value] = fma(broadcast(a[i.value * row]), w, sum[i.value]); });
  }
  unroll<R>([&](auto i) { c[i.value] = sum[i.value]; });
}

/// f(Int<R>{}, first) over [0, rows) in tiles of R, then R / 3, then 1 (each size is one more copy
/// of the kernel, so no more of them).
template <int R = kRowTile, class F>
RETORT_INLINE void for_row_tiles(int64_t rows, const F& f) {
  int64_t i = 0;
  for (; i + R <= rows; i += R) f(Int<R>{}, i);
  if constexpr (R >= 6)
    for (; i + R / 3 <= rows; i += R / 3) f(Int<R / 3>{}, i);
  if constexpr (R > 1)
    for (; i < rows; ++i) f(Int<1>{}, i);
}

/// f(Int<16>{}, first) over columns in sixteens, and Int<8> for the last eight (n is a multiple of
/// 8).
template <class F>
RETORT_INLINE void for_column_tiles(int64_t n, const F& f) {
  int64_t r = 0;
  for (; r + 16 <= n; r += 16) f(Int<16>{}, r);
  if (r < n) f(Int<8>{}, r);
}

template <int W>
RETORT_INLINE F32x16 load_width(const float* p) {
  if constexpr (W == 16) return load(p);
  return load8(p);
}
template <int W>
RETORT_INLINE F32x16 load_half_width(const uint16_t* p) {
  if constexpr (W == 16) return load_half(p);
  return load_half8(p);
}
template <int W>
RETORT_INLINE void store_width(float* p, F32x16 x) {
  if constexpr (W == 16) return store(p, x);
  store8(p, x);
}
template <int W>
RETORT_INLINE auto floats(const float* p, int64_t stride) {
  if constexpr (W == 16)
    return Floats{p, stride};
  else
    return Floats8{p, stride};
}
template <int W>
RETORT_INLINE auto halves(const uint16_t* p, int64_t stride) {
  if constexpr (W == 16)
    return Halves{p, stride};
  else
    return Halves8{p, stride};
}
