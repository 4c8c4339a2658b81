// Loading runs in two steps: first everything that can be refused cheaply (keys, names, shapes),
// then one pass over the bytes in which the team hashes and packs a tensor and gives its pages
// back, so that memory holds the packed copy and little else.
#include "engine/model.h"

#include <ggml.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/arch/arch.h"
#include "kernels/kernels.h"

namespace retort::engine {

using base::Code;
using base::make_error;
using base::Result;

std::pair<int64_t, int64_t> Config::shape(Target target) const {
  switch (target) {
    case Target::kQ:
      return {q_dim(), embedding};
    case Target::kK:
    case Target::kV:
      return {kv_dim(), embedding};
    case Target::kO:
      return {embedding, q_dim()};
    case Target::kGate:
    case Target::kUp:
      return {feed_forward, embedding};
    case Target::kDown:
      return {embedding, feed_forward};
    case Target::kOutput:
      return {vocabulary, embedding};
  }
  CHECK(false, "target {}", static_cast<int>(target));
}

const kernels::Weight& Layer::weight(Target target) const {
  const kernels::Weight* const weights[] = {&q, &k, &v, &o, &gate, &up, &down};
  CHECK(target != Target::kOutput);
  return *weights[static_cast<size_t>(target)];
}

const kernels::Weight& Model::weight(int layer, Target target) const {
  return target == Target::kOutput ? output() : this->layer(layer).weight(target);
}

int64_t Model::weight_bytes() const {
  size_t bytes = embedding_.bytes() + (output_ ? output_->bytes() : 0);
  size_t floats = output_norm_.size() + inverse_frequencies_.size();
  for (const Layer& layer : layers_) {
    for (int t = 0; t < kLayerTargets; ++t) bytes += layer.weight(static_cast<Target>(t)).bytes();
    for (const auto* values : {&layer.attention_norm, &layer.feed_forward_norm, &layer.q_norm,
                               &layer.k_norm, &layer.q_bias, &layer.k_bias, &layer.v_bias}) {
      floats += values->size();
    }
  }
  return static_cast<int64_t>(bytes + floats * sizeof(float));
}

Result<int64_t> Model::weight_bytes_of(const Gguf& gguf, const Config& config) {
  int64_t bytes = config.rotary_dims / 2 * static_cast<int64_t>(sizeof(float));
  for (const TensorView& tensor : gguf.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;  // goes into the frequencies
    const bool bias = tensor.name.ends_with(".bias");
    if (bias || tensor.name.ends_with("norm.weight")) {
      bytes += 4 * (bias ? kernels::padded(tensor.shape[0]) : tensor.shape[0]);
      continue;
    }
    auto packed = kernels::Weight::packed_bytes(tensor.type, tensor.shape[1], tensor.shape[0]);
    if (!packed) {
      return base::in_context(fmt::format("{}: tensor '{}'", gguf.path().string(), tensor.name),
                              std::move(packed).error());
    }
    bytes += static_cast<int64_t>(*packed);
  }
  return bytes;
}

namespace {

/// A tensor to hash and, if it is a matrix of the model, to pack.
struct Job {
  const TensorView* tensor = nullptr;
  kernels::Weight* weight = nullptr;
  base::Hash256 hash;
  Result<void> result;
};

base::Hash256 hash_tensor(const TensorView& tensor) {
  base::Hasher hasher;
  hasher.add_value(uint64_t{tensor.name.size()}).add(tensor.name);
  hasher.add_value(int32_t{tensor.type}).add_value(tensor.shape).add(tensor.data);
  return hasher.finish();
}

Result<void> pack(const TensorView& tensor, kernels::Weight& weight) {
  TRY_ASSIGN(weight,
             kernels::Weight::pack(tensor.type, tensor.data, tensor.shape[1], tensor.shape[0]));
  return {};
}

std::string shape_text(const std::array<int64_t, 4>& shape) {
  if (shape[2] != 1 || shape[3] != 1) {
    return fmt::format("{} x {} x {} x {}", shape[0], shape[1], shape[2], shape[3]);
  }
  return shape[1] != 1 ? fmt::format("{} x {}", shape[0], shape[1]) : fmt::format("{}", shape[0]);
}

}  // namespace

/// Fills a Model from a validated file.
struct ModelLoader {
  const Gguf& gguf;
  Model& model;
  std::vector<Job> jobs;
  std::set<std::string_view> known;

  Result<void> load(base::Team& team) {
    const Config& c = model.config_;
    TRY(find_matrix("token_embd.weight", c.vocabulary, c.embedding, model.embedding_));
    TRY(read_vector("output_norm.weight", c.embedding, model.output_norm_));
    if (gguf.find_tensor("output.weight")) {
      model.output_.emplace();
      TRY(find_matrix("output.weight", c.vocabulary, c.embedding, *model.output_));
    }
    model.layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) TRY(find_layer(i, model.layers_[static_cast<size_t>(i)]));
    TRY(read_frequencies());
    TRY(check_unexpected());
    TRY(pack_all(team));
    return {};
  }

  template <class... Args>
  tl::unexpected<base::Error> error(Code code, std::string_view tensor,
                                    fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, "{}: tensor '{}': {}", gguf.path().string(), tensor,
                      fmt::format(format, std::forward<Args>(args)...));
  }

  Result<const TensorView*> find(const std::string& name, std::array<int64_t, 4> shape) {
    const TensorView* tensor = gguf.find_tensor(name);
    if (!tensor) return error(Code::kInvalidInput, name, "it is missing");
    if (tensor->shape != shape) {
      return error(Code::kInvalidInput, name, "its shape is {}, but the keys make it {}",
                   shape_text(tensor->shape), shape_text(shape));
    }
    known.insert(tensor->name);
    return tensor;
  }

  Result<void> find_matrix(const std::string& name, int64_t out, int64_t in,
                           kernels::Weight& weight) {
    TRY_ASSIGN(const TensorView* tensor, find(name, {in, out, 1, 1}));
    jobs.push_back({tensor, &weight, {}, {}});
    return {};
  }

  /// Reads floats, padded with zeros to `padded` elements.
  Result<void> read_vector(const std::string& name, int64_t size, std::vector<float>& values,
                           int64_t padded = 0) {
    TRY_ASSIGN(const TensorView* tensor, find(name, {size, 1, 1, 1}));
    values.assign(static_cast<size_t>(std::max(size, padded)), 0.0f);
    const auto type = static_cast<ggml_type>(tensor->type);
    if (type == GGML_TYPE_F32) {
      std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    } else if (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) {
      ggml_get_type_traits(type)->to_float(tensor->data.data(), values.data(), size);
    } else {
      return error(Code::kUnsupported, name, "type {}; norms and biases are F32, F16 or BF16",
                   ggml_type_name(type));
    }
    if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
      return error(Code::kInvalidInput, name, "it holds values that are not finite");
    }
    jobs.push_back({tensor, nullptr, {}, {}});
    return {};
  }

  Result<void> find_layer(int index, Layer& layer) {
    const Config& c = model.config_;
    const auto name = [index](std::string_view part) {
      return fmt::format("blk.{}.{}", index, part);
    };
    const std::tuple<std::string_view, Target, kernels::Weight*> matrices[] = {
        {"attn_q", Target::kQ, &layer.q},         {"attn_k", Target::kK, &layer.k},
        {"attn_v", Target::kV, &layer.v},         {"attn_output", Target::kO, &layer.o},
        {"ffn_gate", Target::kGate, &layer.gate}, {"ffn_up", Target::kUp, &layer.up},
        {"ffn_down", Target::kDown, &layer.down}};
    for (const auto& [part, target, weight] : matrices) {
      const auto [out, in] = c.shape(target);
      TRY(find_matrix(name(part) + ".weight", out, in, *weight));
    }
    TRY(read_vector(name("attn_norm.weight"), c.embedding, layer.attention_norm));
    TRY(read_vector(name("ffn_norm.weight"), c.embedding, layer.feed_forward_norm));
    if (c.qk_norm) {
      TRY(read_vector(name("attn_q_norm.weight"), c.head_dim, layer.q_norm));
      TRY(read_vector(name("attn_k_norm.weight"), c.head_dim, layer.k_norm));
    }
    if (c.qkv_bias) {
      TRY(read_bias(name("attn_q.bias"), c.q_dim(), layer.q_bias));
      TRY(read_bias(name("attn_k.bias"), c.kv_dim(), layer.k_bias));
      TRY(read_bias(name("attn_v.bias"), c.kv_dim(), layer.v_bias));
    }
    return {};
  }

  Result<void> read_bias(const std::string& name, int64_t size, std::vector<float>& values) {
    return read_vector(name, size, values, kernels::padded(size));
  }

  Result<void> read_frequencies() {
    const Config& c = model.config_;
    std::vector<float> factors(static_cast<size_t>(c.rotary_dims / 2), 1.0f);
    if (c.rope_factors && gguf.find_tensor("rope_freqs.weight")) {
      TRY(read_vector("rope_freqs.weight", c.rotary_dims / 2, factors));
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      if (factors[i] <= 0) {
        return error(Code::kInvalidInput, "rope_freqs.weight", "factor {} is {}", i, factors[i]);
      }
      const double power = -2.0 * static_cast<double>(i) / c.rotary_dims;
      const double frequency = std::pow(double{c.rope_base}, power) / factors[i] / c.rope_scale;
      model.inverse_frequencies_.push_back(static_cast<float>(frequency));
    }
    return {};
  }

  /// A tensor that nothing reads would change the result in the program that wrote it.
  Result<void> check_unexpected() const {
    for (const TensorView& tensor : gguf.tensors()) {
      if (!known.contains(tensor.name)) {
        return error(Code::kUnsupported, tensor.name, "architecture '{}' has no such tensor here",
                     model.config_.architecture);
      }
    }
    return {};
  }

  void run(Job& job) const {
    job.hash = hash_tensor(*job.tensor);
    if (job.weight) job.result = pack(*job.tensor, *job.weight);
    gguf.file().release(job.tensor->data);
  }

  /// The largest first, so that no lane is left with a large one at the end.
  Result<void> pack_all(base::Team& team) {
    std::ranges::stable_sort(jobs, std::greater{},
                             [](const Job& j) { return j.tensor->data.size(); });
    std::atomic<size_t> next{0};
    team.run([&](base::Lane) {
      for (size_t i; (i = next.fetch_add(1)) < jobs.size();) run(jobs[i]);
    });
    std::ranges::sort(jobs, {}, [](const Job& job) { return std::string_view(job.tensor->name); });
    base::Hasher hasher;
    for (const Job& job : jobs) {
      if (!job.result)
        return error(job.result.error().code, job.tensor->name, "{}", job.result.error().message);
      hasher.add_value(job.hash);
    }
    model.fingerprint_ = hasher.finish();
    return {};
  }
};

Result<Model> Model::open(const base::Path& path, base::Team& team,
                          std::string_view chat_template) {
  TRY_ASSIGN(const Gguf gguf, Gguf::open(path));
  if (gguf.find_integer("split.count").value_or(1) > 1) {
    return make_error(
        Code::kUnsupported,
        "{}: one part of a split model; join the parts first (llama-gguf-split --merge)",
        path.string());
  }
  Model model;
  model.path_ = path;
  TRY_ASSIGN(model.config_, arch::read_config(gguf));
  TRY_ASSIGN(model.vocabulary_, Vocabulary::open(gguf, chat_template));
  ModelLoader loader{gguf, model, {}, {}};
  TRY(loader.load(team));
  return model;
}

}  // namespace retort::engine
