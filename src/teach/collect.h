// From a teacher through the gate to a set of distinct records.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "gate/gate.h"
#include "obs/progress.h"
#include "record/log.h"
#include "record/split.h"
#include "teach/teacher.h"

namespace retort::teach {

struct CollectOptions {
  std::string task;  // the record's task
  int64_t n = 0;     // distinct records wanted
  uint64_t seed = 1;
  uint64_t first_index = 0;  // where to go on in the teacher's sequence
  symbolic::Split split = symbolic::Split::kTrain;
  Budget budget = {};
  // Each may be null; they outlive the call.
  record::RecordLog* log = nullptr;  // gets every record as it is made, and a sync at the end
  obs::Progress* progress = nullptr;
  const std::atomic<bool>* cancel = nullptr;
};

struct Collected {
  std::vector<record::Record> records;
  int64_t asked = 0;
  int64_t twins = 0;  // drafts dropped as twins of records made or excluded
  int64_t refused = 0;
  uint64_t next_index = 0;
};

/// Asks for index after index until `n` records have passed the gate. Drafts with a twin in
/// `exclude` (record/split.h) are dropped, and `exclude` learns every record made: pass one set
/// through all splits of a task. kLimit if limits::kTeacherStaleAsksMax asks in a row give nothing
/// new, with the number found and why; kCancelled if *cancel becomes true; the teacher's and the
/// log's errors. In each case the log keeps what was made.
[[nodiscard]] base::Result<Collected> collect(Teacher& teacher, gate::Gate& gate,
                                              record::TwinSet& exclude,
                                              const CollectOptions& options);

}  // namespace retort::teach
