// Reading records from JSON Lines, ours or a user's. A bad line is refused with its number and the
// reason, and the rest loads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/disk.h"
#include "record/record.h"

namespace retort::record {

struct LineRefusal {
  int64_t line = 0;  // from 1
  std::string reason;
};

struct Loaded {
  std::vector<Record> records;
  std::vector<int64_t> record_lines;  // beside them, from 1
  std::vector<LineRefusal> refusals;  // at most limits::kRecordRefusalsKept
  int64_t refused = 0;                // all of them
  int64_t duplicates = 0;             // of those, the exact copies of an earlier line
  int64_t lines = 0;
};

/// A BOM, CRLF and a missing last line end are tolerated. Refused: blank lines, lines over
/// limits::kRecordLineBytesMax, NUL bytes, what is not strict JSON in UTF-8, lines whose checksum
/// ("sum", see log.h) does not match, what record_from_json refuses, and exact duplicates of an
/// earlier record of the file. A record without "source" gets "name:line". kInvalidInput if `text`
/// is one JSON array; it has to be one object a line.
[[nodiscard]] base::Result<Loaded> parse_records(std::string_view text, std::string_view name);

/// parse_records of a file, with its file name as the name. Errors name the path.
[[nodiscard]] base::Result<Loaded> load_records(const base::Path& path);

/// One record as a line with its checksum and line end.
std::string to_line(const Record& record);

/// Replaces `path` with the records, atomically.
[[nodiscard]] base::Result<void> write_records(const base::Path& path,
                                               std::span<const Record> records);

/// The record in one line without its line end: what the log holds and what a user's file holds.
[[nodiscard]] base::Result<Record> record_from_line(std::string_view line);

}  // namespace retort::record
