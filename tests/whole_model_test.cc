// On the 135M model that set-up installed. Oracles: the same model with its weights in F32, and the
// trainer's own executor.
#include <gtest/gtest.h>

#include <cmath>

#include "adapter/arena.h"
#include "adapter/crystallise.h"
#include "adapter/peft.h"
#include "app/bench/f32_copy.h"
#include "app/bench/temporary.h"
#include "base/disk.h"
#include "engine/batcher.h"
#include "loop/problems.h"
#include "train/trainer.h"

namespace retort {
namespace {

base::Path student() { return base::cache_directory() / "models/smollm2-135m-instruct-q4_1.gguf"; }

std::unique_ptr<engine::Model> open(const base::Path& path, base::Team& team) {
  auto model = engine::Model::open(path, team);
  EXPECT_TRUE(model) << model.error().message << "; run scripts/setup";
  return std::make_unique<engine::Model>(*std::move(model));
}

std::vector<record::Draft> problems(int64_t n) {
  return loop::problems_of_family("galois", n, 5, false).value();
}

std::vector<train::Example> examples(const engine::Model& model, int64_t n) {
  std::vector<record::Record> records;
  for (record::Draft& draft : problems(n)) records.push_back({.draft = std::move(draft)});
  return train::make_examples(records, model.vocabulary(), 512).value().examples;
}

std::unique_ptr<train::Trainer> make_trainer(const engine::Model& model, base::Team& team) {
  return train::Trainer::create(model, team, examples(model, 12), {.batch = 4}).value();
}

struct Dots {
  double ab = 0, aa = 0, bb = 0;
  void add(std::span<const float> a, std::span<const float> b) {
    for (size_t i = 0; i < a.size(); ++i) {
      ab += double{a[i]} * b[i], aa += double{a[i]} * a[i], bb += double{b[i]} * b[i];
    }
  }
  double cosine() const { return ab / std::sqrt(aa * bb); }
};

TEST(WholeModel, GradientsPointWhereThoseOfTheF32WeightsPoint) {
  base::Team team{base::Team::default_threads()};
  auto folder = app::TemporaryFolder::create(app::f32_copy_bytes(student()).value());
  ASSERT_TRUE(folder) << folder.error().message;
  const base::Path copy = folder->path() / "f32.gguf";
  ASSERT_TRUE(app::write_f32_copy(student(), copy));
  const auto quantised = open(student(), team), exact = open(copy, team);
  auto ours = make_trainer(*quantised, team), oracle = make_trainer(*exact, team);
  for (int i = 0; i < 3; ++i) ours->step();  // B starts at 0, and with it the gradient of A
  const auto from = ours->trainable().state(), to = oracle->trainable().state();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
  team.run([&](base::Lane lane) { oracle->trainable().fold(lane); });

  const auto probe = examples(*quantised, 4);
  for (train::Trainer* trainer : {ours.get(), oracle.get()}) {
    trainer->accumulate(probe);
    team.run([&](base::Lane lane) { trainer->trainable().finish_gradients(lane); });
  }
  Dots whole[3];
  double lowest = 1;
  for (size_t m = 0; m < ours->weights().modules.size(); ++m) {
    const auto a = ours->trainable().module_gradients(m);
    const auto b = oracle->trainable().module_gradients(m);
    for (size_t part = 0; part < 3; ++part) {
      Dots module;
      module.add(a[part], b[part]), whole[part].add(a[part], b[part]);
      lowest = std::min(lowest, module.cosine());
    }
  }
  for (size_t part = 0; part < 3; ++part) {
    EXPECT_GE(whole[part].cosine(), 0.995) << "ABm"[part];
    EXPECT_LT(whole[part].cosine(), 1) << "one path was compared with itself";
    fmt::print("cosine of {}: {:.5f}\n", "ABm"[part], whole[part].cosine());
  }
  fmt::print("lowest of a module: {:.5f}\n", lowest);
}

/// Logits of the server, one row a token, as its batches come; and the tokens it chose.
struct Served {
  std::vector<engine::Token> prompt, answer;
  std::vector<std::vector<float>> logits;  // before each token of the answer
};

std::vector<Served> serve(const engine::Model& model, base::Team& team, const engine::Mix& mix,
                          std::span<const record::Draft> drafts) {
  engine::Executor executor(model, team, {.rows_max = 96, .context_max = 256});
  engine::Batcher batcher(executor, {.sessions_max = 8, .context = 256});
  std::vector<Served> served(drafts.size());
  std::vector<std::pair<engine::Session*, size_t>> running;
  for (size_t next = 0; next < drafts.size() || !running.empty();) {
    for (; next < drafts.size() && !batcher.full(); ++next) {
      const engine::Message message{"user", drafts[next].prompt};
      served[next].prompt = model.vocabulary().encode_chat({&message, 1}, true).value().tokens;
      auto session =
          batcher.add({.prompt = served[next].prompt, .max_tokens = 24, .mix = &mix}).value();
      running.emplace_back(session, next);
    }
    batcher.step();
    std::erase_if(running, [&](const auto& item) {
      const auto [session, at] = item;
      Served& one = served[at];
      const auto logits = batcher.last_logits(*session);
      if (!logits.empty()) one.logits.emplace_back(logits.begin(), logits.end());
      if (session->finish() == engine::Finish::kRunning) return false;
      one.answer.assign(session->tokens().begin(), session->tokens().end());
      batcher.release(session);
      return true;
    });
  }
  return served;
}

/// The trainer's way: whole conversations in one ragged pack, every layer kept.
void expect_trainer_agrees(const engine::Model& model, base::Team& team, const engine::Mix& mix,
                           std::span<const Served> served) {
  engine::Executor executor(model, team,
                            {.rows_max = 1024, .context_max = 256, .keep_layers = true});
  std::vector<std::vector<engine::Token>> tokens;
  std::vector<engine::KvCache> caches;
  for (const Served& one : served) {
    tokens.push_back(one.prompt);
    tokens.back().insert(tokens.back().end(), one.answer.begin(), one.answer.end());
    caches.push_back(engine::KvCache::create(model.config(), 256).value());
  }
  std::vector<engine::Segment> segments;
  std::vector<int32_t> rows;
  int32_t row = 0;
  for (size_t i = 0; i < served.size(); ++i) {
    segments.push_back({.cache = &caches[i], .tokens = tokens[i], .mix = mix});
    const auto first = row + static_cast<int32_t>(served[i].prompt.size()) - 1;
    for (size_t t = 0; t < served[i].logits.size(); ++t) {
      rows.push_back(first + static_cast<int32_t>(t));
    }
    row += static_cast<int32_t>(tokens[i].size());
  }
  const auto width = static_cast<size_t>(model.config().vocabulary);
  std::vector<float> logits(rows.size() * width);
  executor.forward(segments, rows, logits.data());
  size_t at = 0;
  for (const Served& one : served) {
    for (size_t t = 0; t < one.logits.size(); ++t, ++at) {
      const auto ours = std::span(logits).subspan(at * width, width);
      ASSERT_EQ(std::memcmp(ours.data(), one.logits[t].data(), width * sizeof(float)), 0) << t;
      if (t == one.answer.size()) continue;  // the token that ended the turn
      EXPECT_EQ(engine::argmax(ours), one.answer[t]);
    }
  }
}

TEST(WholeModel, TheServerComputesWhatTheTrainerDid) {
  base::Team team{base::Team::default_threads()};
  const auto model = open(student(), team);
  auto trainer = make_trainer(*model, team);
  for (int i = 0; i < 3; ++i) trainer->step();

  // As publishing and serving do it: through the files, and the arena.
  auto folder = app::TemporaryFolder::create(0);
  ASSERT_TRUE(folder) << folder.error().message;
  const base::Path saved = folder->path() / "adapter";
  ASSERT_TRUE(adapter::save_peft(saved, trainer->weights(), model->config(), "student"));
  const auto weights = adapter::load_peft(saved, model->config());
  ASSERT_TRUE(weights) << weights.error().message;
  const auto slot = adapter::build_slot(*weights, adapter::BaseWeights::of(*model), team).value();
  const auto arena = adapter::SlotArena::open(
      adapter::SlotBase::of(model->config(), model->fingerprint()), int64_t{64} << 20);
  ASSERT_TRUE(arena) << arena.error().message;
  const auto handle = (*arena)->load(slot.span());
  ASSERT_TRUE(handle) << handle.error().message;
  const auto pinned = (*arena)->pin(*handle);
  ASSERT_TRUE(pinned);

  const auto drafts = problems(32);
  const auto served = serve(*model, team, engine::Mix(pinned->view()), drafts);
  const engine::Mix trained(trainer->slot());
  for (size_t i = 0; i < served.size(); i += 8) {
    expect_trainer_agrees(*model, team, trained, std::span(served).subspan(i, 8));
  }
  // The comparison sees an adapter: without it the first logits differ.
  const auto base = serve(*model, team, engine::Mix(), std::span(drafts).first(1));
  EXPECT_NE(base[0].logits[0], served[0].logits[0]);
}

}  // namespace
}  // namespace retort
