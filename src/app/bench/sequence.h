// One sequence of our engine, driven by hand in the way of the peer (llama_peer.h).
#pragma once

#include <span>
#include <vector>

#include "engine/executor.h"

namespace retort::app {

class Sequence {
 public:
  /// `executor` outlives it; context is at most its context_max.
  Sequence(engine::Executor& executor, int64_t context);

  /// Runs the next steps on another executor of the same model.
  void use_executor(engine::Executor& executor) { executor_ = &executor; }
  void use_mix(const engine::Mix& mix) { mix_ = mix; }
  int64_t length() const { return cache_.length(); }
  void truncate(int64_t length) { cache_.truncate(length); }
  /// Appends tokens, in the chunks that serving takes. Logits [n x vocabulary] of all of them, or
  /// [vocabulary] of the last; valid until the next call.
  std::span<const float> eval(std::span<const engine::Token> tokens, bool all_logits = false);

 private:
  engine::Executor* executor_;
  engine::KvCache cache_;
  engine::Mix mix_;
  std::vector<int32_t> rows_;
  std::vector<float> logits_;
};

}  // namespace retort::app
