#include "record/split.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/hash.h"
#include "record/text.h"

namespace retort::record {
namespace {

using base::Code;
using base::make_error;
using base::Result;

/// What makes two drafts twins if they share one of them.
std::vector<std::string> twin_keys(const Draft& draft) {
  std::vector<std::string> keys = {"prompt " + fold(draft.prompt)};
  if (!draft.canonical.empty()) keys.push_back("canonical " + draft.canonical);
  return keys;
}

/// Union-find over records; each root carries the least key of its set, which does not depend on
/// the order of the records.
class Twins {
 public:
  explicit Twins(std::span<const Record> records) : parent_(records.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    least_.resize(records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      std::vector<std::string> keys = twin_keys(records[i].draft);
      least_[i] = *std::min_element(keys.begin(), keys.end());
      for (std::string& key : keys) join(first_.emplace(std::move(key), i).first->second, i);
    }
  }
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  const std::string& key(size_t root) const { return least_[root]; }

 private:
  void join(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parent_[b] = a;
    least_[a] = std::min(least_[a], least_[b]);
  }
  std::vector<size_t> parent_;
  std::vector<std::string> least_;
  std::unordered_map<std::string, size_t> first_;
};

uint64_t place(uint64_t seed, std::string_view key) {
  const base::Hash256 hash = base::Hasher().add_value(seed).add(key).finish();
  uint64_t place = 0;
  for (int i = 0; i < 8; ++i) place = place << 8 | hash.bytes[static_cast<size_t>(i)];
  return place;
}

struct Group {
  uint64_t place;  // uniform in [0, 2^64)
  std::vector<size_t> members;
};

/// Groups in the order of their places.
std::vector<Group> make_groups(std::span<const Record> records, uint64_t seed) {
  Twins twins(records);
  std::vector<Group> groups;
  std::unordered_map<size_t, size_t> index;
  for (size_t i = 0; i < records.size(); ++i) {
    const size_t root = twins.root(i);
    const auto [it, fresh] = index.emplace(root, groups.size());
    if (fresh) groups.push_back({place(seed, twins.key(root)), {}});
    groups[it->second].members.push_back(i);
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.place < b.place; });
  return groups;
}

/// How many groups, from the front, lie below `share` of the range of places.
int64_t count_below(std::span<const Group> groups, double share) {
  const auto below = [&](const Group& g) { return static_cast<double>(g.place) < share * 0x1p64; };
  return std::ranges::partition_point(groups, below) - groups.begin();
}

/// The first members of a group, without exact duplicates. These go only now: one of them may carry
/// the label that made two other records twins.
std::vector<size_t> choose(std::span<const Record> records, std::span<const size_t> members,
                           int64_t at_most, Splits& counts) {
  std::vector<size_t> chosen;
  std::unordered_set<std::string> ids;
  for (const size_t i : members) {
    if (!ids.insert(records[i].id()).second) {
      ++counts.duplicates;
    } else if (std::ssize(chosen) == at_most) {
      ++counts.twins;
    } else {
      chosen.push_back(i);
    }
  }
  return chosen;
}

Result<void> check_options(const SplitOptions& options) {
  if (!(options.validation >= 0 && options.test >= 0 && options.validation + options.test < 1)) {
    return make_error(
        Code::kInvalidInput,
        "split: validation {} and test {} should be shares that leave some to train on",
        options.validation, options.test);
  }
  if (options.validation_count.value_or(0) < 0 || options.test_count.value_or(0) < 0 ||
      options.per_group_max < 1) {
    return make_error(Code::kInvalidInput, "split: counts should not be negative");
  }
  return {};
}

}  // namespace

Result<Splits> split_records(std::vector<Record> records, const SplitOptions& options) {
  TRY(check_options(options));
  const std::vector<Group> groups = make_groups(records, options.seed);
  const int64_t test = options.test_count.value_or(count_below(groups, options.test));
  const int64_t held_out =
      options.validation_count
          ? test + *options.validation_count
          : std::max(test, count_below(groups, options.test + options.validation));
  if (held_out >= std::ssize(groups)) {
    return make_error(Code::kInvalidInput, "split: {} held-out groups leave none of {} to train on",
                      held_out, groups.size());
  }
  Splits splits;
  std::vector<std::vector<Record>*> side(records.size(), nullptr);
  for (int64_t g = 0; g < std::ssize(groups); ++g) {
    auto* part = g < test ? &splits.test : g < held_out ? &splits.validation : &splits.train;
    const auto& members = groups[static_cast<size_t>(g)].members;
    for (const size_t i : choose(records, members, options.per_group_max, splits)) side[i] = part;
  }
  for (size_t i = 0; i < records.size(); ++i) {
    if (side[i] != nullptr) side[i]->push_back(std::move(records[i]));
  }
  return splits;
}

Overlap overlap(std::span<const Record> train, std::span<const Record> held_out) {
  std::unordered_set<std::string> ids, prompts, canonicals;
  for (const Record& record : train) {
    ids.insert(record.id());
    prompts.insert(fold(record.draft.prompt));
    if (!record.draft.canonical.empty()) canonicals.insert(record.draft.canonical);
  }
  Overlap overlap;
  for (const Record& record : held_out) {
    overlap.exact += ids.contains(record.id());
    overlap.prompt += prompts.contains(fold(record.draft.prompt));
    overlap.canonical += canonicals.contains(record.draft.canonical);
  }
  return overlap;
}

int64_t count_groups(std::span<const Record> records) {
  return std::ssize(make_groups(records, 0));
}

bool TwinSet::contains(const Draft& draft) const {
  const auto keys = twin_keys(draft);
  return std::ranges::any_of(keys, [&](const std::string& key) { return keys_.contains(key); });
}

bool TwinSet::add(const Draft& draft) {
  const bool fresh = !contains(draft);
  for (std::string& key : twin_keys(draft)) keys_.insert(std::move(key));
  return fresh;
}

}  // namespace retort::record
