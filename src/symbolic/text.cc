#include "symbolic/text.h"

#include "base/check.h"

namespace retort::symbolic {
namespace {

// The C library's versions depend on the locale and are undefined for negative chars.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_letter_or_digit(char c) { return is_letter(c) || is_digit(c); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_markdown(char c) { return c == '*' || c == '`' || c == '_' || c == '$' || c == '#'; }

std::string plain_lower(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (char c : text) {
    if (!is_markdown(c)) plain += lower(c);
  }
  return plain;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

int pick_phrasing(base::Rng& rng, Split split, size_t count) {
  CHECK(count > kEvaluationPhrasings, "count={}", count);
  const size_t training = count - kEvaluationPhrasings;
  const size_t index =
      split == Split::kTrain ? rng.below(training) : training + rng.below(kEvaluationPhrasings);
  return static_cast<int>(index);
}

void choose_prompt(Problem& problem, base::Rng& rng, Split split,
                   std::span<const std::string> prompts) {
  problem.phrasing = pick_phrasing(rng, split, prompts.size());
  problem.prompt = prompts[static_cast<size_t>(problem.phrasing)];
}

std::string join(std::span<const std::string> items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

std::optional<std::string> last_answer(std::string_view text) {
  constexpr std::string_view kMark = "answer:";
  const std::string plain = plain_lower(text);
  const size_t mark = plain.rfind(kMark);
  if (mark == std::string::npos) return std::nullopt;
  std::string_view line = std::string_view(plain).substr(mark + kMark.size());
  line = trim(line.substr(0, line.find('\n')));
  if (line.ends_with('.')) line.remove_suffix(1);
  return std::string(trim(line));
}

std::string_view after_equals(std::string_view answer) {
  const size_t equals = answer.rfind('=');
  return equals == std::string_view::npos ? answer : answer.substr(equals + 1);
}

Check judge_answer(std::string_view text, const std::function<Check(std::string_view)>& judge) {
  const std::optional<std::string> answer = last_answer(text);
  if (!answer) return wrong("no answer line");
  if (answer->empty()) return wrong("the answer line is empty");
  if (answer->size() > kScannedBytesMax) return wrong("the answer line is too long");
  return judge(*answer);
}

tl::unexpected<base::Error> foreign(std::string_view family, std::string_view canonical) {
  return base::make_error(base::Code::kInvalidInput, "not a problem of the family {}: '{}'", family,
                          canonical.substr(0, 80));
}

// A text that is too long becomes one that no family accepts: nothing eats a NUL.
Scanner::Scanner(std::string_view text)
    : text_(text.size() <= kScannedBytesMax ? text : std::string_view("\0too long", 9)) {}

void Scanner::skip_spaces() {
  while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
}

std::string_view Scanner::run(bool (*accept)(char)) {
  skip_spaces();
  size_t length = 0;
  while (length < text_.size() && accept(text_[length])) ++length;
  const std::string_view found = text_.substr(0, length);
  text_.remove_prefix(length);
  return found;
}

bool Scanner::eat(std::string_view literal) {
  skip_spaces();
  if (!text_.starts_with(literal)) return false;
  text_.remove_prefix(literal.size());
  return true;
}

std::optional<int> Scanner::integer() {
  const std::string_view before = text_;
  const bool negative = eat("-");
  if (!negative) eat("+");
  const std::string_view digits = run(is_digit);
  if (digits.empty() || digits.size() > 9) {
    text_ = before;
    return std::nullopt;
  }
  int value = 0;
  for (char c : digits) value = value * 10 + (c - '0');
  return negative ? -value : value;
}

std::optional<std::string_view> Scanner::word() {
  const std::string_view found = run(is_letter_or_digit);
  return found.empty() ? std::nullopt : std::optional(found);
}

std::optional<std::string_view> Scanner::letters() {
  const std::string_view found = run(is_letter);
  return found.empty() ? std::nullopt : std::optional(found);
}

bool Scanner::done() {
  skip_spaces();
  return text_.empty();
}

std::string_view Scanner::rest() {
  skip_spaces();
  return text_;
}

}  // namespace retort::symbolic
