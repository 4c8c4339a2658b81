// The members, for all.cc only.
#pragma once

#include "engine/arch/arch.h"

namespace retort::engine::arch {

const Architecture& llama();
const Architecture& qwen2();
const Architecture& qwen3();

}  // namespace retort::engine::arch
