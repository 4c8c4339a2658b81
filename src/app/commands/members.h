// The makers of the commands; each stands in the file of its name.
#pragma once

#include <memory>

#include "app/command.h"

namespace retort::app {

std::unique_ptr<Command> make_adapter();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_chat();
std::unique_ptr<Command> make_distil();
std::unique_ptr<Command> make_eval();
std::unique_ptr<Command> make_generate();
std::unique_ptr<Command> make_plan();
std::unique_ptr<Command> make_records();

}  // namespace retort::app
