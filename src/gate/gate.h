// The gate: the only way from a teacher's draft, or from a user's file, to a record that trains.
//
// It runs every verifier that applies; all have to pass. Where none applies there is nothing to
// check against: the record is declared, and passes only with `trust`, which is counted.
//
// Owner: the loop that collects records; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "base/limits.h"
#include "gate/verifier.h"
#include "record/record.h"

namespace retort::gate {

struct Refusal {
  std::string verifier;  // who refused; "gate" for what needs no verifier
  std::string reason;    // for people
};

using Outcome = std::variant<record::Record, Refusal>;

struct GateOptions {
  bool trust = false;                                 // let declared records pass
  int64_t bytes_max = limits::kDraftBytesMaxDefault;  // prompt and completion
};

struct GateCounts {
  int64_t verified = 0;
  int64_t trusted = 0;  // declared records that passed by `trust`
  int64_t refused = 0;
  std::map<std::string, int64_t> refused_by;  // verifier
};

class Gate {
 public:
  explicit Gate(Verifiers verifiers, const GateOptions& options = {});

  /// A teacher's draft: it has to have a chain and an answer.
  Outcome judge(record::Draft draft);
  /// A record from a file: judged afresh, whatever standing it claims. It may lack a chain.
  Outcome admit(record::Record record);

  const GateCounts& counts() const { return counts_; }

 private:
  Outcome pass(record::Draft draft);
  Outcome refuse(std::string_view verifier, std::string reason);
  /// Why the draft is no text to train on; empty if it is.
  std::string fault(const record::Draft& draft) const;

  const Verifiers verifiers_;
  const GateOptions options_;
  GateCounts counts_;
};

}  // namespace retort::gate
