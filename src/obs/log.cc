#include "obs/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace retort::obs {
namespace {

using Sink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;

class StreamSink final : public Sink {
 public:
  explicit StreamSink(std::FILE* stream) : Sink(stream) {}
};

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool needs_quotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return is_control(c) || c == ' ' || c == '"' || c == '=' || c == '\\';
         });
}

void append_value(std::string& line, std::string_view value) {
  if (!needs_quotes(value)) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (is_control(c)) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += '"';
}

}  // namespace

std::string format_event(std::string_view event, std::initializer_list<Field> fields) {
  std::string line(event);
  for (const Field& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  return line;
}

Log::Log(Level lowest, std::FILE* stream)
    : logger_(std::make_shared<spdlog::logger>("retort", std::make_shared<StreamSink>(stream))) {
  // On a terminal each line first clears what a live progress line left there; that redraws itself.
  const bool terminal = ::isatty(::fileno(stream)) == 1;
  logger_->set_pattern(terminal ? "\r\x1b[K%H:%M:%S %l %v" : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger_->set_level(to_spdlog(lowest));
  logger_->flush_on(spdlog::level::trace);
}

void Log::write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  const auto severity = to_spdlog(level);
  if (!logger_->should_log(severity)) return;
  const std::string line = format_event(event, fields);
  logger_->log(severity, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace retort::obs
