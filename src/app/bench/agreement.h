// How far apart the logits of engines are, teacher-forced over a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "app/bench/llama_peer.h"
#include "app/bench/sequence.h"
#include "base/result.h"

namespace retort::app {

/// A gap between the two best logits of libllama beyond which our best token has to be the same.
inline constexpr float kClearGap = 0.5f;

struct Agreement {
  int64_t positions = 0;      // tokens whose logits were compared
  int64_t clear = 0;          // of them, where libllama's gap exceeds kClearGap
  int64_t disagreements = 0;  // of those, where our top-1 is another
  double values = 0;          // logits compared
  double between = 0;         // sums of squares: ours against libllama,
  double ours = 0, peer = 0;  // each against the reference,
  double spread = 0;          // and libllama's logits about the mean of their row

  double rms_between() const { return std::sqrt(between / values); }
  double rms_ours() const { return std::sqrt(ours / values); }
  double rms_peer() const { return std::sqrt(peer / values); }
  double deviation() const { return std::sqrt(spread / values); }
};

/// Feeds `tokens` to all sides from the start, the first `prompt` in chunks and the rest one by
/// one, and adds what it sees to `agreement`. `reference` may be null.
[[nodiscard]] base::Result<void> compare_logits(std::span<const engine::Token> tokens,
                                                size_t prompt, Sequence& ours, LlamaPeer& peer,
                                                LlamaPeer* reference, Agreement& agreement);

}  // namespace retort::app
