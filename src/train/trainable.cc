#include "train/trainable.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace retort::train {
namespace {

using adapter::ModuleWeights;
using base::Lane;
using kernels::AlignedArray;
using kernels::Half;

template <class T>
AlignedArray<T> zeros(int64_t n) {
  AlignedArray<T> array(static_cast<size_t>(n));
  std::fill_n(array.data(), n, T{});
  return array;
}

}  // namespace

adapter::AdapterWeights initial_weights(const engine::Model& model, const Options& options,
                                        base::Team& team) {
  const engine::Config& config = model.config();
  adapter::AdapterWeights weights{options.rank, options.alpha, options.dora, options.rslora, {}};
  for (int layer = 0; layer < config.layers; ++layer) {
    for (int t = 0; t < engine::kLayerTargets; ++t) {
      const int64_t own = options.target_ranks[static_cast<size_t>(t)];
      if (own < 0) continue;
      const auto target = static_cast<engine::Target>(t);
      const auto [out, in] = config.shape(target);
      ModuleWeights module{.layer = layer,
                           .target = target,
                           .out = out,
                           .in = in,
                           .rank = own > 0 ? own : options.rank};
      const auto r = static_cast<float>(module.rank);
      module.scale = options.alpha / (options.rslora ? std::sqrt(r) : r);
      base::Rng rng(options.seed, static_cast<uint64_t>(layer * engine::kLayerTargets + t));
      const double bound = 1.0 / std::sqrt(static_cast<double>(in));
      module.a.resize(static_cast<size_t>(module.rank * in));
      for (float& x : module.a) x = static_cast<float>((2 * rng.uniform() - 1) * bound);
      module.b.assign(static_cast<size_t>(out * module.rank), 0.0f);
      weights.modules.push_back(std::move(module));
    }
  }
  if (options.dora) {
    adapter::set_initial_magnitudes(weights, adapter::BaseWeights::of(model), team);
  }
  return weights;
}

struct Trainable::Module {
  const kernels::AdapterMatrix& serving;
  std::span<const float> c, norm;
  // The serving form as the backward pass reads it: A as panels, B' as rows.
  AlignedArray<Half> a_panels, b_rows;
  // Gradients of the serving form, then of the masters, and AdamW's moments of the latter.
  AlignedArray<float> serving_a, serving_b, product;
  std::vector<float> gradient_a, gradient_b, gradient_m;
  std::vector<float> moments[6];  // first of a, b, m; second of a, b, m
  double sum_of_squares = 0;

  Module(const ModuleWeights& w, const kernels::AdapterMatrix& matrix,
         std::span<const float> scales, std::span<const float> norms)
      : serving(matrix),
        c(scales),
        norm(norms),
        a_panels(zeros<Half>(kernels::padded(w.in) * matrix.rank)),
        b_rows(zeros<Half>(w.out * matrix.rank)),
        serving_a(zeros<float>(w.in * matrix.rank)),
        serving_b(zeros<float>(w.out * matrix.rank)),
        product(zeros<float>(w.out)),
        gradient_a(w.a.size()),
        gradient_b(w.b.size()),
        gradient_m(w.m.size()) {
    const std::vector<float>* parameters[] = {&w.a, &w.b, &w.m};
    for (size_t i = 0; i < 6; ++i) moments[i].assign(parameters[i % 3]->size(), 0.0f);
  }

  void transpose(const ModuleWeights& w) {
    constexpr int64_t kPanel = kernels::kPanel;
    const int64_t rank = serving.rank;
    for (int64_t k = 0; k < w.in; ++k) {
      Half* panel = a_panels.data() + k / kPanel * rank * kPanel;
      for (int64_t r = 0; r < rank; ++r) panel[r * kPanel + k % kPanel] = serving.a[k * rank + r];
    }
    for (int64_t o = 0; o < w.out; ++o) {
      const Half* panel = serving.b + o / kPanel * rank * kPanel;
      Half* row = b_rows.data() + o * rank;
      for (int64_t r = 0; r < rank; ++r) row[r] = panel[r * kPanel + o % kPanel];
    }
  }

  /// B' = c s B and c = m / norm, norm a constant.
  void finish(const ModuleWeights& w) {
    const int64_t rank = serving.rank;
    for (int64_t r = 0; r < w.rank; ++r) {
      for (int64_t k = 0; k < w.in; ++k) {
        gradient_a[static_cast<size_t>(r * w.in + k)] =
            serving_a[static_cast<size_t>(k * rank + r)];
      }
    }
    for (int64_t o = 0; o < w.out; ++o) {
      const auto row = static_cast<size_t>(o);
      const float factor = c[row] * w.scale;
      for (int64_t r = 0; r < w.rank; ++r) {
        gradient_b[static_cast<size_t>(o * w.rank + r)] =
            factor * serving_b[static_cast<size_t>(o * rank + r)];
      }
      if (w.m.empty()) continue;
      gradient_m[row] = c[row] != 0 ? product[row] / (c[row] * norm[row]) : 0.0f;
    }
    sum_of_squares = 0;
    for (const auto* g : {&gradient_a, &gradient_b, &gradient_m}) {
      sum_of_squares += kernels::sum_of_squares(g->data(), static_cast<int64_t>(g->size()));
    }
  }
};

Trainable::Trainable(const engine::Model& model, adapter::AdapterWeights weights, base::Team& team)
    : weights_(std::move(weights)),
      crystalliser_(
          adapter::Crystalliser::create(weights_, adapter::BaseWeights::of(model), team.size())
              .value()),
      gradients_(crystalliser_.view().matrices.size()) {
  for (size_t i = 0; i < weights_.modules.size(); ++i) {
    const ModuleWeights& w = weights_.modules[i];
    const auto index =
        static_cast<size_t>(engine::matrix_index(w.layer, w.target, model.config().layers));
    const int at = static_cast<int>(i);
    modules_.push_back(std::make_unique<Module>(w, crystalliser_.view().matrices[index],
                                                crystalliser_.c(at), crystalliser_.norm(at)));
    Module& module = *modules_.back();
    gradients_[index] = {module.a_panels.data(), module.b_rows.data(), module.serving_a.data(),
                         module.serving_b.data(), module.product.data()};
  }
  team.run([&](Lane lane) {
    crystalliser_.measure(lane);
    lane.barrier();
    fold(lane);
  });
}

Trainable::~Trainable() = default;

int64_t Trainable::parameters() const {
  size_t n = 0;
  for (const ModuleWeights& w : weights_.modules) n += w.a.size() + w.b.size() + w.m.size();
  return static_cast<int64_t>(n);
}

void Trainable::fold(Lane lane) {
  crystalliser_.fold(lane, weights_);
  lane.barrier();
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (static_cast<int>(i) % lane.count() == lane.index())
      modules_[i]->transpose(weights_.modules[i]);
  }
  lane.barrier();
}

void Trainable::clear_gradients(Lane lane) {
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (static_cast<int>(i) % lane.count() != lane.index()) continue;
    for (auto* g : {&modules_[i]->serving_a, &modules_[i]->serving_b, &modules_[i]->product}) {
      std::fill_n(g->data(), g->size(), 0.0f);
    }
  }
  lane.barrier();
}

double Trainable::finish_gradients(Lane lane) {
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (static_cast<int>(i) % lane.count() == lane.index())
      modules_[i]->finish(weights_.modules[i]);
  }
  lane.barrier();
  double sum = 0;
  for (const auto& module : modules_) sum += module->sum_of_squares;
  return std::sqrt(sum);
}

void Trainable::update(Lane lane, const kernels::AdamW& options) {
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (static_cast<int>(i) % lane.count() != lane.index()) continue;
    Module& module = *modules_[i];
    ModuleWeights& w = weights_.modules[i];
    std::vector<float>* parameters[] = {&w.a, &w.b, &w.m};
    const std::vector<float>* gradients[] = {&module.gradient_a, &module.gradient_b,
                                             &module.gradient_m};
    for (size_t p = 0; p < 3; ++p) {
      kernels::adamw(options, gradients[p]->data(), static_cast<int64_t>(gradients[p]->size()),
                     parameters[p]->data(), module.moments[p].data(), module.moments[p + 3].data());
    }
  }
  lane.barrier();
}

std::vector<std::span<float>> Trainable::state() {
  std::vector<std::span<float>> spans;
  for (ModuleWeights& w : weights_.modules) {
    for (std::vector<float>* values : {&w.a, &w.b, &w.m}) spans.emplace_back(*values);
  }
  for (const auto& module : modules_) {
    for (std::vector<float>& values : module->moments) spans.emplace_back(values);
  }
  return spans;
}

std::array<std::span<const float>, 3> Trainable::module_gradients(size_t i) const {
  const Module& module = *modules_[i];
  return {module.gradient_a, module.gradient_b, module.gradient_m};
}

}  // namespace retort::train
