// Oracles: a plain map of what is loaded; the tensors' own bytes, which carry the adapter's number,
// so that a reader who holds a pin while the space is reused sees it (and the thread sanitizer
// too).
#include "adapter/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "adapter/crystallise.h"
#include "adapter/small_base.h"

namespace retort::adapter {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t kTableBytes = limits::kArenaSlotsMax * 128;

class ArenaTest : public testing::Test {
 protected:
  ArenaTest() : small_(1), team_(1) {}
  Bytes slot(uint64_t seed) {
    const auto built = build_slot(random_adapter(small_.config, true, seed), small_.weights, team_);
    return {built->span().begin(), built->span().end()};
  }
  /// A slot whose every tensor value is a power of two that names it.
  Bytes marked_slot(float mark) {
    AdapterWeights adapter = random_adapter(small_.config, false, 1);
    for (ModuleWeights& module : adapter.modules) {
      module.scale = 1.0f;
      std::fill(module.a.begin(), module.a.end(), mark);
      std::fill(module.b.begin(), module.b.end(), mark);
    }
    const auto built = build_slot(adapter, small_.weights, team_);
    return {built->span().begin(), built->span().end()};
  }
  std::unique_ptr<SlotArena> arena(int64_t slots_that_fit) {
    const auto one = static_cast<int64_t>(slot(2).size()) + 15 * 32 + 64;
    return SlotArena::open(small_.weights.shape, kTableBytes + slots_that_fit * one).value();
  }

  SmallBase small_;
  base::Team team_;
};

TEST_F(ArenaTest, LoadsPinsAndUnloads) {
  const auto arena = this->arena(2);
  const Bytes bytes = slot(2);
  const SlotHandle handle = arena->load(bytes).value();
  const SlotImage image = SlotImage::parse(bytes, small_.weights.shape).value();
  {
    const auto pinned = arena->pin(handle);
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->view().content, image.view().content);
    ASSERT_EQ(pinned->view().matrices.size(), image.view().matrices.size());
    for (size_t i = 0; i < image.view().matrices.size(); ++i) {
      const auto& ours = pinned->view().matrices[i];
      const auto& theirs = image.view().matrices[i];
      const auto outs = kernels::padded(small_.weights.shape.shape(static_cast<int>(i)).first);
      EXPECT_EQ(ours.rank, theirs.rank);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(ours.a) % 64, 0u);
      EXPECT_TRUE(std::equal(ours.b, ours.b + outs * ours.rank, theirs.b));
      EXPECT_TRUE(std::equal(ours.d, ours.d + outs, theirs.d));
    }
    EXPECT_EQ(arena->residents().at(0).pins, 1u);
  }
  EXPECT_EQ(arena->residents().at(0).pins, 0u);
  ASSERT_TRUE(arena->unload(handle));
  EXPECT_FALSE(arena->pin(handle));
  EXPECT_TRUE(arena->residents().empty());
  EXPECT_EQ(arena->unload(handle).error().code, base::Code::kNotFound);
}

TEST_F(ArenaTest, AReusedSlotRefusesOldHandles) {
  const auto arena = this->arena(1);
  const SlotHandle first = arena->load(slot(2)).value();
  ASSERT_TRUE(arena->unload(first));
  const SlotHandle second = arena->load(slot(3)).value();
  EXPECT_EQ(first.index, second.index);
  EXPECT_NE(first.generation, second.generation);
  EXPECT_FALSE(arena->pin(first));
  EXPECT_TRUE(arena->pin(second));
  EXPECT_FALSE(arena->unload(first));
  EXPECT_FALSE(arena->pin({}));
  EXPECT_FALSE(arena->pin({second.index, 0}));
  EXPECT_FALSE(arena->pin({5'000'000, 1}));
}

TEST_F(ArenaTest, FullSaysHowMuchIsMissingAndPinsHoldSpace) {
  const auto arena = this->arena(2);
  const SlotHandle a = arena->load(slot(2)).value();
  ASSERT_TRUE(arena->load(slot(3)));
  const auto full = arena->load(slot(4));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, base::Code::kLimit);
  EXPECT_NE(full.error().message.find("bytes missing"), std::string::npos) << full.error().message;

  auto pinned = arena->pin(a);
  const auto content = pinned->view().content;
  ASSERT_TRUE(arena->unload(a));
  EXPECT_FALSE(arena->load(slot(4))) << "space of a pinned adapter was reused";
  EXPECT_EQ(pinned->view().content, content);
  EXPECT_FALSE(arena->residents().at(0).published);
  pinned.reset();
  EXPECT_TRUE(arena->load(slot(4)));
}

TEST_F(ArenaTest, MissingBytesAreExact) {
  const auto arena = this->arena(1);
  const auto error = arena->load(marked_slot(1.0f));
  ASSERT_TRUE(error);
  const uint64_t used = arena->residents().at(0).bytes;
  const auto full = arena->load(slot(2));
  const std::string expected = fmt::format("{} bytes missing", used - (arena->capacity() - used));
  EXPECT_NE(full.error().message.find(expected), std::string::npos) << full.error().message;
}

TEST_F(ArenaTest, RefusesDamageAndTinyArenas) {
  const auto arena = this->arena(1);
  Bytes bad = slot(2);
  bad[bad.size() / 2] ^= std::byte{1};
  EXPECT_FALSE(arena->load(bad));
  EXPECT_TRUE(arena->residents().empty());
  EXPECT_FALSE(SlotArena::open(small_.weights.shape, 100));
  EXPECT_FALSE(SlotArena::open(small_.weights.shape, -1));
  EXPECT_EQ(arena->load_file("/nonexistent/slot").error().code, base::Code::kNotFound);
}

TEST_F(ArenaTest, AgreesWithAMapOverRandomOperations) {
  const auto arena = this->arena(5);
  std::vector<Bytes> slots;
  for (uint64_t i = 0; i < 8; ++i) slots.push_back(i % 2 ? slot(i) : Bytes());
  for (size_t i = 0; i < 8; i += 2) {  // smaller adapters between the larger: gaps of two sizes
    AdapterWeights few = random_adapter(small_.config, true, i);
    few.modules.resize(3);
    const auto built = build_slot(few, small_.weights, team_);
    slots[i].assign(built->span().begin(), built->span().end());
  }
  std::map<int, std::pair<SlotHandle, base::Hash256>> model;
  base::Rng rng(3);
  int next = 0;
  for (int step = 0; step < 600; ++step) {
    const Bytes& bytes = slots[rng.below(8)];
    if (model.empty() || rng.below(2) == 0) {
      const auto handle = arena->load(bytes);
      if (handle) {
        const auto content = SlotImage::parse(bytes, small_.weights.shape)->view().content;
        model[next++] = {*handle, content};
      }
    } else {
      const auto victim = std::next(model.begin(), static_cast<long>(rng.below(model.size())));
      ASSERT_TRUE(arena->unload(victim->second.first));
      model.erase(victim);
    }
    ASSERT_EQ(arena->residents().size(), model.size());
    for (const auto& [number, expected] : model) {
      const auto pinned = arena->pin(expected.first);
      ASSERT_TRUE(pinned);
      ASSERT_EQ(pinned->view().content, expected.second);
    }
  }
  EXPECT_GT(next, 200);
}

/// What a reader checks under a pin: that everything it sees is of one adapter.
float mark_of(const engine::SlotView& view) {
  const kernels::AdapterMatrix& first = view.matrices[0];
  const float mark = kernels::half_to_float(first.a[0]);
  for (const kernels::AdapterMatrix& matrix : view.matrices) {
    if (kernels::half_to_float(matrix.a[0]) != mark || matrix.d[0] != 0.0f) return -1.0f;
    if (kernels::half_to_float(matrix.b[0]) != mark) return -1.0f;
  }
  return mark;
}

TEST_F(ArenaTest, ReadersPinWhileAWriterReplaces) {
  const auto arena = this->arena(3);
  const Bytes marked[] = {marked_slot(0.5f), marked_slot(1.0f), marked_slot(2.0f)};
  // Handle and mark travel in one word: index 10 bits, mark 2 bits, generation above.
  std::atomic<uint64_t> current{0};
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::atomic<int64_t> pins{0}, stale{0};
  const auto read = [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t word = current.load(std::memory_order_relaxed);
      const SlotHandle handle{static_cast<uint32_t>(word & 1023),
                              static_cast<uint32_t>(word >> 12)};
      const auto pinned = arena->pin(handle);
      if (!pinned) {
        stale.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      const float expected = std::ldexp(0.5f, static_cast<int>(word >> 10 & 3));
      if (mark_of(pinned->view()) != expected) torn.fetch_add(1);
      pins.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::thread readers[] = {std::thread(read), std::thread(read), std::thread(read)};
  SlotHandle last{};
  int published = 0;
  for (uint64_t i = 0; i < 2000 || pins.load() < 1000; ++i) {
    const auto handle = arena->load(marked[i % 3]);
    if (!handle) {  // readers still hold the older ones
      std::this_thread::yield();
      continue;
    }
    current.store(handle->index | (i % 3) << 10 | uint64_t{handle->generation} << 12,
                  std::memory_order_relaxed);
    EXPECT_TRUE(last.generation == 0 || arena->unload(last));
    last = *handle;
    ++published;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn.load(), 0);
  EXPECT_GT(published, 500);
  EXPECT_GT(pins.load(), 0);
}

TEST_F(ArenaTest, ASwapChangesTheOutput) {
  const auto arena = this->arena(3);
  const SlotHandle a = arena->load(slot(2)).value(), b = arena->load(slot(3)).value();
  base::Rng rng(5);
  const std::vector<float> x = random_floats(32, 1.0f, rng);
  std::atomic<const engine::SlotView*> bound{nullptr};
  const auto run = [&] {
    const kernels::AdapterMatrix& matrix = bound.load(std::memory_order_acquire)->matrices[0];
    std::vector<float> h(static_cast<size_t>(matrix.rank)), y(32);
    kernels::adapter_down(x.data(), 1, 32, matrix.a, matrix.rank, h.data());
    const kernels::MixTerm term{&matrix, nullptr, 1.0f, h.data()};
    const kernels::RowGroup group{0, 1, {&term, 1}};
    const kernels::Activations rows{x.data(), nullptr, nullptr, nullptr, 32};
    kernels::linear(small_.packed[0], nullptr, rows, 1, {&group, 1}, 0, 2, y.data());
    return y;
  };
  const auto pinned_a = arena->pin(a), pinned_b = arena->pin(b);
  bound = &pinned_a->view();
  const auto under_a = run();
  bound.store(&pinned_b->view(), std::memory_order_release);
  const auto under_b = run();
  bound.store(&pinned_a->view(), std::memory_order_release);
  EXPECT_NE(under_a, under_b);
  EXPECT_EQ(run(), under_a);
}

}  // namespace
}  // namespace retort::adapter
