// A folder that goes when its owner goes.
#pragma once

#include "base/disk.h"
#include "base/result.h"

namespace retort::app {

class TemporaryFolder {
 public:
  /// In $TMPDIR or its default. kLimit if fewer than `bytes` are free there.
  [[nodiscard]] static base::Result<TemporaryFolder> create(uint64_t bytes);
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const base::Path& path() const { return path_; }

 private:
  explicit TemporaryFolder(base::Path path) : path_(std::move(path)) {}
  base::Path path_;
};

}  // namespace retort::app
