#include "kernels/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace retort::kernels {

namespace portable {
extern const Table table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Table table;
}
namespace avxvnni {
extern const Table table;
}
namespace avx512 {
extern const Table table;
}
#endif

namespace {

#if defined(__x86_64__)
// clang 14 knows neither name in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

std::vector<const Table*> find_available() {
  std::vector<const Table*> tables;
#if defined(__x86_64__)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool has_avx512 =
      has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni");
  if (has_avx512) tables.push_back(&avx512::table);
  if (has_avx2 && has_avxvnni()) tables.push_back(&avxvnni::table);
  if (has_avx2) tables.push_back(&avx2::table);
#endif
  tables.push_back(&portable::table);
  return tables;
}

const Table& choose() {
  const char* forced = std::getenv("RETORT_KERNELS");
  if (forced == nullptr || *forced == '\0') return *available().front();
  for (const Table* table : available())
    if (std::string_view(forced) == table->name) return *table;
  CHECK(false, "RETORT_KERNELS={}: this processor has no such kernels", forced);
  return *available().back();
}

}  // namespace

std::span<const Table* const> available() {
  static const std::vector<const Table*> tables = find_available();
  return tables;
}

const Table& active() {
  static const Table& table = choose();
  return table;
}

}  // namespace retort::kernels
