// What every family shares: choosing and filling a phrasing, finding the answer line in free text,
// and scanning short texts from outside. Pure functions and value types: any thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "symbolic/family.h"

namespace retort::symbolic {

/// The last phrasings of each family's list are for evaluation only.
inline constexpr size_t kEvaluationPhrasings = 3;
/// A canonical problem or an answer longer than this is refused unread.
inline constexpr size_t kScannedBytesMax = 1024;

/// Index into a list of `count` phrasings: the last three for evaluation, the others for training.
int pick_phrasing(base::Rng& rng, Split split, size_t count);

/// Each phrasing with {0}, {1} ... filled in, followed by `format`, the line that says how to
/// answer. `phrasings` are our own constants, never outside text.
template <class... Args>
std::vector<std::string> fill_all(std::span<const std::string_view> phrasings,
                                  std::string_view format, const Args&... args) {
  std::vector<std::string> prompts;
  for (const std::string_view phrasing : phrasings) {
    prompts.push_back(fmt::format(fmt::runtime(phrasing), args...));
    prompts.back() += format;
  }
  return prompts;
}

/// Words the problem in one of the phrasings that `split` may show.
void choose_prompt(Problem& problem, base::Rng& rng, Split split,
                   std::span<const std::string> prompts);

std::string join(std::span<const std::string> items, std::string_view separator);
inline std::string lines(std::span<const std::string> items) { return join(items, "\n"); }

/// What follows the last "Answer:" on its line, in lower case, without markdown, surrounding spaces
/// and a closing full stop. nullopt if there is no such line.
std::optional<std::string> last_answer(std::string_view text);

/// What follows the last '=' of an answer, or all of it: "3 * 4 = 5" gives "5".
std::string_view after_equals(std::string_view answer);

/// Finds the answer in `text` and lets `judge` decide; says why where there is none to judge.
Check judge_answer(std::string_view text, const std::function<Check(std::string_view)>& judge);

inline Check right() { return {true, ""}; }
template <class... Args>
Check wrong(fmt::format_string<Args...> format, Args&&... args) {
  return {false, fmt::format(format, std::forward<Args>(args)...)};
}

/// The error for a canonical problem that is not `family`'s.
tl::unexpected<base::Error> foreign(std::string_view family, std::string_view canonical);

/// Reads a short text from left to right. Each member consumes nothing when it fails. Spaces before
/// an item are skipped. The text must outlive the scanner.
class Scanner {
 public:
  explicit Scanner(std::string_view text);

  bool eat(std::string_view literal);
  /// A decimal number with an optional sign, |value| < 10^9.
  std::optional<int> integer();
  /// The longest non-empty run of letters and digits.
  std::optional<std::string_view> word();
  /// The longest non-empty run of letters.
  std::optional<std::string_view> letters();
  /// Nothing but spaces is left.
  bool done();
  std::string_view rest();

 private:
  void skip_spaces();
  std::string_view run(bool (*accept)(char));
  std::string_view text_;
};

}  // namespace retort::symbolic
