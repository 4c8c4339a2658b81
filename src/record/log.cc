#include "record/log.h"

#include "base/limits.h"
#include "record/load.h"

namespace retort::record {

using base::Code;
using base::make_error;
using base::Result;

Result<RecordLog> RecordLog::open(const base::Path& path) {
  RecordLog log;
  log.path_ = path;
  TRY_ASSIGN(log.file_, base::AppendFile::open(path));
  TRY(log.file_.lock());
  TRY(log.repair());
  return log;
}

base::Path RecordLog::torn_path() const {
  base::Path path = path_;
  path += ".torn";
  return path;
}

/// A last line without its end is either whole, when just the line end is missing, or torn.
Result<void> RecordLog::repair() {
  std::error_code error;
  if (std::filesystem::file_size(path_, error) == 0) return {};
  TRY_ASSIGN(const auto map, base::MappedFile::open(path_));
  const auto bytes = map.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.ends_with('\n')) return {};
  const size_t last_end = text.rfind('\n');
  const size_t keep = last_end == std::string_view::npos ? 0 : last_end + 1;
  const std::string last(text.substr(keep));
  if (record_from_line(last)) return file_.append("\n");
  return set_aside(last, keep);
}

/// The torn bytes reach the disk before the log is cut: a crash in between moves them twice.
Result<void> RecordLog::set_aside(std::string_view torn, size_t keep) {
  TRY_ASSIGN(auto aside, base::AppendFile::open(torn_path()));
  TRY(aside.append(std::string(torn) + "\n"));
  TRY(aside.sync());
  TRY(file_.truncate(keep));
  TRY(file_.sync());
  torn_bytes_ = torn.size();
  return {};
}

Result<void> RecordLog::append(const Record& record) {
  const std::string line = to_line(record);
  if (std::ssize(line) > limits::kRecordLineBytesMax) {
    return make_error(Code::kLimit, "{}: a record of {} bytes; at most {} fit in a line",
                      path_.string(), line.size(), limits::kRecordLineBytesMax);
  }
  return file_.append(line);
}

}  // namespace retort::record
