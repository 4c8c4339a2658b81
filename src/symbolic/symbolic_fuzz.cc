// check() of every family must not crash, whatever the canonical problem and the text: both come
// from records and models. The first line of the input is the problem, the rest the text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "symbolic/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  const std::string_view canonical = input.substr(0, line);
  const std::string_view text = line == input.npos ? std::string_view() : input.substr(line + 1);
  for (const retort::symbolic::Family* family : retort::symbolic::all_families()) {
    const auto check = family->check(canonical, text);
    if (check) CHECK(check->correct == check->reason.empty(), "{}", family->name());
  }
  return 0;
}
