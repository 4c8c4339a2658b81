// How Weight lays a matrix out. Internal to kernels/: weight.cc writes it, impl/linear.inc.h reads
// it.
//
// A panel is 16 output rows. Quantised panels are a sequence of blocks of 32 inputs:
//
//   [header, one per 8 blocks, K-quants only][planes][scales] [planes][scales] ...
//
// planes: byte (row * 4 + j) of a 64-byte chunk belongs to `row` and to input 4 g + j of group g:
//   4, 5, 6 bit  4 chunks; the low nibble of chunk c is group c, the high nibble group c + 4
//   5 bit        + 1 chunk: bit g of each byte is the fifth bit of group g
//   6 bit        + 2 chunks: chunk c holds bits 4-5 of groups 4c .. 4c+3, two bits each
//   8 bit        8 chunks, chunk g is group g, signed
// So one 64-byte vector is 4 inputs of 16 rows: what an 8-bit dot product instruction eats.
// scales: half d[16] (, half m[16]); K-quants: code[scales][16] (, min code[16]), with the header
// half d[16] (, half dmin[16]). A block takes the bytes it takes in the file.
//
// Float panels are [in][16].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight.h"

namespace retort::kernels {

enum class Format : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kF32,
  kF16,
  kBF16,
};

inline constexpr int kBlock = 32;  // inputs per block, for weights and activations
inline constexpr int kLanes = 16;  // rows per panel

struct Layout {
  int bits;     // of the stored q
  int zero;     // value = scale * (q - zero) + offset
  bool offset;  // a minimum is stored: offset = m, or -dmin * code
  bool super;   // K-quants: integer scale codes under a header per 256 inputs
  int scales;   // scales per block

  constexpr int plane_bytes() const { return bits == 8 ? 512 : 256 + (bits - 4) * 64; }
  constexpr int scale_bytes() const { return super ? 16 * (scales + offset) : 32 * (1 + offset); }
  constexpr int block_bytes() const { return plane_bytes() + scale_bytes(); }
  constexpr int header_bytes() const { return super ? 32 * (1 + offset) : 0; }
  constexpr int blocks() const { return super ? 8 : 1; }  // under one header
  constexpr int unit_bytes() const { return header_bytes() + blocks() * block_bytes(); }
};

constexpr Layout layout_of(Format format) {
  switch (format) {
    case Format::kQ4_0:
      return {4, 8, false, false, 1};
    case Format::kQ4_1:
      return {4, 0, true, false, 1};
    case Format::kQ5_0:
      return {5, 16, false, false, 1};
    case Format::kQ5_1:
      return {5, 0, true, false, 1};
    case Format::kQ8_0:
      return {8, 0, false, false, 1};
    case Format::kQ4_K:
      return {4, 0, true, true, 1};
    case Format::kQ5_K:
      return {5, 0, true, true, 1};
    case Format::kQ6_K:
      return {6, 32, false, true, 2};
    default:
      return {};
  }
}

struct Weight::Impl {
  Format format = Format::kF32;
  int64_t out = 0, in = 0;
  size_t panel_bytes = 0;
  AlignedArray<std::byte> data;

  const std::byte* panel(int64_t p) const {
    return data.data() + static_cast<size_t>(p) * panel_bytes;
  }
};

}  // namespace retort::kernels
