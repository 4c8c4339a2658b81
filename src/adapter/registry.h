// The registry: which adapters exist on this machine, in which versions, for which base, and how
// they scored. One SQLite file beside the adapters' folders:
//
//   <root>/registry.db
//   <root>/adapters/<name>/<version>/   adapter_config.json, adapter_model.safetensors,
//   retort.json, slot
//
// Every change is one transaction, so a kill at any moment leaves the registry before or after it.
// A publisher reserves a version, writes its folder, then puts the entry: an entry that is found
// has its files. Version numbers are never used twice, not even after a removal.
//
// One object belongs to one thread; several processes may open the same registry (busy waits are
// bounded, then kIo).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "base/result.h"

namespace retort::adapter {

struct RegistryEntry {
  std::string name;
  int64_t version = 0;
  base::Path adapter_directory;
  base::Path slot_file;    // may be missing on disk: it can be derived again
  base::Hash256 base;      // fingerprint of the base it was trained on
  base::Hash256 content;   // of the slot
  int64_t created_s = 0;   // Unix time
  std::string evaluation;  // JSON object
};

/// "name" or "name@version".
struct AdapterReference {
  std::string name;
  int64_t version = 0;  // 0: the newest
};
[[nodiscard]] base::Result<AdapterReference> parse_reference(std::string_view text);

/// Names are 1..64 of [a-z0-9._-], beginning with a letter or digit: they become folder names.
[[nodiscard]] base::Result<void> check_adapter_name(std::string_view name);

class Registry {
 public:
  /// Opens or creates. kInvalidInput if the file is damaged or is no registry, kMismatch if a newer
  /// version of the program made it.
  [[nodiscard]] static base::Result<Registry> open(const base::Path& root = base::data_directory());
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;
  ~Registry();

  /// A version number of `name` that no one else gets, and its folder, created.
  [[nodiscard]] base::Result<RegistryEntry> reserve(std::string_view name);
  /// Makes an entry visible; replaces one of the same name and version.
  [[nodiscard]] base::Result<void> put(const RegistryEntry& entry);
  /// By name and version.
  [[nodiscard]] base::Result<std::vector<RegistryEntry>> list() const;
  /// "name" finds the newest version. kNotFound names what there is.
  [[nodiscard]] base::Result<RegistryEntry> find(std::string_view reference) const;
  /// "name@version" removes that version, "name" all of them; entries first, then their folders.
  /// Returns what was removed.
  [[nodiscard]] base::Result<std::vector<RegistryEntry>> remove(std::string_view reference);

  base::Path directory(std::string_view name, int64_t version) const;

 private:
  struct Database;
  explicit Registry(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace retort::adapter
