// Train, validation and test sets without twins: a held-out prompt is in no way also in training.
//
// Two records are twins if their prompts are equal after fold() (text.h) or if they name the same
// canonical problem; twins of twins are twins. A group is a set of twins, and stays on one side.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "record/record.h"

namespace retort::record {

struct SplitOptions {
  uint64_t seed = 1;
  /// Shares of the groups, by hash: a group keeps its side when other groups come or go.
  double validation = 0.1;
  double test = 0.1;
  /// Exact numbers of groups instead, by rank of that hash: groups near a border may change sides
  /// when others come or go.
  std::optional<int64_t> validation_count = {};
  std::optional<int64_t> test_count = {};
  /// Records kept of a group, the first ones; more for several chains of one problem.
  int64_t per_group_max = 1;
};

struct Splits {
  std::vector<Record> train, validation, test;  // in the order given
  int64_t duplicates = 0;                       // removed: same prompt and completion
  int64_t twins = 0;                            // removed: over per_group_max
};

/// Deterministic in the records and the options. kInvalidInput if the options make no sense or
/// leave nothing to train on.
[[nodiscard]] base::Result<Splits> split_records(std::vector<Record> records,
                                                 const SplitOptions& options);

/// Records of `held_out` that have the id, the folded prompt or the canonical problem of one in
/// `train`. All 0 for the parts of one split.
struct Overlap {
  int64_t exact = 0, prompt = 0, canonical = 0;
  int64_t total() const { return exact + prompt + canonical; }
};
Overlap overlap(std::span<const Record> train, std::span<const Record> held_out);

/// Groups that `records` fall into.
int64_t count_groups(std::span<const Record> records);

/// A set of drafts that knows their twins. One thread.
class TwinSet {
 public:
  bool contains(const Draft& draft) const;
  /// False if it had a twin of the draft before.
  bool add(const Draft& draft);

 private:
  std::unordered_set<std::string> keys_;
};

}  // namespace retort::record
