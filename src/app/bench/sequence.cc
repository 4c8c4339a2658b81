#include "app/bench/sequence.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace retort::app {

Sequence::Sequence(engine::Executor& executor, int64_t context)
    : executor_(&executor),
      cache_(engine::KvCache::create(executor.model().config(), context).value()) {}

std::span<const float> Sequence::eval(std::span<const engine::Token> tokens, bool all_logits) {
  CHECK(!tokens.empty());
  const auto width = static_cast<size_t>(executor_->model().config().vocabulary);
  logits_.resize((all_logits ? tokens.size() : 1) * width);
  const auto chunk = static_cast<size_t>(
      std::min<int64_t>(executor_->options().rows_max, limits::kPrefillChunkRows));
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const size_t n = std::min(chunk, tokens.size() - at);
    const bool last = at + n == tokens.size();
    rows_.assign(all_logits ? n : last ? 1 : 0, static_cast<int32_t>(n) - 1);
    if (all_logits) std::iota(rows_.begin(), rows_.end(), 0);
    const engine::Segment segment{.cache = &cache_, .tokens = tokens.subspan(at, n), .mix = mix_};
    executor_->forward({&segment, 1}, rows_, logits_.data() + (all_logits ? at * width : 0));
  }
  return logits_;
}

}  // namespace retort::app
