// Reads bottom-up against executor.cc: the same phases in reverse, the same sharing of work, so
// every sum has one order whatever the number of threads.
//
// A linear layer y = c (W0 x + s B A x) in serving form, y = z (1 + d) + B' h, h = A x, gives
//   dh = B'^T dy          dx  = W0^T (c dy) + A^T dh
//   dA = dh x^T           dB' = dy h^T           dc = sum_t dy_t y_t / c
// The trainer turns dB' and dc into gradients of B and m (train/trainable.h).
#include "engine/backward.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"

namespace retort::engine {
namespace {

using base::Lane;

constexpr int64_t kLossRows = 128;    // rows of logits held at once
constexpr int64_t kWindowPanels = 2;  // of streamed weights; quantised blocks span two

int64_t widest(const Config& config) {
  return std::max({config.embedding, config.q_dim(), config.kv_dim(), config.feed_forward});
}

kernels::AlignedArray<float> floats(int64_t n) {
  return kernels::AlignedArray<float>(static_cast<size_t>(n));
}

}  // namespace

BackwardWeights::BackwardWeights(const Model& model, base::Team& team, Mode mode)
    : model_(model), mode_(mode) {
  if (mode == Mode::kStreamed) return;
  const int layers = model.config().layers;
  for (int layer = 0; layer < layers; ++layer) {
    for (int t = 0; t < kLayerTargets; ++t) {
      matrices_.emplace_back(model.weight(layer, static_cast<Target>(t)));
    }
  }
  matrices_.emplace_back(model.output());
  team.run([&](Lane lane) {
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const int layer = static_cast<int>(i) / kLayerTargets;
      const auto target = layer == layers
                              ? Target::kOutput
                              : static_cast<Target>(static_cast<int>(i) % kLayerTargets);
      const auto [begin, end] = lane.share(kernels::panels_of(matrices_[i].in()));
      matrices_[i].fill_panels(model.weight(layer, target), begin, end);
    }
  });
}

void BackwardWeights::input_gradient(int layer, Target target, const float* dy, int64_t rows,
                                     int64_t panel_begin, int64_t panel_end,
                                     kernels::TransposedWeight& window, float* dx) const {
  if (mode_ == Mode::kResident) {
    const auto index = static_cast<size_t>(matrix_index(layer, target, model_.config().layers));
    kernels::linear_input_gradient(matrices_[index], dy, rows, panel_begin, panel_end, dx);
    return;
  }
  const kernels::Weight& weight = model_.weight(layer, target);
  for (int64_t p = panel_begin; p < panel_end;) {
    const int64_t end = std::min(panel_end, p - p % kWindowPanels + kWindowPanels);
    window.show(weight, p, end);
    kernels::linear_input_gradient(window, dy, rows, p, end, dx);
    p = end;
  }
}

int64_t BackwardWeights::window_floats(const Config& config) {
  const int64_t tallest = std::max(
      {config.vocabulary, config.feed_forward, config.embedding, config.q_dim(), config.kv_dim()});
  return kWindowPanels * kernels::kPanel * tallest;
}

int64_t BackwardWeights::bytes(const Config& config, Mode mode) {
  if (mode == Mode::kStreamed) return 0;
  int64_t count = kernels::padded(config.embedding) * config.vocabulary;
  for (int t = 0; t < kLayerTargets; ++t) {
    const auto [out, in] = config.shape(static_cast<Target>(t));
    count += config.layers * out * kernels::padded(in);
  }
  return count * static_cast<int64_t>(sizeof(float));
}

Backward::Backward(Executor& executor, const BackwardWeights& weights)
    : executor_(executor), weights_(weights) {
  const Config& config = executor.model().config();
  const int64_t rows = executor.options().rows_max;
  CHECK(executor.options().keep_layers);
  logits_ = floats(std::min(kLossRows, rows) * config.vocabulary);
  dx_ = floats(rows * config.embedding);
  for (auto& buffer : wide_) buffer = floats(rows * widest(config));
  x_ = floats(rows * widest(config));
  scaled_ = floats(rows * widest(config));
  h_ = floats(rows * limits::kRankMax);
  dh_ = floats(rows * limits::kRankMax);
  scratch_ = floats(executor.team().size() * 2 * kernels::padded(executor.options().context_max));
  row_losses_.resize(static_cast<size_t>(rows));
  if (weights.mode() == BackwardWeights::Mode::kResident) {
    windows_.resize(static_cast<size_t>(executor.team().size()));
    return;
  }
  for (int lane = 0; lane < executor.team().size(); ++lane) {
    windows_.push_back(kernels::TransposedWeight::window(BackwardWeights::window_floats(config)));
  }
}

int64_t Backward::bytes(const Config& config, const Executor::Options& executor, int threads,
                        BackwardWeights::Mode mode) {
  const int64_t rows = executor.rows_max;
  const bool streamed = mode == BackwardWeights::Mode::kStreamed;
  const int64_t lane = 2 * kernels::padded(executor.context_max) +
                       (streamed ? BackwardWeights::window_floats(config) : 0);
  return 4 * (std::min(kLossRows, rows) * config.vocabulary + threads * lane +
              rows * (config.embedding + 7 * widest(config) + 2 * limits::kRankMax + 1));
}

struct Backward::Pass {
  Backward& b;
  Lane lane;
  const SlotView* slot = nullptr;
  std::span<const ModuleGradient> gradients = {};
  std::span<const Segment> segments = {};
  Executor& e = b.executor_;
  const Model& model = e.model();
  const Config& config = model.config();
  const int64_t rows = e.rows();

  float* wide(int i) const { return b.wide_[i].data(); }
  kernels::TransposedWeight& window() const {
    return b.windows_[static_cast<size_t>(lane.index())];
  }

  /// dx = gradient of one linear layer's input (skipped where null); adds the module's gradients.
  /// x: its input [rows x in]; y: its output without bias; dy: gradient of y.
  void linear(int layer, Target target, const float* x, const float* y, const float* dy,
              float* dx) const {
    const auto index = static_cast<size_t>(matrix_index(layer, target, config.layers));
    const kernels::AdapterMatrix& matrix = slot->matrices[index];
    const ModuleGradient& gradient = gradients[index];
    const auto [out, in] = config.shape(target);
    const auto [first, last] = lane.share(rows);
    const int64_t n = last - first;
    const float* scaled = dy;
    if (matrix.rank > 0) {
      scaled = b.scaled_.data();
      for (int64_t row = first; row < last; ++row) {
        for (int64_t o = 0; o < out; ++o) {
          b.scaled_[static_cast<size_t>(row * out + o)] = dy[row * out + o] * (1.0f + matrix.d[o]);
        }
      }
      kernels::adapter_down(x + first * in, n, in, matrix.a, matrix.rank,
                            b.h_.data() + first * matrix.rank);
      kernels::adapter_down(dy + first * out, n, out, gradient.b_rows, matrix.rank,
                            b.dh_.data() + first * matrix.rank);
      lane.barrier();
    }
    if (dx != nullptr) {
      const auto [begin, end] = lane.share(kernels::panels_of(in));
      b.weights_.input_gradient(layer, target, scaled, rows, begin, end, window(), dx);
    }
    if (matrix.rank > 0) {
      const auto [in_begin, in_end] = lane.share(in, kernels::kPanel);
      kernels::accumulate_outer(x, rows, in, b.dh_.data(), matrix.rank, in_begin, in_end,
                                gradient.a);
      const auto [out_begin, out_end] = lane.share(out, kernels::kPanel);
      kernels::accumulate_outer(dy, rows, out, b.h_.data(), matrix.rank, out_begin, out_end,
                                gradient.b);
      kernels::accumulate_product(dy, y, rows, out, out_begin, out_end, gradient.product);
    }
    lane.barrier();
    if (dx != nullptr && matrix.rank > 0) {
      kernels::adapter_up(b.dh_.data() + first * matrix.rank, n, matrix.rank, gradient.a_panels, in,
                          dx + first * in);
    }
    lane.barrier();
  }

  void add_rows(const float* x, int64_t width, float* y) const {
    const auto [first, last] = lane.share(rows);
    kernels::add(x + first * width, (last - first) * width, y + first * width);
  }

  /// dx_ += gradient of a norm whose output has gradient `dn`.
  void norm(const float* x, const std::vector<float>& weight, const float* dn) const {
    const int64_t width = config.embedding;
    const auto [first, last] = lane.share(rows);
    kernels::rms_norm_gradient(x + first * width, weight.data(), config.rms_epsilon,
                               dn + first * width, last - first, width,
                               b.dx_.data() + first * width);
  }

  /// The input of the linear layers after a norm, once more, into x_.
  void recompute_norm(const float* x, const std::vector<float>& weight) const {
    const int64_t width = config.embedding;
    const auto [first, last] = lane.share(rows);
    kernels::rms_norm(x + first * width, weight.data(), config.rms_epsilon, last - first, width,
                      b.x_.data() + first * width);
  }

  void feed_forward_half(int layer, LayerActivations& a) const {
    const int64_t width = config.feed_forward;
    const auto [first, last] = lane.share(rows);
    const int64_t offset = first * width;
    const int64_t n = (last - first) * width;
    kernels::silu_mul(a.gate.data() + offset, a.up.data() + offset, n, b.x_.data() + offset);
    lane.barrier();
    linear(layer, Target::kDown, b.x_.data(), a.down.data(), b.dx_.data(), wide(0));
    kernels::silu_mul_gradient(a.gate.data() + offset, a.up.data() + offset, wide(0) + offset, n,
                               wide(1) + offset, wide(2) + offset);
    recompute_norm(a.middle.data(), model.layer(layer).feed_forward_norm);
    lane.barrier();
    linear(layer, Target::kGate, b.x_.data(), a.gate.data(), wide(1), wide(0));
    linear(layer, Target::kUp, b.x_.data(), a.up.data(), wide(2), wide(3));
    add_rows(wide(3), config.embedding, wide(0));
    norm(a.middle.data(), model.layer(layer).feed_forward_norm, wide(0));
    lane.barrier();
  }

  /// Gradients of q, k and v of every sequence: wide(0) -> wide(1), wide(2), wide(3).
  void attention(int layer, LayerActivations& a) const {
    const int64_t dim = config.head_dim;
    const int64_t group = config.heads / config.kv_heads;
    float* scratch =
        b.scratch_.data() + lane.index() * 2 * kernels::padded(e.options().context_max);
    int unit = 0;
    int64_t row = 0;
    for (const Segment& segment : segments) {
      const auto length = static_cast<int64_t>(segment.tokens.size());
      for (int head = 0; head < config.kv_heads; ++head) {
        if (unit++ % lane.count() != lane.index()) continue;
        const int64_t q = row * config.q_dim() + head * group * dim;
        const int64_t kv = row * config.kv_dim() + head * dim;
        kernels::attend_gradient({.q = a.q.data() + q,
                                  .out = a.attention.data() + q,
                                  .dout = wide(0) + q,
                                  .k = segment.cache->keys(layer, head),
                                  .v = segment.cache->values(layer, head),
                                  .dq = wide(1) + q,
                                  .dk = wide(2) + kv,
                                  .dv = wide(3) + kv,
                                  .q_stride = config.q_dim(),
                                  .kv_stride = config.kv_dim(),
                                  .length = length,
                                  .group = group,
                                  .head_dim = dim,
                                  .scale = e.attention_scale()},
                                 scratch);
      }
      row += length;
    }
  }

  /// Turns x (values after norm and RoPE) and dx (their gradient) back to the projection's output
  /// and its gradient, bias taken off, for this lane's rows.
  void unrotate(float* x, float* dx, const float* raw, const std::vector<float>& norm_weight,
                const std::vector<float>& bias, int64_t heads) const {
    const int64_t dim = config.head_dim;
    const int64_t width = heads * dim;
    const auto [first, last] = lane.share(rows);
    for (int64_t row = first; row < last; ++row) {
      const int64_t position = e.position(row);
      for (float* values : {x + row * width, dx + row * width}) {
        kernels::rope(values, heads, dim, config.rotary_dims, e.rope_cos(position),
                      e.rope_sin(position), config.rope_interleaved, true);
      }
      if (config.qk_norm)
        unnorm(x + row * width, dx + row * width, raw + row * width, norm_weight, heads);
      if (!bias.empty()) {
        for (int64_t i = 0; i < width; ++i) x[row * width + i] -= bias[static_cast<size_t>(i)];
      }
    }
  }

  void unnorm(float* x, float* dx, const float* raw, const std::vector<float>& weight,
              int64_t heads) const {
    const int64_t dim = config.head_dim;
    std::array<float, limits::kHeadDimMax> dn;
    for (int64_t head = 0; head < heads; ++head) {
      std::copy_n(dx + head * dim, dim, dn.data());
      std::fill_n(dx + head * dim, dim, 0.0f);
      kernels::rms_norm_gradient(raw + head * dim, weight.data(), config.rms_epsilon, dn.data(), 1,
                                 dim, dx + head * dim);
    }
    std::copy_n(raw, heads * dim, x);
  }

  void subtract_bias(float* x, const std::vector<float>& bias, int64_t width) const {
    if (bias.empty()) return;
    const auto [first, last] = lane.share(rows);
    for (int64_t row = first; row < last; ++row) {
      for (int64_t i = 0; i < width; ++i) x[row * width + i] -= bias[static_cast<size_t>(i)];
    }
  }

  void attention_half(int index, LayerActivations& a) const {
    const Layer& layer = model.layer(index);
    linear(index, Target::kO, a.attention.data(), a.o.data(), b.dx_.data(), wide(0));
    attention(index, a);
    recompute_norm(a.input.data(), layer.attention_norm);
    lane.barrier();
    unrotate(a.q.data(), wide(1), a.q_raw.data(), layer.q_norm, layer.q_bias, config.heads);
    unrotate(a.k.data(), wide(2), a.k_raw.data(), layer.k_norm, layer.k_bias, config.kv_heads);
    subtract_bias(a.v.data(), layer.v_bias, config.kv_dim());
    lane.barrier();
    const bool bottom = index == 0;  // the embedding is frozen
    linear(index, Target::kQ, b.x_.data(), a.q.data(), wide(1), bottom ? nullptr : wide(0));
    linear(index, Target::kK, b.x_.data(), a.k.data(), wide(2), bottom ? nullptr : wide(4));
    if (!bottom) add_rows(wide(4), config.embedding, wide(0));
    lane.barrier();
    linear(index, Target::kV, b.x_.data(), a.v.data(), wide(3), bottom ? nullptr : wide(4));
    if (bottom) return;
    add_rows(wide(4), config.embedding, wide(0));
    norm(a.input.data(), layer.attention_norm, wide(0));
    lane.barrier();
  }

  void blocks() const {
    for (int index = config.layers - 1; index >= 0; --index) {
      LayerActivations& a = e.activations().layer(index);
      feed_forward_half(index, a);
      attention_half(index, a);
    }
  }

  /// One chunk of loss rows: logits_ -> losses, and the gradient down to dx_.
  void loss_chunk(std::span<const int32_t> chunk, std::span<const Token> targets, float weight,
                  float* losses) const {
    const auto n = static_cast<int64_t>(chunk.size());
    const int64_t width = config.embedding;
    const auto [first, last] = lane.share(n);
    for (int64_t i = first; i < last; ++i) {
      const auto u = static_cast<size_t>(i);
      losses[i] = kernels::cross_entropy_gradient(b.logits_.data() + i * config.vocabulary,
                                                  config.vocabulary, targets[u], weight);
    }
    lane.barrier();
    const auto [begin, end] = lane.share(kernels::panels_of(width));
    b.weights_.input_gradient(0, Target::kOutput, b.logits_.data(), n, begin, end, window(),
                              wide(0));
    lane.barrier();
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = chunk[static_cast<size_t>(i)];
      kernels::rms_norm_gradient(e.activations().output() + row * width, model.output_norm().data(),
                                 config.rms_epsilon, wide(0) + i * width, 1, width,
                                 b.dx_.data() + row * width);
    }
  }
};

double Backward::loss(std::span<const int32_t> rows, std::span<const Token> targets, float weight) {
  CHECK(rows.size() == targets.size());
  const int64_t width = executor_.model().config().embedding;
  std::fill_n(dx_.data(), executor_.rows() * width, 0.0f);
  double sum = 0;
  for (size_t at = 0; at < rows.size(); at += kLossRows) {
    const size_t n = std::min(rows.size() - at, static_cast<size_t>(kLossRows));
    const auto chunk = rows.subspan(at, n);
    executor_.logits(chunk, logits_.data());
    executor_.team().run([&](Lane lane) {
      Pass{*this, lane}.loss_chunk(chunk, targets.subspan(at, n), weight, row_losses_.data());
    });
    for (size_t i = 0; i < n; ++i) sum += row_losses_[i];
  }
  return sum;
}

void Backward::propagate(std::span<const Segment> segments, const SlotView& slot,
                         std::span<const ModuleGradient> gradients) {
  CHECK(gradients.size() == slot.matrices.size());
  executor_.team().run([&](Lane lane) { Pass{*this, lane, &slot, gradients, segments}.blocks(); });
}

}  // namespace retort::engine
