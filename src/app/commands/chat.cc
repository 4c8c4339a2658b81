// retort chat: a conversation in the terminal. Commands begin with a slash; an adapter switches
// between turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "app/commands/members.h"
#include "app/interrupt.h"
#include "app/runtime.h"
#include "engine/batcher.h"

namespace retort::app {
namespace {

class Chat final : public Command {
 public:
  std::string_view name() const override { return "chat"; }
  std::string_view summary() const override {
    return "Talk to the base or an adapter in the terminal";
  }
  std::string_view examples() const override {
    return "  retort chat --adapter galois\n"
           "  retort chat --base MODEL.gguf\n"
           "In the chat: /adapter NAME, /base, /clear, /quit\n";
  }
  void declare(CLI::App& app) override {
    model_.declare(app);
    app.add_option("--adapter", adapter_, "NAME or NAME@VERSION (default: the base)");
    app.add_option("--system", system_, "a system message");
    app.add_option("--max-tokens", max_tokens_, "tokens of an answer at most")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--context", context_, "tokens of the whole conversation at most")
        ->check(CLI::Range(16, 1 << 20));
    app.add_option("--temperature", sampling_.temperature, "0 is greedy")
        ->check(CLI::Range(0.0, 10.0));
    app.add_option("--seed", sampling_.seed, "of the sampler");
  }

  base::Result<int> run() override {
    TRY_ASSIGN(auto runtime, Runtime::open(model_));
    TRY(use(*runtime, adapter_));
    engine::Executor executor(runtime->model(), runtime->team(),
                              {.rows_max = limits::kPrefillChunkRows, .context_max = context_});
    engine::Batcher batcher(executor, {.sessions_max = 1, .context = context_});
    clear();
    std::string line;
    while (!interrupted().load() && prompt() && std::getline(std::cin, line)) {
      if (line.empty()) continue;
      if (line == "/quit") break;
      if (line.starts_with('/')) {
        command(*runtime, line);
        continue;
      }
      messages_.push_back({"user", line});
      if (auto answer = this->answer(*runtime, batcher)) {
        messages_.push_back({"assistant", *std::move(answer)});
      } else {
        messages_.pop_back();
        fmt::print("{}\n", answer.error().message);
      }
    }
    fmt::print("\n");
    return 0;
  }

 private:
  bool prompt() const {
    fmt::print("{}> ", adapter_.empty() ? "base" : adapter_);
    std::fflush(stdout);
    return true;
  }

  void clear() {
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }

  base::Result<void> use(Runtime& runtime, const std::string& adapter) {
    engine::Mix mix;
    if (!adapter.empty()) {
      TRY_ASSIGN(const engine::SlotView* slot, runtime.residents().acquire(adapter));
      mix = engine::Mix(*slot);
    }
    mix_ = mix;
    adapter_ = adapter;
    return {};
  }

  void command(Runtime& runtime, const std::string& line) {
    constexpr std::string_view kAdapter = "/adapter ";
    if (line == "/clear") {
      clear();
    } else if (line == "/base") {
      (void)use(runtime, "");
    } else if (line.starts_with(kAdapter)) {
      if (auto used = use(runtime, line.substr(kAdapter.size())); !used) {
        fmt::print("{}\n", used.error().message);
      }
    } else {
      fmt::print("commands: /adapter NAME, /base, /clear, /quit\n");
    }
  }

  base::Result<std::string> answer(Runtime& runtime, engine::Batcher& batcher) {
    const engine::Vocabulary& vocabulary = runtime.model().vocabulary();
    TRY_ASSIGN(engine::EncodedChat chat, vocabulary.encode_chat(messages_, true));
    engine::Request request;
    request.prompt = std::move(chat.tokens);
    request.max_tokens = max_tokens_;
    request.sampling = sampling_;
    request.mix = &mix_;
    engine::Utf8Joiner joiner;
    std::string text;
    const auto emit = [&](const std::string& piece) {
      text += piece;
      fmt::print("{}", piece);
      std::fflush(stdout);
    };
    const auto on_token = [&](engine::Session&, engine::Token token) {
      emit(joiner.push(vocabulary.piece(token)));
      return !interrupted().load(std::memory_order_relaxed);
    };
    TRY_ASSIGN(const engine::Finish finish,
               engine::generate(batcher, std::move(request), on_token));
    emit(joiner.finish());
    fmt::print("{}\n", finish == engine::Finish::kLength ? " [cut at --max-tokens]" : "");
    return text;
  }

  ModelOptions model_;
  std::string adapter_, system_;
  int64_t max_tokens_ = 512, context_ = 2048;
  engine::SamplingOptions sampling_;
  engine::Mix mix_;
  std::vector<engine::Message> messages_;
};

}  // namespace

std::unique_ptr<Command> make_chat() { return std::make_unique<Chat>(); }

}  // namespace retort::app
