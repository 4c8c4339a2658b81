#include "base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace retort::base {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

std::optional<int64_t> read_number(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

int64_t free_of_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    int64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    std::getline(file, key);
  }
  return kUnknown;
}

/// What the control group of this process leaves, as a container sees it (version 2).
int64_t free_of_group() {
  const auto most = read_number("/sys/fs/cgroup/memory.max");
  const auto used = read_number("/sys/fs/cgroup/memory.current");
  return most && used ? std::max<int64_t>(0, *most - *used) : kUnknown;
}

}  // namespace

int64_t available_memory_bytes() { return std::min(free_of_machine(), free_of_group()); }

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace retort::base
