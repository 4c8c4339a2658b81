#include "app/commands/members.h"

namespace retort::app {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (auto make : {make_distil, make_eval, make_generate, make_chat, make_adapter, make_records,
                    make_plan, make_bench}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace retort::app
