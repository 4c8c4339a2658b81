#include "adapter/crystallise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/limits.h"

namespace retort::adapter {
namespace {

using base::Code;
using base::Result;

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

int index_of(const ModuleWeights& module, const SlotBase& base) {
  return engine::matrix_index(module.layer, module.target, base.layers);
}

Result<void> check_module(const ModuleWeights& module, const SlotBase& base) {
  const int index = index_of(module, base);
  if (module.layer < 0 || index >= base.matrices()) {
    return make_error(Code::kMismatch, "{} of layer {}: the base has {} layers",
                      target_name(module.target), module.layer, base.layers);
  }
  const std::string name = base.matrix_name(index);
  const auto [out, in] = base.shape(index);
  if (module.out != out || module.in != in) {
    return make_error(Code::kMismatch, "{}: the adapter is {} x {}, the base {} x {}", name,
                      module.out, module.in, out, in);
  }
  if (module.rank < 1 || module.rank > limits::kRankMax) {
    return make_error(Code::kLimit, "{}: rank {} is not in 1..{}", name, module.rank,
                      limits::kRankMax);
  }
  const auto sized = [&](const std::vector<float>& v, int64_t n) {
    return v.size() == static_cast<size_t>(n);
  };
  if (!sized(module.a, module.rank * in) || !sized(module.b, out * module.rank) ||
      (!module.m.empty() && !sized(module.m, out))) {
    return make_error(Code::kInvalidInput, "{}: a factor's size does not fit its shape", name);
  }
  if (!std::isfinite(module.scale) || !all_finite(module.a) || !all_finite(module.b) ||
      !all_finite(module.m)) {
    return make_error(Code::kInvalidInput, "{}: a value is infinite or not a number", name);
  }
  return {};
}

/// True if a binary16 stands at the end of its range or beyond: the fold saturated there.
bool saturated(std::span<const kernels::Half> values) {
  bool found = false;
  for (const kernels::Half value : values) found |= (value & 0x7fff) >= 0x7bff;
  return found;
}

}  // namespace

BaseWeights BaseWeights::of(const engine::Model& model) {
  BaseWeights base;
  base.shape = SlotBase::of(model.config(), model.fingerprint());
  for (int i = 0; i < base.shape.matrices(); ++i) {
    const engine::Target target = base.shape.target(i);
    base.matrices.push_back(target == engine::Target::kOutput
                                ? &model.output()
                                : &model.weight(i / engine::kLayerTargets, target));
  }
  return base;
}

Result<void> check_weights(const AdapterWeights& adapter, const SlotBase& base) {
  if (adapter.modules.empty()) return make_error(Code::kInvalidInput, "it adapts no module");
  int last = -1;
  for (const ModuleWeights& module : adapter.modules) {
    TRY(check_module(module, base));
    const int index = index_of(module, base);
    if (index <= last) {
      return make_error(Code::kInvalidInput, "{}: given twice or out of order",
                        base.matrix_name(index));
    }
    last = index;
  }
  return {};
}

Result<Crystalliser> Crystalliser::create(const AdapterWeights& adapter, const BaseWeights& base,
                                          int lanes) {
  TRY(check_weights(adapter, base.shape));
  std::vector<int32_t> ranks(static_cast<size_t>(base.shape.matrices()));
  for (const ModuleWeights& module : adapter.modules) {
    ranks[static_cast<size_t>(index_of(module, base.shape))] = static_cast<int32_t>(module.rank);
  }
  const SlotLayout layout(base.shape, ranks);
  Crystalliser result;
  result.base_ = base.shape;
  result.lanes_ = lanes;
  result.bytes_ = kernels::AlignedArray<std::byte>(layout.bytes);
  std::memset(result.bytes_.data(), 0, layout.bytes);
  write_slot_frame(base.shape, layout, result.bytes_.span());
  result.matrices_.resize(ranks.size());
  view_slot(result.bytes_.span(), result.matrices_);
  result.view_.matrices = result.matrices_;
  result.place_modules(adapter, base, layout);
  return result;
}

void Crystalliser::place_modules(const AdapterWeights& adapter, const BaseWeights& base,
                                 const SlotLayout& layout) {
  int64_t floats = 0, outs = 0;
  for (const ModuleWeights& module : adapter.modules) {
    floats += 2 * module.out + fold_gram_floats(module.rank);
    outs += module.out;
    scratch_floats_ = std::max(scratch_floats_, fold_scratch_floats(module.in, module.rank));
  }
  floats_ = kernels::AlignedArray<float>(static_cast<size_t>(floats + lanes_ * scratch_floats_));
  norms_squared_ = kernels::AlignedArray<double>(static_cast<size_t>(outs));
  float* next = floats_.data();
  double* norms = norms_squared_.data();
  for (const ModuleWeights& weights : adapter.modules) {
    Module module;
    module.index = index_of(weights, base.shape);
    module.weight = base.matrices[static_cast<size_t>(module.index)];
    module.out = weights.out, module.in = weights.in, module.rank = weights.rank;
    module.dora = !weights.m.empty();
    const SlotEntry& entry = layout.entries[static_cast<size_t>(module.index)];
    module.output.a = reinterpret_cast<kernels::Half*>(bytes_.data() + entry.a);
    module.output.b = reinterpret_cast<kernels::Half*>(bytes_.data() + entry.b);
    module.output.d = reinterpret_cast<float*>(bytes_.data() + entry.d);
    module.output.c = next;
    module.output.norm = next + module.out;
    module.gram = next + 2 * module.out;
    next = module.gram + fold_gram_floats(module.rank);
    module.norms_squared = norms;
    norms += module.out;
    modules_.push_back(module);
  }
  scratch_ = next;
}

float* Crystalliser::scratch(const base::Lane& lane) {
  CHECK(lane.index() < lanes_, "lane={} lanes={}", lane.index(), lanes_);
  return scratch_ + lane.index() * scratch_floats_;
}

FoldInput Crystalliser::input(const Module& module, const ModuleWeights& weights) const {
  CHECK(module.rank == weights.rank && module.out == weights.out && module.in == weights.in &&
        module.dora == !weights.m.empty());
  return {module.weight,
          measured_ ? module.norms_squared : nullptr,
          module.out,
          module.in,
          module.rank,
          weights.scale,
          weights.a.data(),
          weights.b.data(),
          module.dora ? weights.m.data() : nullptr};
}

void Crystalliser::measure(const base::Lane& lane) {
  for (Module& module : modules_) {
    if (!module.dora) continue;
    const auto [begin, end] = lane.share(module.out);
    row_norms_squared(*module.weight, begin, end, scratch(lane), module.norms_squared);
  }
  if (lane.index() == 0) measured_ = true;
}

void Crystalliser::fold(const base::Lane& lane, const AdapterWeights& adapter) {
  CHECK(adapter.modules.size() == modules_.size());
  float* const own = scratch(lane);
  const auto lane_index = static_cast<size_t>(lane.index());
  const auto lane_count = static_cast<size_t>(lane.count());
  for (size_t i = lane_index; i < modules_.size(); i += lane_count) {
    fold_down(input(modules_[i], adapter.modules[i]), modules_[i].output, modules_[i].gram, own);
  }
  lane.barrier();
  for (size_t i = 0; i < modules_.size(); ++i) {
    const Module& module = modules_[i];
    const auto [begin, end] = lane.share(kernels::panels_of(module.out));
    fold_up(input(module, adapter.modules[i]), module.output, module.gram, begin, end, own);
  }
}

std::span<const float> Crystalliser::c(int module) const {
  const Module& m = modules_[static_cast<size_t>(module)];
  return {m.output.c, static_cast<size_t>(m.out)};
}

std::span<const float> Crystalliser::norm(int module) const {
  const Module& m = modules_[static_cast<size_t>(module)];
  return {m.output.norm, static_cast<size_t>(m.out)};
}

std::span<const double> Crystalliser::base_norms_squared(int module) const {
  CHECK(measured_);
  const Module& m = modules_[static_cast<size_t>(module)];
  return {m.norms_squared, static_cast<size_t>(m.out)};
}

Result<std::span<const std::byte>> Crystalliser::seal() {
  for (const Module& module : modules_) {
    const auto rank = static_cast<size_t>(padded_rank(module.rank));
    const auto outs = static_cast<size_t>(kernels::padded(module.out));
    if (saturated({module.output.a, static_cast<size_t>(module.in) * rank}) ||
        saturated({module.output.b, outs * rank}) || !all_finite({module.output.d, outs})) {
      return make_error(Code::kLimit, "{}: a value is too large for 16-bit floats",
                        base_.matrix_name(module.index));
    }
  }
  seal_slot(bytes_.span());
  SlotHeader header;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  view_.content = header.content;
  return std::span<const std::byte>(bytes_.span());
}

Result<kernels::AlignedArray<std::byte>> build_slot(const AdapterWeights& adapter,
                                                    const BaseWeights& base, base::Team& team) {
  TRY_ASSIGN(Crystalliser crystalliser, Crystalliser::create(adapter, base, team.size()));
  team.run([&](const base::Lane& lane) { crystalliser.fold(lane, adapter); });
  TRY_ASSIGN(const std::span<const std::byte> bytes, crystalliser.seal());
  kernels::AlignedArray<std::byte> copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

void set_initial_magnitudes(AdapterWeights& adapter, const BaseWeights& base, base::Team& team) {
  int64_t widest = 0, tallest = 0;
  for (const ModuleWeights& module : adapter.modules) {
    widest = std::max(widest, module.in);
    tallest = std::max(tallest, module.out);
  }
  kernels::AlignedArray<float> scratch(static_cast<size_t>(widest * team.size()));
  std::vector<double> squared(static_cast<size_t>(tallest));
  for (ModuleWeights& module : adapter.modules) {
    const auto& weight = *base.matrices[static_cast<size_t>(index_of(module, base.shape))];
    team.run([&](const base::Lane& lane) {
      const auto [begin, end] = lane.share(module.out);
      row_norms_squared(weight, begin, end, scratch.data() + lane.index() * widest, squared.data());
    });
    module.m.resize(static_cast<size_t>(module.out));
    for (size_t i = 0; i < module.m.size(); ++i) {
      module.m[i] = static_cast<float>(std::sqrt(squared[i]));
    }
  }
}

}  // namespace retort::adapter
