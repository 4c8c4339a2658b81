// What would become of the records of a file: the reader and the gate, without training.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/disk.h"
#include "base/json.h"
#include "record/load.h"

namespace retort::loop {

struct CheckedFile {
  base::Path path;
  int64_t lines = 0;
  std::vector<record::LineRefusal>
      refusals;  // in line order; at most limits::kRecordRefusalsKept + records
  int64_t refused = 0;
  int64_t duplicates = 0;  // of the refused: copies of an earlier line of any file
  std::map<std::string, int64_t> standings;  // of the records that pass, by name
  std::vector<record::Record> records;       // those

  int64_t passed() const { return static_cast<int64_t>(records.size()); }
};

/// Every verifier judges every record. What none can check passes as declared: it trains with
/// --trust. Errors: a file that cannot be read at all.
[[nodiscard]] base::Result<std::vector<CheckedFile>> check_records(
    std::span<const base::Path> paths);

base::Json to_json(const CheckedFile& file);
/// "path:line: reason" for each refusal, then the counts.
std::string to_text(const CheckedFile& file);

}  // namespace retort::loop
