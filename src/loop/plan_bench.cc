// Plans against what happens: loads a model, generates a few tokens and trains a few steps in a
// process of its own, and prints predicted and measured memory and time beside each other.
//
//   plan_bench MODEL.gguf [STEPS]
//   plan_bench --make-7b FILE.gguf        a random model of the shape of Llama 2 7B, Q4_0
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/memory.h"
#include "engine/batcher.h"
#include "engine/random_model.h"
#include "loop/plan.h"
#include "train/trainer.h"

namespace retort::loop {
namespace {

constexpr int64_t kPrompt = 24, kGenerated = 8, kRecordTokens = 128;
constexpr int kQ4_0 = 2;

struct Measured {
  double load_s = 0, decode_s = 0, open_s = 0, step_s = 0;
  int64_t load_bytes = 0, serve_bytes = 0, train_bytes = 0;
};

class Watch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

double generate(const engine::Model& model, base::Team& team) {
  constexpr int64_t kContext = kPrompt + kGenerated;
  engine::Executor executor(model, team, {.rows_max = kContext, .context_max = kContext});
  engine::Batcher batcher(executor, {.sessions_max = 1, .context = kContext});
  engine::Request request{.max_tokens = kGenerated};
  for (engine::Token t = 0; t < kPrompt; ++t) request.prompt.push_back(40 + t);
  engine::Session* session = batcher.add(std::move(request)).value();
  batcher.step();  // the prompt, and the first token
  Watch watch;
  int64_t steps = 0;
  for (; session->finish() == engine::Finish::kRunning && batcher.step(); ++steps) {
  }
  const double seconds = watch.lap();
  batcher.release(session);
  return steps == 0 ? 0 : seconds / static_cast<double>(steps);
}

std::vector<train::Example> examples(int64_t n, const Workload& work) {
  std::vector<train::Example> list(static_cast<size_t>(n));
  for (train::Example& example : list) {
    for (int64_t t = 0; t <= work.longest; ++t) {
      example.tokens.push_back(static_cast<engine::Token>(40 + t % 200));
      const bool supervised = t > work.longest / 2;
      example.supervised.push_back(supervised ? 1 : 0);
      example.targets += supervised ? 1 : 0;
    }
  }
  return list;
}

Measured measure(const base::Path& path, const Workload& work, int64_t steps) {
  Measured m;
  Watch watch;
  base::Team team(base::Team::default_threads());
  auto model = engine::Model::open(path, team);
  if (!model) {
    fmt::print(stderr, "{}\n", model.error().message);
    std::exit(1);
  }
  m.load_s = watch.lap();
  m.load_bytes = base::peak_resident_bytes();
  m.decode_s = generate(*model, team);
  m.serve_bytes = base::peak_resident_bytes();
  watch.lap();
  const train::Options options;
  auto trainer =
      train::Trainer::create(*model, team, examples(steps * options.batch, work), options).value();
  m.open_s = watch.lap();
  for (int64_t i = 0; i < steps; ++i) trainer->step();
  m.step_s = watch.lap() / static_cast<double>(steps);
  m.train_bytes = base::peak_resident_bytes();
  return m;
}

/// In a child, whose memory is its own.
Measured measure_apart(const base::Path& path, const Workload& work, int64_t steps) {
  int ends[2];
  Measured measured;
  if (::pipe(ends) != 0) std::exit(1);
  const pid_t child = ::fork();
  if (child == 0) {
    measured = measure(path, work, steps);
    const bool sent = ::write(ends[1], &measured, sizeof(measured)) == sizeof(measured);
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  if (::read(ends[0], &measured, sizeof(measured)) != sizeof(measured)) std::exit(1);
  ::waitpid(child, nullptr, 0);
  return measured;
}

void print(const char* what, double predicted, double measured, const char* unit) {
  fmt::print("{:<28} {:>12.3f} {:>12.3f} {:<3} {:>+7.1f} %\n", what, predicted, measured, unit,
             100 * (predicted / measured - 1));
}

int run(const base::Path& path, int64_t steps) {
  PlanOptions options{.base = path, .sessions = 1, .context = kPrompt + kGenerated};
  options.workload = Workload::of(steps * options.recipe.train.batch, kRecordTokens);
  const Measured m = measure_apart(path, options.workload, steps);
  Watch watch;
  base::Team team(base::Team::default_threads());
  const auto plan = make_plan(options, team);
  if (!plan) {
    fmt::print(stderr, "{}\n", plan.error().message);
    return 1;
  }
  fmt::print("planned in {:.1f} s; weights are {}\n", watch.lap(),
             plan->streamed ? "streamed" : "resident");
  fmt::print("{:<28} {:>12} {:>12}\n", path.filename().string(), "predicted", "measured");
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  print("memory, loaded", mb(plan->load.bytes()), mb(m.load_bytes), "MB");
  print("memory, serving", mb(plan->serve.bytes()), mb(m.serve_bytes), "MB");
  print("memory, training", mb(plan->train.bytes()), mb(m.train_bytes), "MB");
  print("load", plan->load_seconds, m.load_s, "s");
  print("decode, a token", 1000 / plan->decode_tokens_per_s, 1000 * m.decode_s, "ms");
  const auto n = static_cast<double>(plan->steps);
  print("training, set-up", plan->train_seconds - n * plan->step_seconds, m.open_s, "s");
  print("training, a step", plan->step_seconds, m.step_s, "s");
  return 0;
}

int make_7b(const base::Path& path) {
  engine::RandomModelOptions options{
      .config = engine::llama_7b_config(), .type = kQ4_0, .output_type = kQ4_0, .tied = false};
  const auto written = engine::write_random_model(path, options);
  if (!written) fmt::print(stderr, "{}\n", written.error().message);
  return written ? 0 : 1;
}

}  // namespace
}  // namespace retort::loop

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--make-7b") == 0) return retort::loop::make_7b(argv[2]);
  if (argc < 2) return 2;
  return retort::loop::run(argv[1], argc > 2 ? std::atoll(argv[2]) : 4);
}
