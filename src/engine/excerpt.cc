#include "engine/excerpt.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "engine/random_model.h"

namespace retort::engine {
namespace {

using base::Code;
using base::make_error;
using base::Result;

constexpr int64_t kVocabularyMin = 320;  // of a stand-in vocabulary

/// "blk.3.attn_q.weight" with the layer that it comes from in the source.
std::string source_name(const std::string& name, std::span<const int> layers) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return name;
  size_t index = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* rest = std::from_chars(begin, name.data() + name.size(), index).ptr;
  return fmt::format("{}{}{}", kPrefix, layers[index], rest);
}

}  // namespace

Result<void> write_excerpt(const Gguf& source, const Config& config, const ExcerptOptions& options,
                           const base::Path& path) {
  RandomModelOptions model{.config = config};
  model.config.layers = static_cast<int>(options.layers.size());
  model.config.vocabulary =
      std::max(kVocabularyMin, std::min(config.vocabulary, options.vocabulary));
  model.tied = source.find_tensor("output.weight") == nullptr;
  model.rope_factors = source.find_tensor("rope_freqs.weight") != nullptr;
  GgufWriter writer = random_model(model);
  std::vector<const TensorView*> sources;
  for (GgufWriter::Tensor& tensor : writer.tensors()) {
    const std::string name = source_name(tensor.name, options.layers);
    const TensorView* from = source.find_tensor(name);
    if (from == nullptr || from->shape[0] != tensor.shape[0]) {
      return make_error(Code::kInvalidInput, "{}: tensor '{}' is missing or of another shape",
                        source.path().string(), name);
    }
    tensor.type = from->type;
    if (from->data.size() < GgufWriter::tensor_bytes(tensor)) {
      return make_error(Code::kInvalidInput, "{}: tensor '{}' has too few rows",
                        source.path().string(), name);
    }
    sources.push_back(from);
  }
  return writer.write(path, [&](size_t tensor, int64_t row, std::span<std::byte> rows) {
    const size_t row_bytes = GgufWriter::row_bytes(writer.tensors()[tensor]);
    const std::byte* from = sources[tensor]->data.data() + static_cast<size_t>(row) * row_bytes;
    std::memcpy(rows.data(), from, rows.size());
  });
}

int64_t layer_file_bytes(const Gguf& source, int layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  int64_t bytes = 0;
  for (const TensorView& tensor : source.tensors()) {
    if (tensor.name.starts_with(prefix)) bytes += static_cast<int64_t>(tensor.data.size());
  }
  return bytes;
}

}  // namespace retort::engine
