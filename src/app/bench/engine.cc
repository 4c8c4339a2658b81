// Ours and the peer take turns in blocks within one process, so that both see the same machine; the
// rows are medians over rounds of what the blocks of one round say, because a round lies close in
// time.
#include <array>
#include <functional>

#include "app/bench/agreement.h"
#include "app/bench/bench.h"
#include "app/bench/f32_copy.h"
#include "app/bench/fixed_text.h"
#include "app/bench/profile.h"
#include "app/bench/random_adapter.h"
#include "app/bench/temporary.h"
#include "app/bench/timing.h"
#include "obs/progress.h"

namespace retort::app {
namespace {

constexpr size_t kPrompt = 512, kDecoded = 64;
constexpr int64_t kContext = 1024;
constexpr int kWarmSteps = 2, kTimedSteps = 24;
constexpr int kTexts = 2;  // that the logits are compared on
// Rounds of blocks: at least, at most, and the time after which no further one begins.
constexpr int kRoundsMin = 3, kRoundsMax = 8;
constexpr double kRoundsSeconds = 20;
constexpr uint64_t kLoraBytesSpare = uint64_t{256} << 20;

bool wants_round(int done, BenchClock::time_point start) {
  return done < kRoundsMin || (done < kRoundsMax && seconds_since(start) < kRoundsSeconds);
}

/// One value a round.
using Samples = std::vector<double>;

class EngineBench {
 public:
  EngineBench(std::string name, const engine::Model& model, base::Team& team,
              const adapter::SlotImage& slot, LlamaPeer& peer, BenchReport& report)
      : name_(std::move(name)),
        model_(model),
        slot_(slot),
        executor_(model, team, {.rows_max = limits::kPrefillChunkRows, .context_max = kContext}),
        ours_(executor_, kContext),
        peer_(peer),
        tokens_(fixed_text(model.vocabulary(), kPrompt + kDecoded, 0)),
        report_(report) {}

  base::Result<void> decode(double bandwidth, int lora);
  base::Result<void> prefill();
  base::Result<void> agreement(LlamaPeer& reference);
  Sequence& ours() { return ours_; }

 private:
  std::string row(std::string_view name) const { return fmt::format("{}.{}", name, name_); }
  std::span<const engine::Token> prompt() const { return std::span(tokens_).first(kPrompt); }

  /// Seconds a token of decoding after the prompt: the median of a block.
  template <class Eval>
  base::Result<double> decode_block(const Eval& eval) const {
    Samples samples;
    for (int i = 0; i < kWarmSteps + kTimedSteps; ++i) {
      const auto start = BenchClock::now();
      TRY(eval(std::span(tokens_).subspan(kPrompt + static_cast<size_t>(i), 1)));
      if (i >= kWarmSteps) samples.push_back(seconds_since(start));
    }
    return median(std::move(samples));
  }
  base::Result<double> our_decode(const engine::Mix& mix) {
    ours_.truncate(kPrompt);
    ours_.use_mix(mix);
    return decode_block([&](std::span<const engine::Token> token) -> base::Result<void> {
      ours_.eval(token);
      return {};
    });
  }
  base::Result<double> peer_decode(int lora) {
    peer_.truncate(kPrompt);
    peer_.use_lora(lora);
    auto seconds =
        decode_block([&](std::span<const engine::Token> token) { return peer_.eval(token); });
    let_peer_sleep();
    return seconds;
  }
  base::Result<void> fill_both();

  std::string name_;
  const engine::Model& model_;
  const adapter::SlotImage& slot_;
  engine::Executor executor_;
  Sequence ours_;
  LlamaPeer& peer_;
  std::vector<engine::Token> tokens_;
  BenchReport& report_;
};

/// The prompt of the base into both caches.
base::Result<void> EngineBench::fill_both() {
  ours_.truncate(0);
  peer_.truncate(0);
  ours_.use_mix({});
  peer_.use_lora(-1);
  ours_.eval(prompt());
  TRY(peer_.eval(prompt()));
  let_peer_sleep();
  return {};
}

base::Result<void> EngineBench::decode(double bandwidth, int lora) {
  TRY(fill_both());
  const engine::Mix dora(slot_.view());
  Samples ours, ratio, lora_ratio, added;
  const auto start = BenchClock::now();
  for (int round = 0; wants_round(round, start); ++round) {
    TRY_ASSIGN(const double our_base, our_decode({}));
    TRY_ASSIGN(const double our_dora, our_decode(dora));
    TRY_ASSIGN(const double peer_base, peer_decode(-1));
    TRY_ASSIGN(const double peer_lora, peer_decode(lora));
    ours.push_back(our_base);
    ratio.push_back(peer_base / our_base);
    lora_ratio.push_back(peer_lora / our_dora);
    added.push_back(our_dora - our_base);
  }
  const double read_seconds = static_cast<double>(slot_.info().bytes) / bandwidth;
  report_.add_at_least(row("decode_vs_libllama"), median(ratio), 0.95);
  report_.add(row("decode_tokens_per_s"), 1 / median(ours));
  report_.add_at_most(row("dora_added_vs_bytes"), median(added) / read_seconds, 4);
  report_.add_at_least(row("dora_vs_libllama_lora"), median(lora_ratio), 1.1);
  return {};
}

base::Result<void> EngineBench::prefill() {
  TRY(fill_both());  // warms both up
  Samples ours, ratio;
  const auto start = BenchClock::now();
  for (int round = 0; wants_round(round, start); ++round) {
    ours_.truncate(0);
    const double our_seconds = seconds_of([&] { ours_.eval(prompt()); });
    peer_.truncate(0);
    const auto peer_start = BenchClock::now();
    TRY(peer_.eval(prompt()));
    const double peer_seconds = seconds_since(peer_start);
    let_peer_sleep();
    ours.push_back(our_seconds);
    ratio.push_back(peer_seconds / our_seconds);
  }
  report_.add(row("prefill_vs_libllama"), median(ratio));
  report_.add(row("prefill_tokens_per_s"), static_cast<double>(kPrompt) / median(ours));
  return {};
}

base::Result<void> EngineBench::agreement(LlamaPeer& reference) {
  ours_.use_mix({});
  peer_.use_lora(-1);
  Agreement agreement;
  for (uint64_t text = 0; text < kTexts; ++text) {
    const auto tokens = fixed_text(model_.vocabulary(), kPrompt + kDecoded, text);
    TRY(compare_logits(tokens, kPrompt, ours_, peer_, &reference, agreement));
  }
  report_.add_at_most(row("rms_error_vs_libllama"), agreement.rms_ours() / agreement.rms_peer(),
                      1.1);
  report_.add(row("rms_error"), agreement.rms_ours());
  report_.add_at_most(row("top1_disagreements"), static_cast<double>(agreement.disagreements), 0);
  return {};
}

base::Result<void> bench_model(const BenchModel& bench, const BenchOptions& options,
                               base::Team& team, double bandwidth, BenchReport& report) {
  TRY_ASSIGN(const uint64_t copy_bytes, f32_copy_bytes(bench.path));
  TRY_ASSIGN(const TemporaryFolder folder, TemporaryFolder::create(copy_bytes + kLoraBytesSpare));
  TRY_ASSIGN(const engine::Model model, engine::Model::open(bench.path, team));
  const auto base = adapter::SlotBase::of(model.config(), model.fingerprint());
  TRY_ASSIGN(const auto slot, adapter::SlotImage::parse(random_slot(base, 1).span(), base));
  TRY(write_random_lora(folder.path() / "lora.gguf", model.config(), 1));
  TRY_ASSIGN(auto peer, LlamaPeer::open(bench.path, {.threads = team.size(), .context = kContext}));
  TRY_ASSIGN(const int lora, peer->load_lora(folder.path() / "lora.gguf"));

  EngineBench engine(bench.name, model, team, slot, *peer, report);
  obs::Progress progress("engine " + bench.name, 3, {.quiet = options.quiet});
  TRY(engine.decode(bandwidth, lora));
  progress.tick(1);
  TRY(engine.prefill());
  progress.tick(2);
  const base::Path copy = folder.path() / "f32.gguf";
  TRY(write_f32_copy(bench.path, copy));
  TRY_ASSIGN(auto reference,
             LlamaPeer::open(copy, {.threads = team.size(), .context = kContext, .exact = true}));
  TRY(engine.agreement(*reference));
  progress.finish();
  if (options.profile) profile_decode(model, team, bench.name, report);
  return {};
}

}  // namespace

base::Result<BenchReport> bench_engine(const BenchOptions& options) {
  BenchReport report{.bench = "engine", .machine = this_machine()};
  base::Team team(options.threads);
  const double bandwidth = read_bandwidth(team);
  for (const BenchModel& model : options.models) {
    TRY(bench_model(model, options, team, bandwidth, report));
  }
  report.add("read_gb_per_s", bandwidth * 1e-9);
  return report;
}

}  // namespace retort::app
