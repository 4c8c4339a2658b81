// The structured log: one line an event, the event's name first, then key=value. Prompts, answers
// and keys never go into it, and nothing is logged per token.
//
// Passed to whoever logs; any thread.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace retort::obs {

enum class Level { kDebug, kInfo, kWarning, kError };

/// {"rank", 16} or {"path", path.string()}. Values with blanks, quotes or controls are quoted.
struct Field {
  template <class T>
  Field(std::string_view name, const T& content) : key(name), value(fmt::format("{}", content)) {}
  std::string_view key;
  std::string value;
};

class Log {
 public:
  /// `stream` outlives the log.
  explicit Log(Level lowest = Level::kInfo, std::FILE* stream = stderr);

  void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});
  void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::kDebug, event, fields);
  }
  void info(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::kInfo, event, fields);
  }
  void warning(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::kWarning, event, fields);
  }
  void error(std::string_view event, std::initializer_list<Field> fields = {}) {
    write(Level::kError, event, fields);
  }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

/// "event key=value key=\"quoted value\"": the text of a log line after time and level.
std::string format_event(std::string_view event, std::initializer_list<Field> fields);

}  // namespace retort::obs
