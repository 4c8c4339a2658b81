#include <array>
#include <cmath>

#include "adapter/crystallise.h"
#include "adapter/peft.h"
#include "adapter/peft_config.h"
#include "adapter/peft_rows.h"
#include "adapter/safetensors.h"
#include "base/json.h"

namespace retort::adapter {
namespace {

using base::Code;
using base::Json;
using base::Result;
using engine::Target;

/// For GGUF row `row` of a head of `dim` rows: the row in the checkpoint's order. Pair (2i, 2i + 1)
/// of the GGUF is (i, i + dim / 2) of the checkpoint.
int64_t checkpoint_row(int64_t row, int64_t dim) {
  const int64_t head = row / dim, within = row % dim;
  return head * dim + within % 2 * (dim / 2) + within / 2;
}

std::vector<float> permute(std::vector<float> rows, const ModuleWeights& module,
                           const engine::Config& config, bool to_peft) {
  const bool turned = module.target == Target::kQ || module.target == Target::kK;
  if (!config.rope_interleaved || !turned) return rows;
  const auto width = rows.size() / static_cast<size_t>(module.out);
  std::vector<float> result(rows.size());
  for (int64_t row = 0; row < module.out; ++row) {
    const auto ours = static_cast<size_t>(row);
    const auto theirs = static_cast<size_t>(checkpoint_row(row, config.head_dim));
    const size_t from = to_peft ? ours : theirs, to = to_peft ? theirs : ours;
    std::copy_n(rows.data() + from * width, width, result.data() + to * width);
  }
  return result;
}

Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

/// Short names where every layer has the target, else whole paths: PEFT would otherwise create
/// adapters in layers that have none.
Json target_modules(const AdapterWeights& adapter, int layers) {
  std::array<int, engine::kLayerTargets + 1> counts{};
  for (const ModuleWeights& module : adapter.modules) ++counts[static_cast<size_t>(module.target)];
  Json names = Json::array();
  for (size_t t = 0; t < counts.size(); ++t) {
    const auto target = static_cast<Target>(t);
    if (counts[t] == (target == Target::kOutput ? 1 : layers)) {
      names.push_back(engine::target_name(target));
      counts[t] = 0;
    }
  }
  for (const ModuleWeights& module : adapter.modules) {
    if (counts[static_cast<size_t>(module.target)] > 0) names.push_back(peft_path(module));
  }
  return names;
}

Json config_json(const AdapterWeights& adapter, int layers, std::string_view base_name) {
  Json ranks = Json::object(), alphas = Json::object();
  for (const ModuleWeights& module : adapter.modules) {
    if (module.rank != adapter.rank) ranks[peft_path(module)] = module.rank;
    const double usual = peft_scale(adapter.alpha, module.rank, adapter.rslora);
    if (static_cast<float>(usual) == module.scale) continue;
    // The alpha that gives this scale: exact in double, rounded back to the same float on import.
    const double unit = peft_scale(1.0, module.rank, adapter.rslora);
    alphas[peft_path(module)] = number(module.scale / unit);
  }
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base_name},
          {"r", adapter.rank},
          {"lora_alpha", number(adapter.alpha)},
          {"lora_dropout", 0.0},
          {"use_dora", adapter.dora},
          {"use_rslora", adapter.rslora},
          {"rank_pattern", ranks},
          {"alpha_pattern", alphas},
          {"target_modules", target_modules(adapter, layers)},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"init_lora_weights", true},
          {"inference_mode", true},
          {"layers_to_transform", nullptr},
          {"modules_to_save", nullptr}};
}

std::string model_file(const AdapterWeights& adapter, const engine::Config& config) {
  std::vector<std::vector<float>> permuted;  // keeps the values alive; reserved, so it stays put
  permuted.reserve(2 * adapter.modules.size());
  std::vector<FloatTensor> tensors;
  for (const ModuleWeights& module : adapter.modules) {
    const std::string stem = "base_model.model." + peft_path(module);
    tensors.push_back({stem + ".lora_A.weight", {module.rank, module.in}, module.a});
    permuted.push_back(rows_to_peft(module.b, module, config));
    tensors.push_back({stem + ".lora_B.weight", {module.out, module.rank}, permuted.back()});
    if (module.m.empty()) continue;
    permuted.push_back(rows_to_peft(module.m, module, config));
    tensors.push_back({stem + ".lora_magnitude_vector", {module.out}, permuted.back()});
  }
  return write_safetensors(tensors);
}

}  // namespace

std::vector<float> rows_from_peft(std::vector<float> rows, const ModuleWeights& module,
                                  const engine::Config& config) {
  return permute(std::move(rows), module, config, false);
}

std::vector<float> rows_to_peft(std::vector<float> rows, const ModuleWeights& module,
                                const engine::Config& config) {
  return permute(std::move(rows), module, config, true);
}

std::string peft_path(const ModuleWeights& module) {
  const std::string_view name = engine::target_name(module.target);
  if (module.target == Target::kOutput) return std::string(name);
  const char* block = module.target <= Target::kO ? "self_attn" : "mlp";
  return fmt::format("model.layers.{}.{}.{}", module.layer, block, name);
}

Result<void> save_peft(const base::Path& directory, const AdapterWeights& adapter,
                       const engine::Config& config, std::string_view base_name) {
  TRY(check_weights(adapter, SlotBase::of(config, {})));
  for (const ModuleWeights& module : adapter.modules) {
    if (module.m.empty() != adapter.dora) continue;
    return make_error(Code::kUnsupported,
                      "{}: PEFT knows DoRA for all layers or for none; this adapter mixes them",
                      peft_path(module));
  }
  TRY(base::create_directories(directory));
  TRY(base::write_file_atomic(directory / kPeftModelFile, model_file(adapter, config)));
  const std::string text = base::dump_json(config_json(adapter, config.layers, base_name), 2);
  return base::write_file_atomic(directory / kPeftConfigFile, text + "\n");
}

}  // namespace retort::adapter
