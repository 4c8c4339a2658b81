// Compares the final answer with an expected one: as text, as a number, as a set.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "gate/answer_key.h"
#include "gate/verifier.h"
#include "record/text.h"

namespace retort::gate {
namespace {

using base::Code;
using base::make_error;
using record::Draft;
using record::trim;

constexpr std::string_view kAnswerLabel = "answer:";
constexpr std::string_view kMinusSign = "\u2212";

/// White space, markdown emphasis, code and formula marks around an answer.
std::string_view strip_marks(std::string_view text) {
  for (size_t before = 0; before != text.size();) {
    before = text.size();
    text = trim(text);
    for (const char mark : {'*', '`', '$', '_'}) {
      if (text.size() >= 2 && text.front() == mark && text.back() == mark) {
        text = text.substr(1, text.size() - 2);
      }
    }
  }
  return text;
}

std::string squeeze(std::string_view text) {
  std::string squeezed;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space) squeezed += c;
    if (space && !squeezed.empty() && squeezed.back() != ' ') squeezed += ' ';
  }
  return std::string(trim(squeezed));
}

/// "**Monday**." is Monday with a full stop after it.
std::string_view without_stop(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  return strip_marks(text);
}

std::optional<double> parse_plain(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

/// "1,234,567" without its commas; nothing if they do not stand at the thousands.
std::optional<std::string> without_commas(std::string_view text) {
  std::string plain;
  const size_t whole = std::min(text.find_first_of(".eE"), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      plain += text[i];
    } else if (i >= whole || (whole - i) % 4 != 0 || i == 0) {
      return {};
    }
  }
  return plain;
}

/// A decimal number or a fraction of two, with a sign and commas at the thousands.
std::optional<double> parse_number(std::string_view text) {
  std::string plain(without_stop(strip_marks(text)));
  if (plain.starts_with(kMinusSign)) plain.replace(0, kMinusSign.size(), "-");
  if (plain.starts_with('+') && !plain.starts_with("+-")) plain.erase(0, 1);
  if (const size_t slash = plain.find('/'); slash != std::string::npos) {
    const auto above = parse_number(std::string_view(plain).substr(0, slash));
    const auto below = parse_plain(trim(std::string_view(plain).substr(slash + 1)));
    if (!above || !below || *below == 0) return {};
    return *above / *below;
  }
  const auto digits = without_commas(plain);
  return digits ? parse_plain(*digits) : std::nullopt;
}

bool is_bracketed(std::string_view text) {
  if (text.size() < 2) return false;
  const char open = text.front(), close = text.back();
  return (open == '{' && close == '}') || (open == '[' && close == ']');
}

/// Elements between commas outside brackets; "{}", "[]" and "" are the empty set.
std::set<std::string> parse_set(std::string_view text) {
  text = strip_marks(text);
  if (is_bracketed(text)) text = text.substr(1, text.size() - 2);
  std::set<std::string> elements;
  int depth = 0;
  size_t start = 0;
  const auto end_element = [&](size_t end) {
    const std::string element = squeeze(text.substr(start, end - start));
    if (!element.empty()) elements.insert(element);
    start = end + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' || text[i] == '{';
    depth -= text[i] == ')' || text[i] == ']' || text[i] == '}';
    if (text[i] == ',' && depth == 0) end_element(i);
  }
  end_element(text.size());
  return elements;
}

bool is_equal_text(std::string_view expected, std::string_view answer) {
  const std::string wanted = squeeze(strip_marks(expected));
  const std::string given = squeeze(strip_marks(answer));
  return given == wanted || without_stop(given) == wanted;
}

std::string shown(std::string_view text) {
  const std::string squeezed = squeeze(text);
  return squeezed.size() <= 60 ? squeezed : squeezed.substr(0, 57) + "...";
}

std::string says(const Expectation& expected, std::string_view answer) {
  return fmt::format("says {}, should be {}", shown(answer), shown(expected.answer));
}

std::string numeric_difference(const Expectation& expected, std::string_view answer) {
  const auto wanted = parse_number(expected.answer);
  const auto given = parse_number(answer);
  if (!given) return fmt::format("\"{}\" is not a number", shown(answer));
  const bool close =
      wanted && std::abs(*given - *wanted) <= expected.tolerance * std::max(1.0, std::abs(*wanted));
  return close ? "" : says(expected, answer);
}

/// Of chat turns, what follows the last "Answer:"; nothing without one.
std::optional<std::string_view> answer_of(const Draft& draft) {
  const std::string_view text = draft.final_answer;
  if (draft.form != record::Form::kMessages) return text;
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  const size_t label = lower.rfind(kAnswerLabel);
  if (label == std::string::npos) return {};
  std::string_view rest = text.substr(label + kAnswerLabel.size());
  while (rest.starts_with('*')) rest.remove_prefix(1);
  return rest;
}

class AnswerVerifier final : public Verifier {
 public:
  explicit AnswerVerifier(AnswerKey key) : key_(std::move(key)) {}
  std::string_view name() const override { return "answer"; }
  bool applies(const Draft& draft) const override { return key_.find(draft) != nullptr; }
  record::Verdict verify(const Draft& draft) const override {
    const Expectation* expected = key_.find(draft);
    if (expected == nullptr) return {"answer", false, "no answer is known for this problem"};
    const auto answer = answer_of(draft);
    if (!answer) return {"answer", false, "no answer line"};
    std::string reason = difference(*expected, *answer);
    const bool passed = reason.empty();
    return {"answer", passed, std::move(reason)};
  }

 private:
  const AnswerKey key_;
};

}  // namespace

std::string difference(const Expectation& expected, std::string_view answer) {
  if (record::is_blank(answer)) return "the answer is empty";
  switch (expected.match) {
    case Match::kExact:
      return is_equal_text(expected.answer, answer) ? "" : says(expected, answer);
    case Match::kNumeric:
      return numeric_difference(expected, answer);
    case Match::kSet:
      return parse_set(expected.answer) == parse_set(answer) ? "" : says(expected, answer);
  }
  return "unknown way to match";
}

base::Result<void> AnswerKey::add_prompt(std::string_view prompt, Expectation expected) {
  return add(by_prompt_, record::fold(prompt), std::move(expected));
}

base::Result<void> AnswerKey::add_canonical(std::string_view problem, Expectation expected) {
  return add(by_canonical_, std::string(problem), std::move(expected));
}

base::Result<void> AnswerKey::add(Map& map, std::string key, Expectation expected) {
  if (record::is_blank(key) || record::is_blank(expected.answer)) {
    return make_error(Code::kInvalidInput, "answer key: a problem or its answer is empty");
  }
  if (!(expected.tolerance >= 0) || !std::isfinite(expected.tolerance)) {
    return make_error(Code::kInvalidInput, "answer key: tolerance {} should be 0 or more",
                      expected.tolerance);
  }
  if (expected.match == Match::kNumeric && !parse_number(expected.answer)) {
    return make_error(Code::kInvalidInput, "answer key: \"{}\" is not a number",
                      shown(expected.answer));
  }
  const auto [it, fresh] = map.try_emplace(std::move(key), expected);
  if (!fresh && !difference(it->second, expected.answer).empty()) {
    return make_error(Code::kInvalidInput, "answer key: \"{}\" has two answers, {} and {}",
                      shown(it->first), shown(it->second.answer), shown(expected.answer));
  }
  return {};
}

const Expectation* AnswerKey::find(const Draft& draft) const {
  if (!draft.canonical.empty()) {
    const auto it = by_canonical_.find(draft.canonical);
    if (it != by_canonical_.end()) return &it->second;
  }
  if (by_prompt_.empty()) return nullptr;
  const auto it = by_prompt_.find(record::fold(draft.prompt));
  return it == by_prompt_.end() ? nullptr : &it->second;
}

std::unique_ptr<const Verifier> make_answer_verifier(AnswerKey key) {
  return std::make_unique<AnswerVerifier>(std::move(key));
}

}  // namespace retort::gate
