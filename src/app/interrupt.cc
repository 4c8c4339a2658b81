#include "app/interrupt.h"

#include <csignal>

namespace retort::app {
namespace {

std::atomic<bool> flag{false};  // a signal handler can reach nothing but a global
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  flag.store(true, std::memory_order_relaxed);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write(), not the end
}

const std::atomic<bool>& interrupted() { return flag; }

}  // namespace retort::app
