#include "base/hash.h"

#include <sodium.h>

#include "base/check.h"

namespace retort::base {
namespace {

crypto_generichash_state* as_state(std::array<std::byte, 384>& bytes) {
  static_assert(sizeof(crypto_generichash_state) <= sizeof(bytes));
  return reinterpret_cast<crypto_generichash_state*>(bytes.data());
}

}  // namespace

std::string Hash256::hex() const {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

Hasher::Hasher() {
  CHECK(sodium_init() >= 0);
  crypto_generichash_init(as_state(state_), nullptr, 0, 32);
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(as_state(state_), reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
  return *this;
}

Hasher& Hasher::add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

Hash256 Hasher::finish() {
  Hash256 hash;
  crypto_generichash_final(as_state(state_), hash.bytes.data(), hash.bytes.size());
  return hash;
}

Hash256 hash_bytes(std::span<const std::byte> bytes) { return Hasher().add(bytes).finish(); }
Hash256 hash_text(std::string_view text) { return Hasher().add(text).finish(); }

}  // namespace retort::base
