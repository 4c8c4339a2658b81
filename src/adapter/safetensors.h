// safetensors, the container of a PEFT adapter: 8 bytes of header length, a JSON header naming each
// tensor's type, shape and byte range, then the data. Read with every claim of the header checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace retort::adapter {

enum class Element { kF32, kF16, kBf16 };

struct TensorView {
  std::string name;
  Element element = Element::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // into the parsed file, at any alignment

  int64_t count() const;
  /// Exact for all three types.
  std::vector<float> floats() const;
};

/// The tensors in the order of their data. kInvalidInput for a header that is not consistent
/// (length, JSON, ranges that overlap, leave holes or do not fit type and shape); kUnsupported for
/// other types.
[[nodiscard]] base::Result<std::vector<TensorView>> parse_safetensors(
    std::span<const std::byte> file);

struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

/// A whole file of F32 tensors, in the given order. Names are distinct.
std::string write_safetensors(std::span<const FloatTensor> tensors);

}  // namespace retort::adapter
