#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace retort::base {

void check_failed(const char* file, int line, const char* condition, std::string_view detail) {
  fmt::print(stderr, "{}:{}: CHECK failed: {} {}\n", file, line, condition, detail);
  std::fflush(stderr);
  std::abort();
}

}  // namespace retort::base
