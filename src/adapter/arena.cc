#include "adapter/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace retort::adapter {

/// One row of the table. `word` is all that crosses threads unguarded; `view` is written before the
/// word that publishes it and not again while published or pinned; the rest is the writer's.
struct alignas(64) SlotArena::Slot {
  std::atomic<uint64_t> word{0};
  engine::SlotView view;
  uint64_t offset = 0, bytes = 0;  // of its space in data_; bytes = 0: free
  uint32_t rank = 0;
};

namespace {

using base::Code;
using base::Result;

static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t kPublished = uint64_t{1} << 31;
constexpr uint64_t kPinMask = kPublished - 1;

constexpr uint64_t align(uint64_t n) {
  return (n + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

constexpr uint64_t published_word(uint32_t generation) {
  return uint64_t{generation} << 32 | kPublished;
}

bool names(uint64_t word, SlotHandle handle) {
  return handle.generation != 0 && (word & ~kPinMask) == published_word(handle.generation);
}

}  // namespace

SlotArena::Pinned::Pinned(Pinned&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

SlotArena::Pinned& SlotArena::Pinned::operator=(Pinned&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

SlotArena::Pinned::~Pinned() {
  if (slot_ != nullptr) slot_->word.fetch_sub(1, std::memory_order_release);
}

const engine::SlotView& SlotArena::Pinned::view() const { return slot_->view; }

Result<std::unique_ptr<SlotArena>> SlotArena::open(const SlotBase& base, int64_t bytes) {
  const auto table = static_cast<int64_t>(limits::kArenaSlotsMax * sizeof(Slot));
  if (bytes <= table) {
    return make_error(Code::kInvalidInput, "a slot arena of {} bytes: its table alone takes {}",
                      bytes, table);
  }
  const auto size = static_cast<size_t>(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return make_error(Code::kLimit, "cannot map {} bytes for the slot arena: {}", bytes,
                      std::strerror(errno));
  }
  ::madvise(memory, size, MADV_HUGEPAGE);  // fewer TLB misses; refused on some systems, harmlessly
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* const first = static_cast<std::byte*>(memory);
  for (size_t at = 0; at < size; at += page) static_cast<volatile std::byte*>(first)[at] = {};
  return std::unique_ptr<SlotArena>(new SlotArena(base, {first, size}));
}

SlotArena::SlotArena(const SlotBase& base, std::span<std::byte> region)
    : base_(base), region_(region), slots_(reinterpret_cast<Slot*>(region.data())) {
  for (int i = 0; i < limits::kArenaSlotsMax; ++i) new (slots_ + i) Slot;
  data_ = region.data() + limits::kArenaSlotsMax * sizeof(Slot);
  data_bytes_ =
      (region.size() - limits::kArenaSlotsMax * sizeof(Slot)) / kSlotAlignment * kSlotAlignment;
}

SlotArena::~SlotArena() {
  for (int i = 0; i < limits::kArenaSlotsMax; ++i) {
    CHECK((slots_[i].word.load(std::memory_order_acquire) & kPinMask) == 0, "slot {} is pinned", i);
  }
  ::munmap(region_.data(), region_.size());
}

std::optional<SlotArena::Pinned> SlotArena::pin(SlotHandle handle) {
  if (handle.index >= static_cast<uint32_t>(limits::kArenaSlotsMax)) return std::nullopt;
  Slot& slot = slots_[handle.index];
  uint64_t word = slot.word.load(std::memory_order_relaxed);
  do {
    if (!names(word, handle)) return std::nullopt;
  } while (!slot.word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  return Pinned(slot);
}

/// Frees the space of unloaded slots whose last pin has gone.
void SlotArena::reclaim() {
  for (int i = 0; i < limits::kArenaSlotsMax; ++i) {
    Slot& slot = slots_[i];
    if (slot.bytes == 0) continue;
    if ((slot.word.load(std::memory_order_acquire) & (kPublished | kPinMask)) == 0) slot.bytes = 0;
  }
}

SlotArena::Slot* SlotArena::free_slot() {
  for (int i = 0; i < limits::kArenaSlotsMax; ++i) {
    if (slots_[i].bytes == 0) return slots_ + i;
  }
  return nullptr;
}

SlotArena::Space SlotArena::find_space(uint64_t bytes) const {
  std::array<Gap, limits::kArenaSlotsMax + 1> used;
  size_t count = 0;
  for (int i = 0; i < limits::kArenaSlotsMax; ++i) {
    if (slots_[i].bytes != 0) used[count++] = {slots_[i].offset, slots_[i].bytes};
  }
  std::sort(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Gap& a, const Gap& b) { return a.offset < b.offset; });
  used[count++] = {data_bytes_, 0};  // the end closes the last gap
  Space space;
  uint64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const Gap gap{at, used[i].offset - at};
    space.free += gap.bytes;
    space.largest = std::max(space.largest, gap.bytes);
    const bool better = space.best.bytes == 0 || gap.bytes < space.best.bytes;
    if (gap.bytes >= bytes && better) space.best = gap;
    at = used[i].offset + used[i].bytes;
  }
  return space;
}

Result<uint64_t> SlotArena::allocate(uint64_t bytes) const {
  const Space space = find_space(bytes);
  if (space.best.bytes != 0) return space.best.offset;
  return make_error(Code::kLimit,
                    "the slot arena is full: {} bytes missing ({} needed in one piece, {} free, "
                    "the largest piece {}); unload an adapter or give the arena more memory",
                    bytes - space.largest, bytes, space.free, space.largest);
}

Result<SlotHandle> SlotArena::load(std::span<const std::byte> source) {
  TRY_ASSIGN(const SlotInfo info, validate_slot(source, base_));
  const auto matrices = static_cast<size_t>(base_.matrices());
  const uint64_t block = align(info.bytes);
  const uint64_t bytes = block + align(matrices * sizeof(kernels::AdapterMatrix));
  const base::MutexLock lock(mutex_);
  reclaim();
  Slot* const slot = free_slot();
  if (slot == nullptr) {
    return make_error(Code::kLimit, "the slot arena already holds {} adapters: unload one",
                      limits::kArenaSlotsMax);
  }
  TRY_ASSIGN(slot->offset, allocate(bytes));
  slot->bytes = bytes;
  slot->rank = info.rank;
  std::byte* const place = data_ + slot->offset;
  std::memcpy(place, source.data(), source.size());
  auto* const table = reinterpret_cast<kernels::AdapterMatrix*>(place + block);
  for (size_t i = 0; i < matrices; ++i) new (table + i) kernels::AdapterMatrix;
  view_slot({place, source.size()}, {table, matrices});
  slot->view = {{table, matrices}, info.content};

  auto generation = static_cast<uint32_t>(slot->word.load(std::memory_order_relaxed) >> 32) + 1;
  if (generation == 0) generation = 1;
  slot->word.store(published_word(generation), std::memory_order_release);
  return SlotHandle{static_cast<uint32_t>(slot - slots_), generation};
}

Result<SlotHandle> SlotArena::load_file(const base::Path& path) {
  TRY_ASSIGN(const std::string text, base::read_file(path));
  auto handle = load(std::as_bytes(std::span(text)));
  if (!handle) return in_context(path.string(), std::move(handle).error());
  return handle;
}

Result<void> SlotArena::unload(SlotHandle handle) {
  const base::MutexLock lock(mutex_);
  if (handle.index >= static_cast<uint32_t>(limits::kArenaSlotsMax) ||
      !names(slots_[handle.index].word.load(std::memory_order_relaxed), handle)) {
    return make_error(Code::kNotFound, "no adapter is loaded under slot {}, generation {}",
                      handle.index, handle.generation);
  }
  slots_[handle.index].word.fetch_and(~kPublished, std::memory_order_relaxed);
  return {};
}

std::vector<SlotArena::Resident> SlotArena::residents() const {
  const base::MutexLock lock(mutex_);
  std::vector<Resident> list;
  for (uint32_t i = 0; i < static_cast<uint32_t>(limits::kArenaSlotsMax); ++i) {
    const Slot& slot = slots_[i];
    const uint64_t word = slot.word.load(std::memory_order_relaxed);
    const auto pins = static_cast<uint32_t>(word & kPinMask);
    const bool published = (word & kPublished) != 0;
    if (slot.bytes == 0 || (!published && pins == 0)) continue;
    list.push_back({{i, static_cast<uint32_t>(word >> 32)},
                    slot.view.content,
                    slot.rank,
                    slot.bytes,
                    pins,
                    published});
  }
  return list;
}

}  // namespace retort::adapter
