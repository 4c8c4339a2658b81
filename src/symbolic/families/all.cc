// The list of families. A new one is a file beside this, its declaration and a line in the list.
#include <algorithm>
#include <array>

#include "symbolic/family.h"

namespace retort::symbolic {

const Family& galois();
const Family& cycles();

std::span<const Family* const> all_families() {
  static const std::array families = {
      &galois(),
      &cycles(),
  };
  return families;
}

const Family* find_family(std::string_view name) {
  const auto families = all_families();
  const auto found = std::ranges::find(families, name, &Family::name);
  return found == families.end() ? nullptr : *found;
}

}  // namespace retort::symbolic
