#include "base/disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace retort::base {
namespace {

/// Code and wording for errno: what the user can do differs for "missing" and "full".
tl::unexpected<Error> os_error(std::string_view what, const Path& path, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return make_error(code, "{}: cannot {}: {}", path.string(), what, std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Writes all bytes or returns errno.
int write_all(int fd, const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return 0;
}

Path home_directory(const char* variable, const char* fallback) {
  if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') return value;
  const char* home = std::getenv("HOME");
  return Path(home != nullptr ? home : "/tmp") / fallback;
}

}  // namespace

Result<std::string> read_file(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return os_error("open it for reading", path, errno);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read it", path, errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

Result<void> write_file_atomic(const Path& path, std::span<const std::byte> bytes) {
  Path temporary = path;
  temporary += ".tmp";
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return os_error("create it", temporary, errno);
    int error = write_all(file.get(), bytes.data(), bytes.size());
    if (error == 0 && ::fsync(file.get()) != 0) error = errno;
    if (error != 0) {
      ::unlink(temporary.c_str());
      return os_error("write it", path, error);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return os_error("replace it", path, error);
  }
  const Path parent = path.has_parent_path() ? path.parent_path() : Path(".");
  const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
  return {};
}

Result<void> write_file_atomic(const Path& path, std::string_view text) {
  return write_file_atomic(path, std::as_bytes(std::span(text)));
}

Result<void> create_directories(const Path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return os_error("create the folder", path, error.value());
  return {};
}

Path data_directory() {
  if (const char* home = std::getenv("RETORT_HOME"); home != nullptr && *home != '\0') return home;
  return home_directory("XDG_DATA_HOME", ".local/share") / "retort";
}

Path cache_directory() { return home_directory("XDG_CACHE_HOME", ".cache") / "retort"; }

Result<MappedFile> MappedFile::open(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return os_error("open it for reading", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return os_error("inspect it", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return make_error(Code::kInvalidInput, "{}: not a regular file", path.string());
  }
  MappedFile map;
  map.size_ = static_cast<size_t>(status.st_size);
  if (map.size_ == 0)
    return make_error(Code::kInvalidInput, "{}: the file is empty", path.string());
  void* data = ::mmap(nullptr, map.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return os_error("map it", path, errno);
  map.data_ = static_cast<const std::byte*>(data);
  return map;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> range) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const auto last = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<AppendFile> AppendFile::open(const Path& path) {
  AppendFile file;
  file.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file.fd_ < 0) return os_error("open it for appending", path, errno);
  file.path_ = path;
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> AppendFile::append(std::string_view text) {
  struct stat before {};
  if (::fstat(fd_, &before) != 0) return os_error("inspect it", path_, errno);
  const auto bytes = std::as_bytes(std::span(text));
  if (const int error = write_all(fd_, bytes.data(), bytes.size()); error != 0) {
    if (::ftruncate(fd_, before.st_size) != 0)
      return os_error("undo a partial write", path_, errno);
    return os_error("append to it", path_, error);
  }
  return {};
}

Result<void> AppendFile::lock() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return os_error("lock it", path_, errno);
  return make_error(Code::kIo, "{}: in use by another process", path_.string());
}

Result<void> AppendFile::truncate(size_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return os_error("shorten it", path_, errno);
  return {};
}

Result<void> AppendFile::sync() {
  if (::fsync(fd_) != 0) return os_error("flush it", path_, errno);
  return {};
}

}  // namespace retort::base
