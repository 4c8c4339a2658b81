// Oracle: twins found by comparing every pair of records, closed under "twin of a twin".
#include "record/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/rng.h"
#include "record/load.h"
#include "record/testing.h"
#include "record/text.h"

namespace retort::record {
namespace {

bool are_twins(const Record& a, const Record& b) {
  return fold(a.draft.prompt) == fold(b.draft.prompt) ||
         (!a.draft.canonical.empty() && a.draft.canonical == b.draft.canonical);
}

/// Random records with many twins of both kinds and exact duplicates.
std::vector<Record> messy_records(uint64_t seed, int n) {
  base::Rng rng(seed);
  std::vector<Record> records;
  for (int i = 0; i < n; ++i) {
    std::string prompt =
        fmt::format("Prompt{}number {}", rng.below(2) ? " " : " \t ", rng.below(150));
    if (rng.below(2)) prompt = fold(prompt);
    records.push_back(make_record(prompt, fmt::format("{}", rng.below(3))));
    if (rng.below(2)) records.back().draft.canonical = fmt::format("problem {}", rng.below(300));
  }
  return records;
}

std::vector<const std::vector<Record>*> parts(const Splits& splits) {
  return {&splits.train, &splits.validation, &splits.test};
}

TEST(Split, NoHeldOutRecordHasATwinElsewhere) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Splits splits =
        split_records(messy_records(seed, 300), {.seed = seed, .validation = 0.2, .test = 0.2})
            .value();
    for (const auto* a : parts(splits)) {
      for (const auto* b : parts(splits)) {
        if (a == b) continue;
        EXPECT_EQ(overlap(*a, *b).total(), 0);
        for (const Record& x : *a) {
          for (const Record& y : *b) ASSERT_FALSE(are_twins(x, y));
        }
      }
    }
  }
}

/// Groups by the slow closure over all pairs.
size_t slow_group_count(const std::vector<Record>& records) {
  std::vector<size_t> group(records.size());
  for (size_t i = 0; i < records.size(); ++i) group[i] = i;
  std::vector<std::pair<size_t, size_t>> twins;
  for (size_t i = 0; i < records.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (are_twins(records[i], records[j])) twins.emplace_back(i, j);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [i, j] : twins) {
      changed = changed || group[i] != group[j];
      group[i] = group[j] = std::min(group[i], group[j]);
    }
  }
  return std::set<size_t>(group.begin(), group.end()).size();
}

TEST(Split, KeepsOneRecordOfEachGroupAndCountsTheRest) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<Record> records = messy_records(seed, 200);
    const size_t groups = slow_group_count(records);
    const Splits splits = split_records(records, {}).value();
    const auto kept = splits.train.size() + splits.validation.size() + splits.test.size();
    EXPECT_EQ(kept, groups);
    EXPECT_EQ(static_cast<size_t>(count_groups(records)), groups);
    EXPECT_EQ(static_cast<int64_t>(kept) + splits.duplicates + splits.twins, std::ssize(records));
    EXPECT_GT(splits.duplicates, 0);
  }
}

TEST(Split, SameSideInOtherCaseSpacingAndOrder) {
  std::vector<Record> records = messy_records(3, 300);
  const auto side_of = [](const Splits& splits) {
    std::map<std::string, int> side;
    int number = 0;
    for (const auto* part : parts(splits)) {
      for (const Record& record : *part) side[fold(record.draft.prompt)] = number;
      ++number;
    }
    return side;
  };
  const auto before = side_of(split_records(records, {}).value());
  std::reverse(records.begin(), records.end());
  for (Record& record : records) {
    std::string& prompt = record.draft.prompt;
    std::transform(prompt.begin(), prompt.end(), prompt.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    prompt = "  " + prompt + "\n";
  }
  int compared = 0;
  for (const auto& [prompt, side] : side_of(split_records(records, {}).value())) {
    const auto it = before.find(prompt);
    if (it == before.end()) continue;  // another twin of the group was kept
    EXPECT_EQ(it->second, side) << prompt;
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

std::vector<Record> plain_records(int n) {
  std::vector<Record> records;
  for (int i = 0; i < n; ++i) records.push_back(make_record(fmt::format("number {}", i), "a"));
  return records;
}

std::vector<std::string> prompts(const std::vector<Record>& records) {
  std::vector<std::string> prompts;
  for (const Record& record : records) prompts.push_back(record.draft.prompt);
  return prompts;
}

TEST(Split, SharesAreMetAndStableAsRecordsCome) {
  const Splits few = split_records(plain_records(1000), {.validation = 0.1, .test = 0.2}).value();
  EXPECT_NEAR(static_cast<double>(few.validation.size()), 100, 40);  // 4 sigma = 38
  EXPECT_NEAR(static_cast<double>(few.test.size()), 200, 51);        // 4 sigma = 50.6
  const Splits more = split_records(plain_records(2000), {.validation = 0.1, .test = 0.2}).value();
  const auto test = prompts(more.test);
  for (const std::string& prompt : prompts(few.test)) {
    EXPECT_NE(std::find(test.begin(), test.end(), prompt), test.end()) << prompt;
  }
}

TEST(Split, CountsAreExact) {
  SplitOptions options;
  options.validation_count = 30;
  options.test_count = 70;
  const Splits splits = split_records(plain_records(500), options).value();
  EXPECT_EQ(splits.validation.size(), 30u);
  EXPECT_EQ(splits.test.size(), 70u);
  EXPECT_EQ(splits.train.size(), 400u);
}

TEST(Split, DependsOnTheSeedAndNothingElse) {
  const auto with_seed = [](uint64_t seed) {
    return prompts(split_records(plain_records(200), {.seed = seed}).value().test);
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST(Split, SeveralChainsOfAGroupStayTogether) {
  std::vector<Record> records;
  for (int i = 0; i < 300; ++i) {
    records.push_back(make_record(fmt::format("number {}", i / 3), fmt::format("{}", i)));
  }
  const Splits splits =
      split_records(records, {.validation = 0.3, .test = 0.3, .per_group_max = 2}).value();
  EXPECT_EQ(splits.twins, 100);
  for (const auto* part : parts(splits)) {
    std::map<std::string, int> count;
    for (const Record& record : *part) ++count[record.draft.prompt];
    for (const auto& [prompt, n] : count) EXPECT_EQ(n, 2) << prompt;
  }
}

TEST(Split, RefusesToLeaveNothingToTrainOn) {
  SplitOptions all_test;
  all_test.test_count = 10;
  EXPECT_FALSE(split_records(plain_records(10), all_test));
  EXPECT_FALSE(split_records({}, {}));
  EXPECT_FALSE(split_records(plain_records(10), {.validation = 0.5, .test = 0.5}));
  EXPECT_FALSE(split_records(plain_records(10), {.validation = -0.1}));
  EXPECT_FALSE(split_records(plain_records(10), {.test = std::nan("")}));
  EXPECT_FALSE(split_records(plain_records(10), {.per_group_max = 0}));
}

TEST(Overlap, SeesWhatALeakLooksLike) {
  const std::vector<Record> train = plain_records(10);
  std::vector<Record> held_out = {train[3], make_record("NUMBER  5", "other"),
                                  make_record("new", "a")};
  const Overlap found = overlap(train, held_out);
  EXPECT_EQ(found.exact, 1);
  EXPECT_EQ(found.prompt, 2);
  EXPECT_EQ(found.canonical, 0);
}

TEST(TwinSet, KnowsTwinsOfBothKinds) {
  TwinSet set;
  Draft draft = make_record("What is 2+2?", "4").draft;
  draft.canonical = "sum 2 2";
  EXPECT_TRUE(set.add(draft));
  EXPECT_FALSE(set.add(draft));
  Draft reworded = draft;
  reworded.prompt = "Add 2 and 2.";
  EXPECT_TRUE(set.contains(reworded));
  Draft loose = make_record(" what IS 2+2?", "4").draft;
  EXPECT_TRUE(set.contains(loose));
  EXPECT_FALSE(set.add(reworded)) << "but remembers its wording from here on";
  reworded.canonical.clear();
  EXPECT_TRUE(set.contains(reworded));
}

}  // namespace
}  // namespace retort::record
