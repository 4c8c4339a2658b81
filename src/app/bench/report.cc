#include <fmt/format.h>

#include <cmath>

#include "app/bench/bench.h"

namespace retort::app {
namespace {

std::string limit_of(const BenchRow& row) {
  if (row.at_least) {
    return fmt::format(">= {:<8g} {}", *row.at_least, row.value >= *row.at_least ? "ok" : "MISSED");
  }
  if (row.at_most) {
    return fmt::format("<= {:<8g} {}", *row.at_most, row.value <= *row.at_most ? "ok" : "MISSED");
  }
  return "";
}

}  // namespace

base::Json to_json(const BenchReport& report) {
  base::Json rows = base::Json::object();
  for (const BenchRow& row : report.rows) {
    rows[row.name] = std::isfinite(row.value) ? base::Json(row.value) : base::Json();
  }
  return {{"bench", report.bench},
          {"machine",
           {{"cpu", report.machine.cpu},
            {"cores", report.machine.cores},
            {"load", report.machine.load}}},
          {"rows", std::move(rows)}};
}

std::string to_table(const BenchReport& report) {
  std::string text = fmt::format("{} on {}, {} cores, load {:.2f}\n", report.bench,
                                 report.machine.cpu, report.machine.cores, report.machine.load);
  for (const BenchRow& row : report.rows) {
    text += fmt::format("  {:<44} {:>12.5g}  {}\n", row.name, row.value, limit_of(row));
  }
  return text;
}

}  // namespace retort::app
