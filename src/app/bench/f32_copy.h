// A GGUF file with every quantised tensor dequantised to F32 by ggml: the model that the quantised
// file stands for, to measure both engines' rounding against.
#pragma once

#include "base/disk.h"
#include "base/result.h"

namespace retort::app {

/// Bytes that the copy of `path` takes, with a little to spare. Errors as engine::Gguf::open.
[[nodiscard]] base::Result<uint64_t> f32_copy_bytes(const base::Path& path);
/// Writes it to `to`: same keys, same tensors, all F32.
[[nodiscard]] base::Result<void> write_f32_copy(const base::Path& from, const base::Path& to);

}  // namespace retort::app
