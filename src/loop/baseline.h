// The base's answers, kept between runs. They depend on the model file, the problems and the worked
// examples alone, so a recipe tried again with other training options need not wait for them.
#pragma once

#include <functional>

#include "base/disk.h"
#include "engine/model.h"
#include "loop/evaluate.h"

namespace retort::loop {

/// What `measure` gives, from a file in `directory` if an earlier call with the same model,
/// problems, shots and max_tokens left one; the answers are judged anew. A damaged file is
/// replaced.
[[nodiscard]] base::Result<Evaluation> base_answers(
    const base::Path& directory, const engine::Model& model,
    std::span<const record::Draft> problems, const Judge& judge, const EvaluationOptions& options,
    const std::function<base::Result<Evaluation>()>& measure);

}  // namespace retort::loop
