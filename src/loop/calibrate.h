// Times of this machine for a given base, before it is loaded: some layers are cut from the file
// (engine/excerpt.h), loaded, decoded with and trained for a moment, and the times scaled to all
// layers.
#pragma once

#include "base/team.h"
#include "engine/gguf.h"
#include "engine/model.h"
#include "train/options.h"

namespace retort::loop {

struct CalibrateOptions {
  int sessions = 1;  // decoded side by side
  int evaluation_sessions = 16;
  int64_t context = 1024;  // of a session; half of it is taken to be full
  train::Options train;    // of the adapter; its budget decides how W0 is read backwards
  bool streamed = false;   // how it was decided for the whole model
};

/// Seconds, for the whole model.
struct Pace {
  double load = 0;          // hash and pack, the vocabulary apart
  double decode = 0;        // a step of one session
  double decode_all = 0;    // a step of `sessions`
  double evaluate = 0;      // a step of `evaluation_sessions` under an adapter
  double prefill_row = 0;   // a row of a prompt
  double trainer_open = 0;  // magnitudes, W0 transposed
  double pass = 0;          // of a training micro-batch: what does not depend on its rows
  double pass_row = 0;      // and a row
  double loss_row = 0;      // a supervised row: logits, loss, its gradient
  double update = 0;        // of a training step: gradients to masters, AdamW, fold
};

/// Takes about three seconds on an idle machine, more for a base of many billion weights. Needs
/// room for a few layers in memory, and on a disk where the system has no memory disk.
[[nodiscard]] base::Result<Pace> calibrate(const engine::Gguf& gguf, const engine::Config& config,
                                           base::Team& team, const CalibrateOptions& options);

}  // namespace retort::loop
