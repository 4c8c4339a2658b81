#include "app/bench/temporary.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace retort::app {

base::Result<TemporaryFolder> TemporaryFolder::create(uint64_t bytes) {
  std::error_code error;
  const base::Path parent = std::filesystem::temp_directory_path(error);
  if (error) return base::make_error(base::Code::kIo, "no temporary folder: {}", error.message());
  const auto space = std::filesystem::space(parent, error);
  if (!error && space.available < bytes) {
    return base::make_error(
        base::Code::kLimit,
        "{} has {} MB free and the benchmark needs {} MB; free some, or set TMPDIR",
        parent.string(), space.available >> 20, bytes >> 20);
  }
  std::string path = (parent / "retort-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return base::make_error(base::Code::kIo, "{}: {}", path, std::strerror(errno));
  }
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace retort::app
