// Whatever text comes in, it is a recipe within its limits or an error that names the file.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "loop/recipe.h"
#include "train/trainer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace retort;
  const auto recipe = loop::parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!recipe) {
    CHECK(recipe.error().message.starts_with("fuzz.toml:"), "{}", recipe.error().message);
    return 0;
  }
  CHECK(!recipe->name.empty() && recipe->teacher.records > 0 && recipe->eval.held_out > 0);
  CHECK(train::check_options(recipe->train).has_value());
  return 0;
}
