// Llama and its kin (Mistral without sliding window, SmolLM2, TinyLlama ...): rotary pairs
// interleaved by the converter, and optional per-frequency factors (Llama 3.1 and later) as a
// tensor.
#include "engine/arch/arch.h"
#include "engine/arch/members.h"

namespace retort::engine::arch {
namespace {

class Llama : public Architecture {
 public:
  std::string_view name() const override { return "llama"; }
  base::Result<void> read(const Gguf& gguf, Config& config) const override {
    config.rope_interleaved = true;
    config.rope_factors = true;
    return read_decoder(gguf, config);
  }
};

}  // namespace

const Architecture& llama() {
  static const Llama member;
  return member;
}

}  // namespace retort::engine::arch
