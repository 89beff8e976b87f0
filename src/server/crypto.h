#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tinker/result.h"

/// The cryptography that the server needs. Keys, digests and texts are strings of bytes. Functions
/// fail with `invalid_argument` for what they were given and with `internal` where OpenSSL cannot
/// work, which means that it is broken or has no memory.
namespace tinker::server::crypto {

inline constexpr std::size_t kKeyBytes = 32;  ///< Of every key and digest here.
inline constexpr std::size_t kNonceBytes = 12;
inline constexpr std::size_t kTagBytes = 16;

Result<std::string> random_bytes(std::size_t size);

/// Whether they are equal, in a time that depends on the sizes alone.
bool equal(std::string_view a, std::string_view b) noexcept;

Result<std::string> hmac_sha256(std::string_view key, std::string_view text);

/// What a key is derived from (RFC 5869).
struct HkdfInput {
  std::string_view key = {};
  std::string_view salt = {};
  std::string_view info = {};
};
/// The first 32 bytes.
Result<std::string> hkdf_sha256(const HkdfInput& input);

/// The public key of a secret one (RFC 7748).
Result<std::string> x25519_public(std::string_view secret);
/// What two sides share. Fails with `invalid_argument` for a public key that makes it zero.
Result<std::string> x25519(std::string_view secret, std::string_view public_key);

/// ChaCha20-Poly1305 (RFC 8439) without associated data: appends `plain`, encrypted, and a tag.
Result<void> seal(std::string_view key,
                  std::string_view nonce,
                  std::string_view plain,
                  std::string& out);
/// Appends the plain text. Fails with `invalid_argument`, `out` as it was, for what was not sealed
/// with that key and nonce.
Result<void> open(std::string_view key,
                  std::string_view nonce,
                  std::string_view sealed,
                  std::string& out);

}  // namespace tinker::server::crypto
