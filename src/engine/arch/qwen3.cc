// Qwen3 (dense): q and k are normalised per head before the rotation; rotary halves; heads of a
// width of their own (key_length).
#include "engine/arch/arch.h"
#include "engine/arch/members.h"

namespace retort::engine::arch {
namespace {

class Qwen3 : public Architecture {
 public:
  std::string_view name() const override { return "qwen3"; }
  base::Result<void> read(const Gguf& gguf, Config& config) const override {
    config.qk_norm = true;
    return read_decoder(gguf, config);
  }
};

}  // namespace

const Architecture& qwen3() {
  static const Qwen3 member;
  return member;
}

}  // namespace retort::engine::arch
