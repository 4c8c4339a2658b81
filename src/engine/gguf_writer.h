// Writes GGUF files (version 3): keys and tensor shapes first, then the tensor data as a stream, so
// that a file larger than memory can be made. Nothing is validated: tests write bad files with it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/disk.h"
#include "base/result.h"

namespace retort::engine {

class GgufWriter {
 public:
  using Value = std::variant<uint32_t, int32_t, float, bool, std::string, uint64_t,
                             std::vector<int32_t>, std::vector<float>, std::vector<std::string>>;
  struct Tensor {
    std::string name;
    int type = 0;                // ggml_type
    std::vector<int64_t> shape;  // shape[0] is the contiguous dimension
  };
  /// Fills some whole rows (shape[0] elements each) of tensors()[tensor], `row` being the first.
  using Fill = std::function<void(size_t tensor, int64_t row, std::span<std::byte> rows)>;
  using Sink = std::function<base::Result<void>(std::string_view)>;

  /// Replaces the value of a key, or appends it.
  void set(std::string_view key, Value value);
  /// Appends even if the key is there.
  void append(std::string_view key, Value value) { keys_.emplace_back(key, std::move(value)); }
  void erase(std::string_view key);
  /// The value of a key that must be there and of that type.
  template <class T>
  T& get(std::string_view key) {
    return std::get<T>(value(key));
  }

  std::vector<Tensor>& tensors() { return tensors_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The tensor of a name that must be there.
  Tensor& tensor(std::string_view name);

  /// Everything before the tensor data, padding included.
  std::string header() const;
  /// Bytes of one row of a tensor, and of the whole without padding.
  static size_t row_bytes(const Tensor& tensor);
  static size_t tensor_bytes(const Tensor& tensor);

  /// Replaces `path` when all is written; holds a few MiB of tensor data at a time.
  [[nodiscard]] base::Result<void> write(const base::Path& path, const Fill& fill) const;
  /// The whole file as a string, for small ones.
  std::string bytes(const Fill& fill) const;

 private:
  Value& value(std::string_view key);
  [[nodiscard]] base::Result<void> write_to(const Sink& sink, const Fill& fill) const;

  std::vector<std::pair<std::string, Value>> keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace retort::engine
