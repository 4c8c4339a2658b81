// The base's answers, kept between runs. They depend on the model file, the problems and the worked
// examples alone, so a recipe tried again with other training options need not wait for them.
#pragma once

#include <functional>

#include "base/disk.h"
#include "engine/model.h"
#include "loop/evaluate.h"

namespace retort::loop {

class Baselines {
 public:
  /// One file for each question, in `directory`.
  explicit Baselines(base::Path directory) : directory_(std::move(directory)) {}

  /// What `measure` gives, from the file of an earlier call with the same model, problems, shots
  /// and max_tokens if there is one; the answers are judged anew. A damaged file is replaced.
  [[nodiscard]] base::Result<Evaluation> answers(
      const engine::Model& model, std::span<const record::Draft> problems, const Judge& judge,
      const EvaluationOptions& options, const std::function<base::Result<Evaluation>()>& measure);

 private:
  base::Path directory_;
};

}  // namespace retort::loop
