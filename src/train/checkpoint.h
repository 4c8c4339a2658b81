// The file a killed training run resumes from: magic, header (JSON), floats, BLAKE2b of all before
// it.
#pragma once

#include <optional>
#include <vector>

#include "base/disk.h"
#include "base/hash.h"
#include "base/result.h"

namespace retort::train {

struct Checkpoint {
  base::Hash256 identity;  // base, records and options of the run
  int64_t step = 0;        // steps done
  int64_t best_step = 0;
  std::optional<double> best_score;
  std::vector<float> values;  // Trainable::state()
  std::vector<float> best;    // masters of the best offer; empty without one
};

[[nodiscard]] base::Result<void> write_checkpoint(const base::Path& path,
                                                  const Checkpoint& checkpoint);
/// kInvalidInput naming the fault for a damaged file.
[[nodiscard]] base::Result<Checkpoint> read_checkpoint(const base::Path& path);

}  // namespace retort::train
