#include "record/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "record/split.h"

namespace retort::record {
namespace {

Lengths lengths_of(std::vector<int64_t> bytes) {
  if (bytes.empty()) return {};
  std::sort(bytes.begin(), bytes.end());
  const auto rank = [&](double share) {
    const auto n = static_cast<size_t>(std::ceil(share * static_cast<double>(bytes.size())));
    return bytes[std::max<size_t>(n, 1) - 1];
  };
  const auto total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  const double mean = static_cast<double>(total) / static_cast<double>(bytes.size());
  return {bytes.front(), rank(0.5), rank(0.95), bytes.back(), mean};
}

std::string or_none(const std::string& label) { return label.empty() ? "(none)" : label; }

base::Json lengths_to_json(const Lengths& lengths) {
  return {{"min", lengths.min},
          {"p50", lengths.p50},
          {"p95", lengths.p95},
          {"max", lengths.max},
          {"mean", lengths.mean}};
}

base::Json counts_to_json(const std::map<std::string, int64_t>& counts) {
  base::Json json = base::Json::object();
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

void append_counts(std::string& text, std::string_view title,
                   const std::map<std::string, int64_t>& counts) {
  fmt::format_to(std::back_inserter(text), "{:<10}", title);
  for (const auto& [name, count] : counts) {
    fmt::format_to(std::back_inserter(text), "  {} {}", name, count);
  }
  text += '\n';
}

void append_lengths(std::string& text, std::string_view title, const Lengths& lengths) {
  fmt::format_to(std::back_inserter(text), "{:<10}  bytes: min {}, median {}, p95 {}, max {}\n",
                 title, lengths.min, lengths.p50, lengths.p95, lengths.max);
}

}  // namespace

Stats stats_of(std::span<const Record> records) {
  Stats stats;
  stats.records = std::ssize(records);
  stats.groups = count_groups(records);
  std::vector<int64_t> prompts, completions;
  for (const Record& record : records) {
    const Draft& draft = record.draft;
    stats.with_chain += !draft.reasoning_chain.empty() || draft.form == Form::kMessages;
    ++stats.by_standing[std::string(to_string(record.standing))];
    ++stats.by_task[or_none(draft.task)];
    ++stats.by_teacher[or_none(draft.teacher)];
    ++stats.by_level[draft.level < 0 ? "(none)" : std::to_string(draft.level)];
    prompts.push_back(std::ssize(draft.prompt));
    completions.push_back(std::ssize(draft.completion()));
  }
  stats.prompt = lengths_of(std::move(prompts));
  stats.completion = lengths_of(std::move(completions));
  return stats;
}

base::Json to_json(const Stats& stats) {
  return {{"records", stats.records},
          {"groups", stats.groups},
          {"with_chain", stats.with_chain},
          {"by_standing", counts_to_json(stats.by_standing)},
          {"by_task", counts_to_json(stats.by_task)},
          {"by_teacher", counts_to_json(stats.by_teacher)},
          {"by_level", counts_to_json(stats.by_level)},
          {"prompt_bytes", lengths_to_json(stats.prompt)},
          {"completion_bytes", lengths_to_json(stats.completion)}};
}

std::string to_text(const Stats& stats) {
  std::string text = fmt::format("records     {}, {} groups, {} with a chain\n", stats.records,
                                 stats.groups, stats.with_chain);
  append_counts(text, "standing", stats.by_standing);
  append_counts(text, "task", stats.by_task);
  append_counts(text, "teacher", stats.by_teacher);
  append_counts(text, "level", stats.by_level);
  append_lengths(text, "prompt", stats.prompt);
  append_lengths(text, "completion", stats.completion);
  return text;
}

}  // namespace retort::record
