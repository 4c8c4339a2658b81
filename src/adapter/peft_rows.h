// What PEFT import and export share: file names, module paths and the order of rows.
#pragma once

#include <string>
#include <vector>

#include "adapter/weights.h"
#include "engine/model.h"

namespace retort::adapter {

inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftModelFile = "adapter_model.safetensors";

/// Rows of B ([out x rank]) or m ([out]) of a module, from PEFT's order to the GGUF's and back. A
/// plain copy except for q and k where Config::rope_interleaved.
std::vector<float> rows_from_peft(std::vector<float> rows, const ModuleWeights& module,
                                  const engine::Config& config);
std::vector<float> rows_to_peft(std::vector<float> rows, const ModuleWeights& module,
                                const engine::Config& config);

/// "model.layers.3.self_attn.q_proj", "lm_head".
std::string peft_path(const ModuleWeights& module);

}  // namespace retort::adapter
