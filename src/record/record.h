// A record: one verified example of a task. The unit of everything from the teacher to the trainer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace retort::record {

/// How far a record can be trusted.
enum class Standing {
  kVerified,  // a verifier ran and passed
  kAgreed,    // independent teachers gave the same answer
  kDeclared,  // the user says so; there was nothing to check against
};

/// What one verifier said.
struct Verdict {
  std::string verifier;  // "answer", "symbolic"
  bool passed = false;
  std::string reason;  // empty when passed
};

struct Message {
  std::string role;
  std::string content;
};

/// How the answer was given, and so how a record is written back.
enum class Form {
  kAnswer,    // "final_answer"
  kCode,      // "final_code"
  kMessages,  // chat turns; final_answer holds the assistant's message as it stands
};

/// A teacher's raw output: not trusted, not trained on.
struct Draft {
  std::string task;  // group of the problem, e.g. the family or the recipe's name
  std::string prompt;
  std::string reasoning_chain;
  std::string final_answer;  // text after "Answer: "; may be code
  std::string canonical;     // the problem independent of wording; may be empty
  std::string teacher;       // who wrote it
  std::string source;        // where it came from: "symbolic:galois seed=7 index=3 split=train"
  int level = -1;            // difficulty, 0 the easiest; -1 unknown
  Form form = Form::kAnswer;

  /// What the student learns to write: chain, newline, "Answer: " + final answer. Without a chain,
  /// the answer line alone; of chat turns, the assistant's message as it stands.
  std::string completion() const;
  /// Groups drafts that must stay on one side of a split: the canonical problem if there is one,
  /// else the prompt in lower case with runs of white space folded.
  std::string group() const;
};

/// Only gate/ makes one from a Draft (or from a user's file, by its standing).
struct Record {
  Draft draft;
  std::vector<Verdict> verdicts;
  Standing standing = Standing::kDeclared;

  /// Content hash of prompt and completion, 32 hexadecimal digits.
  std::string id() const;
  std::string completion() const { return draft.completion(); }
  std::string group() const { return draft.group(); }
};

std::string_view to_string(Standing standing);

/// {"prompt", "reasoning_chain", "final_answer" | "final_code", "task", "teacher", "verdicts",
/// "standing", "id", "source", "canonical", "level"}; a file with just the first three loads too,
/// as do chat records {"messages": [...]} of one user and one assistant turn (and an optional
/// system turn, which is put before the prompt). Other keys are ignored, "id" too: it is
/// recomputed. A standing that no passed verdict supports is lowered to declared. kInvalidInput
/// names the key.
[[nodiscard]] base::Result<Record> record_from_json(const base::Json& json);
base::Json to_json(const Record& record);

}  // namespace retort::record
