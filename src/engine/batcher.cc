#include "engine/batcher.h"

#include <algorithm>

#include "base/check.h"

namespace retort::engine {

Session::Session(Request request, std::unique_ptr<KvCache> cache, int64_t embedding)
    : request_(std::move(request)),
      cache_(std::move(cache)),
      sampler_(request_.sampling),
      mix_(request_.mix),
      prompt_rows_(request_.embeddings.empty()
                       ? static_cast<int64_t>(request_.prompt.size())
                       : static_cast<int64_t>(request_.embeddings.size()) / embedding) {
  next_row_ = cache_->length();
  output_.reserve(static_cast<size_t>(request_.max_tokens));
}

Batcher::Batcher(Executor& executor, const Options& options)
    : executor_(executor), options_(options) {
  CHECK(options.context <= executor.options().context_max);
  CHECK(options.sessions_max >= 1 && options.sessions_max <= limits::kSessionsMax);
  CHECK(options.sessions_max <= executor.options().rows_max);
  const auto n = static_cast<size_t>(options.sessions_max);
  sessions_.reserve(n);
  free_caches_.reserve(n);
  segments_.reserve(n);
  stepped_.reserve(n);
  logit_rows_.reserve(n);
  logits_.resize(n * static_cast<size_t>(executor.model().config().vocabulary));
}

int64_t Batcher::bytes(const Config& config, const Options& options) {
  const int64_t logits = config.vocabulary * static_cast<int64_t>(sizeof(float));
  return options.sessions_max * (KvCache::bytes(config, options.context) + logits);
}

base::Result<Session*> Batcher::add(Request request) {
  const Config& config = executor_.model().config();
  if (full()) {
    return base::make_error(base::Code::kLimit, "all {} sessions are in use",
                            options_.sessions_max);
  }
  if (request.prompt.empty() && request.embeddings.empty()) {
    return base::make_error(base::Code::kInvalidInput, "the prompt is empty");
  }
  const auto rows = request.embeddings.empty()
                        ? static_cast<int64_t>(request.prompt.size())
                        : static_cast<int64_t>(request.embeddings.size()) / config.embedding;
  if (request.max_tokens < 1 || rows + request.max_tokens > options_.context) {
    return base::make_error(base::Code::kLimit,
                            "a prompt of {} tokens and {} to generate do not fit a context of {}",
                            rows, request.max_tokens, options_.context);
  }
  for (const Token token : request.prompt) {
    if (token < 0 || token >= config.vocabulary) {
      return base::make_error(base::Code::kInvalidInput, "token {} is outside the vocabulary of {}",
                              token, config.vocabulary);
    }
  }
  if (free_caches_.empty()) {
    TRY_ASSIGN(KvCache cache, KvCache::create(config, options_.context));
    free_caches_.push_back(std::make_unique<KvCache>(std::move(cache)));
  }
  std::unique_ptr<KvCache> cache = std::move(free_caches_.back());
  free_caches_.pop_back();
  cache->truncate(0);
  if (request.prefix != nullptr) {
    CHECK(request.prefix->length() < rows, "prefix={} prompt={}", request.prefix->length(), rows);
    if (auto copied = cache->copy_from(*request.prefix); !copied) {
      free_caches_.push_back(std::move(cache));
      return tl::unexpected(std::move(copied).error());
    }
  }
  sessions_.push_back(std::unique_ptr<Session>(
      new Session(std::move(request), std::move(cache), config.embedding)));
  return sessions_.back().get();
}

base::Result<KvCache> Batcher::prefill(std::span<const Token> tokens, const Mix* mix) {
  const auto n = static_cast<int64_t>(tokens.size());
  if (n > options_.context) {
    return base::make_error(base::Code::kLimit,
                            "a prefix of {} tokens does not fit a context of {}", n,
                            options_.context);
  }
  TRY_ASSIGN(KvCache cache, KvCache::create(executor_.model().config(), n));
  const size_t chunk = static_cast<size_t>(
      std::min<int64_t>(limits::kPrefillChunkRows, executor_.options().rows_max));
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const Segment segment{.cache = &cache,
                          .tokens = tokens.subspan(at, std::min(chunk, tokens.size() - at)),
                          .mix = mix == nullptr ? Mix() : *mix};
    executor_.forward(std::span(&segment, 1), {}, nullptr);
  }
  return cache;
}

void Batcher::release(Session* session) {
  const auto it = std::ranges::find(sessions_, session, &std::unique_ptr<Session>::get);
  CHECK(it != sessions_.end());
  free_caches_.push_back(std::move(session->cache_));
  sessions_.erase(it);
  std::ranges::replace(stepped_, session, nullptr);  // the others keep their rows of logits
}

/// Appends the session's next rows to the step, at most `room`; returns how many.
int64_t Batcher::plan_rows(Session& session, int64_t room) {
  const Mix* mix = session.mix_.load(std::memory_order_acquire);
  Segment segment{.cache = session.cache_.get(), .mix = mix == nullptr ? Mix() : *mix};
  int64_t rows = 1;
  bool wants_logits = true;
  if (session.next_row_ < session.prompt_rows_) {
    const int64_t left = session.prompt_rows_ - session.next_row_;
    rows = std::min({left, room, int64_t{limits::kPrefillChunkRows}});
    wants_logits = rows == left;
    const auto first = static_cast<size_t>(session.next_row_);
    if (session.request_.embeddings.empty()) {
      segment.tokens = std::span(session.request_.prompt).subspan(first, static_cast<size_t>(rows));
    } else {
      const auto width = static_cast<size_t>(executor_.model().config().embedding);
      segment.embeddings = std::span(session.request_.embeddings)
                               .subspan(first * width, static_cast<size_t>(rows) * width);
    }
    session.next_row_ += rows;
  } else {
    segment.tokens = std::span(session.output_).last(1);
  }
  segments_.push_back(segment);
  if (wants_logits) stepped_.push_back(&session);
  return rows;
}

bool Batcher::step() {
  segments_.clear();
  stepped_.clear();
  logit_rows_.clear();
  int64_t rows = 0;
  for (const bool decoding : {true, false}) {
    for (const auto& session : sessions_) {
      if (session->finish_ != Finish::kRunning) continue;
      if ((session->next_row_ >= session->prompt_rows_) != decoding) continue;
      if (rows >= executor_.options().rows_max) break;
      const size_t answering = stepped_.size();
      rows += plan_rows(*session, executor_.options().rows_max - rows);
      if (stepped_.size() > answering) logit_rows_.push_back(static_cast<int32_t>(rows - 1));
    }
  }
  if (rows == 0) return false;
  executor_.forward(segments_, logit_rows_, logits_.data());
  ++steps_;
  const auto width = static_cast<size_t>(executor_.model().config().vocabulary);
  for (size_t i = 0; i < stepped_.size(); ++i) {
    accept(*stepped_[i], std::span(logits_).subspan(i * width, width));
  }
  return true;
}

void Batcher::accept(Session& session, std::span<const float> logits) {
  const Token token = session.sampler_.sample(logits);
  if (executor_.model().vocabulary().is_end_of_generation(token)) {
    session.finish_ = Finish::kEndOfTurn;
    return;
  }
  session.output_.push_back(token);
  const auto produced = static_cast<int64_t>(session.output_.size());
  if (produced >= session.request_.max_tokens) session.finish_ = Finish::kLength;
}

std::span<const float> Batcher::last_logits(const Session& session) const {
  const auto it = std::ranges::find(stepped_, &session);
  if (it == stepped_.end()) return {};
  const auto width = static_cast<size_t>(executor_.model().config().vocabulary);
  return std::span(logits_).subspan(static_cast<size_t>(it - stepped_.begin()) * width, width);
}

base::Result<Finish> generate(Batcher& batcher, Request request,
                              const std::function<bool(Session&, Token)>& on_token) {
  TRY_ASSIGN(Session * session, batcher.add(std::move(request)));
  size_t seen = 0;
  while (session->finish() == Finish::kRunning && batcher.step()) {
    if (session->tokens().size() == seen) continue;
    seen = session->tokens().size();
    if (!on_token(*session, session->tokens().back())) batcher.cancel(*session);
  }
  const Finish finish = session->finish();
  batcher.release(session);
  return finish;
}

}  // namespace retort::engine
