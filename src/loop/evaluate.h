// Measures a model on problems: greedy generation in batches, each answer judged.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/batcher.h"
#include "record/record.h"

namespace retort::loop {

/// Says whether `text`, a model's answer, solves the problem of `reference`.
using Judge = std::function<bool(const record::Draft& reference, std::string_view text)>;

struct Answer {
  std::string text;
  bool correct = false;
  engine::Finish finish = engine::Finish::kRunning;
  int64_t tokens = 0;
};

/// Share of successes with its 95 % interval (Wilson 1927).
struct Proportion {
  int64_t successes = 0, n = 0;
  double value() const {
    return n == 0 ? 0 : static_cast<double>(successes) / static_cast<double>(n);
  }
  std::pair<double, double> interval() const;
};

struct Evaluation {
  std::vector<Answer> answers;  // one a problem, in order
  double seconds = 0;

  Proportion correct() const;
  Proportion end_of_turn() const;  // answers that the model ended itself
  Proportion cap_hit() const;      // answers cut at max_tokens
  int64_t tokens() const;
};

struct EvaluationOptions {
  const engine::Mix* mix = nullptr;       // null: the base
  std::span<const record::Record> shots;  // worked examples put before each problem
  int64_t max_tokens = 256;
  std::function<void(int64_t done)> progress;
  const std::atomic<bool>* stop = nullptr;  // set: evaluate() returns kCancelled
};

/// Answers `problems` (greedy), as many at once as the batcher has places. kLimit if a problem with
/// its shots does not fit the batcher's context.
[[nodiscard]] base::Result<Evaluation> evaluate(const engine::Model& model,
                                                engine::Batcher& batcher,
                                                std::span<const record::Draft> problems,
                                                const Judge& judge,
                                                const EvaluationOptions& options);

/// The best that one fixed answer can do: the most frequent reference answer, judged on every
/// problem.
Proportion best_constant(std::span<const record::Draft> problems, const Judge& judge);

/// Perplexity of `text` under the mixture, read in one sequence of at most the executor's context.
double perplexity(engine::Executor& executor, std::string_view text, const engine::Mix* mix);

base::Json to_json(const Proportion& proportion);

}  // namespace retort::loop
