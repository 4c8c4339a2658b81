// Architectures: what a member does is read its hyper-parameters from a GGUF file into a Config and
// refuse what the executor does not compute. One file a member, and one line in all.cc.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "engine/gguf.h"
#include "engine/model.h"

namespace retort::engine::arch {

class Architecture {
 public:
  virtual ~Architecture() = default;
  /// As in the key general.architecture.
  virtual std::string_view name() const = 0;
  /// Fills `config`. Errors name the file and the key.
  [[nodiscard]] virtual base::Result<void> read(const Gguf& gguf, Config& config) const = 0;
};

/// Every member, in all.cc.
std::span<const Architecture* const> all();

/// The Config of a file, by the member that the file names.
[[nodiscard]] base::Result<Config> read_config(const Gguf& gguf);

/// What the members share: the keys of a decoder with RMSNorm, SwiGLU and rotary positions. Refuses
/// keys that change the computation in ways the executor does not know.
[[nodiscard]] base::Result<void> read_decoder(const Gguf& gguf, Config& config);

}  // namespace retort::engine::arch
