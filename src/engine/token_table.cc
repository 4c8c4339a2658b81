#include "engine/token_table.h"

#include <llama.h>

#include <cmath>

#include "base/json.h"
#include "base/limits.h"
#include "engine/byte_alphabet.h"

namespace retort::engine {
namespace {

using base::Code;
using base::make_error;
using base::Result;

std::string byte_token_text(unsigned byte) { return fmt::format("<0x{:02X}>", byte); }

/// Checks the tokenizer keys of one file; every failure names the file and the key.
class TableReader {
 public:
  explicit TableReader(const Gguf& gguf) : gguf_(gguf) {}

  Result<TokenTable> read() {
    TRY(read_model());
    TRY(read_tokens());
    TRY(read_types());
    TRY(read_scores());
    if (table_.bpe()) TRY(read_merges());
    TRY(find_byte_tokens());
    TRY(check_ids());
    return std::move(table_);
  }

 private:
  template <class... Args>
  tl::unexpected<base::Error> error(std::string_view key, fmt::format_string<Args...> format,
                                    Args&&... args) const {
    return make_error(Code::kInvalidInput, "{}: key '{}': {}", gguf_.path().string(), key,
                      fmt::format(format, std::forward<Args>(args)...));
  }

  template <class T>
  const std::vector<T>* array(std::string_view key) const {
    const Gguf::Value* value = gguf_.find(key);
    const Gguf::Array* array = value ? std::get_if<Gguf::Array>(value) : nullptr;
    return array ? std::get_if<std::vector<T>>(array) : nullptr;
  }

  Result<void> read_model() {
    TRY_ASSIGN(table_.model, gguf_.string("tokenizer.ggml.model"));
    if (table_.model != "gpt2" && table_.model != "llama") {
      return make_error(Code::kUnsupported,
                        "{}: tokenizer '{}' is not supported; gpt2 (BPE) and llama (SPM) are",
                        gguf_.path().string(), table_.model);
    }
    if (gguf_.find("tokenizer.ggml.pre")) {
      TRY_ASSIGN(table_.pre, gguf_.string("tokenizer.ggml.pre"));
    }
    return {};
  }

  Result<void> read_tokens() {
    const std::string_view key = "tokenizer.ggml.tokens";
    table_.tokens = array<std::string_view>(key);
    if (!table_.tokens || table_.tokens->empty()) return error(key, "an array of tokens is needed");
    const auto& tokens = *table_.tokens;
    if (tokens.size() > static_cast<size_t>(limits::kVocabularyMax)) {
      return error(key, "{} tokens; at most {} are allowed", tokens.size(), limits::kVocabularyMax);
    }
    table_.ids.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].empty()) return error(key, "token {} is empty", i);
      if (tokens[i].find('\0') != tokens[i].npos || !base::is_valid_utf8(tokens[i])) {
        return error(key, "token {} is not UTF-8 text", i);
      }
      const auto [it, fresh] = table_.ids.emplace(tokens[i], static_cast<Token>(i));
      if (!fresh) return error(key, "tokens {} and {} are both '{}'", it->second, i, tokens[i]);
    }
    return {};
  }

  Result<void> check_length(std::string_view key, size_t length) const {
    if (length == table_.tokens->size()) return {};
    return error(key, "{} elements for {} tokens", length, table_.tokens->size());
  }

  Result<void> read_types() {
    const std::string_view key = "tokenizer.ggml.token_type";
    if (!gguf_.find(key)) {
      table_.types.assign(table_.tokens->size(), LLAMA_TOKEN_TYPE_NORMAL);
      return {};
    }
    const auto* types = array<int64_t>(key);
    if (!types) return error(key, "an array of integers is needed");
    TRY(check_length(key, types->size()));
    for (size_t i = 0; i < types->size(); ++i) {
      const int64_t type = (*types)[i];
      if (type < LLAMA_TOKEN_TYPE_UNDEFINED || type > LLAMA_TOKEN_TYPE_BYTE) {
        return error(key, "token {} has the unknown type {}", i, type);
      }
      const std::string_view text = (*table_.tokens)[i];
      if (type == LLAMA_TOKEN_TYPE_BYTE && (text.size() != 6 || !text.starts_with("<0x"))) {
        return error(key, "token {} is a byte token, but its text is '{}'", i, text);
      }
      table_.types.push_back(static_cast<int32_t>(type));
    }
    return {};
  }

  Result<void> read_scores() {
    const std::string_view key = "tokenizer.ggml.scores";
    const auto* scores = array<double>(key);
    if (!scores) {
      if (table_.bpe() && !gguf_.find(key)) return {};
      return error(key, "an array of floating-point numbers is needed");
    }
    TRY(check_length(key, scores->size()));
    for (size_t i = 0; i < scores->size(); ++i) {
      if (!std::isfinite((*scores)[i])) return error(key, "the score of token {} is not finite", i);
      table_.scores.push_back(static_cast<float>((*scores)[i]));
    }
    return {};
  }

  Result<void> read_merges() {
    const std::string_view key = "tokenizer.ggml.merges";
    table_.merges = array<std::string_view>(key);
    if (!table_.merges) return error(key, "an array of merges is needed");
    std::string joined;
    for (size_t i = 0; i < table_.merges->size(); ++i) {
      const std::string_view merge = (*table_.merges)[i];
      const size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size() || merge.find('\0') != merge.npos) {
        return error(key, "merge {} is not two texts with a space between them", i);
      }
      joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
      if (!table_.ids.contains(joined))
        return error(key, "merge {} gives '{}', which is no token", i, joined);
    }
    return {};
  }

  /// libllama throws at a byte without token (llama) or drops it (gpt2). Real gpt2 vocabularies
  /// lack some control characters and lead bytes of unassigned planes, so only printable ASCII is
  /// demanded.
  Result<void> find_byte_tokens() {
    const auto alphabet = byte_alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) {
      auto it = table_.ids.find(table_.bpe() ? alphabet[byte] : byte_token_text(byte));
      if (it == table_.ids.end() && !table_.bpe() && byte < 128) {
        it = table_.ids.find(std::string(1, static_cast<char>(byte)));
      }
      const bool needed = !table_.bpe() || byte == '\n' || (byte >= 32 && byte < 127);
      if (it == table_.ids.end() && needed) {
        return error("tokenizer.ggml.tokens", "there is no token for the byte 0x{:02x}", byte);
      }
      table_.byte_tokens[byte] = it == table_.ids.end() ? -1 : it->second;
    }
    return {};
  }

  Result<void> check_ids() const;

  const Gguf& gguf_;
  TokenTable table_;
};

Result<void> TableReader::check_ids() const {
  for (const std::string_view key : kTokenIdKeys) {
    if (!gguf_.find(key)) continue;
    TRY_ASSIGN(const int64_t id, gguf_.integer(key));
    if (id < 0 || id >= static_cast<int64_t>(table_.tokens->size())) {
      return error(key, "token {} is not one of the {} tokens", id, table_.tokens->size());
    }
  }
  return {};
}

}  // namespace

Result<TokenTable> read_token_table(const Gguf& gguf) { return TableReader(gguf).read(); }

}  // namespace retort::engine
