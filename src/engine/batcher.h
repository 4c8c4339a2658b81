// Generation. A Session is one sequence with its KV cells, sampler and bound mixture; the Batcher
// packs the rows of many sessions, prefill chunks and single decodes alike, into each executor
// step.
//
// One thread owns the Batcher and calls step(); only Session::rebind may be called from others.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/executor.h"
#include "engine/sampler.h"

namespace retort::engine {

enum class Finish {
  kRunning,
  kEndOfTurn,  // the model closed its turn
  kLength,     // max_tokens reached
  kCancelled,
};

struct Request {
  std::vector<Token> prompt;      // token ids, or:
  std::vector<float> embeddings;  // [rows x embedding], instead of ids
  int64_t max_tokens = 256;
  SamplingOptions sampling;
  const KvCache* prefix = nullptr;  // of the first tokens of `prompt`, under the same mixture
  const Mix* mix = nullptr;         // null: the base; must outlive the session or the next rebind
};

class Session {
 public:
  /// From the next step on, tokens are computed under `mix` (null: the base); keys and values
  /// already written stay. One atomic store, from any thread. Both the old and the new mixture must
  /// stay alive until a step has begun after the call: Batcher::steps() tells.
  void rebind(const Mix* mix) { mix_.store(mix, std::memory_order_release); }

  std::span<const Token> tokens() const { return output_; }
  Finish finish() const { return finish_; }
  int64_t prompt_tokens() const { return prompt_rows_; }
  const KvCache& cache() const { return *cache_; }

 private:
  friend class Batcher;
  Session(Request request, std::unique_ptr<KvCache> cache, int64_t embedding);

  Request request_;
  std::unique_ptr<KvCache> cache_;
  Sampler sampler_;
  std::atomic<const Mix*> mix_;
  int64_t prompt_rows_;
  int64_t next_row_ = 0;  // prompt rows already in the cache or in the step at hand
  std::vector<Token> output_;
  Finish finish_ = Finish::kRunning;
};

class Batcher {
 public:
  struct Options {
    int sessions_max = 16;
    int64_t context = 1024;  // cells a session gets
  };

  /// `executor` outlives the batcher; options.context is at most its context_max.
  Batcher(Executor& executor, const Options& options);
  /// Bytes that it holds once every session has used its whole context.
  static int64_t bytes(const Config& config, const Options& options);

  /// Admits a session, or kLimit: all places taken, an empty prompt, or prompt plus max_tokens that
  /// do not fit the context (with both counts). The pointer is valid until release().
  [[nodiscard]] base::Result<Session*> add(Request request);
  /// Ends a session; its cells serve the next one.
  void release(Session* session);
  void cancel(Session& session) { session.finish_ = Finish::kCancelled; }

  /// Keys and values of `tokens` under `mix`, to begin many requests with; runs steps of its own.
  [[nodiscard]] base::Result<KvCache> prefill(std::span<const Token> tokens, const Mix* mix);

  /// One executor step over all running sessions: every decode, then prefill chunks as room is
  /// left. False if there was nothing to do.
  bool step();
  uint64_t steps() const { return steps_; }
  bool full() const { return sessions_.size() >= static_cast<size_t>(options_.sessions_max); }
  /// Logits of the last step for a session that got a token in it, else empty.
  std::span<const float> last_logits(const Session& session) const;

 private:
  int64_t plan_rows(Session& session, int64_t room);
  void accept(Session& session, std::span<const float> logits);

  Executor& executor_;
  Options options_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::unique_ptr<KvCache>> free_caches_;
  std::vector<Segment> segments_;
  std::vector<Session*> stepped_;  // whose rows gave logits, in row order
  std::vector<int32_t> logit_rows_;
  std::vector<float> logits_;  // [sessions_max x vocabulary]
  uint64_t steps_ = 0;
};

/// Runs one request to its end on a batcher that has room; on_token sees each token as it comes and
/// returns false to stop.
[[nodiscard]] base::Result<Finish> generate(Batcher& batcher, Request request,
                                            const std::function<bool(Session&, Token)>& on_token);

}  // namespace retort::engine
