#include "app/bench/fixed_text.h"

#include "base/rng.h"
#include "loop/neutral_text.h"
#include "symbolic/family.h"

namespace retort::app {

std::vector<engine::Token> fixed_text(const engine::Vocabulary& vocabulary, size_t n,
                                      uint64_t text) {
  std::vector<engine::Token> tokens;
  if (vocabulary.begin_of_sequence() >= 0) tokens.push_back(vocabulary.begin_of_sequence());
  const auto append = [&](std::string_view piece) {
    const auto more = vocabulary.encode(piece);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  if (text == 0) append(loop::kNeutralText);
  base::Rng rng(7, text);
  while (tokens.size() < n) {
    const symbolic::Family* family = rng.pick(symbolic::all_families());
    const symbolic::Problem problem = family->sample(rng, symbolic::Split::kTrain);
    append(problem.prompt + "\n" + problem.completion() + "\n\n");
  }
  tokens.resize(n);
  return tokens;
}

}  // namespace retort::app
