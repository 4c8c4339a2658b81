// Oracles: published vectors (BLAKE2b), a naive reference, and the operating system's own faults.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "base/disk.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"

namespace retort::base {
namespace {

Path temporary_path(const char* name) {
  const Path folder =
      std::filesystem::temp_directory_path() / fmt::format("retort-base-{}", getpid());
  std::filesystem::create_directories(folder);
  return folder / name;
}

TEST(Hash, MatchesThePublishedVector) {
  EXPECT_EQ(hash_text("abc").hex(),
            "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Rng, IsUniformAndReproducible) {
  Rng a(7), b(7), c(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  int counts[6] = {};
  for (int i = 0; i < 60000; ++i) ++counts[a.below(6)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 400);  // 4 sigma = 365
}

TEST(Json, RefusesWhatIsNotStrict) {
  EXPECT_TRUE(parse_json(R"({"a": "\ud83d\ude00"})"));
  EXPECT_FALSE(parse_json(R"({"a": "\ud800"})"));
  EXPECT_FALSE(parse_json("{\"a\": \"\xff\"}"));
  EXPECT_FALSE(parse_json("{\"a\": "));
  EXPECT_FALSE(parse_json(R"({"a": 1, "b": 2, "a": 3})"));
  EXPECT_TRUE(parse_json(R"({"a": {"a": 1}, "b": [{"a": 2}]})"));
  EXPECT_FALSE(is_valid_utf8("\xc0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80"));
  EXPECT_TRUE(is_valid_utf8("\xf0\x9f\x98\x80"));
}

TEST(Disk, AtomicWriteReplacesAndReportsMissing) {
  const Path path = temporary_path("file");
  ASSERT_TRUE(write_file_atomic(path, "one"));
  ASSERT_TRUE(write_file_atomic(path, "two"));
  EXPECT_EQ(read_file(path).value(), "two");
  const auto missing = read_file(temporary_path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
}

/// The kernel refuses writes past RLIMIT_FSIZE as it does on a full disk: part way, with an errno.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(Disk, AFullDiskLosesNothing) {
  const Path path = temporary_path("full");
  ASSERT_TRUE(write_file_atomic(path, "kept"));
  AppendFile log = AppendFile::open(temporary_path("log")).value();
  ASSERT_TRUE(log.append("line one\n"));
  {
    const FileSizeLimit limit(4096);
    EXPECT_FALSE(write_file_atomic(path, std::string(10000, 'x')));
    EXPECT_FALSE(log.append(std::string(10000, 'y')));
  }
  EXPECT_EQ(read_file(path).value(), "kept");
  EXPECT_EQ(read_file(temporary_path("log")).value(), "line one\n");
}

}  // namespace
}  // namespace retort::base
