// The vector types of the kernels in plain C++: 16 floats, 16 integers, 64 bytes. This file is also
// their specification: the AVX versions do the same operations in the same order, lane by lane.
// Included inside the namespace of an instruction set.

#define RETORT_INLINE [[maybe_unused]] static inline

inline constexpr int kRowTile = 1;  // rows of the float micro-kernel
inline constexpr int kDotTile = 1;  // rows of the integer one

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct Bytes {
  uint8_t v[64];
};
struct Partial {
  int32_t v[16];
};  // sums of 8-bit products, not yet widened

RETORT_INLINE F32x16 broadcast(float x) {
  F32x16 r;
  for (float& v : r.v) v = x;
  return r;
}
RETORT_INLINE F32x16 zero() { return broadcast(0); }
RETORT_INLINE F32x16 load(const float* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
RETORT_INLINE void store(float* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
RETORT_INLINE F32x16 load8(const float* p) {  // the upper lanes are 0
  F32x16 r = zero();
  for (int i = 0; i < 8; ++i) r.v[i] = p[i];
  return r;
}
RETORT_INLINE void store8(float* p, F32x16 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.v[i];
}
RETORT_INLINE F32x16 load_half(const void* p) {
  F32x16 r;
  uint16_t h[16];
  __builtin_memcpy(h, p, sizeof h);
  for (int i = 0; i < 16; ++i) r.v[i] = half_bits_to_float(h[i]);
  return r;
}
RETORT_INLINE F32x16 load_half8(const void* p) {
  F32x16 r = zero();
  uint16_t h[8];
  __builtin_memcpy(h, p, sizeof h);
  for (int i = 0; i < 8; ++i) r.v[i] = half_bits_to_float(h[i]);
  return r;
}
RETORT_INLINE void store_half(uint16_t* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half_bits(a.v[i]);
}
RETORT_INLINE F32x16 load_bf16(const void* p) {
  F32x16 r;
  uint16_t h[16];
  __builtin_memcpy(h, p, sizeof h);
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(h[i]) << 16;
    __builtin_memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
RETORT_INLINE F32x16 load_u8(const uint8_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
RETORT_INLINE F32x16 load_i8(const uint8_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int8_t>(p[i]);
  return r;
}

#define RETORT_LANEWISE(name, expression)         \
  RETORT_INLINE F32x16 name(F32x16 a, F32x16 b) { \
    F32x16 r;                                     \
    for (int i = 0; i < 16; ++i) {                \
      const float x = a.v[i], y = b.v[i];         \
      r.v[i] = expression;                        \
    }                                             \
    return r;                                     \
  }
RETORT_LANEWISE(add, x + y)
RETORT_LANEWISE(sub, x - y)
RETORT_LANEWISE(mul, x* y)
RETORT_LANEWISE(div, x / y)
RETORT_LANEWISE(max, x > y ? x : y)  // y where either is NaN, as vmaxps
RETORT_LANEWISE(min, x < y ? x : y)
RETORT_LANEWISE(zero_below, x < y ? 0.0f : x)  // a where a >= b or either is NaN, else 0
#undef RETORT_LANEWISE

RETORT_INLINE F32x16 select_below(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = a.v[i] < b.v[i] ? yes.v[i] : no.v[i];
  return r;
}
/// Rounded once. Where the processor has no such instruction this is a library call, slow but
/// equal.
[[maybe_unused, gnu::noinline]] F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
RETORT_INLINE F32x16 abs(F32x16 a) {
  for (float& v : a.v) v = __builtin_fabsf(v);
  return a;
}
/// To the nearest integer, ties to even; |a| < 2^22.
RETORT_INLINE I32x16 round(F32x16 a) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(__builtin_rintf(a.v[i]));
  return r;
}
RETORT_INLINE F32x16 to_float(I32x16 a) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
/// 2^n for n in [-126, 127].
RETORT_INLINE F32x16 pow2(I32x16 n) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    const int32_t bits = (n.v[i] + 127) * (1 << 23);
    __builtin_memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
RETORT_INLINE I32x16 zero_int() { return I32x16{}; }
RETORT_INLINE I32x16 add(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
/// Lanes in [-128, 127] as bytes.
RETORT_INLINE void store_i8(int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}
RETORT_INLINE int32_t reduce_add(I32x16 a) {
  int32_t sum = 0;
  for (int32_t v : a.v) sum += v;
  return sum;
}

/// The order of every horizontal sum: lane i + lane i + 8, then neighbours, then halves.
RETORT_INLINE float reduce_add(F32x16 a) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = a.v[i] + a.v[i + 8];
  const float low = (s[0] + s[1]) + (s[2] + s[3]), high = (s[4] + s[5]) + (s[6] + s[7]);
  return low + high;
}
RETORT_INLINE float reduce_max(F32x16 a) {
  float m = a.v[0];
  for (float v : a.v) m = v > m ? v : m;
  return m;
}
/// out[i] = reduce_add(a[i]).
RETORT_INLINE void reduce_add8(const F32x16* a, float* out) {
  for (int i = 0; i < 8; ++i) out[i] = reduce_add(a[i]);
}

// ---- Bytes
// ---------------------------------------------------------------------------------------

RETORT_INLINE Bytes load_bytes(const uint8_t* p) {
  Bytes r;
  __builtin_memcpy(r.v, p, 64);
  return r;
}
RETORT_INLINE void store_bytes(uint8_t* p, Bytes a) { __builtin_memcpy(p, a.v, 64); }
/// (each byte >> n) & mask; n in [-4, 4], negative shifts left. The mask clears what crosses bytes.
template <int n>
RETORT_INLINE Bytes field(Bytes a, uint8_t mask) {
  for (uint8_t& v : a.v)
    v = static_cast<uint8_t>((n >= 0 ? v >> (n >= 0 ? n : 0) : v << (n < 0 ? -n : 0)) & mask);
  return a;
}
RETORT_INLINE Bytes bit_or(Bytes a, Bytes b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
RETORT_INLINE Bytes subtract(Bytes a, uint8_t x) {
  for (uint8_t& v : a.v) v = static_cast<uint8_t>(v - x);
  return a;
}
/// Byte j of each row's four, as a signed number.
template <int j>
RETORT_INLINE I32x16 signed_byte(Bytes a) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int8_t>(a.v[4 * i + j]);
  return r;
}
/// Four signed bytes, for all rows.
struct FourBytes {
  int8_t v[4];
};
RETORT_INLINE FourBytes load_four(const int8_t* p) {
  FourBytes r;
  __builtin_memcpy(r.v, p, 4);
  return r;
}
RETORT_INLINE Partial zero_partial() { return Partial{}; }
RETORT_INLINE I32x16 widen_add(Partial p, I32x16 sum) {
  for (int i = 0; i < 16; ++i) sum.v[i] += p.v[i];
  return sum;
}
/// p[row] += sum of w[row][j] x[j] over the four inputs; w unsigned.
RETORT_INLINE Partial dot_unsigned(Partial p, Bytes w, FourBytes x) {
  for (int i = 0; i < 64; ++i) p.v[i / 4] += w.v[i] * x.v[i % 4];
  return p;
}
/// A signed weight as the dot product instructions want it.
struct SignedBytes {
  Bytes w;
};
RETORT_INLINE SignedBytes to_signed(Bytes w) { return {w}; }
RETORT_INLINE Partial dot_signed(Partial p, SignedBytes w, FourBytes x) {
  for (int i = 0; i < 64; ++i) p.v[i / 4] += static_cast<int8_t>(w.w.v[i]) * x.v[i % 4];
  return p;
}
