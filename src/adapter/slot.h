// A slot: one adapter in serving form, as one block of bytes. The same block is the slot file on
// disk and the contents of the arena, so loading is one read and publishing copies nothing.
//
//   0        SlotHeader, 256 bytes
//   256      SlotEntry[layers * 7 + 1], by engine::matrix_index; all zero where nothing is adapted
//   ...      per adapted module, in that order and each 64-byte aligned:
//              a  Half [in][rank8]            A transposed, rank padded with zeros to a multiple of
//              8 b  Half [panels(out)][rank8][16]   B' = diag(c) s B d  float [padded(out)] c - 1
//
// Little-endian. The ranks and the base's shapes fix every offset and the total size; a block that
// says anything else is refused, so no offset is ever followed before it is known to be in place.
//   content  = hash of everything after the header: the identity of the adapter on this base
//   checksum = hash of the header with `checksum` zero; it covers `content`, hence every byte
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "base/result.h"
#include "engine/mix.h"
#include "engine/model.h"

namespace retort::adapter {

static_assert(std::endian::native == std::endian::little, "slot files are little-endian");

inline constexpr uint64_t kSlotAlignment = 64;
inline constexpr uint32_t kSlotVersion = 1;
enum class SlotElement : uint32_t { kF16 = 1 };

/// What a slot depends on in its base: the shapes of the adapted layers, and which weights they
/// are.
struct SlotBase {
  int layers = 0;
  std::array<std::pair<int64_t, int64_t>, engine::kLayerTargets + 1> shapes;  // (out, in) by Target
  base::Hash256 fingerprint;

  static SlotBase of(const engine::Config& config, const base::Hash256& fingerprint);
  int matrices() const { return layers * engine::kLayerTargets + 1; }
  engine::Target target(int index) const;
  const std::pair<int64_t, int64_t>& shape(int index) const;
  /// "k_proj of layer 3", "lm_head": for messages.
  std::string matrix_name(int index) const;
  base::Hash256 layout_hash() const;
};

struct SlotHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t element;  // SlotElement
  uint32_t rank;     // the largest true rank of a module
  uint32_t matrices;
  uint64_t bytes;  // of the whole block
  base::Hash256 layout, fingerprint, content, checksum;
  std::array<uint8_t, 96> reserved;  // zero
};
static_assert(sizeof(SlotHeader) == 256);

struct SlotEntry {
  uint32_t rank;  // true rank, 0 for a layer that is not adapted
  uint32_t reserved;
  uint64_t a, b, d;  // offsets from the start of the block
  bool operator==(const SlotEntry&) const = default;
};
static_assert(sizeof(SlotEntry) == 32);

/// Where everything goes, for given true ranks (one a matrix).
struct SlotLayout {
  std::vector<SlotEntry> entries;
  uint64_t bytes = 0;

  SlotLayout(const SlotBase& base, std::span<const int32_t> ranks);
};

struct SlotInfo {
  base::Hash256 content;
  uint32_t rank = 0;
  uint64_t bytes = 0;
};

/// Checks a block from outside in full, tensors included; reads any bytes safely, at any alignment.
/// kInvalidInput: damaged or hostile; kMismatch: sound, but of another base or format version.
[[nodiscard]] base::Result<SlotInfo> validate_slot(std::span<const std::byte> bytes,
                                                   const SlotBase& base);

/// Points matrices (base.matrices() of them) into a valid, 64-byte aligned block.
void view_slot(std::span<const std::byte> bytes, std::span<kernels::AdapterMatrix> matrices);

/// Writes content and checksum once table and tensors stand.
void seal_slot(std::span<std::byte> bytes);

/// Writes a whole header (unsealed) and the table.
void write_slot_frame(const SlotBase& base, const SlotLayout& layout, std::span<std::byte> bytes);

/// A slot outside the arena (tools, tests). Owns an aligned copy of its bytes; movable.
class SlotImage {
 public:
  [[nodiscard]] static base::Result<SlotImage> parse(std::span<const std::byte> bytes,
                                                     const SlotBase& base);
  [[nodiscard]] static base::Result<SlotImage> read(const base::Path& path, const SlotBase& base);
  const engine::SlotView& view() const { return view_; }
  std::span<const std::byte> bytes() const { return bytes_.span(); }
  const SlotInfo& info() const { return info_; }

 private:
  kernels::AlignedArray<std::byte> bytes_;
  std::vector<kernels::AdapterMatrix> matrices_;
  engine::SlotView view_;
  SlotInfo info_;
};

}  // namespace retort::adapter
