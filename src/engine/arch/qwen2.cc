// Qwen2 and Qwen2.5: biases on q, k and v; rotary halves.
#include "engine/arch/arch.h"
#include "engine/arch/members.h"

namespace retort::engine::arch {
namespace {

class Qwen2 : public Architecture {
 public:
  std::string_view name() const override { return "qwen2"; }
  base::Result<void> read(const Gguf& gguf, Config& config) const override {
    config.qkv_bias = true;
    return read_decoder(gguf, config);
  }
};

}  // namespace

const Architecture& qwen2() {
  static const Qwen2 member;
  return member;
}

}  // namespace retort::engine::arch
