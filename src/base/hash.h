// BLAKE2b-256 content hashes (libsodium). Used for record ids, base fingerprints and slot
// checksums.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace retort::base {

struct Hash256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Hash256&) const = default;
  std::string hex() const;
  /// The first 16 hexadecimal digits: for people and file names.
  std::string short_hex() const { return hex().substr(0, 16); }
};

/// Feed any number of pieces, then finish() once. Pieces are not delimited: write lengths yourself
/// where two splits of the same bytes have to differ.
class Hasher {
 public:
  Hasher();
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text);
  template <class T>
  requires std::is_trivially_copyable_v<T> Hasher& add_value(const T& value) {
    return add(std::as_bytes(std::span(&value, 1)));
  }
  Hash256 finish();

 private:
  alignas(64) std::array<std::byte, 384> state_;  // crypto_generichash_state
};

Hash256 hash_bytes(std::span<const std::byte> bytes);
Hash256 hash_text(std::string_view text);

}  // namespace retort::base
