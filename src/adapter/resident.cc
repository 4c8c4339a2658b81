#include "adapter/resident.h"

#include "adapter/crystallise.h"
#include "adapter/peft.h"

namespace retort::adapter {
namespace {

std::string full_name(const RegistryEntry& entry) {
  return fmt::format("{}@{}", entry.name, entry.version);
}

}  // namespace

Residents::Residents(const engine::Model& model, Registry& registry, SlotArena& arena,
                     base::Team& team)
    : model_(model), registry_(registry), arena_(arena), team_(team) {}

base::Result<const engine::SlotView*> Residents::acquire(std::string_view reference) {
  TRY_ASSIGN(const RegistryEntry entry, registry_.find(reference));
  const std::string name = full_name(entry);
  if (const auto it = pinned_.find(name); it != pinned_.end()) return &it->second.view();
  if (entry.base != model_.fingerprint()) {
    return base::make_error(
        base::Code::kMismatch,
        "adapter {} was trained on another base (fingerprint {}, {} has {}); name its "
        "base with --base, or distil it again on this one",
        name, entry.base.short_hex(), model_.path().string(), model_.fingerprint().short_hex());
  }
  TRY_ASSIGN(const SlotHandle handle, load(entry));
  std::optional<SlotArena::Pinned> pin = arena_.pin(handle);
  CHECK(pin.has_value());
  return &pinned_.emplace(name, *std::move(pin)).first->second.view();
}

void Residents::release(std::string_view reference) {
  if (const auto entry = registry_.find(reference)) pinned_.erase(full_name(*entry));
}

/// The slot file is a derived copy: if it is missing or damaged it is made again.
base::Result<SlotHandle> Residents::load(const RegistryEntry& entry) {
  auto handle = arena_.load_file(entry.slot_file);
  if (handle || handle.error().code == base::Code::kLimit) return handle;
  TRY_ASSIGN(const AdapterWeights weights, load_peft(entry.adapter_directory, model_.config()));
  TRY_ASSIGN(const auto slot, build_slot(weights, BaseWeights::of(model_), team_));
  TRY(base::write_file_atomic(entry.slot_file, slot.span()));
  return arena_.load(slot.span());
}

}  // namespace retort::adapter
