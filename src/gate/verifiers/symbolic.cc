// Asks the family that the draft's task names to judge the completion as it would judge a model's
// text. It speaks only of prompts that the family has for the canonical problem: of another prompt
// it cannot know what it asks.
#include <algorithm>

#include "gate/verifier.h"

namespace retort::gate {
namespace {

using record::Draft;

class SymbolicVerifier final : public Verifier {
 public:
  explicit SymbolicVerifier(std::span<const symbolic::Family* const> families)
      : families_(families.begin(), families.end()) {}
  std::string_view name() const override { return "symbolic"; }
  bool applies(const Draft& draft) const override {
    const symbolic::Family* family = draft.canonical.empty() ? nullptr : find(draft.task);
    return family != nullptr && std::ranges::count(family->prompts(draft.canonical), draft.prompt);
  }
  record::Verdict verify(const Draft& draft) const override {
    const symbolic::Family* family = find(draft.task);
    if (family == nullptr) return {"symbolic", false, "no such family"};
    auto check = family->check(draft.canonical, draft.completion());
    if (!check) return {"symbolic", false, std::move(check).error().message};
    if (check->correct) return {"symbolic", true, ""};
    return {"symbolic", false, std::move(check)->reason};
  }

 private:
  const symbolic::Family* find(std::string_view task) const {
    const auto it = std::ranges::find(families_, task, &symbolic::Family::name);
    return it == families_.end() ? nullptr : *it;
  }
  const std::vector<const symbolic::Family*> families_;
};

}  // namespace

std::unique_ptr<const Verifier> make_symbolic_verifier(
    std::span<const symbolic::Family* const> families) {
  return std::make_unique<SymbolicVerifier>(families);
}

}  // namespace retort::gate
