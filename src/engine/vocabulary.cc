// libllama does the tokenising. It aborts or throws on vocabularies that are not sound, and drops
// bytes for which a vocabulary has no token, so all of that is checked here first. It never opens
// the file: it is given the checked tokenizer keys in memory and nothing else, which leaves no
// second parser to attack and no chance that the file changes in between.
#include "engine/vocabulary.h"

#include <gguf.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "engine/token_table.h"

namespace retort::engine {
namespace {

using base::Code;
using base::make_error;
using base::Result;

thread_local std::string* error_sink = nullptr;  // where this thread's libllama errors go

void take_log(ggml_log_level level, const char* text, void*) {
  if (error_sink && level == GGML_LOG_LEVEL_ERROR) *error_sink += text;
}

/// Collects what libllama logs as errors on this thread; everything else it logs is dropped.
class ErrorCapture {
 public:
  ErrorCapture() {
    static const bool once = (llama_log_set(take_log, nullptr), true);
    (void)once;
    error_sink = &text_;
  }
  ~ErrorCapture() { error_sink = nullptr; }
  ErrorCapture(const ErrorCapture&) = delete;
  ErrorCapture& operator=(const ErrorCapture&) = delete;
  /// The first line, which says most.
  std::string reason() const { return text_.substr(0, text_.find('\n')); }

 private:
  std::string text_;
};

struct FreeGguf {
  void operator()(gguf_context* p) const { gguf_free(p); }
};
struct FreeModel {
  void operator()(llama_model* p) const { llama_model_free(p); }
};
using GgufPointer = std::unique_ptr<gguf_context, FreeGguf>;
using ModelPointer = std::unique_ptr<llama_model, FreeModel>;

void set_strings(gguf_context* context, const char* key,
                 const std::vector<std::string_view>& values) {
  std::vector<std::string> terminated(values.begin(), values.end());
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : terminated) pointers.push_back(value.c_str());
  gguf_set_arr_str(context, key, pointers.data(), pointers.size());
}

/// The keys that libllama reads for a vocabulary. Its choice of architecture does not matter here.
GgufPointer tokenizer_keys(const Gguf& gguf, const TokenTable& table, bool space_prefix) {
  GgufPointer keys(gguf_init_empty());
  const auto set_string = [&](const char* key, std::string_view value) {
    gguf_set_val_str(keys.get(), key, std::string(value).c_str());
  };
  set_string("general.architecture", "llama");
  set_string("tokenizer.ggml.model", table.model);
  if (!table.pre.empty()) set_string("tokenizer.ggml.pre", table.pre);
  set_strings(keys.get(), "tokenizer.ggml.tokens", *table.tokens);
  gguf_set_arr_data(keys.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, table.types.data(),
                    table.types.size());
  if (!table.scores.empty()) {
    gguf_set_arr_data(keys.get(), "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, table.scores.data(),
                      table.scores.size());
  }
  if (table.merges) set_strings(keys.get(), "tokenizer.ggml.merges", *table.merges);
  for (const std::string_view key : kTokenIdKeys) {
    if (const auto id = gguf.find_integer(key)) {
      gguf_set_val_u32(keys.get(), std::string(key).c_str(), static_cast<uint32_t>(*id));
    }
  }
  for (const char* key :
       {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.remove_extra_whitespaces"}) {
    if (const auto value = gguf.find_integer(key)) gguf_set_val_bool(keys.get(), key, *value != 0);
  }
  gguf_set_val_bool(keys.get(), "tokenizer.ggml.add_space_prefix", space_prefix);
  return keys;
}

Result<ModelPointer> load(const Gguf& gguf, const TokenTable& table, bool space_prefix) {
  const ErrorCapture capture;
  ggml_backend_dev_t no_devices[] = {nullptr};
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.devices = no_devices;
  params.n_gpu_layers = 0;
  std::string reason;
  try {
    const GgufPointer keys = tokenizer_keys(gguf, table, space_prefix);
    ModelPointer model(llama_model_init_from_user(keys.get(), nullptr, nullptr, params));
    if (model) return model;
    reason = capture.reason();
  } catch (const std::exception& e) {
    reason = e.what();
  }
  return make_error(Code::kUnsupported, "{}: libllama refuses the vocabulary: {}",
                    gguf.path().string(), reason);
}

std::vector<Token> tokenize(const llama_vocab* vocab, std::string_view text, bool parse_special) {
  std::vector<Token> tokens(text.size() + 2);  // a token a byte, and a space prefix
  const int32_t count =
      llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                     static_cast<int32_t>(tokens.size()), false, parse_special);
  if (count < 0) {  // only if special tokens overlap in some unforeseen way
    tokens.resize(static_cast<size_t>(-count));
    llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), -count,
                   false, parse_special);
  }
  tokens.resize(static_cast<size_t>(std::abs(count)));
  return tokens;
}

}  // namespace

struct Vocabulary::Impl {
  ModelPointer model;   // as the file says
  ModelPointer joined;  // llama only: the same without the space before text, for text after text
  std::array<Token, 256> byte_tokens{};
  std::string path, chat_template;
  bool has_template = false;

  const llama_vocab* vocab() const { return llama_model_get_vocab(model.get()); }
  std::vector<Token> encode(const llama_model* with, std::string_view text,
                            bool parse_special) const;
  std::vector<Token> encode_after(bool special, std::string_view text, bool parse_special) const;
  bool is_special(Token token) const {
    return (llama_vocab_get_attr(vocab(), token) &
            (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED |
             LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
  }
  Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt) const;
};

std::vector<Token> Vocabulary::Impl::encode(const llama_model* with, std::string_view text,
                                            bool parse_special) const {
  CHECK(text.size() < std::numeric_limits<int32_t>::max() / 2, "{} bytes", text.size());
  if (text.empty()) return {};
  try {
    return tokenize(llama_model_get_vocab(with), text, parse_special);
  } catch (const std::exception&) {
    // A pre-tokenizer's regular expression gave up. Bytes are a valid, if long, encoding.
  }
  std::vector<Token> tokens;
  for (const char c : text) {
    const Token token = byte_tokens[static_cast<unsigned char>(c)];
    if (token >= 0) tokens.push_back(token);
  }
  return tokens;
}

/// Encodes text that follows a special token or the beginning (`special`), or other text. Only in
/// the second case does a llama vocabulary leave out the space it puts before text.
std::vector<Token> Vocabulary::Impl::encode_after(bool special, std::string_view text,
                                                  bool parse_special) const {
  if (special || !joined) return encode(model.get(), text, parse_special);
  std::vector<Token> tokens = encode(joined.get(), text, parse_special);
  const auto first = std::ranges::find_if(tokens, [&](Token token) { return is_special(token); });
  if (first == tokens.end()) return tokens;
  // The text up to the first special token is settled; the rest stands after a special token.
  const size_t settled = text.find(llama_vocab_get_text(vocab(), *first));
  CHECK(settled != text.npos);
  tokens.erase(first, tokens.end());
  const auto rest = encode(model.get(), text.substr(settled), parse_special);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

Vocabulary::Vocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Vocabulary::Vocabulary(Vocabulary&&) noexcept = default;
Vocabulary& Vocabulary::operator=(Vocabulary&&) noexcept = default;
Vocabulary::~Vocabulary() = default;

Result<Vocabulary> Vocabulary::open(const Gguf& gguf, std::string_view chat_template) {
  TRY_ASSIGN(const TokenTable table, read_token_table(gguf));
  auto impl = std::make_unique<Impl>();
  impl->path = gguf.path().string();
  impl->byte_tokens = table.byte_tokens;
  const bool space_prefix = gguf.find_integer("tokenizer.ggml.add_space_prefix").value_or(1) != 0;
  TRY_ASSIGN(impl->model, load(gguf, table, space_prefix));
  if (!table.bpe() && space_prefix) {
    TRY_ASSIGN(impl->joined, load(gguf, table, false));
  }
  const auto file_template = gguf.find_string("tokenizer.chat_template");
  impl->has_template = file_template.has_value();
  impl->chat_template = !chat_template.empty() ? chat_template : file_template.value_or("chatml");
  if (impl->chat_template.find('\0') != std::string::npos) {
    return make_error(Code::kInvalidInput, "{}: key 'tokenizer.chat_template' holds a NUL",
                      impl->path);
  }
  return Vocabulary(std::move(impl));
}

int32_t Vocabulary::size() const { return llama_vocab_n_tokens(impl_->vocab()); }

std::vector<Token> Vocabulary::encode(std::string_view text, bool parse_special) const {
  return impl_->encode(impl_->model.get(), text, parse_special);
}

std::string Vocabulary::piece(Token token, bool special) const {
  CHECK(token >= 0 && token < size(), "token {} of {}", token, size());
  std::string piece(32, '\0');
  int32_t length = llama_token_to_piece(impl_->vocab(), token, piece.data(),
                                        static_cast<int32_t>(piece.size()), 0, special);
  if (length < 0) {
    piece.resize(static_cast<size_t>(-length));
    length = llama_token_to_piece(impl_->vocab(), token, piece.data(), -length, 0, special);
  }
  piece.resize(static_cast<size_t>(length));
  return piece;
}

std::string Vocabulary::decode(std::span<const Token> tokens, bool special) const {
  // Not llama_detokenize: that drops spaces before punctuation for some vocabularies.
  std::string text;
  for (const Token token : tokens) text += piece(token, special);
  return text;
}

bool Vocabulary::is_end_of_generation(Token token) const {
  return llama_vocab_is_eog(impl_->vocab(), token);
}

Token Vocabulary::begin_of_sequence() const {
  return llama_vocab_get_add_bos(impl_->vocab()) ? llama_vocab_bos(impl_->vocab()) : -1;
}

bool Vocabulary::has_template() const { return impl_->has_template; }

Result<std::string> Vocabulary::Impl::render(std::span<const Message> messages,
                                             bool add_generation_prompt) const {
  std::vector<llama_chat_message> chat;
  size_t bytes = 1024;
  for (const Message& message : messages) {
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += message.content.size() + 256;
  }
  std::string text(bytes, '\0');
  try {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const int32_t length = llama_chat_apply_template(
          chat_template.c_str(), chat.data(), chat.size(), add_generation_prompt, text.data(),
          static_cast<int32_t>(text.size()));
      if (length < 0) break;
      const bool fits = static_cast<size_t>(length) <= text.size();
      text.resize(static_cast<size_t>(length));
      if (fits) return text;
    }
  } catch (const std::exception&) {
    // the same as an unknown template
  }
  return make_error(Code::kUnsupported,
                    "{}: libllama does not know the chat template that begins '{}'; "
                    "choose one by name, e.g. 'chatml'",
                    path, chat_template.substr(0, 60));
}

namespace {

/// Stands for the content of message i while the template is rendered. No template changes it: it
/// has no white space to trim, and control characters occur in no template.
std::string sentinel(size_t i) { return fmt::format("\x02{}\x03", i); }

Result<void> check_messages(std::span<const Message> messages) {
  if (messages.empty()) return make_error(Code::kInvalidInput, "a chat needs at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return make_error(Code::kInvalidInput,
                        "message {}: role '{}' is not system, user or assistant", i, role);
    }
  }
  return {};
}

/// A rendered template cut at its sentinels: text, message, text, message, ..., text.
struct Cut {
  std::vector<std::string_view> texts;  // one more than messages
  std::vector<size_t> messages;         // their order in the text
};

Result<Cut> cut(std::string_view rendered, size_t messages) {
  std::vector<std::pair<size_t, size_t>> places;  // (position, message)
  for (size_t i = 0; i < messages; ++i) {
    const std::string mark = sentinel(i);
    const size_t at = rendered.find(mark);
    if (at == rendered.npos || rendered.find(mark, at + 1) != rendered.npos) {
      return make_error(Code::kUnsupported,
                        "the chat template leaves out or repeats message {}; give the roles in an "
                        "order that the model knows, or choose another template",
                        i);
    }
    places.emplace_back(at, i);
  }
  std::ranges::sort(places);
  Cut result;
  size_t begin = 0;
  for (const auto& [at, i] : places) {
    result.texts.push_back(rendered.substr(begin, at - begin));
    result.messages.push_back(i);
    begin = at + sentinel(i).size();
  }
  result.texts.push_back(rendered.substr(begin));
  return result;
}

}  // namespace

Result<EncodedChat> Vocabulary::encode_chat(std::span<const Message> messages,
                                            bool add_generation_prompt) const {
  TRY(check_messages(messages));
  std::vector<Message> marked(messages.begin(), messages.end());
  for (size_t i = 0; i < marked.size(); ++i) marked[i].content = sentinel(i);
  TRY_ASSIGN(const std::string rendered, impl_->render(marked, add_generation_prompt));
  TRY_ASSIGN(const Cut parts, cut(rendered, messages.size()));

  EncodedChat chat;
  const auto append = [&](std::span<const Token> tokens, bool supervised) {
    chat.tokens.insert(chat.tokens.end(), tokens.begin(), tokens.end());
    chat.supervised.resize(chat.tokens.size(), supervised ? 1 : 0);
  };
  for (size_t i = 0; i < parts.texts.size(); ++i) {
    const auto after_special = [&] {
      return chat.tokens.empty() || impl_->is_special(chat.tokens.back());
    };
    const auto text = impl_->encode_after(after_special(), parts.texts[i], true);
    const bool closes = i > 0 && messages[parts.messages[i - 1]].role == "assistant";
    const size_t closing = closes ? closing_tokens(text) : 0;
    append(std::span(text).first(closing), true);
    append(std::span(text).subspan(closing), false);
    if (i == parts.messages.size()) break;
    const Message& message = messages[parts.messages[i]];
    const auto content = impl_->encode_after(after_special(), message.content, false);
    const bool answer = message.role == "assistant";
    if (answer && !decodes_to(content, message.content)) {
      return make_error(Code::kInvalidInput,
                        "message {}: the vocabulary has no tokens for some of its characters",
                        parts.messages[i]);
    }
    append(content, answer);
  }
  const Token begin = begin_of_sequence();
  if (begin >= 0 && (chat.tokens.empty() || chat.tokens.front() != begin)) {
    chat.tokens.insert(chat.tokens.begin(), begin);
    chat.supervised.insert(chat.supervised.begin(), 0);
  }
  return chat;
}

bool Vocabulary::decodes_to(std::span<const Token> tokens, std::string_view text) const {
  const std::string decoded = decode(tokens, true);
  return decoded == text ||
         (impl_->joined && decoded.substr(0, 1) == " " && decoded.substr(1) == text);
}

size_t Vocabulary::closing_tokens(std::span<const Token> text) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_end_of_generation(text[i])) return i + 1;
    const std::string between = piece(text[i], true);
    if (between.find_first_not_of(" \n") != std::string::npos) break;
  }
  return 0;
}

}  // namespace retort::engine
