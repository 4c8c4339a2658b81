#include "loop/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "engine/backward.h"
#include "engine/excerpt.h"
#include "engine/executor.h"
#include "train/trainable.h"

namespace retort::loop {
namespace {

using engine::BackwardWeights;
using engine::Config;
using engine::Segment;
using engine::Target;
using engine::Token;

constexpr int64_t kExcerptBytes = int64_t{32}
                                  << 20;  // more than caches keep, so that weights stream
constexpr int64_t kExcerptVocabulary = 4096;
constexpr double kTrainingFlops = 1.5e10;  // of the larger micro-batch: a third of a second or so
constexpr int64_t kPassRowsMin = 16, kPassRowsMax = 128, kLossRows = 64, kPrefillRows = 32;
constexpr double kDecodeSeconds = 0.15;
constexpr int kDecodeStepsMax = 64;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return since(start);
}

/// The median of at least three runs, or of as many as fit the time; the first only warms up.
double median_seconds(double budget, const std::function<void()>& work) {
  std::vector<double> times;
  double spent = seconds_of(work);
  while (times.size() < 3 || (spent < budget && times.size() < kDecodeStepsMax)) {
    times.push_back(seconds_of(work));
    spent += times.back();
  }
  std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(times.size() / 2));
  return times[times.size() / 2];
}

/// The better of two runs, for work that takes long.
double best_seconds(const std::function<void()>& work) {
  const double first = seconds_of(work);
  return std::min(first, seconds_of(work));
}

int64_t layer_weights(const Config& config) {
  int64_t n = 0;
  for (int t = 0; t < engine::kLayerTargets; ++t) {
    const auto [out, in] = config.shape(static_cast<Target>(t));
    n += out * in;
  }
  return n;
}

/// Products of a forward and a backward pass: the bottom layer spares the gradient of its input.
int64_t pass_products(const Config& config, int64_t layers) {
  int64_t spared = 0;
  for (const Target target : {Target::kQ, Target::kK, Target::kV}) {
    const auto [out, in] = config.shape(target);
    spared += out * in;
  }
  return 2 * layers * layer_weights(config) - spared;
}

/// Layers spread over the file, as many as make the excerpt large enough: at least two.
std::vector<int> choose_layers(const engine::Gguf& gguf, const Config& config) {
  const int64_t each = std::max<int64_t>(1, engine::layer_file_bytes(gguf, config.layers / 2));
  const int64_t wanted = std::clamp<int64_t>((kExcerptBytes + each - 1) / each,
                                             std::min(2, config.layers), config.layers);
  std::vector<int> layers;
  for (int64_t i = 0; i < wanted; ++i)
    layers.push_back(static_cast<int>(i * config.layers / wanted));
  return layers;
}

/// Loads the excerpt, in so many seconds, from a file that is gone when this returns.
base::Result<engine::Model> open_excerpt(const engine::Gguf& gguf, const Config& config,
                                         std::span<const int> layers, base::Team& team,
                                         double& seconds) {
  const engine::ExcerptOptions options{{layers.begin(), layers.end()}, kExcerptVocabulary};
  const std::string name = fmt::format("retort-plan-{}.gguf", ::getpid());
  std::error_code ignored;
  base::Path path = base::Path("/dev/shm") / name;  // memory where there is some
  auto written = engine::write_excerpt(gguf, config, options, path);
  if (!written && written.error().code == base::Code::kIo) {
    path = std::filesystem::temp_directory_path(ignored) / name;
    written = engine::write_excerpt(gguf, config, options, path);
  }
  if (!written) return tl::unexpected(std::move(written).error());
  const auto start = std::chrono::steady_clock::now();
  auto model = engine::Model::open(path, team, "chatml");
  seconds = since(start);
  std::filesystem::remove(path, ignored);
  return model;
}

class Calibration {
 public:
  Calibration(const engine::Model& excerpt, const Config& whole, base::Team& team,
              const CalibrateOptions& options)
      : model_(excerpt),
        whole_(whole),
        team_(team),
        options_(options),
        layers_(static_cast<double>(whole.layers) / excerpt.config().layers),
        vocabulary_(static_cast<double>(whole.vocabulary) /
                    static_cast<double>(excerpt.config().vocabulary)) {}

  base::Result<Pace> run() {
    Pace pace;
    TRY_ASSIGN(pace.decode, decode(1, nullptr));
    TRY_ASSIGN(pace.decode_all, options_.sessions == 1 ? base::Result<double>(pace.decode)
                                                       : decode(options_.sessions, nullptr));
    TRY(train(pace));
    return pace;
  }

 private:
  /// A step of `sessions` rows, each at the middle of its context.
  base::Result<double> decode(int sessions, const engine::Mix* mix) {
    const int64_t position = std::max<int64_t>(1, options_.context / 2);
    const int64_t capacity = position + 2 * kDecodeStepsMax;
    engine::Executor executor(model_, team_, {.rows_max = sessions, .context_max = capacity});
    const Token token = 7;
    std::vector<engine::KvCache> caches;
    std::vector<Segment> segments;
    std::vector<int32_t> rows;
    for (int i = 0; i < sessions; ++i) {
      TRY_ASSIGN(engine::KvCache cache, engine::KvCache::create(model_.config(), capacity));
      fill(cache, position);
      caches.push_back(std::move(cache));
      rows.push_back(i);
    }
    for (engine::KvCache& cache : caches) {
      segments.push_back(
          {.cache = &cache, .tokens = {&token, 1}, .mix = mix == nullptr ? engine::Mix() : *mix});
    }
    std::vector<float> logits(rows.size() * static_cast<size_t>(model_.config().vocabulary));
    const double blocks = median_seconds(kDecodeSeconds, [&] {
      for (engine::KvCache& cache : caches) cache.truncate(position);
      executor.forward(segments, {}, nullptr);
    });
    const double output =
        median_seconds(kDecodeSeconds / 4, [&] { executor.logits(rows, logits.data()); });
    return blocks * layers_ + output * vocabulary_;
  }

  /// Small values in every cell, so that attention reads memory and not the system's one zero page.
  void fill(engine::KvCache& cache, int64_t length) const {
    const Config& config = model_.config();
    constexpr uint16_t kHundredth = 0x211f;  // 0.01 in binary16
    for (int layer = 0; layer < config.layers; ++layer) {
      for (int head = 0; head < config.kv_heads; ++head) {
        std::fill_n(cache.keys(layer, head), length * config.head_dim, kHundredth);
        std::fill_n(cache.values(layer, head), length * config.head_dim, kHundredth);
      }
    }
    cache.advance(length);
  }

  int64_t pass_rows() const {
    const double row =
        2.0 * static_cast<double>(pass_products(model_.config(), model_.config().layers));
    const auto rows = static_cast<int64_t>(kTrainingFlops / row);
    return std::clamp(rows / 16 * 16, kPassRowsMin, kPassRowsMax);
  }

  base::Result<void> train(Pace& pace) {
    std::unique_ptr<train::Trainable> trainable;
    std::unique_ptr<BackwardWeights> weights;
    pace.trainer_open = layers_ * seconds_of([&] {
                          trainable = std::make_unique<train::Trainable>(
                              model_, train::initial_weights(model_, options_.train, team_), team_);
                          weights = std::make_unique<BackwardWeights>(
                              model_, team_,
                              options_.streamed ? BackwardWeights::Mode::kStreamed
                                                : BackwardWeights::Mode::kResident);
                        });
    const engine::Mix mix(trainable->slot());
    TRY_ASSIGN(pace.evaluate, decode(options_.evaluation_sessions, &mix));
    const int64_t rows = std::max(pass_rows(), kLossRows);
    engine::Executor executor(model_, team_,
                              {.rows_max = rows, .context_max = rows, .keep_layers = true});
    engine::Backward backward(executor, *weights);
    TRY_ASSIGN(engine::KvCache cache, engine::KvCache::create(model_.config(), rows));
    measure_passes(pace, executor, backward, *trainable, cache);
    measure_update(pace, *trainable);
    return {};
  }

  /// Two sizes of micro-batch tell what a pass costs by itself and what a row adds.
  void measure_passes(Pace& pace, engine::Executor& executor, engine::Backward& backward,
                      train::Trainable& trainable, engine::KvCache& cache) {
    const std::vector<Token> tokens(static_cast<size_t>(executor.options().rows_max), 7);
    const std::vector<int32_t> last = {0};
    Segment segment{.cache = &cache, .mix = engine::Mix(trainable.slot())};
    const auto forward = [&](int64_t rows) {
      cache.truncate(0);
      segment.tokens = std::span(tokens).first(static_cast<size_t>(rows));
      executor.forward({&segment, 1}, {}, nullptr);
    };
    const auto pass = [&](int64_t rows) {
      forward(rows);
      backward.loss(last, std::span(tokens).first(1), 1.0f);  // one row: a gradient to begin with
      backward.propagate({&segment, 1}, trainable.slot(), trainable.gradients());
    };
    const int64_t large = pass_rows(), small = large / 4;
    const double whole =
        static_cast<double>(pass_products(whole_, whole_.layers)) /
        static_cast<double>(pass_products(model_.config(), model_.config().layers));
    pass(small);  // warms up
    const double of_small = best_seconds([&] { pass(small); });
    const double of_large = best_seconds([&] { pass(large); });
    const double row = std::max(0.0, of_large - of_small) / static_cast<double>(large - small);
    pace.pass_row = whole * row;
    pace.pass = whole * std::max(0.0, of_small - row * static_cast<double>(small));
    pace.prefill_row = layers_ * median_seconds(0, [&] { forward(kPrefillRows); }) / kPrefillRows;
    forward(kLossRows);
    std::vector<int32_t> rows(static_cast<size_t>(kLossRows));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
    pace.loss_row = vocabulary_ / kLossRows * median_seconds(0, [&] {
                      backward.loss(rows, std::span(tokens).first(rows.size()), 1.0f);
                    });
  }

  void measure_update(Pace& pace, train::Trainable& trainable) {
    const kernels::AdamW adamw{.learning_rate = 1e-6f,
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .epsilon = 1e-8f,
                               .weight_decay = 0,
                               .correction1 = 0.1f,
                               .correction2 = 0.001f,
                               .gradient_scale = 1e-6f};
    pace.update = layers_ * median_seconds(0, [&] {
                    team_.run([&](base::Lane lane) {
                      trainable.clear_gradients(lane);
                      trainable.finish_gradients(lane);
                      trainable.update(lane, adamw);
                      trainable.fold(lane);
                    });
                  });
  }

  const engine::Model& model_;
  const Config& whole_;
  base::Team& team_;
  const CalibrateOptions& options_;
  const double layers_, vocabulary_;  // whole over excerpt
};

}  // namespace

base::Result<Pace> calibrate(const engine::Gguf& gguf, const Config& config, base::Team& team,
                             const CalibrateOptions& options) {
  const std::vector<int> layers = choose_layers(gguf, config);
  double seconds = 0;
  TRY_ASSIGN(const engine::Model excerpt, open_excerpt(gguf, config, layers, team, seconds));
  TRY_ASSIGN(Pace pace, Calibration(excerpt, config, team, options).run());
  int64_t all = 0;
  for (const engine::TensorView& tensor : gguf.tensors())
    all += static_cast<int64_t>(tensor.data.size());
  pace.load = seconds * static_cast<double>(all) / static_cast<double>(excerpt.weight_bytes());
  return pace;
}

}  // namespace retort::loop
