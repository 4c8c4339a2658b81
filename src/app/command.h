// One subcommand of the program: its options, and what it does. One file each in commands/, and one
// line in commands/all.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace retort::app {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  /// Shown under --help.
  virtual std::string_view examples() const = 0;
  /// Adds options that write to this object's members.
  virtual void declare(CLI::App& app) = 0;
  /// The process's exit code: 0 done, 3 partly done; errors carry theirs (base::exit_code).
  [[nodiscard]] virtual base::Result<int> run() = 0;
};

std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace retort::app
