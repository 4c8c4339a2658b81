#include "record/text.h"

#include <cstdint>

namespace retort::record {
namespace {

struct CodePoint {
  uint32_t value;
  size_t length;
};

/// The code point at text[i]; a malformed byte stands for itself.
CodePoint decode(std::string_view text, size_t i) {
  const auto byte = [&](size_t j) { return static_cast<uint32_t>(static_cast<uint8_t>(text[j])); };
  const uint32_t lead = byte(i);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (length == 1 || i + length > text.size()) return {lead < 0x80 ? lead : 0xfffd, 1};
  uint32_t value = lead & (0xffu >> (length + 1));
  for (size_t j = i + 1; j < i + length; ++j) {
    if ((byte(j) & 0xc0) != 0x80) return {0xfffd, 1};
    value = value << 6 | (byte(j) & 0x3f);
  }
  return {value, length};
}

bool is_space(uint32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0d);
  if (c >= 0x2000 && c <= 0x200b) return true;
  switch (c) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x2060:
    case 0x3000:
    case 0xfeff:
      return true;
    default:
      return false;
  }
}

/// Capitals first, first + step, ... last have their small letters `offset` further on.
struct Capitals {
  uint32_t first, last, step, offset;
};
constexpr Capitals kCapitals[] = {
    {'A', 'Z', 1, 32},     {0xc0, 0xd6, 1, 32},   {0xd8, 0xde, 1, 32},   {0x100, 0x12e, 2, 1},
    {0x132, 0x136, 2, 1},  {0x139, 0x147, 2, 1},  {0x14a, 0x176, 2, 1},  {0x179, 0x17d, 2, 1},
    {0x388, 0x38a, 1, 37}, {0x391, 0x3a1, 1, 32}, {0x3a3, 0x3ab, 1, 32}, {0x400, 0x40f, 1, 80},
    {0x410, 0x42f, 1, 32}, {0x460, 0x480, 2, 1},  {0x48a, 0x4be, 2, 1},
};

uint32_t to_lower(uint32_t c) {
  for (const Capitals& range : kCapitals) {
    if (c >= range.first && c <= range.last && (c - range.first) % range.step == 0) {
      return c + range.offset;
    }
  }
  return c;
}

/// Small letters of the table lie below U+0800: one or two bytes.
void append_small(std::string& text, uint32_t c) {
  if (c >= 0x80) text += static_cast<char>(0xc0 | c >> 6);
  text += static_cast<char>(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
}

}  // namespace

std::string fold(std::string_view text) {
  std::string folded;
  bool gap = false;
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = decode(text, i);
    if (is_space(value)) {
      gap = !folded.empty();
    } else {
      if (gap) folded += ' ';
      gap = false;
      const uint32_t small = to_lower(value);
      small != value ? append_small(folded, small) : void(folded.append(text.substr(i, length)));
    }
    i += length;
  }
  return folded;
}

bool is_blank(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = decode(text, i);
    if (!is_space(value)) return false;
    i += length;
  }
  return true;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace retort::record
