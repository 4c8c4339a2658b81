// A family of symbolic problems: a seeded sampler with an exact solver that writes out its
// reasoning, and a checker that reads free text. One file a family in families/; the list is
// families/all.cc.
//
// Stateless and const: any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace retort::symbolic {

/// Which problems and wordings to draw from. The three are disjoint: training never sees a phrasing
/// or a size of the other two.
enum class Split {
  kTrain,          // sizes and phrasings for training
  kHeldOut,        // sizes as in training, phrasings kept for evaluation
  kExtrapolation,  // larger sizes than training ever shows, phrasings kept for evaluation
};

struct Problem {
  std::string prompt;     // what the user asks, in one of the phrasings
  std::string chain;      // the reasoning, one trivial operation a line
  std::string answer;     // the answer alone; the completion is chain + "\n" + "Answer: " + answer
  std::string canonical;  // the problem itself, independent of wording: "gf 7 ((3*4)+5)*2"
  int level = 0;          // difficulty, 0 the easiest
  int phrasing = 0;       // index of the wording

  std::string completion() const { return chain + "\nAnswer: " + answer; }
};

/// What a checker says of a text.
struct Check {
  bool correct = false;
  std::string reason;  // why not, for people: "no answer line", "says 4, should be 5"
};

class Family {
 public:
  virtual ~Family() = default;
  virtual std::string_view name() const = 0;         // "galois"; also the registry and recipe name
  virtual std::string_view description() const = 0;  // one line
  virtual int levels() const = 0;                    // levels of kTrain
  virtual Problem sample(base::Rng& rng, Split split) const = 0;
  /// Every prompt that this family has for the problem; none if `canonical` is not of this family.
  virtual std::vector<std::string> prompts(std::string_view canonical) const = 0;
  /// Judges free text against the problem named by `canonical`: finds the last "Answer:" line (any
  /// case, markdown or a closing full stop tolerated) and nothing before it counts. Where several
  /// answers are right (a cycle, a topological order) it accepts each of them. kInvalidInput if
  /// `canonical` is not of this family.
  virtual base::Result<Check> check(std::string_view canonical, std::string_view text) const = 0;
};

/// Every family, in a fixed order. The objects live for ever.
std::span<const Family* const> all_families();
const Family* find_family(std::string_view name);

}  // namespace retort::symbolic
