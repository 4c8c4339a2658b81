// Oracle: a vector of records kept beside the log. Faults are real: files cut at every byte, and a
// file size limit of the kernel's, which ends a write part way as a full disk does.
#include "record/log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "base/limits.h"
#include "record/load.h"
#include "record/testing.h"

namespace retort::record {
namespace {

std::vector<std::string> ids(const std::vector<Record>& records) {
  std::vector<std::string> ids;
  for (const Record& record : records) ids.push_back(record.id());
  return ids;
}

/// Three records in a log, and its bytes.
class Log : public testing::Test {
 protected:
  void SetUp() override {
    path_ = temporary_folder("log") / "records.jsonl";
    RecordLog log = RecordLog::open(path_).value();
    for (int i = 0; i < 3; ++i) {
      records_.push_back(make_record(fmt::format("prompt {}", i), "caf\u00e9"));
      ASSERT_TRUE(log.append(records_.back()));
    }
    ASSERT_TRUE(log.sync());
    text_ = base::read_file(path_).value();
  }
  std::vector<std::string> first_ids(size_t n) const {
    auto all = ids(records_);
    all.resize(n);
    return all;
  }
  base::Path path_;
  std::vector<Record> records_;
  std::string text_;
};

TEST_F(Log, HoldsWhatWasAppendedAcrossOpenings) {
  {
    RecordLog log = RecordLog::open(path_).value();
    EXPECT_EQ(log.torn_bytes(), 0u);
    records_.push_back(make_record("later", "5"));
    ASSERT_TRUE(log.append(records_.back()));
  }
  const Loaded loaded = load_records(path_).value();
  EXPECT_EQ(ids(loaded.records), ids(records_));
  EXPECT_EQ(loaded.refused, 0);
}

TEST_F(Log, CutAtAnyByteOfTheLastLineLosesNoEarlierRecord) {
  const size_t last = text_.rfind('\n', text_.size() - 2) + 1;
  for (size_t size = last; size <= text_.size(); ++size) {
    const base::Path path = temporary_folder("cut") / "records.jsonl";
    std::ofstream(path) << text_.substr(0, size);
    const bool whole = size + 1 >= text_.size();
    const size_t torn = whole ? 0 : size - last;
    {
      RecordLog log = RecordLog::open(path).value();
      EXPECT_EQ(log.torn_bytes(), torn);
      if (torn > 0) {
        EXPECT_EQ(base::read_file(log.torn_path()).value(), text_.substr(last, torn) + "\n");
      }
      ASSERT_TRUE(log.append(make_record("after the crash", "6")));
    }
    const Loaded loaded = load_records(path).value();
    auto expected = first_ids(whole ? 3 : 2);
    expected.push_back(make_record("after the crash", "6").id());
    EXPECT_EQ(ids(loaded.records), expected) << "cut at " << size;
    EXPECT_EQ(loaded.refused, 0) << "cut at " << size;
  }
}

TEST_F(Log, ATornFirstLineLeavesAnEmptyLog) {
  ASSERT_TRUE(base::write_file_atomic(path_, "{\"prompt\": \"to"));
  EXPECT_EQ(RecordLog::open(path_).value().torn_bytes(), 14u);
  EXPECT_EQ(base::read_file(path_).value(), "");
}

TEST_F(Log, ZeroesAfterAPowerLossAreSetAside) {
  ASSERT_TRUE(base::write_file_atomic(path_, text_ + std::string(4096, '\0')));
  EXPECT_EQ(RecordLog::open(path_).value().torn_bytes(), 4096u);
  EXPECT_EQ(base::read_file(path_).value(), text_);
}

TEST_F(Log, ReadersOfATornLogGetTheRestAndTheLine) {
  ASSERT_TRUE(base::write_file_atomic(path_, text_.substr(0, text_.size() - 9)));
  const Loaded loaded = load_records(path_).value();
  EXPECT_EQ(ids(loaded.records), first_ids(2));
  ASSERT_EQ(loaded.refusals.size(), 1u);
  EXPECT_EQ(loaded.refusals[0].line, 3);
}

TEST_F(Log, AHandWrittenLineWithoutItsEndIsKept) {
  const std::string hand = R"({"prompt": "by hand", "final_answer": "7"})";
  ASSERT_TRUE(base::write_file_atomic(path_, text_ + hand));
  EXPECT_EQ(RecordLog::open(path_).value().torn_bytes(), 0u);
  EXPECT_EQ(base::read_file(path_).value(), text_ + hand + "\n");
}

TEST_F(Log, ADamagedLineInTheMiddleIsRefusedAlone) {
  std::string damaged = text_;
  damaged[text_.find("prompt 1") + 7] = '9';
  ASSERT_TRUE(base::write_file_atomic(path_, damaged));
  ASSERT_TRUE(RecordLog::open(path_));
  const Loaded loaded = load_records(path_).value();
  EXPECT_EQ(ids(loaded.records), (std::vector{records_[0].id(), records_[2].id()}));
  ASSERT_EQ(loaded.refusals.size(), 1u);
  EXPECT_EQ(loaded.refusals[0].line, 2);
}

TEST_F(Log, HasOneWriter) {
  const RecordLog log = RecordLog::open(path_).value();
  const auto second = RecordLog::open(path_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos);
}

TEST_F(Log, RefusesARecordThatCouldNotBeRead) {
  RecordLog log = RecordLog::open(path_).value();
  const std::string huge(static_cast<size_t>(limits::kRecordLineBytesMax), 'x');
  EXPECT_EQ(log.append(make_record(huge, "1")).error().code, base::Code::kLimit);
  EXPECT_EQ(base::read_file(path_).value(), text_);
}

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

TEST_F(Log, AFullDiskAtAnyByteOfALineLosesNothing) {
  const Record next = make_record("one more", "8");
  const std::string line = to_line(next);
  for (size_t room = 0; room < line.size(); ++room) {
    RecordLog log = RecordLog::open(path_).value();
    {
      const FileSizeLimit limit(text_.size() + room);
      const auto full = log.append(next);
      ASSERT_FALSE(full);
      EXPECT_EQ(full.error().code, base::Code::kIo);
      EXPECT_NE(full.error().message.find("records.jsonl"), std::string::npos);
    }
    ASSERT_EQ(base::read_file(path_).value(), text_) << "room for " << room;
  }
  RecordLog log = RecordLog::open(path_).value();
  EXPECT_TRUE(log.append(next)) << "and goes on once there is space";
}

TEST_F(Log, AKilledWriterLeavesWholeRecords) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto log = RecordLog::open(path_);
    for (int i = 0; log && log->append(make_record(fmt::format("child {}", i), "9")); ++i) {
    }
    ::_exit(1);
  }
  ::usleep(50'000);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(RecordLog::open(path_)) << "the dead writer's lock is gone";
  const Loaded loaded = load_records(path_).value();
  EXPECT_EQ(loaded.refused, 0);
  EXPECT_GT(loaded.records.size(), 3u);
  EXPECT_EQ(loaded.records[3].draft.prompt, "child 0");
  EXPECT_EQ(loaded.records.back().draft.prompt, fmt::format("child {}", loaded.records.size() - 4));
}

}  // namespace
}  // namespace retort::record
