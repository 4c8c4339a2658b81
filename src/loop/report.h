// What a distillation found: the figures, and how people and programs read them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "loop/evaluate.h"

namespace retort::loop {

/// One line of the result table.
struct ResultRow {
  std::string label;     // "base, zero-shot", "adapter", "LoRA control, extrapolation" ...
  std::string problems;  // "held-out" or "extrapolation"
  Proportion correct, end_of_turn, cap_hit;
  double tokens_per_answer = 0;
};

ResultRow row_of(std::string_view label, std::string_view problems, const Evaluation& evaluation);

struct TrainingPoint {
  int64_t step = 0;
  double loss = 0, learning_rate = 0, tokens_per_s = 0;
};
struct ValidationPoint {
  int64_t step = 0;
  double accuracy = 0;
};

/// A problem, what the base and the adapter say, and whether that is right.
struct Sample {
  std::string prompt, expected, base_text, adapter_text;
  bool base_correct = false, adapter_correct = false;
};

struct Report {
  std::string name, base, version;  // adapter, base file, registry version
  std::string command;              // that made it
  int64_t records = 0, records_declared = 0, records_refused = 0;
  std::string records_hash;
  int64_t parameters = 0, steps = 0, best_step = 0;
  double train_seconds = 0, tokens_per_s = 0, supervised_tokens_per_s = 0, peak_rss_mb = 0;
  double perplexity_base = 0, perplexity_adapter = 0;
  std::vector<ResultRow> rows;
  std::vector<TrainingPoint> training;
  std::vector<ValidationPoint> validation;
  std::vector<Sample> samples;

  const ResultRow* find(std::string_view label, std::string_view problems) const;
};

base::Json to_json(const Report& report);
/// The table for a terminal.
std::string to_text(const Report& report);
/// A page that needs nothing else: tables and plots (SVG) of one or more distillations.
std::string to_html(std::span<const Report> reports);
/// Reads what to_json wrote.
[[nodiscard]] base::Result<Report> report_from_json(const base::Json& json);

}  // namespace retort::loop
