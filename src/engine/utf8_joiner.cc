#include "base/json.h"
#include "engine/vocabulary.h"

namespace retort::engine {
namespace {

/// Bytes of the character that `lead` begins; 0 if it begins none.
size_t character_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

/// True if `bytes` can still grow into one character (or is one).
bool begins_character(std::string_view bytes) {
  const size_t size = character_bytes(static_cast<unsigned char>(bytes[0]));
  if (size == 0 || bytes.size() > size) return false;
  if (bytes.size() == 1) return true;
  // Any continuation will do after the second byte, which alone decides about surrogates, overlong
  // forms and what is past U+10FFFF.
  std::string whole(bytes);
  whole.resize(size, '\x80');
  return base::is_valid_utf8(whole);
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string Utf8Joiner::push(std::string_view piece) {
  std::string whole;
  for (const char c : piece) {
    // A broken part gives one U+FFFD, and the byte that broke it may begin a new character.
    if (!pending_.empty() && !begins_character(pending_ + c)) {
      whole += kReplacement;
      pending_.clear();
    }
    pending_ += c;
    const size_t size = character_bytes(static_cast<unsigned char>(pending_[0]));
    if (size == 0 || pending_.size() == size) {
      whole += size == 0 ? kReplacement : std::string_view(pending_);
      pending_.clear();
    }
  }
  return whole;
}

std::string Utf8Joiner::finish() {
  const std::string rest(pending_.empty() ? "" : kReplacement);
  pending_.clear();
  return rest;
}

}  // namespace retort::engine
