// The tokenizer keys of a file, checked: everything that libllama would abort or throw on.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/gguf.h"
#include "engine/vocabulary.h"

namespace retort::engine {

/// The token table of a file, checked.
struct TokenTable {
  std::string_view model, pre;
  const std::vector<std::string_view>* tokens = nullptr;
  const std::vector<std::string_view>* merges = nullptr;  // gpt2 only
  std::vector<float> scores;
  std::vector<int32_t> types;
  std::unordered_map<std::string_view, Token> ids;
  std::array<Token, 256> byte_tokens{};  // -1 where there is none

  bool bpe() const { return model == "gpt2"; }
};

/// Keys that name one token.
inline constexpr std::string_view kTokenIdKeys[] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};

/// Views point into `gguf`. Every failure names the file and the key.
[[nodiscard]] base::Result<TokenTable> read_token_table(const Gguf& gguf);

}  // namespace retort::engine
