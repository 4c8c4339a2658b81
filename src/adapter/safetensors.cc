#include "adapter/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "base/limits.h"
#include "kernels/kernels.h"

namespace retort::adapter {
namespace {

using base::Code;
using base::Json;
using base::Result;

constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kElementsMax = uint64_t{1} << 40;

uint64_t bytes_of(Element element) { return element == Element::kF32 ? 4 : 2; }

std::optional<Element> element_of(std::string_view name) {
  if (name == "F32") return Element::kF32;
  if (name == "F16") return Element::kF16;
  if (name == "BF16") return Element::kBf16;
  return std::nullopt;
}

/// A member that is an array of non-negative integers.
Result<std::vector<int64_t>> integers(const Json& entry, const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_array()) {
    return make_error(Code::kInvalidInput, "\"{}\" should be an array", key);
  }
  std::vector<int64_t> values;
  for (const Json& value : *it) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kElementsMax) {
      return make_error(Code::kInvalidInput, "\"{}\" holds {}", key, base::dump_json(value));
    }
    values.push_back(value.get<int64_t>());
  }
  return values;
}

Result<TensorView> parse_entry(const Json& entry, std::span<const std::byte> data) {
  TensorView tensor;
  TRY_ASSIGN(const std::string dtype, base::get_string(entry, "dtype"));
  const auto element = element_of(dtype);
  if (!element) {
    return make_error(Code::kUnsupported, "type {}; an adapter is F32, F16 or BF16", dtype);
  }
  tensor.element = *element;
  TRY_ASSIGN(tensor.shape, integers(entry, "shape"));
  TRY_ASSIGN(const std::vector<int64_t> range, integers(entry, "data_offsets"));
  uint64_t count = 1;
  for (const int64_t n : tensor.shape) {
    if (n == 0) return make_error(Code::kInvalidInput, "it is empty");
    if (static_cast<uint64_t>(n) > kElementsMax / count) {
      return make_error(Code::kInvalidInput, "its shape is too large");
    }
    count *= static_cast<uint64_t>(n);
  }
  if (range.size() != 2 || range[0] > range[1] || static_cast<uint64_t>(range[1]) > data.size()) {
    return make_error(Code::kInvalidInput, "its data lies outside the file of {} data bytes",
                      data.size());
  }
  const auto begin = static_cast<size_t>(range[0]), size = static_cast<size_t>(range[1]) - begin;
  if (size != count * bytes_of(tensor.element)) {
    return make_error(Code::kInvalidInput, "{} bytes of data where {} values take {}", size, count,
                      count * bytes_of(tensor.element));
  }
  tensor.bytes = data.subspan(begin, size);
  return tensor;
}

/// Sorts by position and refuses overlaps and holes.
Result<void> check_coverage(std::vector<TensorView>& tensors, std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return a.bytes.data() < b.bytes.data();
  });
  const std::byte* at = data.data();
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes.data() != at) {
      return make_error(Code::kInvalidInput, "{}: its data {}", tensor.name,
                        tensor.bytes.data() < at ? "overlaps another tensor's" : "follows a hole");
    }
    at += tensor.bytes.size();
  }
  if (at != data.data() + data.size()) {
    return make_error(Code::kInvalidInput, "{} bytes after the last tensor",
                      data.data() + data.size() - at);
  }
  return {};
}

}  // namespace

int64_t TensorView::count() const { return static_cast<int64_t>(bytes.size() / bytes_of(element)); }

std::vector<float> TensorView::floats() const {
  std::vector<float> values(static_cast<size_t>(count()));
  if (element == Element::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, sizeof(half));
    values[i] = element == Element::kF16 ? kernels::half_to_float(half)
                                         : std::bit_cast<float>(uint32_t{half} << 16);
  }
  return values;
}

Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> file) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    return make_error(Code::kInvalidInput, "truncated: {} bytes", file.size());
  }
  std::memcpy(&length, file.data(), sizeof(length));
  file = file.subspan(sizeof(length));
  if (length > file.size() || length > limits::kSafetensorsHeaderBytesMax) {
    return make_error(Code::kInvalidInput, "not safetensors, or truncated: a header of {} bytes",
                      length);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()), length);
  auto parsed = base::parse_json(text);
  if (!parsed) return in_context("safetensors header", std::move(parsed).error());
  if (!parsed->is_object()) return make_error(Code::kInvalidInput, "the header is not an object");
  if (parsed->size() > static_cast<size_t>(limits::kSafetensorsTensorsMax)) {
    return make_error(Code::kLimit, "{} tensors; at most {}", parsed->size(),
                      limits::kSafetensorsTensorsMax);
  }
  const std::span<const std::byte> data = file.subspan(length);
  std::vector<TensorView> tensors;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == kMetadata) continue;
    auto tensor = parse_entry(entry, data);
    if (!tensor) return in_context(name, std::move(tensor).error());
    tensor->name = name;
    tensors.push_back(*std::move(tensor));
  }
  TRY(check_coverage(tensors, data));
  return tensors;
}

std::string write_safetensors(std::span<const FloatTensor> tensors) {
  Json header = Json::object();
  header[kMetadata] = {{"format", "pt"}};
  uint64_t at = 0;
  for (const FloatTensor& tensor : tensors) {
    const uint64_t end = at + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = base::dump_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data aligned to 8, as the reference writer does
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file.reserve(sizeof(length) + text.size() + at);
  file += text;
  for (const FloatTensor& tensor : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
  }
  return file;
}

}  // namespace retort::adapter
