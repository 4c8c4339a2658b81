// Any bytes: the parser, the architectures' keys and the vocabulary give a value or an error.
#include <cstdint>

#include "engine/arch/arch.h"
#include "engine/gguf.h"
#include "engine/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace retort;
  const auto gguf = engine::Gguf::parse(std::as_bytes(std::span(data, size)), "input");
  if (!gguf) return 0;
  for (const engine::TensorView& tensor : gguf->tensors()) {
    if (!tensor.data.empty()) {
      const volatile std::byte ends[] = {tensor.data.front(), tensor.data.back()};
      (void)ends;
    }
  }
  (void)engine::arch::read_config(*gguf);
  const auto vocabulary = engine::Vocabulary::open(*gguf);
  if (!vocabulary) return 0;
  (void)vocabulary->encode("hello <|im_end|>\n\xf0\x9f\x98\x80\xff 12", true);
  const engine::Message chat[] = {{"user", "a"}, {"assistant", "b"}};
  (void)vocabulary->encode_chat(chat, true);
  return 0;
}
