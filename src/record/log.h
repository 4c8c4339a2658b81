// The record log: JSON Lines, append-only, one writer. Each line ends with its own checksum,
//
//   {"id":"..","prompt":"..", ... ,"sum":"<16 hex digits>"}
//
// the first 64 bits of the BLAKE2b-256 of the line without that key. Lines without one load too, so
// that a log can be written by hand. A crash can leave at most a torn last line: open() moves it to
// "<path>.torn" and cuts the log back to whole lines. Read a log with load_records (load.h).
#pragma once

#include <string>

#include "base/disk.h"
#include "record/record.h"

namespace retort::record {

class RecordLog {
 public:
  /// Opens or creates the log, locks it against other writers and repairs its end. kIo if another
  /// process writes to it.
  [[nodiscard]] static base::Result<RecordLog> open(const base::Path& path);

  /// Adds one record. When it fails (a full disk, a record over limits::kRecordLineBytesMax) the
  /// log is as it was before.
  [[nodiscard]] base::Result<void> append(const Record& record);
  /// Returns when what was appended is on the disk.
  [[nodiscard]] base::Result<void> sync() { return file_.sync(); }

  /// Bytes that open() moved aside: 0 if the last run ended well.
  size_t torn_bytes() const { return torn_bytes_; }
  /// Where they went.
  base::Path torn_path() const;

 private:
  [[nodiscard]] base::Result<void> repair();
  [[nodiscard]] base::Result<void> set_aside(std::string_view torn, size_t keep);

  base::Path path_;
  base::AppendFile file_;
  size_t torn_bytes_ = 0;
};

}  // namespace retort::record
