#include "gate/gate.h"

#include "base/json.h"
#include "record/text.h"

namespace retort::gate {

using record::Draft;
using record::Form;
using record::Record;

namespace {

constexpr std::string_view kSelf = "gate";

std::string text_fault(std::string_view name, std::string_view text) {
  if (!base::is_valid_utf8(text)) return fmt::format("the {} is not valid UTF-8", name);
  if (text.find('\0') != std::string_view::npos) {
    return fmt::format("the {} contains a NUL character", name);
  }
  return {};
}

}  // namespace

Gate::Gate(Verifiers verifiers, const GateOptions& options)
    : verifiers_(std::move(verifiers)), options_(options) {}

std::string Gate::fault(const Draft& draft) const {
  if (record::is_blank(draft.prompt)) return "no prompt";
  if (record::is_blank(draft.final_answer)) return "no answer";
  const auto bytes = static_cast<int64_t>(draft.prompt.size() + draft.completion().size());
  if (bytes > options_.bytes_max) {
    return fmt::format("too long: {} bytes, at most {}", bytes, options_.bytes_max);
  }
  using Part = std::pair<std::string_view, const std::string*>;
  for (const auto& [name, text] :
       {Part{"prompt", &draft.prompt}, Part{"chain", &draft.reasoning_chain},
        Part{"answer", &draft.final_answer}, Part{"task", &draft.task},
        Part{"canonical problem", &draft.canonical}, Part{"teacher's name", &draft.teacher},
        Part{"source", &draft.source}}) {
    if (std::string reason = text_fault(name, *text); !reason.empty()) return reason;
  }
  return {};
}

Outcome Gate::judge(Draft draft) {
  if (draft.form != Form::kMessages && record::is_blank(draft.reasoning_chain)) {
    return refuse(kSelf, "no reasoning chain");
  }
  return pass(std::move(draft));
}

Outcome Gate::admit(Record record) { return pass(std::move(record.draft)); }

Outcome Gate::pass(Draft draft) {
  if (std::string reason = fault(draft); !reason.empty()) return refuse(kSelf, std::move(reason));
  Record record;
  for (const auto& verifier : verifiers_) {
    if (!verifier->applies(draft)) continue;
    record::Verdict verdict = verifier->verify(draft);
    if (!verdict.passed) return refuse(verifier->name(), std::move(verdict.reason));
    record.verdicts.push_back(std::move(verdict));
  }
  record.draft = std::move(draft);
  if (!record.verdicts.empty()) {
    record.standing = record::Standing::kVerified;
    ++counts_.verified;
    return record;
  }
  if (!options_.trust) {
    return refuse(kSelf, "declared only: nothing to check it against; --trust trains on it anyway");
  }
  ++counts_.trusted;
  return record;
}

Outcome Gate::refuse(std::string_view verifier, std::string reason) {
  ++counts_.refused;
  ++counts_.refused_by[std::string(verifier)];
  return Refusal{std::string(verifier), std::move(reason)};
}

}  // namespace retort::gate
