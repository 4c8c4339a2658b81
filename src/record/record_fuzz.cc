// Whatever bytes come in, loading refuses or accepts them, and what it accepts survives being
// written and read again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "record/load.h"
#include "record/split.h"
#include "record/stats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace retort::record;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = parse_records(text, "fuzz");
  if (!loaded) return 0;
  CHECK(loaded->lines == std::ssize(loaded->records) + loaded->refused);
  std::string written;
  for (const Record& record : loaded->records) written += to_line(record);
  const auto again = parse_records(written, "again");
  CHECK(again.has_value());
  CHECK(again->refused == 0, "{}", again->refusals.empty() ? "" : again->refusals[0].reason);
  CHECK(again->records.size() == loaded->records.size());
  for (size_t i = 0; i < again->records.size(); ++i) {
    CHECK(to_line(again->records[i]) == to_line(loaded->records[i]));
  }
  (void)to_text(stats_of(loaded->records));
  if (const auto splits = split_records(loaded->records, {})) {
    CHECK(overlap(splits->train, splits->test).total() == 0);
    CHECK(overlap(splits->train, splits->validation).total() == 0);
  }
  return 0;
}
