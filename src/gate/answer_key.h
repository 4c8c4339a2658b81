// Expected answers by problem. They stay with the gate: a teacher never sees them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "record/record.h"

namespace retort::gate {

enum class Match {
  kExact,    // the same text; runs of white space are one blank
  kNumeric,  // |answer - expected| <= tolerance * max(1, |expected|)
  kSet,      // the same elements in any order, repeats not counted: "{b, a}" is "a, b, b"
};

struct Expectation {
  std::string answer;
  Match match = Match::kExact;
  double tolerance = 1e-9;
};

/// Why `answer` is not what is expected; empty if it is.
std::string difference(const Expectation& expected, std::string_view answer);

class AnswerKey {
 public:
  /// Prompts are compared as twins are (case and white space do not matter), canonical problems
  /// byte by byte. kInvalidInput if the expected answer is empty, is not a number where it should
  /// be one, or contradicts an earlier one.
  [[nodiscard]] base::Result<void> add_prompt(std::string_view prompt, Expectation expected);
  [[nodiscard]] base::Result<void> add_canonical(std::string_view problem, Expectation expected);
  /// By the draft's canonical problem, else by its prompt; null if neither is known.
  const Expectation* find(const record::Draft& draft) const;
  size_t size() const { return by_prompt_.size() + by_canonical_.size(); }

 private:
  using Map = std::unordered_map<std::string, Expectation>;
  [[nodiscard]] static base::Result<void> add(Map& map, std::string key, Expectation expected);
  Map by_prompt_;
  Map by_canonical_;
};

}  // namespace retort::gate
