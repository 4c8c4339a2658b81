// The vector types of simd_portable.h on AVX-512 (F, BW, DQ, VL): one register each. Horizontal
// sums go through the 256-bit order, so that the bits are those of the other instruction sets.

#define RETORT_INLINE [[maybe_unused, gnu::always_inline]] static inline

inline constexpr int kRowTile = 12;  // chains enough to hide the latency of two FMA ports
inline constexpr int kDotTile = 4;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
struct Partial {
  __m512i v;
};  // 16-bit pair sums, or 32-bit sums with VNNI

RETORT_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
RETORT_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }
RETORT_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
RETORT_INLINE void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
RETORT_INLINE F32x16 load8(const float* p) { return {_mm512_maskz_loadu_ps(0xff, p)}; }
RETORT_INLINE void store8(float* p, F32x16 x) { _mm512_mask_storeu_ps(p, 0xff, x.v); }
RETORT_INLINE __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
RETORT_INLINE __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
RETORT_INLINE F32x16 load_half(const void* p) { return {_mm512_cvtph_ps(load256(p))}; }
RETORT_INLINE F32x16 load_half8(const void* p) {
  return {_mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_setzero_si256(), load128(p), 0))};
}
RETORT_INLINE void store_half(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}
RETORT_INLINE F32x16 load_bf16(const void* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16))};
}
RETORT_INLINE F32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load128(p)))};
}
RETORT_INLINE F32x16 load_i8(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(p)))};
}

RETORT_INLINE F32x16 add(F32x16 x, F32x16 y) { return {_mm512_add_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 sub(F32x16 x, F32x16 y) { return {_mm512_sub_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 mul(F32x16 x, F32x16 y) { return {_mm512_mul_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 div(F32x16 x, F32x16 y) { return {_mm512_div_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 max(F32x16 x, F32x16 y) { return {_mm512_max_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 min(F32x16 x, F32x16 y) { return {_mm512_min_ps(x.v, y.v)}; }
RETORT_INLINE F32x16 zero_below(F32x16 x, F32x16 y) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, y.v, _CMP_NLT_UQ), x.v)};
}
RETORT_INLINE F32x16 select_below(F32x16 x, F32x16 y, F32x16 yes, F32x16 no) {
  return {_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(x.v, y.v, _CMP_LT_OQ), yes.v)};
}
RETORT_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) { return {_mm512_fmadd_ps(x.v, y.v, z.v)}; }
RETORT_INLINE F32x16 abs(F32x16 x) { return {_mm512_abs_ps(x.v)}; }
RETORT_INLINE I32x16 round(F32x16 x) { return {_mm512_cvtps_epi32(x.v)}; }
RETORT_INLINE F32x16 to_float(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
RETORT_INLINE F32x16 pow2(I32x16 n) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
RETORT_INLINE I32x16 zero_int() { return {_mm512_setzero_si512()}; }
RETORT_INLINE I32x16 add(I32x16 x, I32x16 y) { return {_mm512_add_epi32(x.v, y.v)}; }
RETORT_INLINE void store_i8(int8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
}
RETORT_INLINE int32_t reduce_add(I32x16 x) { return _mm512_reduce_add_epi32(x.v); }
RETORT_INLINE __m256 fold(F32x16 x) {
  return _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
}
RETORT_INLINE float reduce_add(F32x16 x) {
  const __m256 s = fold(x);
  const __m256 pairs = _mm256_hadd_ps(s, s);
  const __m256 quads = _mm256_hadd_ps(pairs, pairs);
  return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1)));
}
RETORT_INLINE float reduce_max(F32x16 x) { return _mm512_reduce_max_ps(x.v); }
RETORT_INLINE void reduce_add8(const F32x16* x, float* out) {
  __m256 pairs[4];
  for (int i = 0; i < 4; ++i) pairs[i] = _mm256_hadd_ps(fold(x[2 * i]), fold(x[2 * i + 1]));
  const __m256 low = _mm256_hadd_ps(pairs[0], pairs[1]), high = _mm256_hadd_ps(pairs[2], pairs[3]);
  _mm256_storeu_ps(out, _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                                      _mm256_permute2f128_ps(low, high, 0x31)));
}

// ---- Bytes
// ---------------------------------------------------------------------------------------

RETORT_INLINE Bytes load_bytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
RETORT_INLINE void store_bytes(uint8_t* p, Bytes x) { _mm512_storeu_si512(p, x.v); }
template <int n>
RETORT_INLINE Bytes field(Bytes x, uint8_t mask) {
  if constexpr (n > 0) x.v = _mm512_srli_epi16(x.v, n);
  if constexpr (n < 0) x.v = _mm512_slli_epi16(x.v, -n);
  return {_mm512_and_si512(x.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}
RETORT_INLINE Bytes bit_or(Bytes x, Bytes y) { return {_mm512_or_si512(x.v, y.v)}; }
RETORT_INLINE Bytes subtract(Bytes x, uint8_t y) {
  return {_mm512_sub_epi8(x.v, _mm512_set1_epi8(static_cast<char>(y)))};
}
template <int j>
RETORT_INLINE I32x16 signed_byte(Bytes x) {
  return {_mm512_srai_epi32(_mm512_slli_epi32(x.v, 24 - 8 * j), 24)};
}
struct FourBytes {
  __m512i v;
};
RETORT_INLINE FourBytes load_four(const int8_t* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return {_mm512_set1_epi32(x)};
}
RETORT_INLINE Partial zero_partial() { return {_mm512_setzero_si512()}; }
#ifdef __AVX512VNNI__
RETORT_INLINE __m512i dot_add(__m512i sum, __m512i w, __m512i x) {
  return _mm512_dpbusd_epi32(sum, w, x);
}
RETORT_INLINE I32x16 widen_add(Partial p, I32x16 sum) { return {_mm512_add_epi32(p.v, sum.v)}; }
#else
RETORT_INLINE __m512i dot_add(__m512i sum, __m512i w, __m512i x) {
  return _mm512_add_epi16(sum, _mm512_maddubs_epi16(w, x));
}
RETORT_INLINE I32x16 widen_add(Partial p, I32x16 sum) {
  return {_mm512_add_epi32(_mm512_madd_epi16(p.v, _mm512_set1_epi16(1)), sum.v)};
}
#endif
/// Keeps a sum in its register: g++ otherwise reorders the additions, and spills every product.
RETORT_INLINE Partial pinned(Partial p) {
  __asm__("" : "+v"(p.v));
  return p;
}
RETORT_INLINE Partial dot_unsigned(Partial p, Bytes w, FourBytes x) {
  return pinned({dot_add(p.v, w.v, x.v)});
}
struct SignedBytes {
  __m512i magnitude;
  __mmask64 negative;
};
RETORT_INLINE SignedBytes to_signed(Bytes w) {
  return {_mm512_abs_epi8(w.v), _mm512_movepi8_mask(w.v)};
}
RETORT_INLINE Partial dot_signed(Partial p, SignedBytes w, FourBytes x) {
  const __m512i signed_x = _mm512_mask_sub_epi8(x.v, w.negative, _mm512_setzero_si512(), x.v);
  return pinned({dot_add(p.v, w.magnitude, signed_x)});
}
