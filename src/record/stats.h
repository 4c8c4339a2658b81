// What is in a set of records: the figures of `retort records stats`.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/json.h"
#include "record/record.h"

namespace retort::record {

/// Of a length in bytes. p50 and p95 are values that occur: the nearest rank.
struct Lengths {
  int64_t min = 0, p50 = 0, p95 = 0, max = 0;
  double mean = 0;
};

struct Stats {
  int64_t records = 0;
  int64_t groups = 0;      // sets of twins (split.h)
  int64_t with_chain = 0;  // records that have a reasoning chain or are chat turns
  std::map<std::string, int64_t> by_standing, by_task, by_teacher, by_level;  // "" reads "(none)"
  Lengths prompt, completion;
};

Stats stats_of(std::span<const Record> records);
base::Json to_json(const Stats& stats);
/// A few lines for people.
std::string to_text(const Stats& stats);

}  // namespace retort::record
