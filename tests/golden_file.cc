#include "golden_file.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/disk.h"
#include "base/json.h"

namespace retort {
namespace {

template <class T>
std::vector<T> copy(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
std::span<const T> find(const std::map<std::string, std::vector<T>>& tensors,
                        const std::string& name) {
  const auto found = tensors.find(name);
  CHECK(found != tensors.end(), "no golden value {}", name);
  return found->second;
}

}  // namespace

base::Result<GoldenFile> GoldenFile::open(std::string_view model) {
  const base::Path path =
      base::Path(RETORT_SOURCE_DIR) / "tests/golden" / fmt::format("{}.safetensors", model);
  const auto read = base::read_file(path);
  if (!read) return tl::unexpected(read.error());
  const std::string& file = *read;
  uint64_t header_bytes = 0;
  CHECK(file.size() >= sizeof header_bytes);
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto header = std::string_view(file).substr(sizeof header_bytes, header_bytes);
  const auto data = std::string_view(file).substr(sizeof header_bytes + header_bytes);
  TRY_ASSIGN(const base::Json json, base::parse_json(header));

  GoldenFile golden;
  for (const auto& [name, tensor] : json.items()) {
    const auto begin = tensor["data_offsets"][0].get<size_t>();
    const auto bytes = data.substr(begin, tensor["data_offsets"][1].get<size_t>() - begin);
    if (tensor["dtype"] == "F32") golden.floats_[name] = copy<float>(bytes);
    if (tensor["dtype"] == "I32") golden.integers_[name] = copy<int32_t>(bytes);
  }
  return golden;
}

std::span<const float> GoldenFile::floats(const std::string& name) const {
  return find(floats_, name);
}

std::span<const int32_t> GoldenFile::integers(const std::string& name) const {
  return find(integers_, name);
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace retort
