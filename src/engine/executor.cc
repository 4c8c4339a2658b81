// The forward pass reads as a list of phases. Every lane runs all of it; each phase ends in a
// barrier where the next one reads what other lanes wrote. Rows are shared out in phases that work
// by row, panels of 16 outputs in the linear layers, (row, KV head) pairs in attention: a single
// row still keeps all lanes busy where the time goes.
#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace retort::engine {
namespace {

using base::Lane;

kernels::AlignedArray<float> floats(int64_t n) {
  return kernels::AlignedArray<float>(static_cast<size_t>(n));
}

/// Of the step's own lists: a row's segment and position.
constexpr int64_t kRowBytes = sizeof(int32_t) + sizeof(int64_t);

int64_t widest_input(const Config& config) {
  return std::max({config.embedding, config.q_dim(), config.feed_forward});
}

bool same_mix(const Mix& a, const Mix& b) {
  return std::ranges::equal(a.terms(), b.terms(), [](const Mix::Term& s, const Mix::Term& t) {
    return s.slot == t.slot && s.gate == t.gate;
  });
}

/// Adds rows [begin, end) to `ranges`, joined to the last one where the mixture is the same.
void append_range(std::vector<MixRange>& ranges, int64_t begin, int64_t end, const Mix& mix) {
  if (mix.empty()) return;
  if (!ranges.empty() && ranges.back().end == begin && same_mix(ranges.back().mix, mix)) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end, mix});
  }
}

int64_t rows_of(const Segment& segment, int64_t embedding) {
  return segment.tokens.empty() ? static_cast<int64_t>(segment.embeddings.size()) / embedding
                                : static_cast<int64_t>(segment.tokens.size());
}

/// The rank sum of a mixture's widest module: floats of A x a row needs.
int64_t rank_sum(const Mix& mix) {
  int64_t sum = 0;
  for (const Mix::Term& term : mix.terms()) {
    int64_t widest = 0;
    for (const kernels::AdapterMatrix& matrix : term.slot->matrices) {
      widest = std::max(widest, matrix.rank);
    }
    sum += widest;
  }
  return sum;
}

}  // namespace

Executor::Executor(const Model& model, base::Team& team, const Options& options)
    : model_(model),
      team_(team),
      options_(options),
      activations_(model.config(), options.rows_max, options.keep_layers),
      lane_terms_(static_cast<size_t>(team.size())) {
  const Config& config = model.config();
  const int64_t rows = options.rows_max;
  const int64_t widest = widest_input(config);
  x_ = floats(rows * widest);
  q8_ = kernels::AlignedArray<int8_t>(static_cast<size_t>(rows * widest));
  q8_scale_ = floats(rows * widest / 32);
  q8_sum_ = floats(rows * widest / 32);
  const int64_t group = config.heads / config.kv_heads;
  scores_ = floats(team.size() * group * kernels::padded(options.context_max));
  row_segments_.resize(static_cast<size_t>(rows));
  row_positions_.resize(static_cast<size_t>(rows));
  ranges_.reserve(static_cast<size_t>(rows));
  logit_ranges_.reserve(static_cast<size_t>(rows));
  attention_scale_ = 1.0f / std::sqrt(static_cast<float>(config.head_dim));

  rope_width_ = config.rotary_dims / 2;
  cos_ = floats(options.context_max * rope_width_);
  sin_ = floats(options.context_max * rope_width_);
  for (int64_t position = 0; position < options.context_max; ++position) {
    for (int64_t i = 0; i < rope_width_; ++i) {
      const double angle =
          static_cast<double>(position) * model.inverse_frequencies()[static_cast<size_t>(i)];
      cos_[static_cast<size_t>(position * rope_width_ + i)] = static_cast<float>(std::cos(angle));
      sin_[static_cast<size_t>(position * rope_width_ + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

int64_t Executor::bytes(const Config& config, const Options& options, int threads, int64_t rank) {
  const int64_t widest = widest_input(config);
  const int64_t group = config.heads / config.kv_heads;
  return Activations::bytes(config, options.rows_max, options.keep_layers) +
         options.rows_max * widest * 5 + options.rows_max * widest / 4 +
         4 * threads * group * kernels::padded(options.context_max) +
         4 * options.context_max * config.rotary_dims +
         options.rows_max * (3 * 4 * rank + kRowBytes);
}

/// One lane's walk through a step.
struct Executor::Pass {
  Executor& e;
  Lane lane;
  const Config& config = e.model_.config();
  const int64_t rows = e.rows_;
  LaneTerms& lane_terms = e.lane_terms_[static_cast<size_t>(lane.index())];

  /// A linear layer of the group that reads one input together.
  struct Linear {
    Target target;
    const kernels::Weight* weight;
    const std::vector<float>* bias;
    float* y;
  };

  kernels::Activations input(const float* x, int64_t cols) const {
    return {x, e.q8_.data(), e.q8_scale_.data(), e.q8_sum_.data(), cols};
  }

  void embed(float* x) const {
    const int64_t width = config.embedding;
    const auto [begin, end] = lane.share(rows);
    for (int64_t row = begin; row < end; ++row) {
      const Segment& segment =
          e.segments_[static_cast<size_t>(e.row_segments_[static_cast<size_t>(row)])];
      const auto i =
          static_cast<size_t>(e.row_positions_[static_cast<size_t>(row)] - segment.cache->length());
      if (segment.tokens.empty()) {
        std::memcpy(x + row * width, segment.embeddings.data() + i * static_cast<size_t>(width),
                    sizeof(float) * static_cast<size_t>(width));
      } else {
        e.model_.embedding().dequantize_row(segment.tokens[i], x + row * width);
      }
    }
  }

  /// Norm of x into the shared linear input, and its 8-bit form where `quantize`.
  void norm(const float* x, const std::vector<float>& weight, int64_t n_rows) const {
    const int64_t width = config.embedding;
    const auto [begin, end] = lane.share(n_rows);
    kernels::rms_norm(x + begin * width, weight.data(), config.rms_epsilon, end - begin, width,
                      e.x_.data() + begin * width);
    kernels::quantize_rows(input(e.x_.data(), width), begin, end);
  }

  /// h = A x of every term of every range for the layers at hand, then the lists that linear()
  /// takes.
  void adapters(std::span<const Linear> layers, int layer, const std::vector<MixRange>& ranges,
                const float* x, int64_t cols) const {
    int unit = 0;
    for (size_t j = 0; j < layers.size(); ++j) {
      auto& groups = lane_terms.groups[j];
      auto& terms = lane_terms.terms[j];
      groups.clear();
      terms.clear();
      float* h = e.h_.data() + static_cast<int64_t>(j) * e.h_stride_;
      for (const MixRange& range : ranges) {
        const size_t first = terms.size();
        for (const Mix::Term& term : range.mix.terms()) {
          const auto index =
              static_cast<size_t>(matrix_index(layer, layers[j].target, config.layers));
          const kernels::AdapterMatrix& matrix = term.slot->matrices[index];
          if (matrix.rank == 0) continue;
          terms.push_back({&matrix, nullptr, term.gate, h});
          for (int64_t row = range.begin; row < range.end; row += kRowsAtOnce) {
            if (unit++ % lane.count() != lane.index()) continue;
            kernels::adapter_down(x + row * cols, std::min(kRowsAtOnce, range.end - row), cols,
                                  matrix.a, matrix.rank, h + (row - range.begin) * matrix.rank);
          }
          h += (range.end - range.begin) * matrix.rank;
        }
        if (terms.size() == first) continue;
        groups.push_back({range.begin, range.end, {terms.data() + first, terms.size() - first}});
      }
    }
  }
  static constexpr int64_t kRowsAtOnce = 16;

  /// Runs linear layers that read the same input, their panels shared out as one range.
  void linear(std::span<const Linear> layers, int layer, const std::vector<MixRange>& ranges,
              const float* x, int64_t cols, int64_t n_rows) const {
    for (size_t j = 0; j < layers.size(); ++j) lane_terms.groups[j].clear();
    if (!ranges.empty()) {
      adapters(layers, layer, ranges, x, cols);
      lane.barrier();
    }
    int64_t panels = 0;
    for (const Linear& l : layers) panels += kernels::panels_of(l.weight->out());
    auto [begin, end] = lane.share(panels);
    for (size_t j = 0; j < layers.size(); ++j) {
      const Linear& l = layers[j];
      const int64_t own = kernels::panels_of(l.weight->out());
      const int64_t first = std::clamp<int64_t>(begin, 0, own);
      const int64_t last = std::clamp<int64_t>(end, 0, own);
      if (first < last) {
        kernels::linear(*l.weight, l.bias == nullptr || l.bias->empty() ? nullptr : l.bias->data(),
                        input(x, cols), n_rows, lane_terms.groups[j], first, last, l.y);
      }
      begin -= own;
      end -= own;
    }
  }

  /// Norms of q and k (qwen3), RoPE, and the cache write of k and v; shared by row and head.
  void rotate_and_store(int index, LayerActivations& a) const {
    const Layer& layer = e.model_.layer(index);
    const int64_t dim = config.head_dim;
    const int heads = config.heads + config.kv_heads;
    const auto [begin, end] = lane.share(rows * heads);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / heads;
      const int64_t head = unit % heads;
      const bool is_query = head < config.heads;
      const int64_t kv_head = head - config.heads;
      float* x = is_query ? a.q.data() + row * config.q_dim() + head * dim
                          : a.k.data() + row * config.kv_dim() + kv_head * dim;
      if (config.qk_norm) {
        float* raw = is_query ? a.q_raw.data() + row * config.q_dim() + head * dim
                              : a.k_raw.data() + row * config.kv_dim() + kv_head * dim;
        std::copy_n(x, dim, raw);
        const auto& weight = is_query ? layer.q_norm : layer.k_norm;
        kernels::rms_norm(raw, weight.data(), config.rms_epsilon, 1, dim, x);
      }
      const int64_t position = e.row_positions_[static_cast<size_t>(row)];
      kernels::rope(x, 1, dim, config.rotary_dims, e.rope_cos(position), e.rope_sin(position),
                    config.rope_interleaved, false);
      if (is_query) continue;
      KvCache& cache =
          *e.segments_[static_cast<size_t>(e.row_segments_[static_cast<size_t>(row)])].cache;
      const int h = static_cast<int>(kv_head);
      kernels::to_half(x, dim, cache.keys(index, h) + position * dim);
      kernels::to_half(a.v.data() + row * config.kv_dim() + kv_head * dim, dim,
                       cache.values(index, h) + position * dim);
    }
  }

  void attend(int index, LayerActivations& a) const {
    const int64_t dim = config.head_dim;
    const int64_t group = config.heads / config.kv_heads;
    float* scores =
        e.scores_.data() + lane.index() * group * kernels::padded(e.options_.context_max);
    // Later rows of a prompt see more keys, so units are dealt out in turn rather than in blocks.
    for (int64_t unit = lane.index(); unit < rows * config.kv_heads; unit += lane.count()) {
      const int64_t row = unit / config.kv_heads;
      const int kv_head = static_cast<int>(unit % config.kv_heads);
      KvCache& cache =
          *e.segments_[static_cast<size_t>(e.row_segments_[static_cast<size_t>(row)])].cache;
      const int64_t offset = row * config.q_dim() + kv_head * group * dim;
      kernels::attend(a.q.data() + offset, group, cache.keys(index, kv_head),
                      cache.values(index, kv_head), e.row_positions_[static_cast<size_t>(row)] + 1,
                      dim, e.attention_scale_, scores, a.attention.data() + offset);
    }
  }

  void quantize(const float* x, int64_t cols) const {
    const auto [begin, end] = lane.share(rows);
    kernels::quantize_rows(input(x, cols), begin, end);
  }

  /// out = x + y for this lane's rows.
  void add_residual(const float* x, const float* y, float* out) const {
    const int64_t width = config.embedding;
    const auto [begin, end] = lane.share(rows);
    std::copy_n(x + begin * width, (end - begin) * width, out + begin * width);
    kernels::add(y + begin * width, (end - begin) * width, out + begin * width);
  }

  void attention_half(int index, LayerActivations& a) const {
    const Layer& layer = e.model_.layer(index);
    norm(a.input.data(), layer.attention_norm, rows);
    lane.barrier();
    const Linear qkv[] = {{Target::kQ, &layer.q, &layer.q_bias, a.q.data()},
                          {Target::kK, &layer.k, &layer.k_bias, a.k.data()},
                          {Target::kV, &layer.v, &layer.v_bias, a.v.data()}};
    linear(qkv, index, e.ranges_, e.x_.data(), config.embedding, rows);
    lane.barrier();
    rotate_and_store(index, a);
    lane.barrier();
    attend(index, a);
    lane.barrier();
    quantize(a.attention.data(), config.q_dim());
    lane.barrier();
    const Linear o[] = {{Target::kO, &layer.o, nullptr, a.o.data()}};
    linear(o, index, e.ranges_, a.attention.data(), config.q_dim(), rows);
    lane.barrier();
  }

  void feed_forward_half(int index, LayerActivations& a) const {
    const Layer& layer = e.model_.layer(index);
    add_residual(a.input.data(), a.o.data(), a.middle.data());
    norm(a.middle.data(), layer.feed_forward_norm, rows);
    lane.barrier();
    const Linear gate_up[] = {{Target::kGate, &layer.gate, nullptr, a.gate.data()},
                              {Target::kUp, &layer.up, nullptr, a.up.data()}};
    linear(gate_up, index, e.ranges_, e.x_.data(), config.embedding, rows);
    lane.barrier();
    const int64_t width = config.feed_forward;
    const auto [begin, end] = lane.share(rows);
    kernels::silu_mul(a.gate.data() + begin * width, a.up.data() + begin * width,
                      (end - begin) * width, e.x_.data() + begin * width);
    kernels::quantize_rows(input(e.x_.data(), width), begin, end);
    lane.barrier();
    const Linear down[] = {{Target::kDown, &layer.down, nullptr, a.down.data()}};
    linear(down, index, e.ranges_, e.x_.data(), width, rows);
    lane.barrier();
  }

  void blocks() const {
    Activations& activations = e.activations_;
    embed(activations.layer(0).input.data());
    for (int index = 0; index < config.layers; ++index) {
      LayerActivations& a = activations.layer(index);
      attention_half(index, a);
      feed_forward_half(index, a);
      const bool last = index + 1 == config.layers;
      float* next = last ? activations.output() : activations.layer(index + 1).input.data();
      add_residual(a.middle.data(), a.down.data(), next);
    }
    lane.barrier();
  }

  /// Final norm and output matrix for the rows named; x_ holds the gathered, normalised rows.
  void output(std::span<const int32_t> rows_wanted, float* logits) const {
    const int64_t width = config.embedding;
    const auto n = static_cast<int64_t>(rows_wanted.size());
    const auto [begin, end] = lane.share(n);
    for (int64_t i = begin; i < end; ++i) {
      kernels::rms_norm(e.activations_.output() + rows_wanted[static_cast<size_t>(i)] * width,
                        e.model_.output_norm().data(), config.rms_epsilon, 1, width,
                        e.x_.data() + i * width);
    }
    kernels::quantize_rows(input(e.x_.data(), width), begin, end);
    lane.barrier();
    const Linear out[] = {{Target::kOutput, &e.model_.output(), nullptr, logits}};
    linear(out, 0, e.logit_ranges_, e.x_.data(), width, n);
  }
};

void Executor::prepare(std::span<const Segment> segments) {
  segments_ = segments;
  ranges_.clear();
  rows_ = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    const int64_t n = rows_of(segment, model_.config().embedding);
    CHECK(rows_ + n <= options_.rows_max, "rows={} + {} > {}", rows_, n, options_.rows_max);
    CHECK(segment.cache->length() + n <= std::min(options_.context_max, segment.cache->capacity()),
          "length={} rows={}", segment.cache->length(), n);
    for (int64_t i = 0; i < n; ++i) {
      row_segments_[static_cast<size_t>(rows_ + i)] = static_cast<int32_t>(s);
      row_positions_[static_cast<size_t>(rows_ + i)] = segment.cache->length() + i;
    }
    append_range(ranges_, rows_, rows_ + n, segment.mix);
    rows_ += n;
  }
  reserve_adapters(ranges_);
}

void Executor::reserve_adapters(std::span<const MixRange> ranges) {
  int64_t needed = 0;
  size_t terms = 0;
  for (const MixRange& range : ranges) {
    needed += (range.end - range.begin) * rank_sum(range.mix);
    terms += range.mix.terms().size();
  }
  bool grew = grow_lane_terms(ranges.size(), terms);
  if (needed > h_stride_) {
    h_stride_ = needed;
    h_.resize(static_cast<size_t>(3 * needed));
    grew = true;
  }
  if (grew) ++growths_;
}

bool Executor::grow_lane_terms(size_t ranges, size_t terms) {
  bool grew = false;
  for (LaneTerms& lane : lane_terms_) {
    for (int j = 0; j < 3; ++j) {
      grew |= ranges > lane.groups[j].capacity() || terms > lane.terms[j].capacity();
      lane.groups[j].reserve(ranges);
      lane.terms[j].reserve(terms);  // groups hold spans into it: it must not grow in the pass
    }
  }
  return grew;
}

void Executor::forward(std::span<const Segment> segments, std::span<const int32_t> logit_rows,
                       float* logits_out) {
  prepare(segments);
  team_.run([&](Lane lane) { Pass{*this, lane}.blocks(); });
  for (const Segment& segment : segments) {
    segment.cache->advance(rows_of(segment, model_.config().embedding));
  }
  if (!logit_rows.empty()) logits(logit_rows, logits_out);
}

void Executor::logits(std::span<const int32_t> rows, float* logits_out) {
  logit_ranges_.clear();
  size_t i = 0;
  for (const MixRange& range : ranges_) {
    while (i < rows.size() && rows[i] < range.begin) ++i;
    const size_t first = i;
    while (i < rows.size() && rows[i] < range.end) ++i;
    if (first < i) {
      append_range(logit_ranges_, static_cast<int64_t>(first), static_cast<int64_t>(i), range.mix);
    }
  }
  team_.run([&](Lane lane) { Pass{*this, lane}.output(rows, logits_out); });
}

}  // namespace retort::engine
