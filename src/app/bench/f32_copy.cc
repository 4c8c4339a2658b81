#include "app/bench/f32_copy.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/gguf.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

struct FreeGguf {
  void operator()(gguf_context* p) const { gguf_free(p); }
};
struct FreeGgml {
  void operator()(ggml_context* p) const { ggml_free(p); }
};
using GgufPointer = std::unique_ptr<gguf_context, FreeGguf>;
using GgmlPointer = std::unique_ptr<ggml_context, FreeGgml>;

constexpr int64_t kChunkRows = 256;

int64_t elements(const engine::TensorView& tensor) {
  return tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
}

/// The keys of `from` and its tensors as F32, without data.
base::Result<GgufPointer> make_header(const engine::Gguf& from) {
  GgufPointer source(gguf_init_from_file(from.path().c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (!source)
    return make_error(Code::kInvalidInput, "{}: ggml cannot read it", from.path().string());
  GgufPointer header(gguf_init_empty());
  gguf_set_kv(header.get(), source.get());
  gguf_remove_key(header.get(), "general.alignment");      // the header has the default one
  gguf_set_val_u32(header.get(), "general.file_type", 0);  // all F32
  const GgmlPointer tensors(ggml_init({.mem_size = ggml_tensor_overhead() * from.tensors().size(),
                                       .mem_buffer = nullptr,
                                       .no_alloc = true}));
  for (const engine::TensorView& view : from.tensors()) {
    int dims = 4;
    while (dims > 1 && view.shape[static_cast<size_t>(dims) - 1] == 1) --dims;
    ggml_tensor* tensor = ggml_new_tensor(tensors.get(), GGML_TYPE_F32, dims, view.shape.data());
    ggml_set_name(tensor, view.name.c_str());
    gguf_add_tensor(header.get(), tensor);
  }
  return header;
}

void dequantise(const engine::TensorView& tensor, int64_t row, int64_t rows, float* values) {
  const auto type = static_cast<ggml_type>(tensor.type);
  const int64_t width = tensor.shape[0];
  const std::byte* bytes =
      tensor.data.data() + static_cast<size_t>(row) * ggml_row_size(type, width);
  if (type == GGML_TYPE_F32) {
    std::memcpy(values, bytes, static_cast<size_t>(rows * width) * sizeof(float));
  } else {
    ggml_get_type_traits(type)->to_float(bytes, values, rows * width);
  }
}

base::Result<void> append_tensor(base::AppendFile& file, const engine::TensorView& tensor,
                                 size_t alignment) {
  const int64_t width = tensor.shape[0], rows = elements(tensor) / width;
  std::vector<float> values;
  for (int64_t row = 0; row < rows; row += kChunkRows) {
    const int64_t n = std::min(kChunkRows, rows - row);
    values.resize(static_cast<size_t>(n * width));
    dequantise(tensor, row, n, values.data());
    TRY(file.append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  }
  const size_t bytes = static_cast<size_t>(rows * width) * sizeof(float);
  return file.append(std::string((alignment - bytes % alignment) % alignment, '\0'));
}

}  // namespace

base::Result<uint64_t> f32_copy_bytes(const base::Path& path) {
  TRY_ASSIGN(const engine::Gguf file, engine::Gguf::open(path));
  uint64_t bytes = uint64_t{64} << 20;  // keys, padding
  for (const engine::TensorView& tensor : file.tensors()) {
    bytes += static_cast<uint64_t>(elements(tensor)) * sizeof(float);
  }
  return bytes;
}

base::Result<void> write_f32_copy(const base::Path& from, const base::Path& to) {
  TRY_ASSIGN(const engine::Gguf source, engine::Gguf::open(from));
  TRY_ASSIGN(const GgufPointer header, make_header(source));
  std::string bytes(gguf_get_meta_size(header.get()), '\0');
  gguf_get_meta_data(header.get(), bytes.data());
  TRY_ASSIGN(base::AppendFile file, base::AppendFile::open(to));
  TRY(file.append(bytes));
  for (const engine::TensorView& tensor : source.tensors()) {
    TRY(append_tensor(file, tensor, gguf_get_alignment(header.get())));
  }
  return {};
}

}  // namespace retort::app
