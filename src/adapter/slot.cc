#include "adapter/slot.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "adapter/fold.h"
#include "base/limits.h"

namespace retort::adapter {
namespace {

using base::Code;
using base::Hash256;
using base::Result;
using engine::Target;
using kernels::Half;

constexpr std::array<char, 8> kMagic = {'R', 'T', 'S', 'L', 'O', 'T', '\r', '\n'};

constexpr uint64_t align(uint64_t offset) {
  return (offset + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

constexpr uint64_t table_end(uint64_t matrices) {
  return align(sizeof(SlotHeader) + matrices * sizeof(SlotEntry));
}

/// Lays modules out one after the other. Ranks and shapes are bounded, so nothing overflows.
class Cursor {
 public:
  explicit Cursor(const SlotBase& base)
      : base_(base), offset_(table_end(static_cast<uint64_t>(base.matrices()))) {}

  SlotEntry place(int index, uint32_t rank) {
    if (rank == 0) return {};
    const auto [out, in] = base_.shape(index);
    const auto rank8 = static_cast<uint64_t>(padded_rank(rank));
    const auto outs = static_cast<uint64_t>(kernels::padded(out));
    SlotEntry entry{rank, 0, 0, 0, 0};
    entry.a = take(static_cast<uint64_t>(in) * rank8 * sizeof(Half));
    entry.b = take(outs * rank8 * sizeof(Half));
    entry.d = take(outs * sizeof(float));
    return entry;
  }
  uint64_t offset() const { return offset_; }

 private:
  uint64_t take(uint64_t bytes) {
    const uint64_t at = offset_;
    offset_ = align(offset_ + bytes);
    return at;
  }
  const SlotBase& base_;
  uint64_t offset_;
};

template <class T>
T load(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

SlotEntry entry_at(std::span<const std::byte> bytes, int index) {
  return load<SlotEntry>(bytes,
                         sizeof(SlotHeader) + static_cast<uint64_t>(index) * sizeof(SlotEntry));
}

Hash256 content_of(std::span<const std::byte> bytes) {
  return base::hash_bytes(bytes.subspan(sizeof(SlotHeader)));
}

Hash256 checksum_of(SlotHeader header) {
  header.checksum = {};
  return base::Hasher().add_value(header).finish();
}

/// True if a value of type T in [offset, end) has all the bits of `exponent`: an infinity or a NaN.
template <class T>
bool has_non_finite(std::span<const std::byte> bytes, uint64_t offset, uint64_t end, T exponent) {
  bool found = false;
  for (uint64_t at = offset; at < end; at += sizeof(T)) {
    found |= (load<T>(bytes, at) & exponent) == exponent;
  }
  return found;
}

Result<void> check_header(const SlotHeader& header, uint64_t size, const SlotBase& base) {
  if (header.magic != kMagic) return make_error(Code::kInvalidInput, "not a slot file");
  if (header.version != kSlotVersion) {
    return make_error(Code::kMismatch,
                      "slot format version {}, this build reads {}: derive it again",
                      header.version, kSlotVersion);
  }
  if (checksum_of(header) != header.checksum) {
    return make_error(Code::kInvalidInput, "damaged: the header's checksum differs");
  }
  if (header.element != static_cast<uint32_t>(SlotElement::kF16)) {
    return make_error(Code::kUnsupported, "element type {} is not supported", header.element);
  }
  if (header.bytes != size) {
    return make_error(Code::kInvalidInput, "{} bytes where the header says {}", size, header.bytes);
  }
  if (header.layout != base.layout_hash() ||
      header.matrices != static_cast<uint32_t>(base.matrices())) {
    return make_error(Code::kMismatch, "made for a base of other shapes");
  }
  if (header.fingerprint != base.fingerprint) {
    return make_error(Code::kMismatch, "made for base {}, this is {}: derive it again",
                      header.fingerprint.short_hex(), base.fingerprint.short_hex());
  }
  return {};
}

/// Ranks in range and every offset where the layout puts it.
Result<void> check_table(std::span<const std::byte> bytes, uint32_t rank, const SlotBase& base) {
  Cursor cursor(base);
  uint32_t largest = 0;
  for (int i = 0; i < base.matrices(); ++i) {
    const SlotEntry entry = entry_at(bytes, i);
    if (entry.rank > limits::kRankMax) {
      return make_error(Code::kInvalidInput, "{}: rank {} exceeds {}", base.matrix_name(i),
                        entry.rank, limits::kRankMax);
    }
    if (entry != cursor.place(i, entry.rank)) {
      return make_error(Code::kInvalidInput, "{}: its tensors are not where the layout puts them",
                        base.matrix_name(i));
    }
    largest = std::max(largest, entry.rank);
  }
  if (largest == 0) return make_error(Code::kInvalidInput, "it adapts no module");
  if (largest != rank) {
    return make_error(Code::kInvalidInput, "rank {} in the header, {} in the table", rank, largest);
  }
  if (cursor.offset() != bytes.size()) {
    return make_error(Code::kInvalidInput, "{} bytes where its tensors take {}", bytes.size(),
                      cursor.offset());
  }
  return {};
}

Result<void> check_tensors(std::span<const std::byte> bytes, const SlotBase& base) {
  for (int i = 0; i < base.matrices(); ++i) {
    const SlotEntry entry = entry_at(bytes, i);
    if (entry.rank == 0) continue;
    const auto end = entry.d + static_cast<uint64_t>(kernels::padded(base.shape(i).first)) * 4;
    if (has_non_finite<uint16_t>(bytes, entry.a, entry.d, 0x7c00) ||
        has_non_finite<uint32_t>(bytes, entry.d, end, 0x7f800000)) {
      return make_error(Code::kInvalidInput, "{}: a value is infinite or not a number",
                        base.matrix_name(i));
    }
  }
  return {};
}

}  // namespace

SlotBase SlotBase::of(const engine::Config& config, const base::Hash256& fingerprint) {
  SlotBase base;
  base.layers = config.layers;
  base.fingerprint = fingerprint;
  for (size_t t = 0; t < base.shapes.size(); ++t) {
    base.shapes[t] = config.shape(static_cast<Target>(t));
  }
  return base;
}

Target SlotBase::target(int index) const {
  return index == matrices() - 1 ? Target::kOutput
                                 : static_cast<Target>(index % engine::kLayerTargets);
}

const std::pair<int64_t, int64_t>& SlotBase::shape(int index) const {
  return shapes[static_cast<size_t>(target(index))];
}

std::string SlotBase::matrix_name(int index) const {
  const Target kind = target(index);
  if (kind == Target::kOutput) return std::string(target_name(kind));
  return fmt::format("{} of layer {}", target_name(kind), index / engine::kLayerTargets);
}

Hash256 SlotBase::layout_hash() const {
  base::Hasher hasher;
  hasher.add("retort slot").add_value(kSlotVersion).add_value(SlotElement::kF16).add_value(layers);
  for (const auto& [out, in] : shapes) hasher.add_value(out).add_value(in);
  return hasher.finish();
}

SlotLayout::SlotLayout(const SlotBase& base, std::span<const int32_t> ranks) {
  CHECK(ranks.size() == static_cast<size_t>(base.matrices()));
  Cursor cursor(base);
  for (int i = 0; i < base.matrices(); ++i) {
    const int32_t rank = ranks[static_cast<size_t>(i)];
    CHECK(rank >= 0 && rank <= limits::kRankMax, "rank={}", rank);
    entries.push_back(cursor.place(i, static_cast<uint32_t>(rank)));
  }
  bytes = cursor.offset();
}

Result<SlotInfo> validate_slot(std::span<const std::byte> bytes, const SlotBase& base) {
  const uint64_t frame = table_end(static_cast<uint64_t>(base.matrices()));
  if (bytes.size() < sizeof(SlotHeader)) {
    return make_error(Code::kInvalidInput, "truncated: {} bytes, less than a header", bytes.size());
  }
  const auto header = load<SlotHeader>(bytes, 0);
  TRY(check_header(header, bytes.size(), base));
  if (bytes.size() < frame) {
    return make_error(Code::kInvalidInput, "truncated: {} bytes, less than its table",
                      bytes.size());
  }
  TRY(check_table(bytes, header.rank, base));
  if (content_of(bytes) != header.content) {
    return make_error(Code::kInvalidInput, "damaged: the tensors' hash differs");
  }
  TRY(check_tensors(bytes, base));
  return SlotInfo{header.content, header.rank, header.bytes};
}

void view_slot(std::span<const std::byte> bytes, std::span<kernels::AdapterMatrix> matrices) {
  CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kSlotAlignment == 0);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const SlotEntry entry = entry_at(bytes, static_cast<int>(i));
    matrices[i] = {};
    if (entry.rank == 0) continue;
    matrices[i].rank = padded_rank(entry.rank);
    matrices[i].a = reinterpret_cast<const Half*>(bytes.data() + entry.a);
    matrices[i].b = reinterpret_cast<const Half*>(bytes.data() + entry.b);
    matrices[i].d = reinterpret_cast<const float*>(bytes.data() + entry.d);
  }
}

void write_slot_frame(const SlotBase& base, const SlotLayout& layout, std::span<std::byte> bytes) {
  CHECK(bytes.size() == layout.bytes);
  SlotHeader header{};
  header.magic = kMagic;
  header.version = kSlotVersion;
  header.element = static_cast<uint32_t>(SlotElement::kF16);
  header.matrices = static_cast<uint32_t>(layout.entries.size());
  header.bytes = layout.bytes;
  header.layout = base.layout_hash();
  header.fingerprint = base.fingerprint;
  for (const SlotEntry& entry : layout.entries) header.rank = std::max(header.rank, entry.rank);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), layout.entries.data(),
              layout.entries.size() * sizeof(SlotEntry));
}

void seal_slot(std::span<std::byte> bytes) {
  CHECK(bytes.size() >= sizeof(SlotHeader));
  auto header = load<SlotHeader>(bytes, 0);
  header.content = content_of(bytes);
  header.checksum = checksum_of(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
}

Result<SlotImage> SlotImage::parse(std::span<const std::byte> bytes, const SlotBase& base) {
  SlotImage image;
  TRY_ASSIGN(image.info_, validate_slot(bytes, base));
  image.bytes_ = kernels::AlignedArray<std::byte>(bytes.size());
  std::memcpy(image.bytes_.data(), bytes.data(), bytes.size());
  image.matrices_.resize(static_cast<size_t>(base.matrices()));
  view_slot(image.bytes(), image.matrices_);
  image.view_ = {image.matrices_, image.info_.content};
  return image;
}

Result<SlotImage> SlotImage::read(const base::Path& path, const SlotBase& base) {
  TRY_ASSIGN(const std::string text, base::read_file(path));
  auto image = parse(std::as_bytes(std::span(text)), base);
  if (!image) return in_context(path.string(), std::move(image).error());
  return image;
}

}  // namespace retort::adapter
