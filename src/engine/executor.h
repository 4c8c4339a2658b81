// The forward pass on the CPU. One call packs rows of several sequences, each under its own mixture
// of adapters, and runs every layer with all lanes of the team in lockstep. Adapters are arguments:
// a step under another mixture runs the same code on other pointers; there is nothing to build.
//
// A row's results do not depend on the other rows, on how a prompt is cut into steps, or on the
// number of threads. Owned and used by one thread; the Model outlives it. No allocation after
// warm-up.
#pragma once

#include <span>
#include <vector>

#include "base/team.h"
#include "engine/activations.h"
#include "engine/kv_cache.h"
#include "engine/mix.h"
#include "engine/model.h"

namespace retort::engine {

/// Consecutive rows of one sequence in a step; they take the positions cache->length() and on.
struct Segment {
  KvCache* cache = nullptr;
  std::span<const Token> tokens;
  std::span<const float> embeddings;  // [rows x embedding], instead of tokens
  Mix mix;
};

/// Rows [begin, end) of a step that run under one mixture: neighbouring segments of equal mix
/// merge.
struct MixRange {
  int64_t begin = 0, end = 0;
  Mix mix;
};

class Executor {
 public:
  struct Options {
    int64_t rows_max = 512;      // rows in one step
    int64_t context_max = 2048;  // positions; sizes the RoPE table and the attention scratch
    bool keep_layers = false;    // keep every layer's activations for a backward pass
  };

  Executor(const Model& model, base::Team& team, const Options& options);

  const Model& model() const { return model_; }
  const Options& options() const { return options_; }
  base::Team& team() const { return team_; }

  /// Runs the blocks over all segments, writes their keys and values, advances their caches, and
  /// computes the logits of the step rows named (ascending): logits is [logit_rows x vocabulary].
  /// The caller has checked that rows and positions fit.
  void forward(std::span<const Segment> segments, std::span<const int32_t> logit_rows,
               float* logits);

  /// Logits of further rows of the last step (training computes them in chunks).
  void logits(std::span<const int32_t> rows, float* logits);

  // What the last step left behind, for the backward pass.
  Activations& activations() { return activations_; }
  std::span<const MixRange> mix_ranges() const { return ranges_; }
  int64_t rows() const { return rows_; }
  const float* rope_cos(int64_t position) const { return cos_.data() + position * rope_width_; }
  const float* rope_sin(int64_t position) const { return sin_.data() + position * rope_width_; }
  int64_t position(int64_t row) const { return row_positions_[static_cast<size_t>(row)]; }
  float attention_scale() const { return attention_scale_; }
  /// Steps so far that had to enlarge a buffer: those of a warm-up, then none.
  int64_t growths() const { return growths_; }

  /// Bytes that an executor with these options holds beside the model, once it has run a full step
  /// under an adapter of `rank` (0: under none).
  static int64_t bytes(const Config& config, const Options& options, int threads, int64_t rank = 0);

 private:
  struct Pass;  // one lane's walk through a step (executor.cc)

  void prepare(std::span<const Segment> segments);
  void reserve_adapters(std::span<const MixRange> ranges);
  bool grow_lane_terms(size_t ranges, size_t terms);

  const Model& model_;
  base::Team& team_;
  Options options_;
  Activations activations_;

  // The step: which sequence and position each row is.
  int64_t rows_ = 0;
  std::span<const Segment> segments_;
  std::vector<int32_t> row_segments_;
  std::vector<int64_t> row_positions_;
  std::vector<MixRange> ranges_;
  std::vector<MixRange> logit_ranges_;

  // Scratch, shared by the lanes.
  kernels::AlignedArray<float> x_;    // input of the linear layers, [rows x widest]
  kernels::AlignedArray<int8_t> q8_;  // the same in 8 bits
  kernels::AlignedArray<float> q8_scale_, q8_sum_;
  kernels::AlignedArray<float> scores_;  // [threads x group x context]
  std::vector<float> h_;                 // A x of up to three layers, grown in prepare()
  int64_t h_stride_ = 0;                 // floats of h_ for one of the three
  // Per lane, the adapter terms of the matrices at hand.
  struct LaneTerms {
    std::vector<kernels::RowGroup> groups[3];
    std::vector<kernels::MixTerm> terms[3];
  };
  std::vector<LaneTerms> lane_terms_;
  int64_t growths_ = 0;

  kernels::AlignedArray<float> cos_, sin_;  // [context_max x rotary_dims/2]
  int64_t rope_width_ = 0;
  float attention_scale_ = 1.0f;
};

}  // namespace retort::engine
