#include "app/bench/agreement.h"

#include <algorithm>
#include <numeric>

#include "engine/sampler.h"

namespace retort::app {
namespace {

constexpr size_t kChunk = 64;  // prompt tokens at a time: bounds the logits held

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return sum;
}

double squared_deviation(std::span<const float> a) {
  const double mean = std::accumulate(a.begin(), a.end(), 0.0) / static_cast<double>(a.size());
  double sum = 0;
  for (const float x : a) sum += (x - mean) * (x - mean);
  return sum;
}

float gap_below(std::span<const float> logits, engine::Token best) {
  const auto at = static_cast<size_t>(best);
  float second = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i != at) second = std::max(second, logits[i]);
  }
  return logits[at] - second;
}

void compare_row(std::span<const float> ours, std::span<const float> peer, Agreement& agreement) {
  ++agreement.positions;
  agreement.values += static_cast<double>(peer.size());
  agreement.between += squared_distance(ours, peer);
  agreement.spread += squared_deviation(peer);
  const engine::Token best = engine::argmax(peer);
  if (gap_below(peer, best) <= kClearGap) return;
  ++agreement.clear;
  if (engine::argmax(ours) != best) ++agreement.disagreements;
}

}  // namespace

base::Result<void> compare_logits(std::span<const engine::Token> tokens, size_t prompt,
                                  Sequence& ours, LlamaPeer& peer, LlamaPeer* reference,
                                  Agreement& agreement) {
  ours.truncate(0);
  peer.truncate(0);
  if (reference != nullptr) reference->truncate(0);
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = at < prompt ? std::min(kChunk, prompt - at) : 1;
    const auto piece = tokens.subspan(at, n);
    const std::span<const float> a = ours.eval(piece, true);
    TRY_ASSIGN(const std::span<const float> b, peer.eval(piece, true));
    const size_t width = b.size() / n;
    for (size_t row = 0; row < n; ++row) {
      compare_row(a.subspan(row * width, width), b.subspan(row * width, width), agreement);
    }
    if (reference != nullptr) {
      TRY_ASSIGN(const std::span<const float> exact, reference->eval(piece, true));
      agreement.ours += squared_distance(a, exact);
      agreement.peer += squared_distance(b, exact);
    }
    at += n;
  }
  return {};
}

}  // namespace retort::app
