// Oracles: the exact text expected for a scripted clock, a pseudo-terminal, a counting allocator.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "obs/log.h"
#include "obs/metrics.h"
#include "obs/progress.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Not inlined: g++ 12 otherwise takes malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace retort::obs {
namespace {

base::Path temporary_path(const std::string& name) {
  const base::Path folder =
      std::filesystem::temp_directory_path() / fmt::format("retort-obs-{}", getpid());
  std::filesystem::create_directories(folder);
  return folder / name;
}

int64_t clock_ms = 0;
int64_t scripted_clock() { return clock_ms; }

class PlainProgress : public testing::Test {
 protected:
  void SetUp() override {
    clock_ms = 5000;
    path_ = temporary_path("progress");
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  void TearDown() override { ::close(fd_); }
  ProgressOptions options() const { return {.fd = fd_, .now_ms = scripted_clock}; }
  std::string written() const { return base::read_file(path_).value(); }

  base::Path path_;
  int fd_ = -1;
};

TEST_F(PlainProgress, PrintsALineEveryTenSecondsOrTenth) {
  Progress progress("train", 1000, options());
  for (int step = 1; step <= 1000; ++step) {
    clock_ms += 250;  // a tenth takes 25 s: lines at 10, 20 and 25 s of each
    progress.tick(step, "loss 0.5");
  }
  progress.finish("loss 0.5");
  const std::string text = written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10 * 3 + 1);
  EXPECT_EQ(text.substr(0, text.find('\n')), "train: 4 % (40/1000)  4.00/s  4m00s left  loss 0.5");
  EXPECT_TRUE(text.ends_with("train: done, 1000 in 4m10s, loss 0.5\n")) << text;
}

TEST_F(PlainProgress, FastWorkPrintsTenthsButNotMoreThanOneASecond) {
  Progress progress("pack", 100, options());
  for (int step = 1; step <= 100; ++step) {
    clock_ms += 50;  // 5 s in all
    progress.tick(step);
  }
  progress.finish();
  const std::string text = written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

TEST_F(PlainProgress, EndsOnceAndCleansFields) {
  Progress progress("eval", 0, options());
  clock_ms += 10'000;
  progress.tick(7, "a\nb\x1b[2J");
  progress.fail("disk full");
  progress.finish();
  progress.tick(8);
  EXPECT_EQ(written(), "eval: 7  0.70/s  a b [2J\neval: failed, 7 in 10s, disk full\n");
}

TEST_F(PlainProgress, ResumedWorkCountsItsOwnRate) {
  ProgressOptions resumed = options();
  resumed.first = 400;
  Progress progress("train", 1000, resumed);
  clock_ms += 10'000;
  progress.tick(500);
  EXPECT_EQ(written(), "train: 50 % (500/1000)  10/s  50s left\n");
}

TEST_F(PlainProgress, QuietPrintsNothing) {
  ProgressOptions quiet = options();
  quiet.quiet = true;
  {
    Progress progress("train", 10, quiet);
    clock_ms += 60'000;
    progress.tick(5);
    progress.finish();
  }
  EXPECT_EQ(written(), "");
}

TEST_F(PlainProgress, TickDoesNotAllocate) {
  Progress progress("train", 1'000'000, options());
  const std::string field(2000, 'x');  // longer than the line's buffer
  const int64_t before = allocations;
  for (int step = 0; step < 100; ++step) {
    clock_ms += 10'000;
    progress.tick(step, field);
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(written().size(), 10'000u);
}

/// A pseudo-terminal of 60 columns; the test reads what the terminal would show.
class LiveProgress : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("NO_COLOR");
    clock_ms = 0;
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    ASSERT_GE(master_, 0);
    ASSERT_EQ(::grantpt(master_) | ::unlockpt(master_), 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ASSERT_GE(slave_, 0);
    const winsize size{24, 60, 0, 0};
    ::ioctl(slave_, TIOCSWINSZ, &size);
  }
  void TearDown() override {
    ::close(slave_);
    ::close(master_);
  }
  std::string read_all() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(master_, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  ProgressOptions options() const { return {.fd = slave_, .now_ms = scripted_clock}; }
  int master_ = -1;
  int slave_ = -1;
};

TEST_F(LiveProgress, RedrawsTenTimesASecondInOneLine) {
  Progress progress("train", 2000, options());
  std::string text;
  for (int step = 1; step <= 2000; ++step) {
    clock_ms += 1;  // 2 s in all
    progress.tick(step, "loss 0.123, and a field that is far too long for 60 columns");
    text += read_all();
  }
  const auto redraws = std::count(text.begin(), text.end(), '\r');
  EXPECT_EQ(redraws, 20);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const std::string first = text.substr(0, text.find('\r', 1));
  EXPECT_EQ(first.size(), 4 + 59u) << "one column is left free, or the terminal wraps";
  progress.finish();
  EXPECT_EQ(read_all(), "\r\x1b[Ktrain: done, 2000 in 2.0s\r\n");
}

TEST_F(LiveProgress, AbandonedWorkLeavesACleanLine) {
  {
    Progress progress("train", 10, options());
    clock_ms += 100;
    progress.tick(5);
    EXPECT_EQ(read_all(), "\r\x1b[Ktrain [############............]  50 %  50/s  0.1s left");
  }
  EXPECT_EQ(read_all(), "\r\x1b[Ktrain: stopped, 5 in 0.1s\r\n");
}

TEST_F(LiveProgress, NoColorMeansPlainLines) {
  setenv("NO_COLOR", "1", 1);
  Progress progress("train", 10, options());
  unsetenv("NO_COLOR");
  clock_ms += 1000;
  progress.tick(5);
  EXPECT_EQ(read_all(), "train: 50 % (5/10)  5.00/s  1.0s left\r\n");
}

TEST(Log, PutsTheEventFirstAndQuotesWhatNeedsIt) {
  EXPECT_EQ(format_event("slot_published", {{"name", "galois"}, {"rank", 16}, {"error", 0.5}}),
            "slot_published name=galois rank=16 error=0.5");
  EXPECT_EQ(format_event("refused", {{"reason", "say \"no\"\n"}, {"empty", ""}}),
            "refused reason=\"say \\\"no\\\"\\x0a\" empty=\"\"");
}

TEST(Log, WritesLinesFromTheLowestLevelUp) {
  const base::Path path = temporary_path("log");
  std::FILE* file = std::fopen(path.c_str(), "w");
  Log log(Level::kInfo, file);
  log.debug("hidden");
  log.info("started", {{"pattern", "{} %v"}});
  log.error("stopped");
  std::fclose(file);
  const std::string text = base::read_file(path).value();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find(" info started pattern=\"{} %v\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" error stopped\n"), std::string::npos) << text;
}

TEST(Metrics, AppendsOneObjectALineAcrossRuns) {
  const base::Path path = temporary_path("metrics.jsonl");
  std::filesystem::remove(path);
  for (int run = 0; run < 2; ++run) {
    Metrics metrics = Metrics::open(path).value();
    ASSERT_TRUE(metrics.write({{"step", run}, {"loss", 0.5}}));
  }
  EXPECT_EQ(base::read_file(path).value(),
            "{\"step\":0,\"loss\":0.5}\n{\"step\":1,\"loss\":0.5}\n");
  EXPECT_FALSE(Metrics::open(temporary_path("no/such/folder")));
}

}  // namespace
}  // namespace retort::obs
