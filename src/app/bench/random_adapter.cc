#include "app/bench/random_adapter.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "engine/gguf_writer.h"

namespace retort::app {
namespace {

constexpr int kGgmlF16 = 1;
constexpr float kUpScale = 0.02f, kRescale = 0.05f;

float uniform(base::Rng& rng, float scale) {
  return scale * static_cast<float>(2 * rng.uniform() - 1);
}
kernels::Half uniform_half(base::Rng& rng, float scale) {
  return kernels::float_to_half(uniform(rng, scale));
}

template <class T>
T* at(std::span<std::byte> bytes, uint64_t offset) {
  return reinterpret_cast<T*>(bytes.data() + offset);
}

/// A, B' and c - 1 of one module (adapter/slot.h has the layout). Padding stays zero.
void fill_module(std::span<std::byte> slot, const adapter::SlotEntry& entry, int64_t out,
                 int64_t in, base::Rng& rng) {
  const int64_t rank = entry.rank, padded = (rank + 7) / 8 * 8;
  const float down_scale = 1 / std::sqrt(static_cast<float>(in));
  auto* a = at<kernels::Half>(slot, entry.a);
  for (int64_t k = 0; k < in; ++k) {
    for (int64_t r = 0; r < rank; ++r) a[k * padded + r] = uniform_half(rng, down_scale);
  }
  auto* b = at<kernels::Half>(slot, entry.b);
  auto* d = at<float>(slot, entry.d);
  for (int64_t o = 0; o < out; ++o) {
    auto* column = b + o / kernels::kPanel * padded * kernels::kPanel + o % kernels::kPanel;
    for (int64_t r = 0; r < rank; ++r) column[r * kernels::kPanel] = uniform_half(rng, kUpScale);
    d[o] = uniform(rng, kRescale);
  }
}

/// libllama's names of the projections, by engine::Target.
constexpr std::array<const char*, engine::kLayerTargets> kGgufNames = {
    "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

}  // namespace

kernels::AlignedArray<std::byte> random_slot(const adapter::SlotBase& base, uint64_t seed) {
  std::vector<int32_t> ranks(static_cast<size_t>(base.matrices()), int32_t{kBenchRank});
  ranks.back() = 0;  // the output matrix
  const adapter::SlotLayout layout(base, ranks);
  kernels::AlignedArray<std::byte> bytes(layout.bytes);
  std::memset(bytes.data(), 0, bytes.size());
  adapter::write_slot_frame(base, layout, bytes.span());
  base::Rng rng(seed);
  for (int i = 0; i + 1 < base.matrices(); ++i) {
    const auto [out, in] = base.shape(i);
    fill_module(bytes.span(), layout.entries[static_cast<size_t>(i)], out, in, rng);
  }
  adapter::seal_slot(bytes.span());
  return bytes;
}

base::Result<void> write_random_lora(const base::Path& path, const engine::Config& config,
                                     uint64_t seed) {
  engine::GgufWriter writer;
  writer.set("general.type", std::string("adapter"));
  writer.set("general.architecture", config.architecture);
  writer.set("adapter.type", std::string("lora"));
  writer.set("adapter.lora.alpha", static_cast<float>(2 * kBenchRank));
  for (int layer = 0; layer < config.layers; ++layer) {
    for (size_t t = 0; t < kGgufNames.size(); ++t) {
      const auto [out, in] = config.shape(static_cast<engine::Target>(t));
      const std::string name = fmt::format("blk.{}.{}.weight", layer, kGgufNames[t]);
      writer.tensors().push_back({name + ".lora_a", kGgmlF16, {in, kBenchRank}});
      writer.tensors().push_back({name + ".lora_b", kGgmlF16, {kBenchRank, out}});
    }
  }
  base::Rng rng(seed);
  return writer.write(path, [&](size_t tensor, int64_t, std::span<std::byte> rows) {
    const bool down = tensor % 2 == 0;  // lora_a, then lora_b
    const auto in = static_cast<float>(writer.tensors()[tensor].shape[0]);
    const float scale = down ? 1 / std::sqrt(in) : kUpScale / 2;
    auto* values = reinterpret_cast<kernels::Half*>(rows.data());
    for (size_t i = 0; i < rows.size() / sizeof(kernels::Half); ++i) {
      values[i] = uniform_half(rng, scale);
    }
  });
}

}  // namespace retort::app
