// The makers of the commands; each stands in the file of its name.
#pragma once

#include <memory>

#include "app/command.h"

namespace retort::app {

std::unique_ptr<Command> make_generate();

}  // namespace retort::app
