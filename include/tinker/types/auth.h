#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tinker/secret.h"

namespace tinker {

/// POST auth/token (PROTOCOL 9.3).
struct AuthTokenResponse {
  Secret jwt = {};

  friend bool operator==(const AuthTokenResponse&, const AuthTokenResponse&) = default;
};

struct ApiKeyOrgDetails {
  std::string name = {};

  friend bool operator==(const ApiKeyOrgDetails&, const ApiKeyOrgDetails&) = default;
};

struct ApiKeyUserDetails {
  std::string email = {};

  friend bool operator==(const ApiKeyUserDetails&, const ApiKeyUserDetails&) = default;
};

/// Who a key belongs to.
struct ApiKeyDetails {
  ApiKeyOrgDetails org_details = {};
  ApiKeyUserDetails user_details = {};

  friend bool operator==(const ApiKeyDetails&, const ApiKeyDetails&) = default;
};

/// GET auth/apikey/me (PROTOCOL 9.48).
struct SelfApiKeyResponse {
  std::int64_t key_id = 0;
  std::string name = {};
  std::string note = {};
  ApiKeyDetails details = {};

  friend bool operator==(const SelfApiKeyResponse&, const SelfApiKeyResponse&) = default;
};

/// Who the credential belongs to, read from its JWT; no endpoint answers it.
struct WhoamiResponse {
  std::string user_urn = {};
  std::string org_urn = {};
  std::optional<std::string> email = {};

  friend bool operator==(const WhoamiResponse&, const WhoamiResponse&) = default;
};

}  // namespace tinker
