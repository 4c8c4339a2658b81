// CHECK: an invariant of ours, always on. It prints the values and aborts. Data from outside never
// reaches one: validate it first and return a Result.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace retort::base {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view detail);

}  // namespace retort::base

#define RETORT_CHECK_DETAIL(...) __VA_OPT__(::fmt::format(__VA_ARGS__)) __VA_OPT__(+)::std::string()

/// CHECK(a <= b) or CHECK(a <= b, "a={} b={}", a, b)
#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::retort::base::check_failed(__FILE__, __LINE__, #condition,    \
                                   RETORT_CHECK_DETAIL(__VA_ARGS__)); \
  } while (false)
