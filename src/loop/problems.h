// The records and problems of one distillation, drawn from its teacher or read from its file, with
// nothing in common between what is trained on and what is measured.
#pragma once

#include <atomic>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "loop/recipe.h"
#include "record/record.h"

namespace retort::loop {

struct Problems {
  std::vector<record::Record> train;
  std::vector<record::Draft> validation, held_out, extrapolation;
  int64_t refused = 0;  // by the gate or the reader
  int64_t checked = 0;  // held-out problems that a verifier stands behind

  base::Hash256 train_hash() const;
};

struct GatherOptions {
  base::Path run_directory;  // records.jsonl is kept here
  bool quiet = false;
  const std::atomic<bool>* stop = nullptr;
};

[[nodiscard]] base::Result<Problems> gather_problems(const Recipe& recipe,
                                                     const GatherOptions& options);

/// Fresh problems of a symbolic family, in the wordings kept for evaluation.
[[nodiscard]] base::Result<std::vector<record::Draft>> problems_of_family(std::string_view family,
                                                                          int64_t n, uint64_t seed,
                                                                          bool extrapolation);
/// The first n records of a JSONL file as problems.
[[nodiscard]] base::Result<std::vector<record::Draft>> problems_of_file(const base::Path& path,
                                                                        int64_t n);

}  // namespace retort::loop
