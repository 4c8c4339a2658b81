// The seam to the file system: whole-file reads, atomic writes, appends, read-only maps.
// Every failure names the path and the operating system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace retort::base {

using Path = std::filesystem::path;

[[nodiscard]] Result<std::string> read_file(const Path& path);

/// Replaces `path` with `bytes` so that a reader, or a crash at any moment, sees the old file or
/// the new one whole: temporary file in the same folder, fsync, rename, fsync of the folder.
[[nodiscard]] Result<void> write_file_atomic(const Path& path, std::span<const std::byte> bytes);
[[nodiscard]] Result<void> write_file_atomic(const Path& path, std::string_view text);

[[nodiscard]] Result<void> create_directories(const Path& path);

/// ${XDG_DATA_HOME:-~/.local/share}/retort: adapters, registry, record logs. $RETORT_HOME wins.
[[nodiscard]] Path data_directory();
/// ${XDG_CACHE_HOME:-~/.cache}/retort: what set-up installed; can be rebuilt.
[[nodiscard]] Path cache_directory();

/// A read-only map of a whole file; movable. The bytes stay valid until destruction.
class MappedFile {
 public:
  [[nodiscard]] static Result<MappedFile> open(const Path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Tells the system that the pages of `range` (inside bytes()) will not be read again soon.
  void release(std::span<const std::byte> range) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A file open for appending whole lines. append() returns after the bytes reached the kernel;
/// sync() after they reached the disk. A failed append leaves the file as it was before it.
class AppendFile {
 public:
  [[nodiscard]] static Result<AppendFile> open(const Path& path);
  AppendFile() = default;
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  [[nodiscard]] Result<void> append(std::string_view text);
  [[nodiscard]] Result<void> sync();
  /// Keeps other AppendFiles of any process from locking it until this one is closed. kIo if one
  /// has.
  [[nodiscard]] Result<void> lock();
  /// Cuts the file to its first `size` bytes.
  [[nodiscard]] Result<void> truncate(size_t size);

 private:
  int fd_ = -1;
  Path path_;
};

}  // namespace retort::base
