#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/records.h"
#include "tinker/result.h"

namespace tinker::server {

/// What a token of ours says of its holder.
struct TokenClaims {
  std::string owner = {};   ///< Claim `sub`, a URN.
  std::int64_t key_id = 0;  ///< The key that it was exchanged for.
  Instant expires = {};     ///< To the second.
};

/// A JSON Web Token, signed with HMAC-SHA256 (RFC 7515, "HS256"). Also says `org_id` and `email`,
/// which clients look for (PROTOCOL 9.3, rule 13 of section 10).
Result<std::string> sign_token(const TokenClaims& claims, Instant now, std::string_view key);

/// Reads what `sign_token` made with that key, and nothing else: the header is the one of ours, so
/// no token chooses its own algorithm. Fails with `unauthenticated`, without a word of the token.
Result<TokenClaims> verify_token(std::string_view token, Instant now, std::string_view key);

}  // namespace tinker::server
