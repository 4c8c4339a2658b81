#include "engine/gguf_writer.h"

#include <ggml.h>

#include <algorithm>
#include <system_error>
#include <type_traits>

#include "base/check.h"

namespace retort::engine {
namespace {

using base::Result;

constexpr size_t kAlignment = 32;
constexpr size_t kChunkBytes = size_t{4} << 20;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The format's number for a C++ type.
template <class T>
constexpr uint32_t kTypeOf = 0;
template <>
constexpr uint32_t kTypeOf<uint32_t> = 4;
template <>
constexpr uint32_t kTypeOf<int32_t> = 5;
template <>
constexpr uint32_t kTypeOf<float> = 6;
template <>
constexpr uint32_t kTypeOf<bool> = 7;
template <>
constexpr uint32_t kTypeOf<std::string> = 8;
template <>
constexpr uint32_t kTypeOf<uint64_t> = 10;
constexpr uint32_t kArrayType = 9;

template <class T>
void put(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put(out, uint64_t{value.size()});
    out += value;
  } else {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

template <class T>
void put_typed(std::string& out, const T& value) {
  put(out, kTypeOf<T>);
  put(out, value);
}

template <class T>
void put_typed(std::string& out, const std::vector<T>& values) {
  put(out, kArrayType);
  put(out, kTypeOf<T>);
  put(out, uint64_t{values.size()});
  for (const T& value : values) put(out, value);
}

}  // namespace

void GgufWriter::set(std::string_view key, Value value) {
  for (auto& [name, old] : keys_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  append(key, std::move(value));
}

void GgufWriter::erase(std::string_view key) {
  std::erase_if(keys_, [key](const auto& pair) { return pair.first == key; });
}

GgufWriter::Value& GgufWriter::value(std::string_view key) {
  const auto it = std::ranges::find(keys_, key, [](const auto& pair) { return pair.first; });
  CHECK(it != keys_.end(), "key {}", key);
  return it->second;
}

GgufWriter::Tensor& GgufWriter::tensor(std::string_view name) {
  const auto it = std::ranges::find(tensors_, name, &Tensor::name);
  CHECK(it != tensors_.end(), "tensor {}", name);
  return *it;
}

size_t GgufWriter::row_bytes(const Tensor& tensor) {
  return ggml_row_size(static_cast<ggml_type>(tensor.type), tensor.shape[0]);
}

size_t GgufWriter::tensor_bytes(const Tensor& tensor) {
  size_t bytes = row_bytes(tensor);
  for (size_t i = 1; i < tensor.shape.size(); ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
  return bytes;
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, uint64_t{keys_.size()});
  for (const auto& [key, value] : keys_) {
    put(out, key);
    std::visit([&](const auto& typed) { put_typed(out, typed); }, value);
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const int64_t extent : tensor.shape) put(out, extent);
    put(out, static_cast<uint32_t>(tensor.type));
    put(out, offset);
    offset += aligned(tensor_bytes(tensor));
  }
  out.resize(aligned(out.size()), '\0');
  return out;
}

Result<void> GgufWriter::write_to(const Sink& sink, const Fill& fill) const {
  TRY(sink(header()));
  std::vector<std::byte> chunk;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const size_t row = row_bytes(tensors_[i]);
    const size_t rows = tensor_bytes(tensors_[i]) / row;
    const size_t step = std::clamp<size_t>(kChunkBytes / row, 1, rows);
    for (size_t r = 0; r < rows; r += step) {
      chunk.assign(std::min(step, rows - r) * row, std::byte{0});
      fill(i, static_cast<int64_t>(r), chunk);
      if (r + step >= rows) chunk.resize(chunk.size() + aligned(rows * row) - rows * row);
      TRY(sink({reinterpret_cast<const char*>(chunk.data()), chunk.size()}));
    }
  }
  return {};
}

Result<void> GgufWriter::write(const base::Path& path, const Fill& fill) const {
  const base::Path partial = path.string() + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);
  {
    TRY_ASSIGN(base::AppendFile file, base::AppendFile::open(partial));
    auto result = write_to([&](std::string_view bytes) { return file.append(bytes); }, fill);
    if (result) result = file.sync();
    if (!result) {
      std::filesystem::remove(partial, error);
      return result;
    }
  }
  std::filesystem::rename(partial, path, error);
  if (error) {
    return base::make_error(base::Code::kIo, "{}: cannot replace it: {}", path.string(),
                            error.message());
  }
  return {};
}

std::string GgufWriter::bytes(const Fill& fill) const {
  std::string out;
  const auto written = write_to(
      [&](std::string_view bytes) -> Result<void> {
        out += bytes;
        return {};
      },
      fill);
  CHECK(written.has_value());
  return out;
}

}  // namespace retort::engine
