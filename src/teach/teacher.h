// A teacher answers tasks with drafts, which the gate then judges. One file a teacher in teachers/.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "record/record.h"
#include "symbolic/family.h"

namespace retort::teach {

/// One thing to ask. A teacher that makes its own problems draws number `index` of the sequence
/// that seed and split name; others answer `prompt`.
struct Task {
  std::string name;    // the record's task: the family or the recipe
  std::string prompt;  // empty for a teacher that makes its own
  uint64_t seed = 0;
  uint64_t index = 0;
  symbolic::Split split = symbolic::Split::kTrain;
};

/// What may still be spent. Each ask takes one call; teachers that write by the token take those
/// too.
struct Budget {
  int64_t calls = std::numeric_limits<int64_t>::max();
  int64_t tokens = std::numeric_limits<int64_t>::max();
};

class Teacher {
 public:
  virtual ~Teacher() = default;
  virtual std::string_view name() const = 0;
  /// kLimit once the budget is spent.
  virtual base::Result<record::Draft> ask(const Task& task, Budget& budget) = 0;
};

/// Draws from a family and writes out its exact solution. The same task gives the same draft, and
/// the draft's source says which. The family outlives the teacher.
std::unique_ptr<Teacher> make_symbolic_teacher(const symbolic::Family& family);

/// "train", "held-out", "extrapolation".
std::string_view to_string(symbolic::Split split);

}  // namespace retort::teach
