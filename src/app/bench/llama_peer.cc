#include "app/bench/llama_peer.h"

#include <llama.h>

#include <vector>

#include "base/check.h"

namespace retort::app {
namespace {

using base::Code;
using base::make_error;

struct FreeModel {
  void operator()(llama_model* p) const { llama_model_free(p); }
};
struct FreeContext {
  void operator()(llama_context* p) const { llama_free(p); }
};

llama_context_params context_params(const LlamaPeer::Options& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.context);
  params.n_batch = params.n_ubatch = static_cast<uint32_t>(options.batch);
  params.n_threads = params.n_threads_batch = options.threads;
  if (options.exact) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  return params;
}

}  // namespace

struct LlamaPeer::Impl {
  std::unique_ptr<llama_model, FreeModel> model;
  std::unique_ptr<llama_context, FreeContext> context;
  std::vector<llama_adapter_lora*> loras;  // the model frees them
  llama_batch batch{};
  int64_t batch_max = 0, vocabulary = 0, length = 0;

  ~Impl() { llama_batch_free(batch); }
};

LlamaPeer::LlamaPeer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlamaPeer::~LlamaPeer() = default;

base::Result<std::unique_ptr<LlamaPeer>> LlamaPeer::open(const base::Path& path,
                                                         const Options& options) {
  auto impl = std::make_unique<Impl>();
  impl->batch_max = options.batch;
  impl->batch = llama_batch_init(static_cast<int32_t>(options.batch), 0, 1);
  llama_model_params params = llama_model_default_params();
  if (options.exact) params.use_extra_bufts = false;
  impl->model.reset(llama_model_load_from_file(path.c_str(), params));
  if (!impl->model)
    return make_error(Code::kUnsupported, "{}: libllama cannot load it", path.string());
  impl->context.reset(llama_init_from_model(impl->model.get(), context_params(options)));
  if (!impl->context)
    return make_error(Code::kLimit, "{}: libllama makes no context", path.string());
  impl->vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(impl->model.get()));
  return std::unique_ptr<LlamaPeer>(new LlamaPeer(std::move(impl)));
}

base::Result<int> LlamaPeer::load_lora(const base::Path& path) {
  llama_adapter_lora* lora = llama_adapter_lora_init(impl_->model.get(), path.c_str());
  if (lora == nullptr) {
    return make_error(Code::kUnsupported, "{}: libllama cannot load this LoRA", path.string());
  }
  impl_->loras.push_back(lora);
  return static_cast<int>(impl_->loras.size()) - 1;
}

void LlamaPeer::use_lora(int lora) {
  if (lora < 0) {
    llama_set_adapters_lora(impl_->context.get(), nullptr, 0, nullptr);
    return;
  }
  float scale = 1.0f;
  llama_set_adapters_lora(impl_->context.get(), &impl_->loras[static_cast<size_t>(lora)], 1,
                          &scale);
}

int64_t LlamaPeer::length() const { return impl_->length; }

void LlamaPeer::truncate(int64_t length) {
  CHECK(length <= impl_->length, "{} > {}", length, impl_->length);
  llama_memory_seq_rm(llama_get_memory(impl_->context.get()), 0, static_cast<llama_pos>(length),
                      -1);
  impl_->length = length;
}

base::Result<std::span<const float>> LlamaPeer::eval(std::span<const engine::Token> tokens,
                                                     bool all_logits) {
  CHECK(!tokens.empty() && static_cast<int64_t>(tokens.size()) <= impl_->batch_max);
  llama_batch& batch = impl_->batch;
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = static_cast<llama_pos>(impl_->length + static_cast<int64_t>(i));
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = all_logits || i + 1 == tokens.size();
  }
  if (const int32_t code = llama_decode(impl_->context.get(), batch); code != 0) {
    return make_error(Code::kLimit, "libllama: decoding {} tokens after {} failed with {}",
                      tokens.size(), impl_->length, code);
  }
  impl_->length += static_cast<int64_t>(tokens.size());
  const float* logits = llama_get_logits(impl_->context.get());
  const size_t rows = all_logits ? tokens.size() : 1;
  return std::span(logits, rows * static_cast<size_t>(impl_->vocabulary));
}

}  // namespace retort::app
