// The golden values of tests/golden (README.md there), and how far results are from them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace retort {

/// A safetensors file of F32 and I32 tensors, as tools/make_goldens.py writes it.
class GoldenFile {
 public:
  /// tests/golden/MODEL.safetensors
  [[nodiscard]] static base::Result<GoldenFile> open(std::string_view model);

  /// The tensor must be there, and of that type.
  std::span<const float> floats(const std::string& name) const;
  std::span<const int32_t> integers(const std::string& name) const;

 private:
  std::map<std::string, std::vector<float>> floats_;
  std::map<std::string, std::vector<int32_t>> integers_;
};

/// ||a - b|| / ||b||, in double; infinite if the sizes differ.
double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace retort
