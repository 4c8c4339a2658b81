// Oracle: ggml's own dequantisation (ggml_type_traits::to_float) of the same bytes, bit for bit.
#include "kernels/weight.h"

#include "kernels/reference_test.h"

namespace retort::kernels {
namespace {

class WeightTypes : public testing::TestWithParam<ggml_type> {};
std::string type_name(const testing::TestParamInfo<ggml_type>& info) {
  return ggml_type_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, WeightTypes, testing::ValuesIn(kTypes), type_name);

Floats ggml_dequantized(ggml_type type, const std::vector<std::byte>& bytes, int64_t n) {
  Floats x(static_cast<size_t>(n));
  if (type == GGML_TYPE_F32)
    std::memcpy(x.data(), bytes.data(), bytes.size());
  else
    ggml_get_type_traits(type)->to_float(bytes.data(), x.data(), n);
  return x;
}

TEST_P(WeightTypes, DequantizesAsGgml) {
  const int64_t out = 37, in = 512;
  const auto bytes = random_matrix(GetParam(), out, in, 1);
  const Floats want = ggml_dequantized(GetParam(), bytes, out * in);
  const auto w = Weight::pack(GetParam(), bytes, out, in);
  ASSERT_TRUE(w.has_value());
  Floats got(want.size());
  for (int64_t o = 0; o < out; ++o) w->dequantize_row(o, got.data() + o * in);
  expect_same_bits(got, want);
}

TEST_P(WeightTypes, ArbitraryBytesDequantizeAsGgml) {  // every bit pattern of scales and codes
  const int64_t out = 16, in = 256;
  std::mt19937_64 generator(7);
  std::vector<std::byte> bytes(out * ggml_row_size(GetParam(), in));
  for (auto& b : bytes) b = static_cast<std::byte>(generator());
  const Floats want = ggml_dequantized(GetParam(), bytes, out * in);
  const auto w = Weight::pack(GetParam(), bytes, out, in);
  ASSERT_TRUE(w.has_value());
  Floats got(in);
  for (int64_t o = 0; o < out; ++o) {
    w->dequantize_row(o, got.data());
    for (int64_t k = 0; k < in; ++k) {
      const float x = want[static_cast<size_t>(o * in + k)];
      ASSERT_TRUE(got[static_cast<size_t>(k)] == x || std::isnan(x)) << o << " " << k;
    }
  }
}

TEST_P(WeightTypes, TransposesEveryRange) {
  const int64_t out = 21, in = 256;
  const Weight w = packed(GetParam(), out, in, 3);
  TransposedWeight t(w);
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 2}, {2, 5}, {5, 16}})
    t.fill_panels(w, begin, end);
  Floats row(in);
  for (int64_t o = 0; o < out; ++o) {
    w.dequantize_row(o, row.data());
    for (int64_t k = 0; k < in; ++k)
      ASSERT_EQ(t.panel(k / 16)[o * 16 + k % 16], row[static_cast<size_t>(k)]) << o << " " << k;
  }
}

TEST_P(WeightTypes, AWindowShowsThePanelsOfTheWhole) {
  const Weight first = packed(GetParam(), 21, 256, 3), second = packed(GetParam(), 40, 512, 4);
  TransposedWeight window = TransposedWeight::window(2 * 16 * 40);
  for (const Weight* w : {&first, &second}) {
    TransposedWeight whole(*w);
    whole.fill_panels(*w, 0, w->in() / 16);
    for (const auto& [begin, end] : {std::pair{0, 2}, {3, 4}, {6, 8}, {14, 16}}) {
      window.show(*w, begin, end);
      ASSERT_EQ(window.in(), w->in());
      ASSERT_EQ(window.out(), w->out());
      const auto bytes = static_cast<size_t>(w->out()) * 16 * sizeof(float);
      for (int64_t p = begin; p < end; ++p) {
        EXPECT_EQ(std::memcmp(window.panel(p), whole.panel(p), bytes), 0) << p;
      }
    }
  }
}

TEST_P(WeightTypes, SaysWhatPackingWillTake) {
  const Weight w = packed(GetParam(), 21, 256, 3);
  EXPECT_EQ(Weight::packed_bytes(GetParam(), 21, 256), w.bytes());
  EXPECT_FALSE(Weight::packed_bytes(GetParam(), 21, 20));
}

TEST_P(WeightTypes, TakesTheBytesOfTheFile) {
  const Weight w = packed(GetParam(), 64, 512, 4);
  const double file = 64.0 * static_cast<double>(ggml_row_size(GetParam(), 512));
  EXPECT_LE(static_cast<double>(w.bytes()), 1.03 * file);  // K-quants' 6-bit codes take a byte
}

TEST(Weight, FloatInputsNeedNotFillAPanel) {
  const Weight w = packed(GGML_TYPE_F16, 3, 24, 5);
  TransposedWeight t(w);
  t.fill_panels(w, 0, 2);
  Floats row(24);
  w.dequantize_row(2, row.data());
  EXPECT_EQ(t.panel(1)[2 * 16 + 7], row[23]);
  EXPECT_EQ(t.panel(1)[2 * 16 + 8], 0);
}

TEST(Weight, RefusesWhatItCannotPack) {
  const std::vector<std::byte> bytes(1 << 16);
  const auto code = [&](int type, size_t size, int64_t out, int64_t in) {
    const auto w = Weight::pack(type, std::span(bytes).first(size), out, in);
    return w ? -1 : static_cast<int>(w.error().code);
  };
  const int unsupported = static_cast<int>(base::Code::kUnsupported);
  const int invalid = static_cast<int>(base::Code::kInvalidInput);
  EXPECT_EQ(code(GGML_TYPE_Q2_K, 1 << 16, 4, 256), unsupported);
  EXPECT_EQ(code(-1, 1 << 16, 4, 256), unsupported);
  EXPECT_EQ(code(4, 1 << 16, 4, 256), unsupported);  // a type ggml has removed
  EXPECT_EQ(code(100000, 1 << 16, 4, 256), unsupported);
  EXPECT_EQ(code(GGML_TYPE_Q4_0, 4 * 144 - 1, 4, 256), invalid);
  EXPECT_EQ(code(GGML_TYPE_Q4_0, 4 * 144, 4, 256), -1);
  EXPECT_EQ(code(GGML_TYPE_Q4_0, 1 << 16, 4, 48), invalid);
  EXPECT_EQ(code(GGML_TYPE_Q4_K, 1 << 16, 4, 128), invalid);
  EXPECT_EQ(code(GGML_TYPE_F32, 1 << 16, 4, 12), invalid);
  EXPECT_EQ(code(GGML_TYPE_F32, 1 << 16, 0, 16), invalid);
  EXPECT_EQ(code(GGML_TYPE_F32, 1 << 16, -4, 16), invalid);
  EXPECT_EQ(code(GGML_TYPE_F32, 1 << 16, int64_t{1} << 60, 16), invalid);
}

TEST(Half, RoundTripsEveryValue) {  // oracle: ggml's conversions
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto bits = static_cast<Half>(h);
    const float x = half_to_float(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(x, ggml_fp16_to_fp32(bits)) << h;
    ASSERT_EQ(float_to_half(x), bits) << h;
    const float between = (x + half_to_float(static_cast<Half>(bits + 1))) / 2;  // a tie
    if (!std::isfinite(between)) continue;
    ASSERT_EQ(float_to_half(between), ggml_fp32_to_fp16(between)) << h;
  }
  for (const float x : {65519.0f, 65520.0f, 1e10f, -1e10f, 1e-8f, -3e-8f, 0.1f, 1.0f / 0.0f})
    EXPECT_EQ(float_to_half(x), ggml_fp32_to_fp16(x)) << x;
}

}  // namespace
}  // namespace retort::kernels
