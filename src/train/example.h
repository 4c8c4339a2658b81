// A record as the trainer reads it: token ids and which of them the student is to learn.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/vocabulary.h"
#include "record/record.h"

namespace retort::train {

struct Example {
  std::vector<engine::Token> tokens;  // ends with the last token learnt
  std::vector<uint8_t> supervised;    // per token: is it a target?
  int64_t targets = 0;                // how many are

  /// Rows that the model computes: every token but the last predicts its successor.
  int64_t rows() const { return static_cast<int64_t>(tokens.size()) - 1; }
};

/// The conversation of a record through the chat template of the model; the same call that serving
/// makes. kInvalidInput if nothing is supervised, kLimit if it is longer than `tokens_max`.
[[nodiscard]] base::Result<Example> make_example(const record::Record& record,
                                                 const engine::Vocabulary& vocabulary,
                                                 int64_t tokens_max);

struct ExampleSet {
  std::vector<Example> examples;
  std::vector<std::string> refused;  // one sentence a record left out, naming it
};

/// All records that fit; the others are listed, never cut. kInvalidInput if none is left.
[[nodiscard]] base::Result<ExampleSet> make_examples(std::span<const record::Record> records,
                                                     const engine::Vocabulary& vocabulary,
                                                     int64_t tokens_max);

}  // namespace retort::train
