// IEEE binary16 in plain C++. Exact, and equal to the F16C instructions for all but NaN payloads.
#pragma once

#include <bit>
#include <cstdint>

namespace retort::kernels {
namespace {

[[maybe_unused]] inline float half_bits_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // Shifted into place the exponent is 112 too small; scaling by 2^112 also normalises subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

[[maybe_unused]] inline uint16_t float_to_half_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {  // subnormal: adding 0.5 leaves x * 2^24 in the low bits, rounded
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t even = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000 + 0xfff + even) >> 13);
}

}  // namespace
}  // namespace retort::kernels
