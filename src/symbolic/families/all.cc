// The list of families. A new one is a file beside this, its declaration and a line in the list.
#include <algorithm>
#include <array>

#include "symbolic/family.h"

namespace retort::symbolic {

const Family& galois();
const Family& lattice();
const Family& affine();
const Family& dihedral();
const Family& cycles();
const Family& sets();
const Family& euclid();
const Family& calendar();

std::span<const Family* const> all_families() {
  static const std::array families = {
      &galois(), &lattice(), &affine(), &dihedral(), &cycles(), &sets(), &euclid(), &calendar(),
  };
  return families;
}

const Family* find_family(std::string_view name) {
  const auto families = all_families();
  const auto found = std::ranges::find(families, name, &Family::name);
  return found == families.end() ? nullptr : *found;
}

}  // namespace retort::symbolic
