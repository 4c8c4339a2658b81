// Any bytes as a slot file. Hashes are made right first in half of the inputs, as a hostile writer
// would, so that the table and the tensors are reached.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "adapter/slot.h"
#include "adapter/small_base.h"

namespace {

using namespace retort;

/// Two modules of a small base, so that a mutation often hits the table.
std::vector<std::byte> seed_slot(const adapter::SlotBase& base) {
  std::vector<int32_t> ranks(static_cast<size_t>(base.matrices()));
  ranks[0] = 1, ranks[5] = 8;
  const adapter::SlotLayout layout(base, ranks);
  std::vector<std::byte> bytes(layout.bytes);
  adapter::write_slot_frame(base, layout, bytes);
  return bytes;
}

void read_everything(const engine::SlotView& view) {
  volatile float sink = 0;
  for (const kernels::AdapterMatrix& matrix : view.matrices) {
    if (matrix.rank != 0) sink = sink + matrix.d[0] + matrix.a[0] + matrix.b[matrix.rank * 16 - 1];
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const adapter::SlotBase base =
      adapter::SlotBase::of(adapter::small_config(), retort::base::hash_text("small base"));
  if (size < 1) return 0;
  const bool seal = (data[0] & 1) != 0, patch = (data[0] & 2) != 0;
  std::vector<std::byte> bytes;
  if (patch) {  // a good slot with a few bytes overwritten: {offset (2 bytes), value} ...
    bytes = seed_slot(base);
    for (size_t i = 1; i + 2 < size; i += 3) {
      bytes[(data[i] | size_t{data[i + 1]} << 8) % bytes.size()] = std::byte{data[i + 2]};
    }
  } else {
    const auto* first = reinterpret_cast<const std::byte*>(data + 1);
    bytes.assign(first, first + size - 1);
  }
  if (seal && bytes.size() >= sizeof(adapter::SlotHeader)) adapter::seal_slot(bytes);
  const auto image = adapter::SlotImage::parse(bytes, base);
  if (image) read_everything(image->view());
  return 0;
}
