// What a base would take on this machine, before it is loaded: memory from its header and the byte
// counts of the parts, time from a short calibration (calibrate.h).
#pragma once

#include <string>
#include <vector>

#include "base/disk.h"
#include "base/json.h"
#include "base/team.h"
#include "loop/recipe.h"

namespace retort::loop {

/// What is to be trained on.
struct Workload {
  int64_t records = 800;
  double rows = 128;      // tokens of a record that the model reads, on average
  double targets = 64;    // and those that it learns
  int64_t longest = 128;  // rows of the longest record

  /// Every record of so many tokens, half of them learnt.
  static Workload of(int64_t records, int64_t tokens);
};

struct PlanOptions {
  base::Path base;
  int sessions = 1;
  int64_t context = 1024;  // tokens of a session, all of them used
  Recipe recipe;           // its training and evaluation; its teacher if `draw`
  bool draw = false;       // draw records of the teacher and measure them, for the workload
  Workload workload;       // if not `draw`
};

struct MemoryPart {
  std::string what;
  int64_t bytes = 0;
};

/// Parts that are held at the same time.
struct Memory {
  std::vector<MemoryPart> parts;
  int64_t bytes() const;
};

struct Plan {
  base::Path base;
  std::string architecture;
  int64_t parameters = 0, file_bytes = 0;
  int threads = 0, sessions = 0;
  int64_t context = 0, memory_free = 0;
  Workload workload;
  int64_t steps = 0;
  bool streamed = false;  // W0 is made anew in each backward pass, to save memory

  Memory load, serve, train, distil;  // at the peak of each; `train` is the trainer alone
  double load_seconds = 0;
  double decode_tokens_per_s = 0;      // one session
  double decode_all_tokens_per_s = 0;  // all sessions
  double prefill_tokens_per_s = 0;
  double step_seconds = 0;  // of training
  double train_seconds = 0, evaluate_seconds = 0;
};

/// Errors as those of Model::open for the header, and of the recipe's teacher.
[[nodiscard]] base::Result<Plan> make_plan(const PlanOptions& options, base::Team& team);

base::Json to_json(const Plan& plan);
/// For people.
std::string to_text(const Plan& plan);

}  // namespace retort::loop
