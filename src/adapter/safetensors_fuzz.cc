// Any bytes as a safetensors file; what parses is read whole.
#include <cstddef>
#include <cstdint>
#include <span>

#include "adapter/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = retort::adapter::parse_safetensors(bytes);
  if (!tensors) return 0;
  for (const auto& tensor : *tensors) {
    volatile float sink = 0;
    for (const float value : tensor.floats()) sink = sink + value;
  }
  return 0;
}
