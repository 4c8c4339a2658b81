// The vocabulary of a model (libllama, loaded without weights) and its chat template.
//
// Immutable after open(); encode and decode may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/gguf.h"

namespace retort::engine {

using Token = int32_t;

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

/// Token ids of a conversation and, for each, whether the model is to learn it: the content of
/// assistant messages and the end-of-turn token that closes each, nothing else.
struct EncodedChat {
  std::vector<Token> tokens;
  std::vector<uint8_t> supervised;
};

class Vocabulary {
 public:
  /// `gguf` has been validated. Also validates what libllama would abort on (empty or duplicate
  /// tokens, wrong array lengths, ids out of range, unknown tokenizer model). `chat_template`, a
  /// name that libllama knows ("chatml") or a template's text, takes the place of the file's. The
  /// Gguf need not outlive the Vocabulary.
  [[nodiscard]] static base::Result<Vocabulary> open(const Gguf& gguf,
                                                     std::string_view chat_template = {});
  Vocabulary(Vocabulary&&) noexcept;
  Vocabulary& operator=(Vocabulary&&) noexcept;
  ~Vocabulary();

  int32_t size() const;
  /// Text to ids. Special tokens written in `text` are ordinary text unless `parse_special`.
  /// Neither beginning- nor end-of-sequence is added. SPM vocabularies put a space before the text.
  /// Bytes that are not UTF-8 become U+FFFD; those without token (some control characters) are
  /// lost.
  std::vector<Token> encode(std::string_view text, bool parse_special = false) const;
  /// The bytes of one token (not always valid UTF-8 by itself); special tokens give "" unless
  /// asked. 0 <= token < size().
  std::string piece(Token token, bool special = false) const;
  std::string decode(std::span<const Token> tokens, bool special = false) const;
  bool is_end_of_generation(Token token) const;
  /// The token that must begin every sequence, or -1.
  Token begin_of_sequence() const;

  /// The chat template of the file, applied by libllama (ChatML when the file has none:
  /// has_template() says so). Content is tokenised apart from the template's own text, so a
  /// "<|im_end|>" inside a message stays text. Begins with begin_of_sequence() where the model has
  /// one. Errors: a role other than the three, a template that libllama does not know or that
  /// leaves out a message. Training and serving both call this and nothing else.
  [[nodiscard]] base::Result<EncodedChat> encode_chat(std::span<const Message> messages,
                                                      bool add_generation_prompt) const;
  bool has_template() const;

 private:
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  /// How many tokens of the template's text after an answer belong to its end: up to and with the
  /// end-of-turn token, if only white space stands before it; else 0.
  size_t closing_tokens(std::span<const Token> text) const;
  bool decodes_to(std::span<const Token> tokens, std::string_view text) const;
  std::unique_ptr<Impl> impl_;
};

/// Joins the pieces of a token stream into whole UTF-8 characters: a character split over tokens
/// comes out with its last byte.
class Utf8Joiner {
 public:
  /// The complete characters that `piece` finishes; the rest is held back.
  std::string push(std::string_view piece);
  /// What is left, with U+FFFD for a broken tail.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace retort::engine
