// A verifier says whether a draft is right. A rejection is a verdict with a reason for people, not
// an error. One file a verifier in verifiers/; the list is verifiers/all.cc.
//
// verify() is pure: the same draft gets the same verdict, on any thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gate/answer_key.h"
#include "record/record.h"
#include "symbolic/family.h"

namespace retort::gate {

class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual std::string_view name() const = 0;
  /// True if it has something to check this draft against.
  virtual bool applies(const record::Draft& draft) const = 0;
  /// Of a draft it applies to.
  virtual record::Verdict verify(const record::Draft& draft) const = 0;
};

using Verifiers = std::vector<std::unique_ptr<const Verifier>>;

std::unique_ptr<const Verifier> make_answer_verifier(AnswerKey key);
std::unique_ptr<const Verifier> make_symbolic_verifier(
    std::span<const symbolic::Family* const> families);

/// Every verifier. The families (symbolic::all_families(), as a rule) outlive it.
Verifiers all_verifiers(std::span<const symbolic::Family* const> families, AnswerKey key = {});

}  // namespace retort::gate
