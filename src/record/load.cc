#include "record/load.h"

#include <unordered_map>

#include "base/hash.h"
#include "base/limits.h"
#include "record/text.h"

namespace retort::record {
namespace {

using base::Code;
using base::make_error;
using base::Result;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSumKey = ",\"sum\":\"";
constexpr size_t kSumDigits = 16;
constexpr size_t kSumBytes = kSumKey.size() + kSumDigits + 2;  // and "}

std::string sum_of(std::string_view line) {
  return base::hash_text(line).hex().substr(0, kSumDigits);
}

/// A line that ends as to_line ends one has to match its sum. Any other "sum" is just a key.
Result<void> check_sum(std::string_view line) {
  if (line.size() < kSumBytes || !line.ends_with("\"}")) return {};
  const std::string_view tail = line.substr(line.size() - kSumBytes);
  if (!tail.starts_with(kSumKey)) return {};
  const std::string_view digits = tail.substr(kSumKey.size(), kSumDigits);
  const std::string rest = std::string(line.substr(0, line.size() - kSumBytes)) + "}";
  if (sum_of(rest) == digits) return {};
  return make_error(Code::kInvalidInput,
                    "the checksum does not match: the line is damaged (if you changed it yourself, "
                    "remove its \"sum\")");
}

/// Removes what other programs put around a line: a byte order mark and a carriage return.
std::string_view strip(std::string_view line) {
  if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_array_file(std::string_view text) {
  text = trim(strip(text));
  return text.starts_with('[') && text.ends_with(']');
}

/// Adds lines to a Loaded, remembering which records it has seen.
class Loader {
 public:
  explicit Loader(std::string_view name) : name_(name) {}

  void add(std::string_view line) {
    ++loaded_.lines;
    auto record = record_from_line(line);
    if (!record) return refuse(std::move(record).error().message);
    const auto [first, fresh] = first_line_.emplace(record->id(), loaded_.lines);
    if (!fresh) {
      ++loaded_.duplicates;
      return refuse(fmt::format("duplicate of line {}", first->second));
    }
    std::string& source = record->draft.source;
    if (source.empty()) source = fmt::format("{}:{}", name_, loaded_.lines);
    loaded_.records.push_back(*std::move(record));
    loaded_.record_lines.push_back(loaded_.lines);
  }
  Loaded finish() { return std::move(loaded_); }

 private:
  void refuse(std::string reason) {
    if (loaded_.refused++ < limits::kRecordRefusalsKept) {
      loaded_.refusals.push_back({loaded_.lines, std::move(reason)});
    }
  }
  std::string name_;
  Loaded loaded_;
  std::unordered_map<std::string, int64_t> first_line_;
};

}  // namespace

Result<Record> record_from_line(std::string_view line) {
  line = strip(line);
  if (std::ssize(line) > limits::kRecordLineBytesMax) {
    return make_error(Code::kLimit, "the line has {} bytes; at most {} are read", line.size(),
                      limits::kRecordLineBytesMax);
  }
  if (line.find('\0') != std::string_view::npos) {
    return make_error(Code::kInvalidInput, "the line contains a NUL byte");
  }
  if (is_blank(line)) return make_error(Code::kInvalidInput, "the line is blank");
  TRY(check_sum(line));
  TRY_ASSIGN(const base::Json json, base::parse_json(line));
  return record_from_json(json);
}

Result<Loaded> parse_records(std::string_view text, std::string_view name) {
  if (is_array_file(text)) {
    return make_error(Code::kInvalidInput,
                      "{}: the file is one JSON array; write one object a line (jq -c '.[]' does)",
                      name);
  }
  Loader loader(name);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    loader.add(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return loader.finish();
}

Result<Loaded> load_records(const base::Path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > static_cast<uintmax_t>(limits::kRecordFileBytesMax)) {
    return make_error(Code::kLimit, "{}: the file has {} bytes; at most {} are read; split it",
                      path.string(), size, limits::kRecordFileBytesMax);
  }
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return make_error(Code::kInvalidInput, "{}: not a regular file", path.string());
  }
  TRY_ASSIGN(const std::string text, base::read_file(path));
  return parse_records(text, path.filename().string());
}

std::string to_line(const Record& record) {
  std::string line = base::dump_json(to_json(record));
  const std::string sum = sum_of(line);
  line.pop_back();
  return fmt::format("{}{}{}\"}}\n", line, kSumKey, sum);
}

Result<void> write_records(const base::Path& path, std::span<const Record> records) {
  std::string text;
  for (const Record& record : records) text += to_line(record);
  return base::write_file_atomic(path, text);
}

}  // namespace retort::record
