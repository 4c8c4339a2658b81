#include "loop/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "kernels/kernels.h"

namespace retort::loop {
namespace {

using engine::Finish;

std::vector<engine::Message> shot_messages(std::span<const record::Record> shots) {
  std::vector<engine::Message> messages;
  for (const record::Record& shot : shots) {
    messages.push_back({"user", shot.draft.prompt});
    messages.push_back({"assistant", shot.completion()});
  }
  return messages;
}

/// The worked examples that every problem begins with, computed once.
struct Prefix {
  std::vector<engine::Message> messages;
  std::vector<engine::Token> tokens;
  engine::KvCache cache;
};

base::Result<Prefix> compute_prefix(const engine::Model& model, engine::Batcher& batcher,
                                    const EvaluationOptions& options) {
  Prefix prefix;
  prefix.messages = shot_messages(options.shots);
  if (prefix.messages.empty()) return prefix;
  TRY_ASSIGN(engine::EncodedChat chat, model.vocabulary().encode_chat(prefix.messages, false));
  prefix.tokens = std::move(chat.tokens);
  TRY_ASSIGN(prefix.cache, batcher.prefill(prefix.tokens, options.mix));
  return prefix;
}

base::Result<engine::Request> make_request(const engine::Model& model, const record::Draft& problem,
                                           const Prefix& prefix, const EvaluationOptions& options) {
  std::vector<engine::Message> messages = prefix.messages;
  messages.push_back({"user", problem.prompt});
  TRY_ASSIGN(engine::EncodedChat chat, model.vocabulary().encode_chat(messages, true));
  engine::Request request;
  request.prompt = std::move(chat.tokens);
  request.max_tokens = options.max_tokens;
  request.mix = options.mix;
  const bool shared =
      !prefix.tokens.empty() && request.prompt.size() > prefix.tokens.size() &&
      std::equal(prefix.tokens.begin(), prefix.tokens.end(), request.prompt.begin());
  if (shared) request.prefix = &prefix.cache;
  return request;
}

template <class Predicate>
Proportion count(const std::vector<Answer>& answers, Predicate predicate) {
  return {std::ranges::count_if(answers, predicate), static_cast<int64_t>(answers.size())};
}

}  // namespace

std::pair<double, double> Proportion::interval() const {
  if (n == 0) return {0, 1};
  constexpr double z = 1.959963985;
  const auto total = static_cast<double>(n);
  const double p = value();
  const double center = (p + z * z / (2 * total)) / (1 + z * z / total);
  const double half =
      z / (1 + z * z / total) * std::sqrt(p * (1 - p) / total + z * z / (4 * total * total));
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

Proportion Evaluation::correct() const { return count(answers, &Answer::correct); }
Proportion Evaluation::end_of_turn() const {
  return count(answers, [](const Answer& a) { return a.finish == Finish::kEndOfTurn; });
}
Proportion Evaluation::cap_hit() const {
  return count(answers, [](const Answer& a) { return a.finish == Finish::kLength; });
}
int64_t Evaluation::tokens() const {
  int64_t sum = 0;
  for (const Answer& answer : answers) sum += answer.tokens;
  return sum;
}

base::Result<Evaluation> evaluate(const engine::Model& model, engine::Batcher& batcher,
                                  std::span<const record::Draft> problems, const Judge& judge,
                                  const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Evaluation evaluation;
  evaluation.answers.resize(problems.size());
  TRY_ASSIGN(const Prefix prefix, compute_prefix(model, batcher, options));
  std::vector<std::pair<engine::Session*, size_t>> running;
  const auto release_all = [&] {
    for (const auto& [session, problem] : running) batcher.release(session);
  };
  size_t next = 0;
  int64_t done = 0;
  while (next < problems.size() || !running.empty()) {
    while (next < problems.size() && !batcher.full()) {
      auto session =
          make_request(model, problems[next], prefix, options)
              .and_then([&](engine::Request request) { return batcher.add(std::move(request)); });
      if (!session) {
        release_all();
        return base::in_context("evaluation", std::move(session).error());
      }
      running.emplace_back(*session, next++);
    }
    if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) {
      release_all();
      return base::make_error(base::Code::kCancelled, "stopped during an evaluation");
    }
    batcher.step();
    std::erase_if(running, [&](const auto& item) {
      const auto [session, problem] = item;
      if (session->finish() == Finish::kRunning) return false;
      Answer& answer = evaluation.answers[problem];
      answer.text = model.vocabulary().decode(session->tokens());
      answer.tokens = static_cast<int64_t>(session->tokens().size());
      answer.finish = session->finish();
      answer.correct = judge(problems[problem], answer.text);
      batcher.release(session);
      if (options.progress) options.progress(++done);
      return true;
    });
  }
  evaluation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evaluation;
}

Proportion best_constant(std::span<const record::Draft> problems, const Judge& judge) {
  std::map<std::string, int64_t> frequency;
  for (const record::Draft& problem : problems) ++frequency[problem.final_answer];
  if (frequency.empty()) return {};
  const auto most =
      std::ranges::max_element(frequency, {}, [](const auto& entry) { return entry.second; });
  const std::string text = "Answer: " + most->first;
  const auto n = std::ranges::count_if(
      problems, [&](const record::Draft& problem) { return judge(problem, text); });
  return {n, static_cast<int64_t>(problems.size())};
}

double perplexity(engine::Executor& executor, std::string_view text, const engine::Mix* mix) {
  const engine::Model& model = executor.model();
  std::vector<engine::Token> tokens = model.vocabulary().encode(text);
  const auto room =
      static_cast<size_t>(std::min(executor.options().context_max, executor.options().rows_max));
  tokens.resize(std::min(tokens.size(), room));
  auto cache = engine::KvCache::create(model.config(), static_cast<int64_t>(tokens.size())).value();
  const engine::Segment segment{
      .cache = &cache, .tokens = tokens, .mix = mix == nullptr ? engine::Mix() : *mix};
  executor.forward(std::span(&segment, 1), {}, nullptr);
  std::vector<float> logits(static_cast<size_t>(model.config().vocabulary));
  double loss = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto row = static_cast<int32_t>(i);
    executor.logits(std::span(&row, 1), logits.data());
    loss += kernels::cross_entropy(logits.data(), model.config().vocabulary, tokens[i + 1]);
  }
  return std::exp(loss / static_cast<double>(std::max<size_t>(1, tokens.size() - 1)));
}

base::Json to_json(const Proportion& proportion) {
  const auto [low, high] = proportion.interval();
  return {{"value", proportion.value()},
          {"successes", proportion.successes},
          {"n", proportion.n},
          {"interval_95", {low, high}}};
}

}  // namespace retort::loop
