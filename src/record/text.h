// Comparing prompts as people do: case and white space do not matter.
#pragma once

#include <string>
#include <string_view>

namespace retort::record {

/// Lower case (ASCII, Latin, Greek, Cyrillic) with runs of white space, Unicode's too, folded to
/// one blank and none at the ends. Two ways to compose an accent stay different. Malformed UTF-8 is
/// kept.
std::string fold(std::string_view text);

/// True if there is nothing in it but white space.
bool is_blank(std::string_view text);

/// The text without white space (ASCII) at its ends.
std::string_view trim(std::string_view text);

}  // namespace retort::record
