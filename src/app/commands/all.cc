#include "app/commands/members.h"

namespace retort::app {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_generate());
  return commands;
}

}  // namespace retort::app
