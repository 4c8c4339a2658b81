// Any text as adapter_config.json and any bytes as the tensors, parted by a NUL, and the same text
// as retort.json; or, in half of the inputs, a good adapter with a few bytes overwritten. An
// adapter that is accepted has to fit the base.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "adapter/card.h"
#include "adapter/peft.h"
#include "adapter/safetensors.h"
#include "adapter/small_base.h"
#include "base/check.h"

namespace {

using namespace retort;

struct PeftInput {
  std::string config, model;
};

PeftInput good_peft() {
  const std::vector<float> values(64, 0.5f);
  const auto first = std::span(values);
  const std::string stem = "base_model.model.model.layers.0.self_attn.k_proj";
  const adapter::FloatTensor tensors[] = {{stem + ".lora_A.weight", {2, 32}, first},
                                          {stem + ".lora_B.weight", {16, 2}, first.first(32)},
                                          {stem + ".lora_magnitude_vector", {16}, first.first(16)}};
  return {R"({"peft_type":"LORA","r":8,"lora_alpha":16,"use_dora":true,"use_rslora":false,)"
          R"("rank_pattern":{"[kq]_proj":2},"alpha_pattern":{"k_proj":4.5},"bias":"none"})",
          adapter::write_safetensors(tensors)};
}

PeftInput as_peft(const uint8_t* data, size_t size) {
  if (size > 0 && (data[0] & 1) != 0) {  // {0 config, 1 model; offset (2 bytes); value} ...
    PeftInput input = good_peft();
    for (size_t i = 1; i + 3 < size; i += 4) {
      std::string& text = (data[i] & 1) != 0 ? input.model : input.config;
      text[(data[i + 1] | size_t{data[i + 2]} << 8) % text.size()] = static_cast<char>(data[i + 3]);
    }
    return input;
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t nul = std::min(text.find('\0'), size);
  return {text.substr(0, nul), text.substr(std::min(nul + 1, size))};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const engine::Config config = adapter::small_config();
  const PeftInput input = as_peft(data, size);
  std::vector<std::string> warnings;
  const auto loaded =
      adapter::parse_peft(input.config, std::as_bytes(std::span(input.model)), config, &warnings);
  if (loaded) CHECK(adapter::check_weights(*loaded, adapter::SlotBase::of(config, {})).has_value());
  (void)adapter::parse_card(input.config);
  return 0;
}
