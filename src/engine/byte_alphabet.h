// How byte-level BPE vocabularies (GPT-2) spell the 256 bytes.
#pragma once

#include <array>
#include <string>

namespace retort::engine {

/// Printable Latin-1 stands for itself, the rest for U+0100 and up, in order.
std::array<std::string, 256> byte_alphabet();

}  // namespace retort::engine
