// The slot arena: all resident adapters of one base in one mapped region, touched once at start, so
// that binding an adapter never allocates, reads a file or builds anything.
//
// Readers are lock-free: a handle names a slot and its generation; pin() is one compare-and-swap on
// the slot's word and keeps the adapter's bytes in place until the Pinned goes. Writers (load,
// unload) take a mutex. Publishing is one release store. An unloaded adapter disappears for new
// readers at once; its space is reused by a later load() when the last pin has gone.
//
//   word = generation (32) | published (1) | pins (31)
//
// The arena outlives every Pinned and every SlotView that came from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adapter/slot.h"
#include "base/limits.h"
#include "base/mutex.h"

namespace retort::adapter {

/// Names one published adapter. Stale once it is unloaded: pin() then finds nothing.
struct SlotHandle {
  uint32_t index = 0;
  uint32_t generation = 0;  // 0 names nothing
  bool operator==(const SlotHandle&) const = default;
};

class SlotArena {
 public:
  struct Slot;

  /// Holds one adapter in place while it lives. Movable; used on one thread at a time.
  class Pinned {
   public:
    Pinned(Pinned&& other) noexcept;
    Pinned& operator=(Pinned&& other) noexcept;
    ~Pinned();
    const engine::SlotView& view() const;

   private:
    friend class SlotArena;
    explicit Pinned(Slot& slot) : slot_(&slot) {}
    Slot* slot_;
  };

  struct Resident {
    SlotHandle handle;
    base::Hash256 content;
    uint32_t rank = 0;
    uint64_t bytes = 0;  // of arena space
    uint32_t pins = 0;
    bool published = false;  // false: unloaded, still pinned
  };

  /// Maps and touches `bytes`. kLimit if the system cannot give them.
  [[nodiscard]] static base::Result<std::unique_ptr<SlotArena>> open(
      const SlotBase& base, int64_t bytes = limits::kArenaBytesDefault);
  ~SlotArena();
  SlotArena(const SlotArena&) = delete;
  SlotArena& operator=(const SlotArena&) = delete;

  /// Validates, copies in and publishes. kLimit when there is no room: the message says how much is
  /// missing. Errors of validate_slot otherwise. Any thread; writers wait for each other.
  [[nodiscard]] base::Result<SlotHandle> load(std::span<const std::byte> slot);
  [[nodiscard]] base::Result<SlotHandle> load_file(const base::Path& path);
  /// kNotFound if the handle is stale.
  [[nodiscard]] base::Result<void> unload(SlotHandle handle);

  /// Empty if the handle is stale. Any thread, lock-free, no allocation.
  [[nodiscard]] std::optional<Pinned> pin(SlotHandle handle);

  std::vector<Resident> residents() const;
  uint64_t capacity() const { return data_bytes_; }
  const SlotBase& base() const { return base_; }

 private:
  struct Gap {
    uint64_t offset = 0, bytes = 0;
  };
  struct Space {
    Gap best;  // the smallest gap that fits, bytes = 0 if none does
    uint64_t largest = 0, free = 0;
  };
  SlotArena(const SlotBase& base, std::span<std::byte> region);
  void reclaim() REQUIRES(mutex_);
  Slot* free_slot() REQUIRES(mutex_);
  Space find_space(uint64_t bytes) const REQUIRES(mutex_);
  base::Result<uint64_t> allocate(uint64_t bytes) const REQUIRES(mutex_);

  const SlotBase base_;
  const std::span<std::byte> region_;
  Slot* const slots_;  // [limits::kArenaSlotsMax], at the start of the region
  std::byte* data_ = nullptr;
  uint64_t data_bytes_ = 0;
  mutable base::Mutex mutex_;
};

}  // namespace retort::adapter
