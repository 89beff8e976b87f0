#include "server/access.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/strings.h"
#include "server/crypto.h"
#include "server/jwt.h"
#include "server/key_file.h"
#include "server/links.h"

namespace tinker::server {
namespace {

constexpr std::string_view kOwnerUrn = "tml:organization_user:";
constexpr std::string_view kTokenStart = "eyJ";  // of every JWT, and of no key (R3.1)
constexpr std::size_t kSecretBytes = 32;

Caller caller_named(std::string_view name, std::int64_t key_id) {
  return {.owner = base::concat(kOwnerUrn, name), .name = std::string(name), .key_id = key_id};
}

/// The first 48 bits of a fingerprint, which JSON carries exactly; never 0.
std::int64_t id_of(std::string_view fingerprint) {
  std::int64_t id = 0;
  for (const char c : fingerprint.substr(0, 6)) id = id << 8U | static_cast<unsigned char>(c);
  return id + 1;
}

Error refuse(std::string_view why) {
  return {.code = ErrorCode::unauthenticated, .message = std::string(why)};
}
}  // namespace

struct Access::Parts {
  struct Key {
    std::string fingerprint = {};  // an HMAC: all have one length, and the key itself is not kept
    Caller caller = {};
    bool is_revoked = false;
  };

  std::vector<Key> keys = {};
  std::string fingerprint_key = {};
  std::string token_key = {};
  std::string link_key = {};

  Result<void> derive(std::string_view secret) {
    TINKER_TRY(fingerprint_key, crypto::hkdf_sha256({.key = secret, .info = "tinker keys"}));
    TINKER_TRY(token_key, crypto::hkdf_sha256({.key = secret, .info = "tinker tokens"}));
    TINKER_TRY(link_key, crypto::hkdf_sha256({.key = secret, .info = "tinker links"}));
    return {};
  }

  Result<void> add(const ServedKey& key) {
    TINKER_TRY(check_key(key));
    TINKER_TRY(auto fingerprint, crypto::hmac_sha256(fingerprint_key, key.key.expose()));
    const auto id = id_of(fingerprint);
    for (const Key& other : keys) {
      if (other.caller.key_id == id) {
        return Error::invalid_argument(base::concat("the key is also one of ", other.caller.name));
      }
    }
    keys.push_back({.fingerprint = std::move(fingerprint), .caller = caller_named(key.owner, id)});
    return {};
  }

  [[nodiscard]] Result<Caller> by_key(std::string_view credential) const {
    TINKER_TRY(const std::string fingerprint, crypto::hmac_sha256(fingerprint_key, credential));
    const Key* found = nullptr;
    for (const Key& key : keys) {  // all of them, whichever it is
      if (crypto::equal(key.fingerprint, fingerprint)) found = &key;
    }
    if (found == nullptr) return refuse("the API key is not one of this server");
    if (found->is_revoked) return refuse("the API key was revoked");
    return found->caller;
  }

  [[nodiscard]] Result<Caller> by_token(std::string_view token, Instant now) const {
    TINKER_TRY(const TokenClaims claims, verify_token(token, now, token_key));
    for (const Key& key : keys) {
      // The key may have passed to another owner since.
      if (key.caller.key_id != claims.key_id || key.caller.owner != claims.owner) continue;
      if (key.is_revoked) return refuse("the API key of the token was revoked");
      return key.caller;
    }
    return refuse("the API key of the token is not one of this server any more");
  }
};

Result<Access> Access::create(const std::vector<ServedKey>& keys, std::string_view secret) {
  if (secret.size() != kSecretBytes) {
    return Error::invalid_argument(base::concat(
        "the server's secret has ", secret.size(), " bytes instead of ", kSecretBytes));
  }
  auto parts = std::make_shared<Parts>();
  TINKER_TRY(parts->derive(secret));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (auto added = parts->add(keys[i]); !added.ok()) {
      return std::move(added).error().with_context(base::concat("key ", i + 1));
    }
  }
  return Access(std::move(parts));
}

bool Access::needs_key() const noexcept {
  return !parts_->keys.empty();
}

Result<Caller> Access::authenticate(std::string_view credential, Instant now) const {
  if (!needs_key()) return caller_named("local", 0);
  if (credential.empty()) return refuse("this server needs an API key in the header X-API-Key");
  return credential.starts_with(kTokenStart) ? parts_->by_token(credential, now)
                                             : parts_->by_key(credential);
}

Result<std::string> Access::issue_token(const Caller& caller, Instant now, Instant expires) const {
  return sign_token(
      {.owner = caller.owner, .key_id = caller.key_id, .expires = expires}, now, parts_->token_key);
}

void Access::revoke(std::int64_t key_id) {
  for (Parts::Key& key : parts_->keys) {
    if (key.caller.key_id == key_id) key.is_revoked = true;
  }
}

Result<std::string> Access::sign_link(std::string_view target, Instant expires) const {
  return server::sign_link(target, expires, parts_->link_key);
}

Result<void> Access::check_link(std::string_view target, Instant now) const {
  return server::check_link(target, now, parts_->link_key);
}

}  // namespace tinker::server
