#include "app/bench/profile.h"

#include <array>
#include <cmath>
#include <cstring>

#include "app/bench/timing.h"
#include "engine/kv_cache.h"
#include "kernels/kernels.h"

namespace retort::app {
namespace {

using base::Lane;
using kernels::Weight;

constexpr int64_t kLength = 512;
constexpr int kPasses = 9;

/// A row as input of any matrix of the model, and room for any output.
struct Row {
  explicit Row(const engine::Config& config)
      : width(std::max({config.embedding, config.q_dim(), config.feed_forward})),
        x(static_cast<size_t>(width), 0.5f),
        q(x.size()),
        scale(x.size() / 32),
        sum(x.size() / 32),
        y(static_cast<size_t>(kernels::padded(std::max(width, config.vocabulary)))) {}

  kernels::Activations input(int64_t cols) {
    return {x.data(), q.data(), scale.data(), sum.data(), cols};
  }

  int64_t width;
  std::vector<float> x;
  std::vector<int8_t> q;
  std::vector<float> scale, sum, y;
};

double median_of_passes(base::Team& team, const auto& body) {
  std::vector<double> samples;
  for (int pass = 0; pass < kPasses; ++pass) samples.push_back(seconds_of([&] { team.run(body); }));
  return median(std::move(samples));
}

double time_matrices(base::Team& team, std::span<const Weight* const> matrices, Row& row) {
  return median_of_passes(team, [&](Lane lane) {
    for (const Weight* w : matrices) {
      const auto [begin, end] = lane.share(kernels::panels_of(w->out()));
      kernels::linear(*w, nullptr, row.input(w->in()), 1, {}, begin, end, row.y.data());
      lane.barrier();
    }
  });
}

double time_attention(const engine::Config& config, base::Team& team, Row& row) {
  engine::KvCache cache = engine::KvCache::create(config, kLength).value();
  const int64_t group = config.heads / config.kv_heads, dim = config.head_dim;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (int head = 0; head < config.kv_heads; ++head) {
      std::memset(cache.keys(layer, head), 0,
                  sizeof(kernels::Half) * static_cast<size_t>(kLength * dim));
      std::memset(cache.values(layer, head), 0,
                  sizeof(kernels::Half) * static_cast<size_t>(kLength * dim));
    }
  }
  const int64_t stride = group * kernels::padded(kLength);
  std::vector<float> scores(static_cast<size_t>(stride * team.size()));
  return median_of_passes(team, [&](Lane lane) {
    for (int layer = 0; layer < config.layers; ++layer) {
      for (int head = lane.index(); head < config.kv_heads; head += lane.count()) {
        kernels::attend(row.x.data(), group, cache.keys(layer, head), cache.values(layer, head),
                        kLength, dim, 0.125f, scores.data() + lane.index() * stride,
                        row.y.data() + head * group * dim);
      }
      lane.barrier();
    }
  });
}

std::vector<const Weight*> matrices_of(const engine::Model& model,
                                       std::span<const engine::Target> targets) {
  std::vector<const Weight*> matrices;
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (const engine::Target target : targets) matrices.push_back(&model.weight(layer, target));
  }
  return matrices;
}

}  // namespace

void profile_decode(const engine::Model& model, base::Team& team, std::string_view name,
                    BenchReport& report) {
  using engine::Target;
  constexpr std::array kAttention = {Target::kQ, Target::kK, Target::kV, Target::kO};
  constexpr std::array kFeedForward = {Target::kGate, Target::kUp, Target::kDown};
  Row row(model.config());
  kernels::quantize_rows(row.input(row.width), 0, 1);
  const std::array<const Weight*, 1> output = {&model.output()};
  const auto attention_matrices = matrices_of(model, kAttention);
  const auto feed_forward_matrices = matrices_of(model, kFeedForward);
  const double a = time_matrices(team, attention_matrices, row);
  const double f = time_matrices(team, feed_forward_matrices, row);
  const double o = time_matrices(team, output, row);
  double bytes = static_cast<double>(model.output().bytes());
  for (const auto* group : {&attention_matrices, &feed_forward_matrices}) {
    for (const Weight* w : *group) bytes += static_cast<double>(w->bytes());
  }
  const auto add = [&](std::string_view part, double value) {
    report.add(fmt::format("profile_{}.{}", part, name), value);
  };
  add("attention_matrices_ms", a * 1e3);
  add("feed_forward_matrices_ms", f * 1e3);
  add("output_matrix_ms", o * 1e3);
  add("attention_ms", time_attention(model.config(), team, row) * 1e3);
  add("matrices_gb_per_s", bytes / (a + f + o) * 1e-9);
}

}  // namespace retort::app
