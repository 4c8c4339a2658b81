#include "engine/gguf.h"

#include <ggml.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/json.h"
#include "base/limits.h"

namespace retort::engine {
namespace {

using base::Code;
using base::make_error;
using base::Result;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "GGUF is read without swapping bytes");

constexpr uint64_t kAlignmentDefault = 32;
constexpr uint64_t kAlignmentMax = 1 << 20;
constexpr uint64_t kKeyBytesMax = 1 << 16;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypes
};  // in the order of the format

/// What to call bytes that are not GGUF, by how they begin: a wrong file is a common mistake.
std::string_view foreign_name(std::string_view start) {
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {"ggml", "a GGML file from before GGUF; convert the original model again"},
      {"lmgg", "a GGML file from before GGUF; convert the original model again"},
      {"fmgg", "a GGMF file from before GGUF; convert the original model again"},
      {"tjgg", "a GGJT file from before GGUF; convert the original model again"},
      {"algg", "a GGLA adapter from before GGUF; convert the original adapter again"},
      {"FUGG", "a big-endian GGUF file; convert it on a little-endian machine"},
      {"PK\x03\x04", "a ZIP archive (a PyTorch checkpoint?); convert it to GGUF first"},
      {"version https://git-lfs", "a Git LFS pointer; fetch the file itself"},
      {"<!", "a web page; download the file itself"},
      {"<h", "a web page; download the file itself"}};
  for (const auto& [magic, name] : kKnown) {
    if (start.starts_with(magic)) return name;
  }
  if (start.size() > 8 && start[8] == '{') return "a safetensors file; convert it to GGUF first";
  return "of an unknown kind";
}

/// A cursor over the bytes; every read is checked, and a failed one names the byte it began at.
class Reader {
 public:
  Reader(Bytes bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }
  const std::string& file() const { return file_; }

  template <class... Args>
  tl::unexpected<base::Error> error(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(Code::kInvalidInput, "{}: byte {}: {}", file_, offset_,
                      fmt::format(format, std::forward<Args>(args)...));
  }

  tl::unexpected<base::Error> truncated(std::string_view what, uint64_t need) const {
    return error("{} needs {} bytes, but the file ends after {} (truncated? fetch it again)", what,
                 need, left());
  }

  template <class T>
  Result<T> scalar(std::string_view what) {
    if (left() < sizeof(T)) return truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  Result<std::string_view> string(std::string_view what, uint64_t bytes_max) {
    TRY_ASSIGN(const uint64_t size, scalar<uint64_t>(what));
    if (size > bytes_max)
      return error("{} has {} bytes; at most {} are allowed", what, size, bytes_max);
    if (size > left()) return truncated(what, size);
    const char* start = reinterpret_cast<const char*>(bytes_.data() + offset_);
    offset_ += size;
    return std::string_view(start, size);
  }

 private:
  Bytes bytes_;
  std::string file_;
  uint64_t offset_ = 0;
};

size_t bytes_of(uint32_t type) {
  constexpr size_t kBytes[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  return kBytes[type];  // a string has at least its length
}

/// Reads one number of type T as int64_t or double; refuses what would not fit or not be a bool.
template <class T>
Result<std::conditional_t<std::is_floating_point_v<T>, double, int64_t>> number(
    Reader& reader, std::string_view key) {
  TRY_ASSIGN(const T value, reader.scalar<T>(key));
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return reader.error("key '{}' has the value {}, above 2^63 - 1", key, value);
    }
  }
  return value;
}

Result<int64_t> boolean(Reader& reader, std::string_view key) {
  TRY_ASSIGN(const int64_t value, number<uint8_t>(reader, key));
  if (value > 1) return reader.error("key '{}' is a boolean with the value {}", key, value);
  return value;
}

Result<std::string_view> text(Reader& reader, std::string_view key) {
  return reader.string(key, limits::kGgufStringBytesMax);
}

/// Calls use(reader of one element) for the C++ reader that goes with `type`.
template <class Use>
auto with_element_reader(uint32_t type, const Use& use) {
  switch (type) {
    case kU8:
      return use(number<uint8_t>);
    case kI8:
      return use(number<int8_t>);
    case kU16:
      return use(number<uint16_t>);
    case kI16:
      return use(number<int16_t>);
    case kU32:
      return use(number<uint32_t>);
    case kI32:
      return use(number<int32_t>);
    case kF32:
      return use(number<float>);
    case kBool:
      return use(boolean);
    case kString:
      return use(text);
    case kU64:
      return use(number<uint64_t>);
    case kI64:
      return use(number<int64_t>);
    default:
      return use(number<double>);
  }
}

Result<Gguf::Value> read_array(Reader& reader, std::string_view key) {
  TRY_ASSIGN(const uint32_t type, reader.scalar<uint32_t>(key));
  if (type == kArray)
    return reader.error("key '{}' is an array of arrays, which is not supported", key);
  if (type >= kTypes) return reader.error("key '{}' is an array of unknown type {}", key, type);
  TRY_ASSIGN(const uint64_t length, reader.scalar<uint64_t>(key));
  if (length > static_cast<uint64_t>(limits::kGgufArrayLengthMax)) {
    return reader.error("key '{}' is an array of {} elements; at most {} are allowed", key, length,
                        limits::kGgufArrayLengthMax);
  }
  if (length > reader.left() / bytes_of(type)) {
    return reader.truncated(fmt::format("key '{}' (an array of {} elements)", key, length),
                            length * bytes_of(type));
  }
  return with_element_reader(type, [&](auto read) -> Result<Gguf::Value> {
    using Element = typename decltype(read(reader, key))::value_type;
    std::vector<Element> values;
    values.reserve(length);
    for (uint64_t i = 0; i < length; ++i) {
      TRY_ASSIGN(const Element element, read(reader, key));
      values.push_back(element);
    }
    return Gguf::Value(Gguf::Array(std::move(values)));
  });
}

Result<Gguf::Value> read_value(Reader& reader, std::string_view key) {
  TRY_ASSIGN(const uint32_t type, reader.scalar<uint32_t>(key));
  if (type == kArray) return read_array(reader, key);
  if (type >= kTypes) return reader.error("key '{}' has the unknown type {}", key, type);
  return with_element_reader(type, [&](auto read) -> Result<Gguf::Value> {
    TRY_ASSIGN(auto value, read(reader, key));
    return Gguf::Value(value);
  });
}

/// A key or tensor name: not empty, UTF-8, no NUL (C strings would see a shorter, perhaps equal
/// name).
Result<std::string_view> read_name(Reader& reader, std::string_view what, uint64_t bytes_max) {
  TRY_ASSIGN(const std::string_view name, reader.string(what, bytes_max));
  if (name.empty()) return reader.error("{} is empty", what);
  if (name.find('\0') != name.npos || !base::is_valid_utf8(name)) {
    return reader.error("{} is not UTF-8 text", what);
  }
  return name;
}

Result<void> read_magic(Reader& reader, Bytes bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 32));
  if (start.empty()) return make_error(Code::kInvalidInput, "{}: the file is empty", reader.file());
  if (!start.starts_with("GGUF")) {
    return make_error(Code::kInvalidInput, "{}: not a GGUF file, but {}", reader.file(),
                      foreign_name(start));
  }
  TRY(reader.scalar<uint32_t>("the magic"));
  TRY_ASSIGN(const uint32_t version, reader.scalar<uint32_t>("the version"));
  if ((version & 0xffff) == 0 && version != 0) {
    return make_error(Code::kUnsupported,
                      "{}: a big-endian GGUF file; convert it for little-endian machines",
                      reader.file());
  }
  if (version != 2 && version != 3) {
    return make_error(Code::kUnsupported, "{}: GGUF version {}; versions 2 and 3 are supported",
                      reader.file(), version);
  }
  return {};
}

Result<uint64_t> read_count(Reader& reader, std::string_view what, int64_t limit,
                            uint64_t bytes_min) {
  TRY_ASSIGN(const uint64_t count, reader.scalar<uint64_t>(what));
  if (count > static_cast<uint64_t>(limit)) {
    return reader.error("{} is {}; at most {} are allowed", what, count, limit);
  }
  if (count > reader.left() / bytes_min) {
    return reader.truncated(fmt::format("{}, {},", what, count), count * bytes_min);
  }
  return count;
}

/// Bytes of a tensor whose shape has been read; every product is checked.
Result<uint64_t> tensor_bytes(const Reader& reader, const TensorView& tensor) {
  const auto type = static_cast<ggml_type>(tensor.type);
  const int64_t block = ggml_blck_size(type);
  if (tensor.shape[0] % block != 0) {
    return reader.error("tensor '{}' of type {} has rows of {}, not a multiple of its block, {}",
                        tensor.name, ggml_type_name(type), tensor.shape[0], block);
  }
  int64_t bytes = tensor.shape[0] / block;
  bool overflow = __builtin_mul_overflow(bytes, static_cast<int64_t>(ggml_type_size(type)), &bytes);
  for (int i = 1; i < 4; ++i) {
    overflow |= __builtin_mul_overflow(bytes, tensor.shape[static_cast<size_t>(i)], &bytes);
  }
  if (overflow) return reader.error("tensor '{}' has an impossible size", tensor.name);
  return static_cast<uint64_t>(bytes);
}

struct PlacedTensor {
  TensorView view;
  uint64_t offset = 0, size = 0;
};

Result<void> read_shape(Reader& reader, TensorView& tensor) {
  TRY_ASSIGN(const uint32_t dimensions, reader.scalar<uint32_t>(tensor.name));
  if (dimensions < 1 || dimensions > 4) {
    return reader.error("tensor '{}' has {} dimensions; 1 to 4 are allowed", tensor.name,
                        dimensions);
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    TRY_ASSIGN(tensor.shape[i], reader.scalar<int64_t>(tensor.name));
    if (tensor.shape[i] < 1) {
      return reader.error("tensor '{}' has the extent {} in dimension {}", tensor.name,
                          tensor.shape[i], i);
    }
  }
  return {};
}

Result<PlacedTensor> read_tensor(Reader& reader) {
  PlacedTensor tensor;
  TRY_ASSIGN(const std::string_view name, read_name(reader, "a tensor's name", GGML_MAX_NAME - 1));
  tensor.view.name = name;
  TRY(read_shape(reader, tensor.view));
  TRY_ASSIGN(const uint32_t type, reader.scalar<uint32_t>(name));
  if (type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) < 1 ||
      ggml_type_size(static_cast<ggml_type>(type)) < 1) {
    return reader.error("tensor '{}' has the unknown type {}", name, type);
  }
  tensor.view.type = static_cast<int>(type);
  TRY_ASSIGN(tensor.offset, reader.scalar<uint64_t>(name));
  TRY_ASSIGN(tensor.size, tensor_bytes(reader, tensor.view));
  return tensor;
}

/// Sets the data views: aligned, inside the file, and no two share a byte.
Result<void> place_tensors(const Reader& reader, Bytes bytes, uint64_t alignment,
                           std::vector<PlacedTensor>& tensors) {
  const uint64_t start = (reader.offset() + alignment - 1) / alignment * alignment;
  const uint64_t available = bytes.size() > start ? bytes.size() - start : 0;
  for (PlacedTensor& tensor : tensors) {
    if (tensor.offset % alignment != 0) {
      return reader.error("tensor '{}' lies at offset {}, not a multiple of the alignment, {}",
                          tensor.view.name, tensor.offset, alignment);
    }
    if (tensor.offset > available || tensor.size > available - tensor.offset) {
      return reader.error(
          "tensor '{}' needs {} bytes at offset {}, but the file has {} bytes of "
          "tensor data (truncated? fetch it again)",
          tensor.view.name, tensor.size, tensor.offset, available);
    }
    tensor.view.data = bytes.subspan(start + tensor.offset, tensor.size);
  }
  std::vector<const PlacedTensor*> order;
  for (const PlacedTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, &PlacedTensor::offset);
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->size > order[i]->offset) {
      return reader.error("tensors '{}' and '{}' overlap", order[i - 1]->view.name,
                          order[i]->view.name);
    }
  }
  return {};
}

std::string_view kind_of(const Gguf::Value& value) {
  constexpr std::string_view kNames[] = {"an integer", "a floating-point number", "a string",
                                         "an array"};
  return kNames[value.index()];
}

}  // namespace

Result<Gguf> Gguf::open(const base::Path& path) {
  TRY_ASSIGN(base::MappedFile file, base::MappedFile::open(path));
  TRY_ASSIGN(Gguf gguf, parse(file.bytes(), path));
  gguf.file_ = std::move(file);
  return gguf;
}

Result<Gguf> Gguf::parse(Bytes bytes, const base::Path& path) {
  Gguf gguf;
  gguf.path_ = path;
  gguf.bytes_ = bytes;
  Reader reader(bytes, path.string());
  TRY(read_magic(reader, bytes));
  // The least a tensor takes: name length, 1 name byte, dimensions, 1 extent, type, offset.
  TRY_ASSIGN(const uint64_t tensors,
             read_count(reader, "the number of tensors", limits::kGgufTensorsMax, 33));
  TRY_ASSIGN(const uint64_t keys,
             read_count(reader, "the number of keys", limits::kGgufKeysMax, 14));
  for (uint64_t i = 0; i < keys; ++i) {
    TRY_ASSIGN(const std::string_view key, read_name(reader, "a key", kKeyBytesMax));
    TRY_ASSIGN(Value value, read_value(reader, key));
    if (!gguf.values_.emplace(key, std::move(value)).second) {
      return reader.error("key '{}' is there twice", key);
    }
  }
  TRY_ASSIGN(const uint64_t alignment, gguf.alignment());
  std::vector<PlacedTensor> placed;
  for (uint64_t i = 0; i < tensors; ++i) {
    TRY_ASSIGN(PlacedTensor tensor, read_tensor(reader));
    if (!gguf.tensor_index_.emplace(tensor.view.name, i).second) {
      return reader.error("tensor '{}' is there twice", tensor.view.name);
    }
    placed.push_back(std::move(tensor));
  }
  TRY(place_tensors(reader, bytes, alignment, placed));
  for (PlacedTensor& tensor : placed) gguf.tensors_.push_back(std::move(tensor.view));
  return gguf;
}

Result<uint64_t> Gguf::alignment() const {
  if (!find("general.alignment")) return kAlignmentDefault;
  TRY_ASSIGN(const int64_t alignment, integer("general.alignment"));
  if (alignment < 1 || !std::has_single_bit(static_cast<uint64_t>(alignment)) ||
      static_cast<uint64_t>(alignment) > kAlignmentMax) {
    return make_error(Code::kInvalidInput,
                      "{}: key 'general.alignment' is {}; it must be a power of two up to {}",
                      path_.string(), alignment, kAlignmentMax);
  }
  return static_cast<uint64_t>(alignment);
}

const Gguf::Value* Gguf::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

template <class T>
Result<T> Gguf::get(std::string_view key, std::string_view wanted) const {
  const Value* value = find(key);
  if (!value) {
    return make_error(Code::kInvalidInput, "{}: key '{}' is missing", path_.string(), key);
  }
  if (const T* typed = std::get_if<T>(value)) return *typed;
  return make_error(Code::kInvalidInput, "{}: key '{}' is {}, but {} is needed", path_.string(),
                    key, kind_of(*value), wanted);
}

Result<int64_t> Gguf::integer(std::string_view key) const {
  return get<int64_t>(key, "an integer");
}

Result<double> Gguf::number(std::string_view key) const {
  if (const auto whole = find_integer(key)) return static_cast<double>(*whole);
  return get<double>(key, "a number");
}

Result<std::string_view> Gguf::string(std::string_view key) const {
  return get<std::string_view>(key, "a string");
}

std::optional<int64_t> Gguf::find_integer(std::string_view key) const {
  const Value* value = find(key);
  const int64_t* typed = value ? std::get_if<int64_t>(value) : nullptr;
  return typed ? std::optional(*typed) : std::nullopt;
}

std::optional<double> Gguf::find_number(std::string_view key) const {
  if (const auto value = number(key)) return *value;
  return std::nullopt;
}

std::optional<std::string_view> Gguf::find_string(std::string_view key) const {
  if (const auto value = string(key)) return *value;
  return std::nullopt;
}

const TensorView* Gguf::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace retort::engine
