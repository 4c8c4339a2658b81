// Adapters with random values on all seven projections, to measure with: their speed does not
// depend on what they learned.
#pragma once

#include <cstdint>

#include "adapter/slot.h"
#include "base/disk.h"
#include "base/result.h"
#include "engine/model.h"
#include "kernels/weight.h"

namespace retort::app {

inline constexpr int64_t kBenchRank = 16;

/// A DoRA in serving form, sealed. It changes the base's output a little, as a trained one does.
kernels::AlignedArray<std::byte> random_slot(const adapter::SlotBase& base, uint64_t seed);

/// A LoRA of the same shape as a GGUF file in F16, as libllama reads it.
[[nodiscard]] base::Result<void> write_random_lora(const base::Path& path,
                                                   const engine::Config& config, uint64_t seed);

}  // namespace retort::app
