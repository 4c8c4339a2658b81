#include "loop/problems.h"

#include <algorithm>

#include "gate/gate.h"
#include "obs/progress.h"
#include "record/load.h"
#include "record/log.h"
#include "record/split.h"
#include "symbolic/family.h"
#include "teach/collect.h"

namespace retort::loop {
namespace {

using base::Code;
using base::make_error;
using symbolic::Split;

base::Result<const symbolic::Family*> family_named(std::string_view name) {
  if (const symbolic::Family* family = symbolic::find_family(name)) return family;
  std::string known;
  for (const symbolic::Family* family : symbolic::all_families()) {
    known += (known.empty() ? "" : ", ") + std::string(family->name());
  }
  return make_error(Code::kInvalidInput, "there is no family \"{}\"; there are: {}", name, known);
}

std::vector<record::Draft> drafts_of(std::vector<record::Record> records) {
  std::vector<record::Draft> drafts;
  for (record::Record& record : records) drafts.push_back(std::move(record.draft));
  return drafts;
}

/// Draws the four sets of a symbolic recipe; one TwinSet keeps them apart.
class SymbolicDraw {
 public:
  SymbolicDraw(const symbolic::Family& family, uint64_t seed, const GatherOptions& options)
      : family_(family),
        seed_(seed),
        options_(options),
        teacher_(teach::make_symbolic_teacher(family)),
        gate_(gate::all_verifiers(symbolic::all_families())) {}

  base::Result<std::vector<record::Record>> draw(std::string_view label, int64_t n, Split split,
                                                 uint64_t stream, record::RecordLog* log) {
    if (n == 0) return std::vector<record::Record>{};
    obs::Progress progress(label, n, {.quiet = options_.quiet});
    auto collected = teach::collect(*teacher_, gate_, twins_,
                                    {.task = std::string(family_.name()),
                                     .n = n,
                                     .seed = seed_ + stream,
                                     .split = split,
                                     .log = log,
                                     .progress = &progress,
                                     .cancel = options_.stop});
    if (!collected) {
      progress.fail(collected.error().message);
      return tl::unexpected(std::move(collected).error());
    }
    progress.finish(
        fmt::format("{} verified, {} refused", gate_.counts().verified, gate_.counts().refused));
    return std::move(collected->records);
  }

  int64_t refused() const { return gate_.counts().refused; }

 private:
  const symbolic::Family& family_;
  uint64_t seed_;
  const GatherOptions& options_;
  std::unique_ptr<teach::Teacher> teacher_;
  gate::Gate gate_;
  record::TwinSet twins_;
};

// The sets of a recipe are drawn from streams of their own, so that asking for more of one leaves
// the others as they are.
constexpr uint64_t kTrainStream = 0, kValidationStream = 1'000'003, kHeldOutStream = 2'000'003,
                   kExtrapolationStream = 3'000'017;

base::Result<Problems> draw_symbolic(const Recipe& recipe, const GatherOptions& options) {
  TRY_ASSIGN(const symbolic::Family* family, family_named(recipe.teacher.family));
  SymbolicDraw source(*family, recipe.teacher.seed, options);
  Problems problems;
  // What is measured is drawn first: training gives way to it, never the other way round.
  TRY_ASSIGN(auto held_out, source.draw("held-out problems", recipe.eval.held_out, Split::kHeldOut,
                                        kHeldOutStream, nullptr));
  TRY_ASSIGN(auto larger, source.draw("extrapolation problems", recipe.eval.extrapolation,
                                      Split::kExtrapolation, kExtrapolationStream, nullptr));
  TRY_ASSIGN(auto validation, source.draw("validation problems", recipe.eval.validation,
                                          Split::kTrain, kValidationStream, nullptr));
  // The same draw gives the same records, so an unfinished log is simply made again.
  const base::Path path = options.run_directory / "records.jsonl";
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  TRY_ASSIGN(record::RecordLog log, record::RecordLog::open(path));
  TRY_ASSIGN(problems.train, source.draw("training records", recipe.teacher.records, Split::kTrain,
                                         kTrainStream, &log));
  problems.checked = static_cast<int64_t>(held_out.size());
  problems.held_out = drafts_of(std::move(held_out));
  problems.extrapolation = drafts_of(std::move(larger));
  problems.validation = drafts_of(std::move(validation));
  problems.refused = source.refused();
  return problems;
}

/// Records of a file through the gate. Refusals are printed with their lines.
base::Result<std::vector<record::Record>> admit_file(const base::Path& path, bool trust, bool quiet,
                                                     int64_t& refused) {
  TRY_ASSIGN(record::Loaded loaded, record::load_records(path));
  const auto refuse = [&](std::string_view where, std::string_view reason) {
    ++refused;
    if (!quiet) fmt::print(stderr, "{}: refused: {}\n", where, reason);
  };
  for (const record::LineRefusal& line : loaded.refusals) {
    refuse(fmt::format("{}:{}", path.string(), line.line), line.reason);
  }
  gate::Gate gate(gate::all_verifiers(symbolic::all_families()), {.trust = trust});
  std::vector<record::Record> records;
  for (record::Record& record : loaded.records) {
    const std::string source = record.draft.source;
    gate::Outcome outcome = gate.admit(std::move(record));
    if (auto* admitted = std::get_if<record::Record>(&outcome)) {
      records.push_back(std::move(*admitted));
    } else {
      refuse(source, std::get<gate::Refusal>(outcome).reason);
    }
  }
  if (records.empty()) {
    return make_error(Code::kInvalidInput, "{}: no record passed the gate{}", path.string(),
                      trust ? "" : "; records that nothing can check train only with --trust");
  }
  return records;
}

base::Result<Problems> split_file(const Recipe& recipe, const GatherOptions& options) {
  Problems problems;
  TRY_ASSIGN(auto records, admit_file(recipe.teacher.records_file, recipe.teacher.trust,
                                      options.quiet, problems.refused));
  const int64_t groups = record::count_groups(records);
  const record::SplitOptions split{
      .seed = recipe.teacher.seed,
      .validation_count = std::min(recipe.eval.validation, groups / 10),
      .test_count = std::min(recipe.eval.held_out, std::max<int64_t>(1, groups / 5))};
  TRY_ASSIGN(record::Splits splits, record::split_records(std::move(records), split));
  problems.train = std::move(splits.train);
  problems.checked = std::ranges::count_if(splits.test, [](const record::Record& record) {
    return record.standing != record::Standing::kDeclared;
  });
  problems.validation = drafts_of(std::move(splits.validation));
  problems.held_out = drafts_of(std::move(splits.test));
  TRY(record::write_records(options.run_directory / "records.jsonl", problems.train));
  return problems;
}

}  // namespace

base::Hash256 Problems::train_hash() const {
  base::Hasher hasher;
  for (const record::Record& record : train) hasher.add(record.id());
  return hasher.finish();
}

base::Result<Problems> gather_problems(const Recipe& recipe, const GatherOptions& options) {
  return recipe.teacher.kind == "symbolic" ? draw_symbolic(recipe, options)
                                           : split_file(recipe, options);
}

base::Result<std::vector<record::Draft>> problems_of_family(std::string_view name, int64_t n,
                                                            uint64_t seed, bool extrapolation) {
  TRY_ASSIGN(const symbolic::Family* family, family_named(name));
  const GatherOptions options{.quiet = true};
  TRY_ASSIGN(auto records,
             SymbolicDraw(*family, seed, options)
                 .draw("problems", n, extrapolation ? Split::kExtrapolation : Split::kHeldOut, 0,
                       nullptr));
  return drafts_of(std::move(records));
}

base::Result<std::vector<record::Draft>> problems_of_file(const base::Path& path, int64_t n) {
  TRY_ASSIGN(record::Loaded loaded, record::load_records(path));
  if (loaded.records.empty()) {
    return make_error(Code::kInvalidInput, "{}: holds no usable record", path.string());
  }
  if (static_cast<int64_t>(loaded.records.size()) > n) {
    loaded.records.resize(static_cast<size_t>(n));
  }
  return drafts_of(std::move(loaded.records));
}

}  // namespace retort::loop
