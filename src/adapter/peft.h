// PEFT adapter directories: adapter_config.json and adapter_model.safetensors, A, B and m unfolded,
// in and out. What Retort cannot apply exactly is refused by name.
//
// Rows. Llama-architecture GGUFs keep the rows of q and k in the order of interleaved rotary pairs;
// PEFT keeps the checkpoint's order (two halves). With Config::rope_interleaved the rows of B and m
// of q_proj (by heads) and k_proj (by KV heads) are permuted on the way in and back on the way out.
//
// Import then export keeps every value bit for bit; tensors are written as F32, which holds F16 and
// BF16 exactly.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/weights.h"
#include "base/disk.h"
#include "engine/model.h"

namespace retort::adapter {

/// From a directory (or its only subfolder, where PEFT puts an adapter that is not called
/// "default"). Shapes are checked against `config`. `warnings`, if given, receives what differs
/// from the file's own description but is harmless: patterns and targets that match nothing.
[[nodiscard]] base::Result<AdapterWeights> load_peft(const base::Path& directory,
                                                     const engine::Config& config,
                                                     std::vector<std::string>* warnings = nullptr);

/// The same from memory.
[[nodiscard]] base::Result<AdapterWeights> parse_peft(std::string_view adapter_config,
                                                      std::span<const std::byte> safetensors,
                                                      const engine::Config& config,
                                                      std::vector<std::string>* warnings = nullptr);

/// Writes the directory, creating it. Tensors first, then the configuration, each atomically: a
/// directory with a configuration is whole. `base_name` goes to base_model_name_or_path.
[[nodiscard]] base::Result<void> save_peft(const base::Path& directory,
                                           const AdapterWeights& adapter,
                                           const engine::Config& config,
                                           std::string_view base_name);

}  // namespace retort::adapter
