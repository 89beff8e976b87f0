#include "server/crypto.h"

#include <array>
#include <climits>
#include <memory>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/strings.h"
#include "tinker/check.h"

namespace tinker::server::crypto {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const noexcept { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_CIPHER_CTX* context) const noexcept { EVP_CIPHER_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Free>;

// OpenSSL keeps a queue of errors for each thread, and TLS looks into it: nothing of ours stays.
Error failed(ErrorCode code, std::string message) {
  ERR_clear_error();
  return {.code = code, .message = std::move(message)};
}

Error broken(std::string_view what) {
  return failed(ErrorCode::internal, base::concat("OpenSSL cannot ", what));
}

const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) noexcept {
  return reinterpret_cast<unsigned char*>(text.data());
}

Result<void> check_size(std::string_view bytes, std::size_t size, std::string_view what) {
  if (bytes.size() == size) return {};
  return failed(ErrorCode::invalid_argument,
                base::concat(what, " has ", bytes.size(), " bytes instead of ", size));
}

Result<Key> secret_key(std::string_view secret) {
  TINKER_TRY(check_size(secret, kKeyBytes, "the secret key"));
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes_of(secret), secret.size()));
  if (!key) return broken("make an X25519 key");
  return key;
}

/// One call of the cipher.
struct Cipher {
  CipherContext context;
  bool is_encryption = false;

  static Result<Cipher> create(std::string_view key, std::string_view nonce, bool is_encryption) {
    TINKER_TRY(check_size(key, kKeyBytes, "the key"));
    TINKER_TRY(check_size(nonce, kNonceBytes, "the nonce"));
    Cipher cipher = {.context = CipherContext(EVP_CIPHER_CTX_new()),
                     .is_encryption = is_encryption};
    if (!cipher.context || EVP_CipherInit_ex(cipher.context.get(),
                                             EVP_chacha20_poly1305(),
                                             nullptr,
                                             bytes_of(key),
                                             bytes_of(nonce),
                                             is_encryption ? 1 : 0) != 1) {
      return broken("use ChaCha20-Poly1305");
    }
    return cipher;
  }

  Result<void> update(std::string_view text, unsigned char* out) const {
    TINKER_CHECK(text.size() <= INT_MAX);
    int size = 0;
    if (EVP_CipherUpdate(
            context.get(), out, &size, bytes_of(text), static_cast<int>(text.size())) != 1) {
      return broken("use ChaCha20-Poly1305");
    }
    return {};
  }

  /// Whether the tag is right, when it decrypts.
  [[nodiscard]] bool finish() const {
    std::array<unsigned char, kTagBytes> nothing = {};
    int size = 0;
    return EVP_CipherFinal_ex(context.get(), nothing.data(), &size) == 1;
  }
};

}  // namespace

Result<std::string> random_bytes(std::size_t size) {
  TINKER_CHECK(size <= INT_MAX);
  std::string out(size, '\0');
  if (RAND_bytes(bytes_of(out), static_cast<int>(size)) != 1) return broken("make random bytes");
  return out;
}

bool equal(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> hmac_sha256(std::string_view key, std::string_view text) {
  TINKER_CHECK(key.size() <= INT_MAX);
  std::string out(kKeyBytes, '\0');
  if (HMAC(EVP_sha256(),
           key.empty() ? "" : key.data(),
           static_cast<int>(key.size()),
           bytes_of(text),
           text.size(),
           bytes_of(out),
           nullptr) == nullptr) {
    return broken("compute an HMAC");
  }
  return out;
}

Result<std::string> hkdf_sha256(const HkdfInput& input) {
  TINKER_TRY(const std::string extracted, hmac_sha256(input.salt, input.key));
  // The first block of the expansion is as long as any key here.
  return hmac_sha256(extracted, base::concat(input.info, '\x01'));
}

Result<std::string> x25519_public(std::string_view secret) {
  TINKER_TRY(const Key key, secret_key(secret));
  std::string out(kKeyBytes, '\0');
  std::size_t size = out.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), bytes_of(out), &size) != 1) {
    return broken("find an X25519 public key");
  }
  return out;
}

Result<std::string> x25519(std::string_view secret, std::string_view public_key) {
  TINKER_TRY(const Key key, secret_key(secret));
  TINKER_TRY(check_size(public_key, kKeyBytes, "the public key"));
  const Key peer(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_X25519, nullptr, bytes_of(public_key), public_key.size()));
  const KeyContext context(EVP_PKEY_CTX_new(key.get(), nullptr));
  if (!peer || !context || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1) {
    return broken("use X25519");
  }
  std::string out(kKeyBytes, '\0');
  std::size_t size = out.size();
  if (EVP_PKEY_derive(context.get(), bytes_of(out), &size) != 1) {
    return failed(ErrorCode::invalid_argument, "the public key is a point of low order");
  }
  return out;
}

Result<void> seal(std::string_view key,
                  std::string_view nonce,
                  std::string_view plain,
                  std::string& out) {
  TINKER_TRY(const Cipher cipher, Cipher::create(key, nonce, true));
  const std::size_t begin = out.size();
  out.resize(begin + plain.size() + kTagBytes);
  unsigned char* const sealed = bytes_of(out) + begin;
  auto done = cipher.update(plain, sealed);
  if (done.ok() &&
      (!cipher.finish() ||
       EVP_CIPHER_CTX_ctrl(
           cipher.context.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, sealed + plain.size()) != 1)) {
    done = broken("use ChaCha20-Poly1305");
  }
  if (!done.ok()) out.resize(begin);
  return done;
}

Result<void> open(std::string_view key,
                  std::string_view nonce,
                  std::string_view sealed,
                  std::string& out) {
  TINKER_TRY(const Cipher cipher, Cipher::create(key, nonce, false));
  constexpr const char* kDamaged = "the sealed text is damaged, or the key is another";
  if (sealed.size() < kTagBytes) return failed(ErrorCode::invalid_argument, kDamaged);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  sealed.remove_suffix(kTagBytes);
  const std::size_t begin = out.size();
  out.resize(begin + sealed.size());
  auto done = cipher.update(sealed, bytes_of(out) + begin);
  if (done.ok() && EVP_CIPHER_CTX_ctrl(
                       cipher.context.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1) {
    done = broken("use ChaCha20-Poly1305");
  }
  if (done.ok() && !cipher.finish()) done = failed(ErrorCode::invalid_argument, kDamaged);
  if (!done.ok()) out.resize(begin);
  return done;
}

}  // namespace tinker::server::crypto
