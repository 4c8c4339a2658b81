// One distillation from recipe to published adapter: the trip of a record.
//
//   gather records -> measure the base -> train -> measure the adapter -> check -> publish ->
//   report
//
// Everything made on the way stands in the run's folder, so that a killed run goes on where it was
// (a finished one starts afresh):
// records.jsonl, checkpoint, metrics.jsonl, report.json, report.html.
#pragma once

#include <atomic>

#include "adapter/registry.h"
#include "base/disk.h"
#include "engine/model.h"
#include "loop/recipe.h"
#include "loop/report.h"

namespace retort::loop {

struct DistilOptions {
  base::Path run_directory;                 // created if missing
  base::Path baselines_directory;           // the base's answers, shared by all runs
  std::string command;                      // for the report
  bool quiet = false;                       // no progress on stderr
  bool force = false;                       // publish an adapter of unverified records unchecked
  const std::atomic<bool>* stop = nullptr;  // set: save and return kCancelled
};

/// kCancelled after a stop: the checkpoint is written, the same call goes on later.
[[nodiscard]] base::Result<Report> distil(const Recipe& recipe, const engine::Model& model,
                                          base::Team& team, adapter::Registry& registry,
                                          const DistilOptions& options);

}  // namespace retort::loop
