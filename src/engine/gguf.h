// A GGUF file (version 2 or 3, little endian), mapped read-only and validated before anything else
// reads it: every length, offset, type and count is checked against the file and limits.h, so a
// truncated or hostile file gives an error that names the key, tensor or byte offset, never a
// crash.
//
// Immutable; shared by all threads. Views point into the map and live as long as the Gguf.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/disk.h"
#include "base/result.h"

namespace retort::engine {

struct TensorView {
  std::string name;
  int type = 0;                              // ggml_type
  std::array<int64_t, 4> shape{1, 1, 1, 1};  // ggml order: shape[0] is the contiguous dimension
  std::span<const std::byte> data;           // exactly the bytes of the tensor
};

class Gguf {
 public:
  using Array =
      std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string_view>>;
  /// Integers and booleans widen to int64_t (an u64 above 2^63-1 is refused), floats to double.
  using Value = std::variant<int64_t, double, std::string_view, Array>;

  [[nodiscard]] static base::Result<Gguf> open(const base::Path& path);
  /// The same over bytes in memory, which must outlive the Gguf; `path` only names them in errors.
  [[nodiscard]] static base::Result<Gguf> parse(std::span<const std::byte> bytes,
                                                const base::Path& path);

  const base::Path& path() const { return path_; }
  int64_t file_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  /// Empty when the bytes came from memory.
  const base::MappedFile& file() const { return file_; }

  /// The value of `key`; the getters fail with kInvalidInput naming file, key and what was found.
  const Value* find(std::string_view key) const;
  [[nodiscard]] base::Result<int64_t> integer(std::string_view key) const;
  [[nodiscard]] base::Result<double> number(std::string_view key) const;
  [[nodiscard]] base::Result<std::string_view> string(std::string_view key) const;
  std::optional<int64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;

  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find_tensor(std::string_view name) const;

 private:
  [[nodiscard]] base::Result<uint64_t> alignment() const;
  template <class T>
  [[nodiscard]] base::Result<T> get(std::string_view key, std::string_view wanted) const;

  base::Path path_;
  base::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace retort::engine
