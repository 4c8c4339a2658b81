#include "engine/byte_alphabet.h"

namespace retort::engine {

std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> alphabet;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const unsigned code = printable ? byte : next++;
    if (code < 128) {
      alphabet[byte] = static_cast<char>(code);
    } else {
      alphabet[byte] = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    }
  }
  return alphabet;
}

}  // namespace retort::engine
