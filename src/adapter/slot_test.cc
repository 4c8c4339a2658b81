// Oracles: the memory that was folded (round trip), and a list of damages with the reason each must
// be refused for. A damage that keeps the hashes consistent is what an attacker would send.
#include "adapter/slot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "adapter/crystallise.h"
#include "adapter/small_base.h"

namespace retort::adapter {
namespace {

using Bytes = std::vector<std::byte>;

class SlotTest : public testing::Test {
 protected:
  SlotTest() : small_(1), team_(1) {
    const auto slot =
        build_slot(random_adapter(small_.config, true, 2), small_.weights, team_).value();
    good_.assign(slot.span().begin(), slot.span().end());
  }
  std::string refusal(const Bytes& bytes) const {
    const auto image = SlotImage::parse(bytes, small_.weights.shape);
    return image ? "accepted" : image.error().message;
  }
  SlotEntry entry(size_t index) const {
    SlotEntry entry;
    std::memcpy(&entry, good_.data() + entry_offset(index), sizeof(entry));
    return entry;
  }
  static size_t entry_offset(size_t index) {
    return sizeof(SlotHeader) + index * sizeof(SlotEntry);
  }

  SmallBase small_;
  base::Team team_;
  Bytes good_;
};

template <class T>
void poke(Bytes& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

TEST_F(SlotTest, RoundTripsAndIdentifiesItsContent) {
  const SlotImage image = SlotImage::parse(good_, small_.weights.shape).value();
  EXPECT_EQ(image.info().rank, 9u);
  EXPECT_EQ(image.info().bytes, good_.size());
  EXPECT_EQ(image.view().matrices.size(), 15u);
  EXPECT_EQ(image.view().matrices[9].rank, 16);
  const auto other =
      build_slot(random_adapter(small_.config, true, 3), small_.weights, team_).value();
  const SlotImage second = SlotImage::parse(other.span(), small_.weights.shape).value();
  EXPECT_NE(image.view().content, second.view().content);
}

TEST_F(SlotTest, WritesAndReadsFiles) {
  const base::Path path =
      std::filesystem::temp_directory_path() / fmt::format("retort-slot-{}", getpid());
  ASSERT_TRUE(base::write_file_atomic(path, std::span<const std::byte>(good_)));
  const auto image = SlotImage::read(path, small_.weights.shape);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(std::memcmp(image->bytes().data(), good_.data(), good_.size()), 0);
  std::filesystem::remove(path);
  const auto missing = SlotImage::read(path, small_.weights.shape);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::Code::kNotFound);
}

TEST_F(SlotTest, EveryTruncationIsRefused) {
  for (size_t size = 0; size < good_.size(); size += size < 1024 ? 1 : 997) {
    EXPECT_NE(refusal(Bytes(good_.begin(), good_.begin() + static_cast<std::ptrdiff_t>(size))),
              "accepted");
  }
}

TEST_F(SlotTest, EveryFlippedBitIsRefused) {
  for (size_t at = 0; at < good_.size(); at += at < 1024 ? 1 : 131) {
    Bytes bad = good_;
    bad[at] ^= std::byte{0x10};
    EXPECT_NE(refusal(bad), "accepted") << "byte " << at;
  }
}

TEST_F(SlotTest, RefusesDamagedHeaders) {
  const auto with = [&](size_t offset, auto value, bool seal) {
    Bytes bad = good_;
    poke(bad, offset, value);
    if (seal) seal_slot(bad);
    return refusal(bad);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with(0, uint32_t{0x46554747}, true), "not a slot file"},
      {with(offsetof(SlotHeader, version), uint32_t{2}, true), "version 2"},
      {with(offsetof(SlotHeader, version), uint32_t{0}, false), "version 0"},
      {with(offsetof(SlotHeader, rank), uint32_t{3}, false), "checksum"},
      {with(offsetof(SlotHeader, rank), uint32_t{3}, true), "rank 3 in the header"},
      {with(offsetof(SlotHeader, element), uint32_t{7}, true), "element type 7"},
      {with(offsetof(SlotHeader, bytes), uint64_t{1} << 60, true), "header says"},
      {with(offsetof(SlotHeader, matrices), uint32_t{1} << 30, true), "other shapes"},
      {with(offsetof(SlotHeader, layout), uint64_t{5}, true), "other shapes"},
      {with(offsetof(SlotHeader, fingerprint), uint64_t{5}, true), "made for base"},
      {with(offsetof(SlotHeader, content), uint64_t{5}, false), "checksum"},
      {with(offsetof(SlotHeader, reserved), uint64_t{5}, false), "checksum"},
  };
  for (const auto& [message, reason] : cases) {
    EXPECT_NE(message.find(reason), std::string::npos) << message << " / " << reason;
  }
}

TEST_F(SlotTest, RefusesHostileTables) {
  const auto with = [&](size_t index, const std::function<void(SlotEntry&)>& change) {
    Bytes bad = good_;
    SlotEntry changed = entry(index);
    change(changed);
    poke(bad, entry_offset(index), changed);
    seal_slot(bad);
    return refusal(bad);
  };
  const std::string misplaced = "not where the layout puts them";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with(0, [](SlotEntry& e) { e.a += 2; }), misplaced},                // misaligned
      {with(0, [](SlotEntry& e) { e.b = e.a; }), misplaced},               // overlap
      {with(0, [](SlotEntry& e) { e.d = ~uint64_t{0} - 8; }), misplaced},  // out of bounds
      {with(3, [](SlotEntry& e) { e.a = 0; }), misplaced},                 // into the header
      {with(3, [](SlotEntry& e) { e.reserved = 1; }), misplaced},
      {with(2, [](SlotEntry& e) { e.rank = 9; }), "v_proj of layer 0"},  // runs into the next
      {with(2, [](SlotEntry& e) { e.rank = 100000; }), "rank 100000 exceeds"},
      {with(2, [](SlotEntry& e) { e.rank = 0; }), misplaced},  // dangling offsets
      {with(2, [](SlotEntry& e) { e = {}; }), misplaced},      // all later moved
  };
  for (const auto& [message, reason] : cases) {
    EXPECT_NE(message.find(reason), std::string::npos) << message << " / " << reason;
  }
}

TEST_F(SlotTest, RefusesTrailingBytes) {
  Bytes longer = good_;
  longer.resize(good_.size() + 64);
  EXPECT_NE(refusal(longer).find("where the header says"), std::string::npos);
  poke(longer, offsetof(SlotHeader, bytes), uint64_t{longer.size()});
  seal_slot(longer);
  EXPECT_NE(refusal(longer).find("where its tensors take"), std::string::npos);
}

TEST_F(SlotTest, RefusesValuesThatAreNotFinite) {
  const auto with = [&](uint64_t offset, auto value) {
    Bytes bad = good_;
    poke(bad, offset, value);
    seal_slot(bad);
    return refusal(bad);
  };
  const SlotEntry first = entry(0), last = entry(14);
  EXPECT_NE(with(first.a, uint16_t{0x7c00}).find("q_proj of layer 0"), std::string::npos);
  EXPECT_NE(with(first.b + 2, uint16_t{0xfe01}).find("not a number"), std::string::npos);
  EXPECT_NE(with(first.d, uint32_t{0xff800000}).find("infinite"), std::string::npos);
  EXPECT_NE(with(last.d + 40 * 4 - 4, uint32_t{0x7fc00000}).find("lm_head"), std::string::npos);
}

TEST_F(SlotTest, RefusesAnEmptyAdapterAndAnotherBase) {
  const std::vector<int32_t> none(15, 0);
  const SlotLayout layout(small_.weights.shape, none);
  Bytes empty(layout.bytes);
  write_slot_frame(small_.weights.shape, layout, empty);
  seal_slot(empty);
  EXPECT_NE(refusal(empty).find("adapts no module"), std::string::npos);
  SlotBase other = small_.weights.shape;
  other.layers = 3;
  const auto image = SlotImage::parse(good_, other);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, base::Code::kMismatch);
}

}  // namespace
}  // namespace retort::adapter
