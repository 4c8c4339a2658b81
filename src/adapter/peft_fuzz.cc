// Any text as adapter_config.json and any bytes as the tensors, parted by a NUL; and the same text
// as retort.json. An adapter that is accepted has to fit the base.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "adapter/card.h"
#include "adapter/peft.h"
#include "adapter/small_base.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace retort;
  static const engine::Config config = adapter::small_config();
  const uint8_t* const end = data + size;
  const uint8_t* const nul = std::find(data, end, uint8_t{0});
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<size_t>(nul - data));
  const auto rest = std::span(nul == end ? end : nul + 1, end);
  std::vector<std::string> warnings;
  const auto loaded = adapter::parse_peft(text, std::as_bytes(rest), config, &warnings);
  if (loaded) CHECK(adapter::check_weights(*loaded, adapter::SlotBase::of(config, {})).has_value());
  (void)adapter::parse_card(text);
  return 0;
}
