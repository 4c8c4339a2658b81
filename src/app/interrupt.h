// Ctrl-C and SIGTERM as a flag that long work looks at between steps; a second one ends the
// process.
#pragma once

#include <atomic>

namespace retort::app {

void watch_interrupts();
const std::atomic<bool>& interrupted();

}  // namespace retort::app
