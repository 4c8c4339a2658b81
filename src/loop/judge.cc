#include "loop/judge.h"

#include <algorithm>
#include <cctype>

#include "gate/answer_key.h"
#include "symbolic/family.h"

namespace retort::loop {
namespace {

constexpr std::string_view kMark = "answer:";

/// What stands after the last "Answer:" of any case; empty without one.
std::string_view answer_of(std::string_view text) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::find_end(text.begin(), text.end(), kMark.begin(), kMark.end(), same);
  if (found == text.end()) return {};
  return text.substr(static_cast<size_t>(found - text.begin()) + kMark.size());
}

bool matches_reference(const record::Draft& reference, std::string_view text) {
  const std::string_view answer =
      reference.form == record::Form::kMessages ? text : answer_of(text);
  return gate::difference({reference.final_answer}, answer).empty();
}

}  // namespace

Judge make_judge() {
  return [](const record::Draft& reference, std::string_view text) {
    const symbolic::Family* family = symbolic::find_family(reference.task);
    if (family == nullptr || reference.canonical.empty()) return matches_reference(reference, text);
    const auto check = family->check(reference.canonical, text);
    return check && check->correct;
  };
}

}  // namespace retort::loop
