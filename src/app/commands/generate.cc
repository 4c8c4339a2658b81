// retort generate: one answer, streamed, under a chosen adapter; --swap-at rebinds the running
// session.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/commands/members.h"
#include "app/interrupt.h"
#include "app/runtime.h"
#include "base/json.h"
#include "engine/batcher.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

/// After `tokens` generated tokens the session goes on under `adapter` ("base": none).
struct Swap {
  int64_t tokens = 0;
  std::string adapter;
};

base::Result<Swap> parse_swap(const std::string& text) {
  const size_t colon = text.find(':');
  char* end = nullptr;
  const long long tokens = std::strtoll(text.c_str(), &end, 10);
  if (colon == std::string::npos || end != text.c_str() + colon || tokens < 0 ||
      colon + 1 == text.size()) {
    return make_error(Code::kInvalidInput, "--swap-at {}: should be TOKENS:ADAPTER, e.g. 20:cycles",
                      text);
  }
  return Swap{tokens, text.substr(colon + 1)};
}

class Generate final : public Command {
 public:
  std::string_view name() const override { return "generate"; }
  std::string_view summary() const override {
    return "Answer one prompt, under an adapter or the base";
  }
  std::string_view examples() const override {
    return "  retort generate 'What is 3 * 4 in GF(7)?' --adapter galois\n"
           "  retort generate 'Hello' --adapter galois --swap-at 20:cycles   # switches while it "
           "runs\n"
           "  retort generate 'Tell me a story' --temperature 0.8 --seed 7\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("prompt", prompt_, "what to ask")->required();
    model_.declare(app);
    app.add_option("--adapter", adapter_, "NAME or NAME@VERSION (default: the base)");
    app.add_option("--swap-at", swaps_,
                   "TOKENS:ADAPTER, switch after so many tokens; may be repeated");
    app.add_option("--max-tokens", max_tokens_, "tokens to generate at most")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--temperature", sampling_.temperature, "0 is greedy")
        ->check(CLI::Range(0.0, 10.0));
    app.add_option("--top-k", sampling_.top_k, "sample from the k likeliest (0: all)");
    app.add_option("--top-p", sampling_.top_p, "sample from the likeliest that add up to p");
    app.add_option("--seed", sampling_.seed, "of the sampler");
    app.add_flag("--raw", raw_, "give the prompt to the model as it is, without the chat template");
    app.add_flag("--json", json_, "print one JSON object at the end instead of text");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(auto runtime, Runtime::open(model_));
    TRY_ASSIGN(engine::Request request, make_request(*runtime));
    TRY(bind_adapters(*runtime));
    request.mix = &mixes_[0];
    const auto context = static_cast<int64_t>(request.prompt.size()) + max_tokens_;
    engine::Executor executor(runtime->model(), runtime->team(),
                              {.rows_max = std::min<int64_t>(context, limits::kPrefillChunkRows),
                               .context_max = context});
    engine::Batcher batcher(executor, {.sessions_max = 1, .context = context});
    const engine::Vocabulary& vocabulary = runtime->model().vocabulary();
    engine::Utf8Joiner joiner;
    std::string text;
    int64_t produced = 0;
    size_t next = 0;
    const auto on_token = [&](engine::Session& session, engine::Token token) {
      emit(joiner.push(vocabulary.piece(token)), text);
      ++produced;
      for (; next < plan_.size() && produced >= plan_[next].tokens; ++next) {
        session.rebind(&mixes_[next + 1]);
        mark(plan_[next].adapter);
      }
      return !interrupted().load(std::memory_order_relaxed);
    };
    TRY_ASSIGN(const engine::Finish finish,
               engine::generate(batcher, std::move(request), on_token));
    emit(joiner.finish(), text);
    print_end(finish, text, produced);
    return finish == engine::Finish::kCancelled ? 1 : 0;
  }

 private:
  base::Result<engine::Request> make_request(Runtime& runtime) {
    engine::Request request;
    request.max_tokens = max_tokens_;
    request.sampling = sampling_;
    const engine::Vocabulary& vocabulary = runtime.model().vocabulary();
    if (raw_) {
      request.prompt = vocabulary.encode(prompt_, true);
    } else {
      const engine::Message message{"user", prompt_};
      TRY_ASSIGN(engine::EncodedChat chat, vocabulary.encode_chat(std::span(&message, 1), true));
      request.prompt = std::move(chat.tokens);
    }
    return request;
  }

  /// mixes_[0] is the start, mixes_[i + 1] what plan_[i] switches to. All are resident beforehand.
  base::Result<void> bind_adapters(Runtime& runtime) {
    for (const std::string& text : swaps_) {
      TRY_ASSIGN(Swap swap, parse_swap(text));
      plan_.push_back(std::move(swap));
    }
    std::ranges::stable_sort(plan_, {}, &Swap::tokens);
    std::vector<std::string> names = {adapter_};
    for (const Swap& swap : plan_) names.push_back(swap.adapter);
    for (const std::string& adapter : names) {
      engine::Mix mix;
      if (!adapter.empty() && adapter != "base") {
        TRY_ASSIGN(const engine::SlotView* slot, runtime.residents().acquire(adapter));
        mix = engine::Mix(*slot);
      }
      mixes_.push_back(mix);
    }
    return {};
  }

  void emit(std::string piece, std::string& text) const {
    text += piece;
    if (json_) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }

  void mark(const std::string& adapter) {
    if (json_) return;
    const bool color = ::isatty(STDOUT_FILENO) != 0;
    fmt::print("{}[-> {}]{}", color ? "\x1b[1;36m" : "", adapter, color ? "\x1b[0m" : "");
  }

  void print_end(engine::Finish finish, const std::string& text, int64_t tokens) const {
    if (!json_) {
      fmt::print("\n");
      return;
    }
    constexpr std::string_view kReasons[] = {"running", "stop", "length", "cancelled"};
    fmt::print("{}\n", base::dump_json({{"text", text},
                                        {"tokens", tokens},
                                        {"finish_reason", kReasons[static_cast<int>(finish)]}}));
  }

  std::string prompt_, adapter_;
  std::vector<std::string> swaps_;
  ModelOptions model_;
  int64_t max_tokens_ = 256;
  engine::SamplingOptions sampling_;
  bool raw_ = false, json_ = false;
  std::vector<Swap> plan_;
  std::vector<engine::Mix> mixes_;
};

}  // namespace

std::unique_ptr<Command> make_generate() { return std::make_unique<Generate>(); }

}  // namespace retort::app
