#include "loop/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace retort::loop {
namespace {

using base::Json;

Proportion proportion_from(const Json& json) {
  return {json.value("successes", int64_t{0}), json.value("n", int64_t{0})};
}

std::string percent(const Proportion& p) {
  return p.n == 0 ? "" : fmt::format("{:.1f} %", 100 * p.value());
}

std::string interval(const Proportion& p) {
  if (p.n == 0) return "";
  const auto [low, high] = p.interval();
  return fmt::format("{:.0f}-{:.0f} %", 100 * low, 100 * high);
}

}  // namespace

ResultRow row_of(std::string_view label, std::string_view problems, const Evaluation& evaluation) {
  const auto n = static_cast<double>(std::max<size_t>(1, evaluation.answers.size()));
  return {std::string(label),   std::string(problems),
          evaluation.correct(), evaluation.end_of_turn(),
          evaluation.cap_hit(), static_cast<double>(evaluation.tokens()) / n};
}

const ResultRow* Report::find(std::string_view label, std::string_view problems) const {
  const auto it = std::ranges::find_if(
      rows, [&](const ResultRow& row) { return row.label == label && row.problems == problems; });
  return it == rows.end() ? nullptr : &*it;
}

Json to_json(const Report& r) {
  Json json = {{"name", r.name},
               {"version", r.version},
               {"base", r.base},
               {"command", r.command},
               {"records", r.records},
               {"records_declared", r.records_declared},
               {"records_refused", r.records_refused},
               {"records_hash", r.records_hash},
               {"parameters", r.parameters},
               {"steps", r.steps},
               {"best_step", r.best_step},
               {"train_seconds", r.train_seconds},
               {"total_tokens_per_s", r.tokens_per_s},
               {"supervised_tokens_per_s", r.supervised_tokens_per_s},
               {"peak_rss_mb", r.peak_rss_mb},
               {"perplexity_base", r.perplexity_base},
               {"perplexity_adapter", r.perplexity_adapter}};
  json["rows"] = Json::array();
  for (const ResultRow& row : r.rows) {
    json["rows"].push_back({{"label", row.label},
                            {"problems", row.problems},
                            {"correct", to_json(row.correct)},
                            {"end_of_turn", to_json(row.end_of_turn)},
                            {"cap_hit", to_json(row.cap_hit)},
                            {"tokens_per_answer", row.tokens_per_answer}});
  }
  json["training"] = Json::array();
  for (const TrainingPoint& p : r.training) {
    json["training"].push_back({p.step, p.loss, p.learning_rate, p.tokens_per_s});
  }
  json["validation"] = Json::array();
  for (const ValidationPoint& p : r.validation) json["validation"].push_back({p.step, p.accuracy});
  json["samples"] = Json::array();
  for (const Sample& s : r.samples) {
    json["samples"].push_back({{"prompt", s.prompt},
                               {"expected", s.expected},
                               {"base_text", s.base_text},
                               {"base_correct", s.base_correct},
                               {"adapter_text", s.adapter_text},
                               {"adapter_correct", s.adapter_correct}});
  }
  return json;
}

base::Result<Report> report_from_json(const Json& json) try {
  Report r;
  r.name = json.at("name");
  r.version = json.at("version");
  r.base = json.at("base");
  r.command = json.at("command");
  r.records = json.at("records");
  r.records_declared = json.at("records_declared");
  r.records_refused = json.at("records_refused");
  r.records_hash = json.at("records_hash");
  r.parameters = json.at("parameters");
  r.steps = json.at("steps");
  r.best_step = json.at("best_step");
  r.train_seconds = json.at("train_seconds");
  r.tokens_per_s = json.at("total_tokens_per_s");
  r.supervised_tokens_per_s = json.at("supervised_tokens_per_s");
  r.peak_rss_mb = json.at("peak_rss_mb");
  r.perplexity_base = json.at("perplexity_base");
  r.perplexity_adapter = json.at("perplexity_adapter");
  for (const Json& row : json.at("rows")) {
    r.rows.push_back({row.at("label"), row.at("problems"), proportion_from(row.at("correct")),
                      proportion_from(row.at("end_of_turn")), proportion_from(row.at("cap_hit")),
                      row.at("tokens_per_answer")});
  }
  for (const Json& p : json.at("training")) {
    r.training.push_back({p.at(0), p.at(1), p.at(2), p.at(3)});
  }
  for (const Json& p : json.at("validation")) r.validation.push_back({p.at(0), p.at(1)});
  for (const Json& s : json.at("samples")) {
    r.samples.push_back({s.at("prompt"), s.at("expected"), s.at("base_text"), s.at("adapter_text"),
                         s.at("base_correct"), s.at("adapter_correct")});
  }
  return r;
} catch (const Json::exception& e) {
  return base::make_error(base::Code::kInvalidInput, "not a report: {}", e.what());
}

std::string to_text(const Report& r) {
  std::string text = fmt::format("{:<28} {:<14} {:>8} {:>11} {:>8} {:>8} {:>7}\n", r.name,
                                 "problems", "correct", "95 %", "ended", "cut", "tokens");
  for (const ResultRow& row : r.rows) {
    text += fmt::format(
        "{:<28} {:<14} {:>8} {:>11} {:>8} {:>8} {:>7}\n", row.label, row.problems,
        percent(row.correct), interval(row.correct), percent(row.end_of_turn), percent(row.cap_hit),
        row.tokens_per_answer > 0 ? fmt::format("{:.0f}", row.tokens_per_answer) : "");
  }
  text += fmt::format(
      "{} records, {} steps in {:.0f} s ({:.0f} tokens/s, {:.0f} supervised), peak memory {:.0f} "
      "MB\n",
      r.records, r.steps, r.train_seconds, r.tokens_per_s, r.supervised_tokens_per_s,
      r.peak_rss_mb);
  if (r.records_declared > 0) {
    text += fmt::format("{} of the records were trusted without a check\n", r.records_declared);
  }
  text += fmt::format("perplexity of neutral text: base {:.2f}, with the adapter {:.2f}\n",
                      r.perplexity_base, r.perplexity_adapter);
  return text;
}

}  // namespace retort::loop
