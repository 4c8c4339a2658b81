// libllama in this process, as the peer that the benchmarks and tests compare with: one model, one
// sequence, LoRA adapters.
//
// One thread. Opening any engine::Vocabulary silences libllama's log; do that first. Its OpenMP
// threads spin for a while after each call: see let_peer_sleep().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/disk.h"
#include "base/result.h"
#include "engine/vocabulary.h"

namespace retort::app {

class LlamaPeer {
 public:
  struct Options {
    int threads = 1;
    int64_t context = 1024;
    int64_t batch = 512;  // tokens of one eval() at most
    bool exact = false;   // keys and values in F32, no flash attention, no repacked weights
  };

  [[nodiscard]] static base::Result<std::unique_ptr<LlamaPeer>> open(const base::Path& path,
                                                                     const Options& options);
  ~LlamaPeer();

  /// Reads a LoRA GGUF; returns its number for use_lora().
  [[nodiscard]] base::Result<int> load_lora(const base::Path& path);
  /// Applies one LoRA alone from the next eval() on; -1 for the base.
  void use_lora(int lora);

  int64_t length() const;
  /// Forgets all positions from `length` on.
  void truncate(int64_t length);
  /// Appends tokens. Logits [n x vocabulary] of all of them, or [vocabulary] of the last; valid
  /// until the next call.
  [[nodiscard]] base::Result<std::span<const float>> eval(std::span<const engine::Token> tokens,
                                                          bool all_logits = false);

 private:
  struct Impl;
  explicit LlamaPeer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace retort::app
