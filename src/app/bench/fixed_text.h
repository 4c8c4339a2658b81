// The text that benchmarks run on: the same tokens on every machine.
#pragma once

#include <vector>

#include "engine/vocabulary.h"

namespace retort::app {

/// `n` tokens, begun as the model wants it. Text 0 starts with prose, the others with worked
/// problems; each is different.
std::vector<engine::Token> fixed_text(const engine::Vocabulary& vocabulary, size_t n,
                                      uint64_t text);

}  // namespace retort::app
