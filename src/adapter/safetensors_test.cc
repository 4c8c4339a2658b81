// Oracles: hand-written files byte by byte, the writer's own output read back, and a list of
// damages with the reason each must be refused for.
#include "adapter/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace retort::adapter {
namespace {

std::string file(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
  return text.append(header).append(data);
}

std::string refusal(const std::string& text) {
  const auto parsed = parse_safetensors(std::as_bytes(std::span(text)));
  return parsed ? "accepted" : parsed.error().message;
}

TEST(Safetensors, ReadsHandWrittenBytesOfEachType) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},)"
                             R"("f":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}  )";
  const std::string data("\x00\x00\xc0\x3f\x00\x3c\x00\xc0\x80\x3f\x20\xc1", 12);
  const std::string text = file(header, data);
  const auto tensors = parse_safetensors(std::as_bytes(std::span(text))).value();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "f");
  EXPECT_EQ(tensors[0].floats(), (std::vector<float>{1.5f}));
  EXPECT_EQ(tensors[1].name, "h");
  EXPECT_EQ(tensors[1].floats(), (std::vector<float>{1.0f, -2.0f}));
  EXPECT_EQ(tensors[2].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensors[2].floats(), (std::vector<float>{1.0f, -10.0f}));
}

TEST(Safetensors, WritesTheExpectedBytes) {
  const std::vector<float> values = {1.5f};
  const FloatTensor tensor{"f", {1}, values};
  std::string header =
      R"({"__metadata__":{"format":"pt"},"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(write_safetensors({&tensor, 1}), file(header, std::string("\x00\x00\xc0\x3f", 4)));
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const std::vector<float> a = {1.0f, -0.0f, 1e-45f, 3e38f, NAN, INFINITY}, b = {7.0f};
  const FloatTensor both[] = {{"z", {2, 3}, a}, {"a", {1}, b}};
  const std::string text = write_safetensors(both);
  const auto tensors = parse_safetensors(std::as_bytes(std::span(text))).value();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "z");
  EXPECT_EQ(tensors[0].shape, both[0].shape);
  EXPECT_EQ(std::memcmp(tensors[0].bytes.data(), a.data(), 24), 0);
  EXPECT_EQ(tensors[1].floats(), b);
}

TEST(Safetensors, RefusesDamage) {
  const auto one = [](std::string_view entry, std::string_view data = "12345678") {
    return file(fmt::format("{{\"t\":{}}}", entry), data);
  };
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "truncated"},
      {"1234567", "truncated"},
      {huge, "a header of 9223372036854775807 bytes"},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), "a header of 3 bytes"},
      {file("", ""), "not valid JSON"},
      {file("[1, 2]", ""), "not an object"},
      {file("{\"t\": {", "12345678"), "not valid JSON"},
      {file("{\"t\xff\": {}}", ""), "UTF-8"},
      {file(std::string(100'000, '['), ""), "not valid JSON"},
      {one("7"), "expected an object"},
      {one(R"({"shape":[2],"data_offsets":[0,8]})"), "\"dtype\" is missing"},
      {one(R"({"dtype":"I64","shape":[1],"data_offsets":[0,8]})"), "type I64"},
      {one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "\"shape\" should be an array"},
      {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "\"shape\" holds -2"},
      {one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "\"shape\" holds 2.0"},
      {one(R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})", ""), "empty"},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "3 values take 12"},
      {one(R"({"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8]})"),
       "shape is too large"},
      {one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), "holds 1844"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "outside the file"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "outside the file"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"), "outside the file"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "4 bytes after the last"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "follows a hole"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "12345678"),
       "overlaps"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            "12345678"),
       "\"a\" is given twice"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string message = refusal(cases[i].first);
    EXPECT_NE(message.find(cases[i].second), std::string::npos) << i << ": " << message;
  }
}

}  // namespace
}  // namespace retort::adapter
