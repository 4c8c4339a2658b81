#include "loop/check_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "gate/gate.h"
#include "symbolic/family.h"

namespace retort::loop {
namespace {

using Places = std::unordered_map<std::string, std::string>;  // of a record's id: "path:line"

void refuse(CheckedFile& file, int64_t line, std::string reason) {
  ++file.refused;
  file.refusals.push_back({line, std::move(reason)});
}

base::Result<CheckedFile> check_file(const base::Path& path, gate::Gate& gate, Places& seen) {
  TRY_ASSIGN(record::Loaded loaded, record::load_records(path));
  CheckedFile file{.path = path,
                   .lines = loaded.lines,
                   .refusals = std::move(loaded.refusals),
                   .refused = loaded.refused,
                   .duplicates = loaded.duplicates};
  for (size_t i = 0; i < loaded.records.size(); ++i) {
    const int64_t line = loaded.record_lines[i];
    const auto [place, fresh] =
        seen.emplace(loaded.records[i].id(), fmt::format("{}:{}", path.string(), line));
    if (!fresh) {
      ++file.duplicates;
      refuse(file, line, fmt::format("duplicate of {}", place->second));
      continue;
    }
    gate::Outcome outcome = gate.admit(std::move(loaded.records[i]));
    if (auto* refusal = std::get_if<gate::Refusal>(&outcome)) {
      refuse(file, line, fmt::format("{}: {}", refusal->verifier, refusal->reason));
      continue;
    }
    file.records.push_back(std::get<record::Record>(std::move(outcome)));
    ++file.standings[std::string(record::to_string(file.records.back().standing))];
  }
  std::ranges::stable_sort(file.refusals, {}, &record::LineRefusal::line);
  return file;
}

}  // namespace

base::Result<std::vector<CheckedFile>> check_records(std::span<const base::Path> paths) {
  gate::Gate gate(gate::all_verifiers(symbolic::all_families()), {.trust = true});
  Places seen;
  std::vector<CheckedFile> files;
  for (const base::Path& path : paths) {
    TRY_ASSIGN(CheckedFile file, check_file(path, gate, seen));
    files.push_back(std::move(file));
  }
  return files;
}

base::Json to_json(const CheckedFile& file) {
  base::Json json = {{"file", file.path.string()},     {"lines", file.lines},
                     {"passed", file.passed()},        {"refused", file.refused},
                     {"duplicates", file.duplicates},  {"standings", base::Json::object()},
                     {"refusals", base::Json::array()}};
  for (const auto& [standing, n] : file.standings) json["standings"][standing] = n;
  for (const record::LineRefusal& refusal : file.refusals) {
    json["refusals"].push_back({{"line", refusal.line}, {"reason", refusal.reason}});
  }
  return json;
}

std::string to_text(const CheckedFile& file) {
  std::string text;
  for (const record::LineRefusal& refusal : file.refusals) {
    text += fmt::format("{}:{}: {}\n", file.path.string(), refusal.line, refusal.reason);
  }
  if (const auto kept = static_cast<int64_t>(file.refusals.size()); kept < file.refused) {
    text += fmt::format("{}: and {} more lines refused\n", file.path.string(), file.refused - kept);
  }
  text += fmt::format("{}: {} lines, {} pass", file.path.string(), file.lines, file.passed());
  for (const auto& [standing, n] : file.standings) text += fmt::format(", {} {}", n, standing);
  text += fmt::format("; {} refused, {} of them duplicates\n", file.refused, file.duplicates);
  if (file.standings.contains("declared")) {
    text += "what is only declared has nothing to be checked against; it trains with --trust\n";
  }
  return text;
}

}  // namespace retort::loop
