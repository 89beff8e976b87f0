#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/secret.h"
#include "tinker/types/auth.h"

namespace tinker::session {

/// What we read of a JSON Web Token. The signature is the server's business and is not checked.
struct JwtClaims {
  std::optional<double> exp = {};  ///< When it ends, in Unix seconds.
  std::optional<double> iat = {};  ///< When it was made.
  std::optional<std::string> sub = {};
  std::optional<std::string> org_id = {};
  std::optional<std::string> email = {};
  std::optional<std::string> iss = {};
};

/// Whether a credential is a token of its own rather than a key to exchange for one (R3.4).
[[nodiscard]] bool looks_like_jwt(const Secret& credential) noexcept;

/// Fails with `invalid_response`, without a word of the token. Claims of another kind than expected
/// count as missing.
Result<JwtClaims> parse_jwt(const Secret& jwt);

/// The seconds `jwt` has left at `now`, less than 0 once it ended; nothing when it does not say.
/// Never more than its whole life: a clock that is behind must not make it longer.
[[nodiscard]] std::optional<double> seconds_left(const Secret& jwt,
                                                 std::chrono::system_clock::time_point now);

/// Whether a JWT given as the API key says who its owner is (R3.12).
[[nodiscard]] bool is_identity_jwt(const Secret& credential);

/// The owner of `jwt` (R3.12).
Result<WhoamiResponse> whoami(const Secret& jwt);

}  // namespace tinker::session
