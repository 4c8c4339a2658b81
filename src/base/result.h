// Errors as values. An operating failure (bad input, a full disk, a missing file) is a Result; a
// bug is a CHECK (check.h); an expected outcome (a rejected answer) is a value of its own type.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace retort::base {

enum class Code {
  kInvalidInput,  // malformed data or arguments from outside
  kNotFound,      // a named file, adapter or tensor does not exist
  kUnsupported,   // well-formed, but of a kind that this build does not handle
  kMismatch,      // valid in itself, but made for another base, format version or machine
  kLimit,         // a stated limit (base/limits.h or an option) would be exceeded
  kIo,            // the operating system refused: disk full, permission, short read
  kCancelled,     // the user or the caller asked to stop
};

/// What failed, where, and what to do about it, in one sentence a user can act on.
struct Error {
  Code code = Code::kIo;
  std::string message;
};

template <class T = void>
using Result = tl::expected<T, Error>;

/// make_error(Code::kInvalidInput, "{}: line {}: empty prompt", path, line)
template <class... Args>
[[nodiscard]] tl::unexpected<Error> make_error(Code code, fmt::format_string<Args...> format,
                                               Args&&... args) {
  return tl::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// The same error with "prefix: " before its message; for adding the file or record it concerns.
[[nodiscard]] inline tl::unexpected<Error> in_context(std::string_view prefix, Error error) {
  error.message.insert(0, fmt::format("{}: ", prefix));
  return tl::unexpected(std::move(error));
}

/// Process exit codes: 0 done, 1 failed, 2 bad usage or input, 3 partly done.
[[nodiscard]] constexpr int exit_code(Code code) {
  switch (code) {
    case Code::kInvalidInput:
    case Code::kNotFound:
    case Code::kUnsupported:
    case Code::kMismatch:
      return 2;
    case Code::kLimit:
    case Code::kIo:
    case Code::kCancelled:
      return 1;
  }
  return 1;
}

}  // namespace retort::base

#define RETORT_CONCAT_INNER(a, b) a##b
#define RETORT_CONCAT(a, b) RETORT_CONCAT_INNER(a, b)

/// Returns from the enclosing function with the error of `expression`, if it has one.
#define TRY(expression)                                       \
  do {                                                        \
    if (auto try_result = (expression); !try_result)          \
      return ::tl::unexpected(std::move(try_result).error()); \
  } while (false)

/// TRY_ASSIGN(auto model, Model::open(path)): the value, or return with the error.
#define TRY_ASSIGN(declaration, expression)                                    \
  auto RETORT_CONCAT(try_, __LINE__) = (expression);                           \
  if (!RETORT_CONCAT(try_, __LINE__))                                          \
    return ::tl::unexpected(std::move(RETORT_CONCAT(try_, __LINE__)).error()); \
  declaration = *std::move(RETORT_CONCAT(try_, __LINE__))
