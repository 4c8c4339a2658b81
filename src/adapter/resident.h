// From a name to a pinned slot: looks the adapter up, checks that it belongs to the base, brings
// its slot into the arena (deriving the slot file again from the PEFT directory if it was lost),
// pins it.
//
// One thread; the parts it is given outlive it. What it returns stays pinned until release().
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "adapter/arena.h"
#include "adapter/registry.h"
#include "base/team.h"
#include "engine/model.h"

namespace retort::adapter {

class Residents {
 public:
  Residents(const engine::Model& model, Registry& registry, SlotArena& arena, base::Team& team);

  /// "name" or "name@version". kNotFound, kMismatch for an adapter of another base, kLimit if the
  /// arena is full. The view is valid until release() of the same reference.
  [[nodiscard]] base::Result<const engine::SlotView*> acquire(std::string_view reference);
  void release(std::string_view reference);

 private:
  [[nodiscard]] base::Result<SlotHandle> load(const RegistryEntry& entry);

  const engine::Model& model_;
  Registry& registry_;
  SlotArena& arena_;
  base::Team& team_;
  std::map<std::string, SlotArena::Pinned, std::less<>> pinned_;  // by "name@version"
};

}  // namespace retort::adapter
