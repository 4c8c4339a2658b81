// The vector types of simd_portable.h on AVX2, FMA and F16C: two registers each. With AVX-VNNI the
// byte products go straight to 32 bits; the integers are the same.

#define RETORT_INLINE [[maybe_unused, gnu::always_inline]] static inline

inline constexpr int kRowTile = 6;  // 12 accumulators, 2 weights, 1 broadcast of 16 registers
inline constexpr int kDotTile = 4;

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};
struct Bytes {
  __m256i a, b;
};
struct Partial {
  __m256i a, b;
};  // 16-bit pair sums, or 32-bit sums with VNNI

RETORT_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
RETORT_INLINE F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
RETORT_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
RETORT_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
RETORT_INLINE F32x16 load8(const float* p) { return {_mm256_loadu_ps(p), _mm256_setzero_ps()}; }
RETORT_INLINE void store8(float* p, F32x16 x) { _mm256_storeu_ps(p, x.a); }
RETORT_INLINE __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
RETORT_INLINE F32x16 load_half(const void* p) {
  return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(static_cast<const char*>(p) + 16))};
}
RETORT_INLINE F32x16 load_half8(const void* p) {
  return {_mm256_cvtph_ps(load128(p)), _mm256_setzero_ps()};
}
RETORT_INLINE void store_half(uint16_t* p, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
RETORT_INLINE __m256 bf16_to_float(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
RETORT_INLINE F32x16 load_bf16(const void* p) {
  return {bf16_to_float(load128(p)), bf16_to_float(load128(static_cast<const char*>(p) + 16))};
}
RETORT_INLINE F32x16 load_u8(const uint8_t* p) {
  const __m128i x = load128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}
RETORT_INLINE F32x16 load_i8(const uint8_t* p) {
  const __m128i x = load128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}

RETORT_INLINE F32x16 add(F32x16 x, F32x16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 sub(F32x16 x, F32x16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 mul(F32x16 x, F32x16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 div(F32x16 x, F32x16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 max(F32x16 x, F32x16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 min(F32x16 x, F32x16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
RETORT_INLINE F32x16 zero_below(F32x16 x, F32x16 y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), x.a),
          _mm256_andnot_ps(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ), x.b)};
}
RETORT_INLINE F32x16 select_below(F32x16 x, F32x16 y, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
RETORT_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
RETORT_INLINE F32x16 abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
RETORT_INLINE I32x16 round(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
RETORT_INLINE F32x16 to_float(I32x16 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
RETORT_INLINE __m256 pow2(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
RETORT_INLINE F32x16 pow2(I32x16 n) { return {pow2(n.a), pow2(n.b)}; }
RETORT_INLINE I32x16 zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
RETORT_INLINE I32x16 add(I32x16 x, I32x16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
RETORT_INLINE void store_i8(int8_t* p, I32x16 x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
RETORT_INLINE int32_t reduce_add(I32x16 x) {
  const __m256i s = _mm256_add_epi32(x.a, x.b);
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_hadd_epi32(t, t);
  return _mm_cvtsi128_si32(_mm_hadd_epi32(t, t));
}
RETORT_INLINE float reduce_add(F32x16 x) {
  const __m256 s = _mm256_add_ps(x.a, x.b);
  const __m256 pairs = _mm256_hadd_ps(s, s);
  const __m256 quads = _mm256_hadd_ps(pairs, pairs);
  return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1)));
}
RETORT_INLINE float reduce_max(F32x16 x) {
  const __m256 m = _mm256_max_ps(x.a, x.b);
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
RETORT_INLINE void reduce_add8(const F32x16* x, float* out) {
  __m256 pairs[4];
  for (int i = 0; i < 4; ++i)
    pairs[i] = _mm256_hadd_ps(_mm256_add_ps(x[2 * i].a, x[2 * i].b),
                              _mm256_add_ps(x[2 * i + 1].a, x[2 * i + 1].b));
  const __m256 low = _mm256_hadd_ps(pairs[0], pairs[1]), high = _mm256_hadd_ps(pairs[2], pairs[3]);
  _mm256_storeu_ps(out, _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                                      _mm256_permute2f128_ps(low, high, 0x31)));
}

// ---- Bytes
// ---------------------------------------------------------------------------------------

RETORT_INLINE Bytes load_bytes(const uint8_t* p) {
  const auto* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
RETORT_INLINE void store_bytes(uint8_t* p, Bytes x) {
  auto* q = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(q, x.a);
  _mm256_storeu_si256(q + 1, x.b);
}
template <int n>
RETORT_INLINE Bytes field(Bytes x, uint8_t mask) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
  if constexpr (n > 0) x = {_mm256_srli_epi16(x.a, n), _mm256_srli_epi16(x.b, n)};
  if constexpr (n < 0) x = {_mm256_slli_epi16(x.a, -n), _mm256_slli_epi16(x.b, -n)};
  return {_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
RETORT_INLINE Bytes bit_or(Bytes x, Bytes y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
RETORT_INLINE Bytes subtract(Bytes x, uint8_t y) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(y));
  return {_mm256_sub_epi8(x.a, m), _mm256_sub_epi8(x.b, m)};
}
template <int j>
RETORT_INLINE I32x16 signed_byte(Bytes x) {
  return {_mm256_srai_epi32(_mm256_slli_epi32(x.a, 24 - 8 * j), 24),
          _mm256_srai_epi32(_mm256_slli_epi32(x.b, 24 - 8 * j), 24)};
}
struct FourBytes {
  __m256i v;
};
RETORT_INLINE FourBytes load_four(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return {_mm256_set1_epi32(x)};
}
RETORT_INLINE Partial zero_partial() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
#ifdef __AVXVNNI__
RETORT_INLINE __m256i dot_add(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}
RETORT_INLINE I32x16 widen_add(Partial p, I32x16 sum) {
  return {_mm256_add_epi32(p.a, sum.a), _mm256_add_epi32(p.b, sum.b)};
}
#else
RETORT_INLINE __m256i dot_add(__m256i sum, __m256i w, __m256i x) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
}
RETORT_INLINE I32x16 widen_add(Partial p, I32x16 sum) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(_mm256_madd_epi16(p.a, one), sum.a),
          _mm256_add_epi32(_mm256_madd_epi16(p.b, one), sum.b)};
}
#endif
/// Keeps a sum in its register: g++ otherwise reorders the additions, and spills every product.
RETORT_INLINE Partial pinned(Partial p) {
  __asm__("" : "+x"(p.a), "+x"(p.b));
  return p;
}
RETORT_INLINE Partial dot_unsigned(Partial p, Bytes w, FourBytes x) {
  return pinned({dot_add(p.a, w.a, x.v), dot_add(p.b, w.b, x.v)});
}
// w x = |w| (sign(w) x): the instruction wants one unsigned factor.
struct SignedBytes {
  Bytes w, magnitude;
};
RETORT_INLINE SignedBytes to_signed(Bytes w) {
  return {w, {_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b)}};
}
RETORT_INLINE Partial dot_signed(Partial p, SignedBytes w, FourBytes x) {
  return pinned({dot_add(p.a, w.magnitude.a, _mm256_sign_epi8(x.v, w.w.a)),
                 dot_add(p.b, w.magnitude.b, _mm256_sign_epi8(x.v, w.w.b))});
}
