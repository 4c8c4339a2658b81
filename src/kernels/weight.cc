#include "kernels/weight.h"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "kernels/half.h"
#include "kernels/packed.h"

namespace retort::kernels {
namespace {

using base::Code;
using base::make_error;

std::optional<Format> format_of(int ggml_type) {
  switch (ggml_type) {
    case GGML_TYPE_Q4_0:
      return Format::kQ4_0;
    case GGML_TYPE_Q4_1:
      return Format::kQ4_1;
    case GGML_TYPE_Q5_0:
      return Format::kQ5_0;
    case GGML_TYPE_Q5_1:
      return Format::kQ5_1;
    case GGML_TYPE_Q8_0:
      return Format::kQ8_0;
    case GGML_TYPE_Q4_K:
      return Format::kQ4_K;
    case GGML_TYPE_Q5_K:
      return Format::kQ5_K;
    case GGML_TYPE_Q6_K:
      return Format::kQ6_K;
    case GGML_TYPE_F32:
      return Format::kF32;
    case GGML_TYPE_F16:
      return Format::kF16;
    case GGML_TYPE_BF16:
      return Format::kBF16;
    default:
      return std::nullopt;
  }
}

bool is_float(Format f) { return f == Format::kF32 || f == Format::kF16 || f == Format::kBF16; }
int float_bytes(Format f) { return f == Format::kF32 ? 4 : 2; }

/// One block of one row as integers, whatever the file's format.
struct RowBlock {
  std::array<uint8_t, kBlock> q{};      // with Layout::zero still inside; Q8_0: two's complement
  std::array<uint8_t, 2> scale_code{};  // K-quants
  uint8_t min_code = 0;
  uint16_t d = 0, m = 0;  // half bits: scale and minimum, or the super-block's
};

uint16_t read_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }

void read_nibbles(const uint8_t* p, RowBlock& block) {
  for (int i = 0; i < 16; ++i) block.q[i] = p[i] & 15, block.q[i + 16] = p[i] >> 4;
}

void add_fifth_bits(const uint8_t* p, RowBlock& block) {
  for (int i = 0; i < kBlock; ++i)
    block.q[i] |= static_cast<uint8_t>((p[i / 8] >> (i % 8) & 1) << 4);
}

/// The 6-bit scale and minimum of block j of a Q4_K or Q5_K super-block, from its 12 bytes.
void read_k_codes(const uint8_t* s, int j, RowBlock& block) {
  block.scale_code[0] = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  block.min_code = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

RowBlock read_q4_k(const uint8_t* p, int j, bool five) {
  RowBlock block{.d = read_u16(p), .m = read_u16(p + 2)};
  read_k_codes(p + 4, j, block);
  const uint8_t* high = p + 16;
  const uint8_t* low = p + (five ? 48 : 16) + j / 2 * 32;
  for (int i = 0; i < kBlock; ++i) {
    block.q[i] = j % 2 ? low[i] >> 4 : low[i] & 15;
    if (five) block.q[i] |= static_cast<uint8_t>((high[i] >> j & 1) << 4);
  }
  return block;
}

RowBlock read_q6_k(const uint8_t* p, int j) {
  const int half = j / 4, quarter = j % 4;  // 128 inputs each; 32 inputs each
  const uint8_t* low = p + half * 64 + quarter % 2 * 32;
  const uint8_t* high = p + 128 + half * 32;
  RowBlock block{.d = read_u16(p + 208)};
  for (int i = 0; i < kBlock; ++i) {
    const int nibble = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    block.q[i] = static_cast<uint8_t>(nibble | (high[i] >> (2 * quarter) & 3) << 4);
  }
  std::memcpy(block.scale_code.data(), p + 192 + 2 * j, 2);
  return block;
}

/// Block `b` (32 inputs) of a row in ggml's layout.
RowBlock read_block(Format format, const uint8_t* row, int64_t b) {
  RowBlock block;
  switch (format) {
    case Format::kQ4_0:
      row += b * 18, block.d = read_u16(row), read_nibbles(row + 2, block);
      return block;
    case Format::kQ4_1:
      row += b * 20, block.d = read_u16(row), block.m = read_u16(row + 2);
      read_nibbles(row + 4, block);
      return block;
    case Format::kQ5_0:
      row += b * 22, block.d = read_u16(row), read_nibbles(row + 6, block);
      add_fifth_bits(row + 2, block);
      return block;
    case Format::kQ5_1:
      row += b * 24, block.d = read_u16(row), block.m = read_u16(row + 2);
      read_nibbles(row + 8, block), add_fifth_bits(row + 4, block);
      return block;
    case Format::kQ8_0:
      row += b * 34, block.d = read_u16(row), std::memcpy(block.q.data(), row + 2, kBlock);
      return block;
    case Format::kQ4_K:
      return read_q4_k(row + b / 8 * 144, static_cast<int>(b % 8), false);
    case Format::kQ5_K:
      return read_q4_k(row + b / 8 * 176, static_cast<int>(b % 8), true);
    default:
      return read_q6_k(row + b / 8 * 210, static_cast<int>(b % 8));
  }
}

/// Where block b of a panel lives.
template <class Byte>
struct BlockPlace {
  BlockPlace(Layout layout, Byte* panel, int64_t b)
      : header(panel + b / layout.blocks() * layout.unit_bytes()),
        planes(header + layout.header_bytes() + b % layout.blocks() * layout.block_bytes()),
        scales(planes + layout.plane_bytes()) {}
  Byte* header;
  Byte* planes;
  Byte* scales;
};

void write_q(int bits, uint8_t* planes, int lane, const RowBlock& block) {
  for (int i = 0; i < kBlock; ++i) {
    const int g = i / 4, byte = lane * 4 + i % 4, q = block.q[i];
    if (bits == 8) {
      planes[g * 64 + byte] = static_cast<uint8_t>(q);
      continue;
    }
    planes[g % 4 * 64 + byte] |= static_cast<uint8_t>((q & 15) << (g < 4 ? 0 : 4));
    if (bits == 5) planes[256 + byte] |= static_cast<uint8_t>((q >> 4) << g);
    if (bits == 6) planes[256 + g / 4 * 64 + byte] |= static_cast<uint8_t>((q >> 4) << (g % 4 * 2));
  }
}

int read_q(int bits, const uint8_t* planes, int lane, int i) {
  const int g = i / 4, byte = lane * 4 + i % 4;
  if (bits == 8) return static_cast<int8_t>(planes[g * 64 + byte]);
  const int low = planes[g % 4 * 64 + byte] >> (g < 4 ? 0 : 4) & 15;
  if (bits == 4) return low;
  if (bits == 5) return low | (planes[256 + byte] >> g & 1) << 4;
  return low | (planes[256 + g / 4 * 64 + byte] >> (g % 4 * 2) & 3) << 4;
}

void write_half(uint8_t* p, int lane, uint16_t h) { std::memcpy(p + 2 * lane, &h, 2); }
float read_half(const uint8_t* p, int lane) {
  uint16_t h;
  std::memcpy(&h, p + 2 * lane, 2);
  return half_bits_to_float(h);
}

void write_block(Layout layout, uint8_t* panel, int64_t b, int lane, const RowBlock& block) {
  const BlockPlace place(layout, panel, b);
  write_q(layout.bits, place.planes, lane, block);
  uint8_t* halves = layout.super ? place.header : place.scales;
  write_half(halves, lane, block.d);
  if (layout.offset) write_half(halves + 32, lane, block.m);
  if (!layout.super) return;
  for (int s = 0; s < layout.scales; ++s) place.scales[16 * s + lane] = block.scale_code[s];
  if (layout.offset) place.scales[16 * layout.scales + lane] = block.min_code;
}

/// Inputs [32 b, 32 b + 32) of one row, in ggml's order of operations.
void dequantize_block(Format format, const uint8_t* panel, int64_t b, int lane, float* dst) {
  const Layout layout = layout_of(format);
  const BlockPlace place(layout, panel, b);
  const uint8_t* halves = layout.super ? place.header : place.scales;
  const float d = read_half(halves, lane);
  const float m = layout.offset ? read_half(halves + 32, lane) : 0;
  for (int i = 0; i < kBlock; ++i) {
    const auto q = static_cast<float>(read_q(layout.bits, place.planes, lane, i) - layout.zero);
    if (format == Format::kQ6_K) {
      dst[i] = d * static_cast<float>(static_cast<int8_t>(place.scales[i / 16 * 16 + lane])) * q;
    } else if (layout.super) {
      dst[i] = d * static_cast<float>(place.scales[lane]) * q -
               m * static_cast<float>(place.scales[16 + lane]);
    } else {
      dst[i] = layout.offset ? q * d + m : q * d;
    }
  }
}

float read_float(Format format, const uint8_t* p) {
  float x = 0;
  uint16_t h = 0;
  if (format == Format::kF32) return std::memcpy(&x, p, 4), x;
  std::memcpy(&h, p, 2);
  if (format == Format::kF16) return half_bits_to_float(h);
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

const uint8_t* panel_of(const Weight::Impl& w, int64_t p) {
  return reinterpret_cast<const uint8_t*>(w.panel(p));
}

/// `count` inputs from `begin` (both multiples of 8; of 32 where the weight is quantised) of one
/// row.
void dequantize(const Weight::Impl& w, int64_t row, int64_t begin, int64_t count, float* dst) {
  const uint8_t* panel = panel_of(w, row / kLanes);
  const int lane = static_cast<int>(row % kLanes);
  if (!is_float(w.format)) {
    for (int64_t i = 0; i < count; i += kBlock)
      dequantize_block(w.format, panel, (begin + i) / kBlock, lane, dst + i);
    return;
  }
  const int size = float_bytes(w.format);
  for (int64_t i = 0; i < count; ++i)
    dst[i] = read_float(w.format, panel + ((begin + i) * kLanes + lane) * size);
}

void pack_row(Weight::Impl& w, int64_t row, const uint8_t* src) {
  auto* panel = const_cast<uint8_t*>(panel_of(w, row / kLanes));
  const int lane = static_cast<int>(row % kLanes);
  if (is_float(w.format)) {
    const int size = float_bytes(w.format);
    for (int64_t k = 0; k < w.in; ++k)
      std::memcpy(panel + (k * kLanes + lane) * size, src + k * size, static_cast<size_t>(size));
    return;
  }
  const Layout layout = layout_of(w.format);
  for (int64_t b = 0; b < w.in / kBlock; ++b)
    write_block(layout, panel, b, lane, read_block(w.format, src, b));
}

size_t panel_bytes(Format format, int64_t in) {
  if (is_float(format)) return static_cast<size_t>(in * kLanes * float_bytes(format));
  const Layout layout = layout_of(format);
  return static_cast<size_t>(in / kBlock / layout.blocks() * layout.unit_bytes());
}

/// The format of a matrix that pack() takes.
base::Result<Format> check_matrix(int ggml_type, int64_t out, int64_t in) {
  const auto format = format_of(ggml_type);
  if (!format) {
    const bool known = ggml_type >= 0 && ggml_type < GGML_TYPE_COUNT;
    const char* name = known ? ggml_type_name(static_cast<enum ggml_type>(ggml_type)) : nullptr;
    return make_error(
        Code::kUnsupported,
        "tensor type {} ({}) has no kernel; requantise to Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
        "Q4_K, Q5_K, Q6_K, F16, BF16 or F32",
        ggml_type, name != nullptr ? name : "unknown");
  }
  const int64_t unit = is_float(*format) ? 8 : int64_t{kBlock} * layout_of(*format).blocks();
  constexpr int64_t kSideMax = int64_t{1} << 31;  // so that no product below overflows
  if (out <= 0 || in <= 0 || out > kSideMax || in > kSideMax || in % unit != 0)
    return make_error(Code::kInvalidInput,
                      "a matrix of {} x {} of type {}: inputs must be a multiple of {}", out, in,
                      ggml_type_name(static_cast<enum ggml_type>(ggml_type)), unit);
  return *format;
}

size_t packed_size(Format format, int64_t out, int64_t in) {
  return static_cast<size_t>((out + kLanes - 1) / kLanes) * panel_bytes(format, in);
}

}  // namespace

Weight::Weight() = default;
Weight::~Weight() = default;
Weight::Weight(Weight&&) noexcept = default;
Weight& Weight::operator=(Weight&&) noexcept = default;

base::Result<size_t> Weight::packed_bytes(int ggml_type, int64_t out, int64_t in) {
  TRY_ASSIGN(const Format format, check_matrix(ggml_type, out, in));
  return packed_size(format, out, in);
}

base::Result<Weight> Weight::pack(int ggml_type, std::span<const std::byte> data, int64_t out,
                                  int64_t in) {
  TRY_ASSIGN(const Format format, check_matrix(ggml_type, out, in));
  const size_t row_bytes = ggml_row_size(static_cast<enum ggml_type>(ggml_type), in);
  if (data.size() / row_bytes < static_cast<size_t>(out))
    return make_error(Code::kInvalidInput, "{} bytes of weights where {} x {} takes {}",
                      data.size(), out, row_bytes, static_cast<size_t>(out) * row_bytes);
  Weight w;
  w.impl_ = std::make_unique<Impl>();
  w.impl_->format = format, w.impl_->out = out, w.impl_->in = in;
  w.impl_->panel_bytes = panel_bytes(format, in);
  w.impl_->data = AlignedArray<std::byte>(packed_size(format, out, in));
  std::memset(w.impl_->data.data(), 0, w.impl_->data.size());
  for (int64_t row = 0; row < out; ++row)
    pack_row(*w.impl_, row,
             reinterpret_cast<const uint8_t*>(data.data()) + static_cast<size_t>(row) * row_bytes);
  return w;
}

int64_t Weight::out() const { return impl_->out; }
int64_t Weight::in() const { return impl_->in; }
size_t Weight::bytes() const { return impl_->data.size(); }
bool Weight::quantized() const { return !is_float(impl_->format); }

void Weight::dequantize_row(int64_t row, float* dst) const {
  CHECK(row >= 0 && row < out(), "row {} of {}", row, out());
  dequantize(*impl_, row, 0, in(), dst);
}

TransposedWeight::TransposedWeight(const Weight& w)
    : out_(w.out()),
      in_(w.in()),
      values_(static_cast<size_t>((in_ + kLanes - 1) / kLanes * kLanes * out_)) {}

TransposedWeight TransposedWeight::window(int64_t floats) {
  TransposedWeight window;
  window.values_ = AlignedArray<float>(static_cast<size_t>(floats));
  return window;
}

void TransposedWeight::show(const Weight& w, int64_t panel_begin, int64_t panel_end) {
  out_ = w.out(), in_ = w.in(), first_ = panel_begin;
  const int64_t floats = (panel_end - panel_begin) * out_ * kLanes;
  CHECK(floats <= static_cast<int64_t>(values_.size()), "{} floats in {}", floats, values_.size());
  fill_panels(w, panel_begin, panel_end);
}

void TransposedWeight::fill_panels(const Weight& w, int64_t panel_begin, int64_t panel_end) {
  CHECK(w.out() == out_ && w.in() == in_);
  float row[kBlock];
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    // Quantised rows come 32 inputs at a time: two panels.
    const int64_t begin = w.quantized() ? p / 2 * kBlock : p * kLanes;
    const int64_t count = w.quantized() ? kBlock : std::min<int64_t>(kLanes, in_ - begin);
    const bool pair = w.quantized() && p % 2 == 0 && p + 1 < panel_end;
    for (int64_t o = 0; o < out_; ++o) {
      std::fill(row + count, row + kBlock, 0.0f);
      dequantize(w.impl(), o, begin, count, row);
      const float* half = row + (p * kLanes - begin);
      std::memcpy(values_.data() + ((p - first_) * out_ + o) * kLanes, half,
                  kLanes * sizeof(float));
      if (pair)
        std::memcpy(values_.data() + ((p + 1 - first_) * out_ + o) * kLanes, row + kLanes,
                    kLanes * sizeof(float));
    }
    p += pair;
  }
}

}  // namespace retort::kernels
