// A small model cut from a large file: some of its layers, the first of its tokens' rows, with a
// stand-in vocabulary. It computes nothing sensible, but at the same cost a layer as the whole, so
// that times can be measured on it before the whole is loaded.
#pragma once

#include <span>

#include "base/disk.h"
#include "engine/gguf.h"
#include "engine/model.h"

namespace retort::engine {

struct ExcerptOptions {
  std::vector<int> layers;    // which, ascending
  int64_t vocabulary = 4096;  // rows of the embedding and of the output, at most those of the file
};

/// Writes the excerpt of `source`, whose hyper-parameters are `config`, as a GGUF file. Errors: a
/// file whose tensors are not those of its architecture (as Model::open), a full disk.
[[nodiscard]] base::Result<void> write_excerpt(const Gguf& source, const Config& config,
                                               const ExcerptOptions& options,
                                               const base::Path& path);

/// Bytes in the file of one layer's tensors.
int64_t layer_file_bytes(const Gguf& source, int layer);

}  // namespace retort::engine
