// A session that generates while another thread switches its adapter, round and round through those
// resident in the arena.
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "adapter/arena.h"
#include "app/bench/allocations.h"
#include "app/bench/bench.h"
#include "app/bench/fixed_text.h"
#include "app/bench/llama_peer.h"
#include "app/bench/random_adapter.h"
#include "app/bench/sequence.h"
#include "app/bench/swapper.h"
#include "app/bench/temporary.h"
#include "obs/progress.h"

namespace retort::app {
namespace {

using engine::Mix;
using engine::Token;

constexpr int kAdapters = 16;
constexpr int64_t kContext = 1024;
constexpr size_t kPrompt = 64;
constexpr int kSwaps = 1000;          // with everything counted
constexpr int kTimedSwaps = 96;       // whose first step is compared with ordinary ones
constexpr int kOrdinary = 3;          // ordinary steps after each
constexpr int kCheckedSwaps = 8;      // against a cold run
constexpr size_t kCheckedTokens = 5;  // generated before the swap
constexpr uint64_t kLoraBytesSpare = uint64_t{256} << 20;

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// kAdapters random adapters of a model, resident and pinned.
struct Residents {
  std::unique_ptr<adapter::SlotArena> arena;
  std::vector<adapter::SlotArena::Pinned> pins;
  std::vector<Mix> mixes;

  static base::Result<Residents> load(const engine::Model& model) {
    const auto base = adapter::SlotBase::of(model.config(), model.fingerprint());
    auto slot = random_slot(base, 1);
    const auto bytes = std::max<int64_t>(limits::kArenaBytesDefault,
                                         static_cast<int64_t>(slot.size()) * (kAdapters + 1));
    Residents residents;
    TRY_ASSIGN(residents.arena, adapter::SlotArena::open(base, bytes));
    for (int i = 0; i < kAdapters; ++i) {
      slot = random_slot(base, static_cast<uint64_t>(i) + 1);
      TRY_ASSIGN(const adapter::SlotHandle handle, residents.arena->load(slot.span()));
      residents.pins.push_back(*residents.arena->pin(handle));
      residents.mixes.emplace_back(residents.pins.back().view());
    }
    return residents;
  }
};

class SwapBench {
 public:
  SwapBench(const engine::Model& model, base::Team& team, std::span<const Mix> mixes,
            BenchReport& report)
      : model_(model),
        team_(team),
        mixes_(mixes),
        report_(report),
        executor_(model, team, options()),
        batcher_(executor_, {.sessions_max = 1, .context = kContext}),
        prompt_(fixed_text(model.vocabulary(), kPrompt, 0)) {}

  /// Writes every cell of the cache once and runs every adapter: what is resident after that stays.
  void warm_up() {
    engine::Request full{.prompt = fixed_text(model_.vocabulary(), kContext - 1, 0),
                         .max_tokens = 1};
    engine::Session* session = batcher_.add(std::move(full)).value();
    while (batcher_.step()) {
    }
    batcher_.release(session);
    for (const Mix& mix : mixes_) {
      running_session().rebind(&mix);
      batcher_.step();
    }
  }
  void check_against_cold_runs();
  void time_first_steps();
  void count_swaps();

 private:
  static engine::Executor::Options options() {
    return {.rows_max = limits::kPrefillChunkRows, .context_max = kContext};
  }
  const Mix& mix(int i) const { return mixes_[static_cast<size_t>(i) % mixes_.size()]; }

  /// The session, or a new one with its prompt read where that has ended.
  engine::Session& running_session() {
    if (session_ == nullptr || session_->finish() != engine::Finish::kRunning)
      start_session(&mix(0));
    return *session_;
  }
  void start_session(const Mix* mix) {
    if (session_ != nullptr) batcher_.release(session_);
    engine::Request request{
        .prompt = prompt_, .max_tokens = kContext - static_cast<int64_t>(kPrompt), .mix = mix};
    session_ = batcher_.add(std::move(request)).value();
    batcher_.step();
  }
  double timed_step() {
    return seconds_of([&] { batcher_.step(); });
  }
  void check_one(const Mix& before, const Mix& after);

  const engine::Model& model_;
  base::Team& team_;
  const std::span<const Mix> mixes_;
  BenchReport& report_;
  engine::Executor executor_;
  engine::Batcher batcher_;
  const std::vector<Token> prompt_;
  engine::Session* session_ = nullptr;
  int checked_ = 0;
  Swapper swapper_{kSwaps + kTimedSwaps + kCheckedSwaps};
};

/// The first logits after a swap, against an executor that has never seen another adapter working
/// on the same keys and values; and against the adapter before, which must give others.
void SwapBench::check_one(const Mix& before, const Mix& after) {
  start_session(&before);
  while (session_->tokens().size() < kCheckedTokens && batcher_.step() &&
         session_->finish() == engine::Finish::kRunning) {
  }
  if (session_->finish() != engine::Finish::kRunning) return;  // ended by itself; others will not
  const std::vector<Token> fed(session_->tokens().begin(), session_->tokens().end());
  swapper_.post(session_, &after);
  swapper_.wait();
  batcher_.step();
  const auto live = batcher_.last_logits(*session_);

  engine::Executor history(model_, team_, options()), cold(model_, team_, options());
  Sequence replay(history, kContext);
  replay.use_mix(before);
  replay.eval(prompt_);
  for (size_t i = 0; i + 1 < fed.size(); ++i) replay.eval(std::span(fed).subspan(i, 1));
  const int64_t length = replay.length();
  const auto same_as_live = [&] {
    const auto logits = replay.eval(std::span(fed).last(1));
    replay.truncate(length);
    return std::memcmp(logits.data(), live.data(), live.size_bytes()) == 0;
  };
  const bool unchanged = same_as_live();
  replay.use_executor(cold);
  replay.use_mix(after);
  if (unchanged)
    report_.failures.push_back("a swap changed nothing: the logits are the old adapter's");
  if (!same_as_live())
    report_.failures.push_back("logits after a swap are not those of a cold run");
  ++checked_;
}

void SwapBench::check_against_cold_runs() {
  for (int i = 0; i < kCheckedSwaps; ++i) check_one(mix(i), mix(i + 1));
  if (checked_ == 0)
    report_.failures.push_back("no swap could be checked: every session ended at once");
}

/// Every step, ordinary ones too, follows a hand-over to the other thread, so that all start alike.
void SwapBench::time_first_steps() {
  std::vector<double> first, ordinary;
  for (int i = 0; i < kTimedSwaps; ++i) {
    for (int j = 0; j <= kOrdinary; ++j) {
      engine::Session& session = running_session();
      swapper_.post(j == 0 ? &session : nullptr, &mix(i + 1));
      swapper_.wait();
      (j == 0 ? first : ordinary).push_back(timed_step());
    }
  }
  report_.add_at_most("first_token_ratio", median(first) / median(ordinary), 1.05);
}

/// Rebinds fall anywhere into a running step; the step after it is the first under the new adapter.
void SwapBench::count_swaps() {
  team_.run([](base::Lane) { watch_allocations(true); });
  const double bytes_before = resident_bytes();
  const int64_t growths_before = executor_.growths();
  uint64_t allocations = 0;
  std::vector<double> latency, step;
  const auto counted_step = [&] {
    const uint64_t before = watched_allocations();
    batcher_.step();
    allocations += watched_allocations() - before;
  };
  for (int i = 0; i < kSwaps; ++i) {
    swapper_.post(&running_session(), &mix(i));
    counted_step();
    const auto called = swapper_.wait();
    if (session_->finish() != engine::Finish::kRunning) continue;
    step.push_back(seconds_of(counted_step));
    latency.push_back(seconds_since(called));
  }
  team_.run([](base::Lane) { watch_allocations(false); });
  report_.add_at_most("rebind_ns_p50", quantile(swapper_.nanoseconds(), 0.5), 1000);
  report_.add("rebind_ns_p99", quantile(swapper_.nanoseconds(), 0.99));
  report_.add("call_to_logits_steps", median(latency) / median(step));
  report_.add_at_most("builds", static_cast<double>(executor_.growths() - growths_before), 0);
  report_.add_at_most("token_path_allocations", static_cast<double>(allocations), 0);
  report_.add_at_most("rss_growth_pct", 100 * (resident_bytes() / bytes_before - 1), 1);
}

/// The same comparison on libllama, two LoRAs in turn.
base::Result<void> time_peer(const BenchModel& bench, const engine::Model& model, int threads,
                             BenchReport& report) {
  TRY_ASSIGN(const TemporaryFolder folder, TemporaryFolder::create(kLoraBytesSpare));
  TRY_ASSIGN(auto peer, LlamaPeer::open(bench.path, {.threads = threads, .context = kContext}));
  for (const int i : {0, 1}) {
    const base::Path path = folder.path() / fmt::format("lora{}.gguf", i);
    TRY(write_random_lora(path, model.config(), static_cast<uint64_t>(i) + 1));
    TRY(peer->load_lora(path));
  }
  const auto tokens = fixed_text(model.vocabulary(), kPrompt + kTimedSwaps * (kOrdinary + 1), 0);
  TRY(peer->eval(std::span(tokens).first(kPrompt)));
  std::vector<double> first, ordinary;
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    const bool swaps = i % (kOrdinary + 1) == 0;
    const auto start = BenchClock::now();
    if (swaps) peer->use_lora(static_cast<int>(i / (kOrdinary + 1) % 2));
    TRY(peer->eval(std::span(tokens).subspan(i, 1)));
    (swaps ? first : ordinary).push_back(seconds_since(start));
  }
  report.add("libllama_first_token_ratio", median(first) / median(ordinary));
  return {};
}

}  // namespace

base::Result<BenchReport> bench_swap(const BenchOptions& options) {
  BenchReport report{.bench = "swap", .machine = this_machine()};
  const BenchModel& bench = options.models.front();
  base::Team team(options.threads);
  TRY_ASSIGN(const engine::Model model, engine::Model::open(bench.path, team));
  obs::Progress progress("swap " + bench.name, 4, {.quiet = options.quiet});
  {
    TRY_ASSIGN(const Residents residents, Residents::load(model));
    SwapBench swap(model, team, residents.mixes, report);
    swap.warm_up();
    swap.check_against_cold_runs();
    progress.tick(1);
    swap.time_first_steps();
    progress.tick(2);
    swap.count_swaps();
    progress.tick(3);
  }
  TRY(time_peer(bench, model, team.size(), report));
  progress.finish();
  return report;
}

}  // namespace retort::app
