#include "server/jwt.h"

#include <chrono>
#include <optional>

#include "base/strings.h"
#include "server/crypto.h"
#include "wire/base64.h"
#include "wire/json_reader.h"
#include "wire/json_writer.h"

namespace tinker::server {
namespace {

using wire::JsonView;

constexpr std::string_view kHeader = R"({"alg":"HS256","typ":"JWT"})";

std::string to_base64url(std::string_view bytes) {
  std::string text = wire::to_base64(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  for (char& c : text) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string standard(text);
  for (char& c : standard) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  standard.resize((standard.size() + 3) / 4 * 4, '=');
  return wire::from_base64(standard);
}

Result<std::string> signature_of(std::string_view signed_text, std::string_view key) {
  TINKER_TRY(const std::string mac, crypto::hmac_sha256(key, signed_text));
  return to_base64url(mac);
}

std::int64_t unix_seconds(Instant instant) {
  return std::chrono::floor<std::chrono::seconds>(instant).time_since_epoch().count();
}

Error refuse(std::string_view why) {
  return {.code = ErrorCode::unauthenticated, .message = std::string(why)};
}

/// Of a text that we signed.
std::optional<TokenClaims> read_claims(std::string_view payload) {
  const auto json = from_base64url(payload);
  if (!json) return std::nullopt;
  const auto document = wire::JsonDocument::parse(*json);
  if (!document || document->root().kind() != JsonView::Kind::object) return std::nullopt;
  const auto owner = document->root().member("sub");
  const auto key_id = document->root().member("key_id");
  const auto expires = document->root().member("exp");
  if (!owner || owner->kind() != JsonView::Kind::string) return std::nullopt;
  if (!key_id || key_id->kind() != JsonView::Kind::integer) return std::nullopt;
  if (!expires || expires->kind() != JsonView::Kind::integer) return std::nullopt;
  return TokenClaims{.owner = std::string(owner->string()),
                     .key_id = key_id->integer(),
                     .expires = Instant(std::chrono::seconds(expires->integer()))};
}

}  // namespace

Result<std::string> sign_token(const TokenClaims& claims, Instant now, std::string_view key) {
  wire::JsonWriter json(wire::NonFinite::refuse);
  json.begin_object();
  json.key("sub");
  json.string(claims.owner);
  json.key("org_id");
  json.string("local");
  json.key("email");
  json.string("");
  json.key("key_id");
  json.integer(claims.key_id);
  json.key("iat");
  json.integer(unix_seconds(now));
  json.key("exp");
  json.integer(unix_seconds(claims.expires));
  json.end_object();
  if (json.error()) return *json.error();
  const std::string text =
      base::concat(to_base64url(kHeader), '.', to_base64url(std::move(json).take()));
  TINKER_TRY(const std::string signature, signature_of(text, key));
  return base::concat(text, '.', signature);
}

Result<TokenClaims> verify_token(std::string_view token, Instant now, std::string_view key) {
  const std::string header = base::concat(to_base64url(kHeader), '.');
  const std::size_t end = token.rfind('.');
  if (!token.starts_with(header) || end < header.size()) {
    return refuse("the token is not one of this server");
  }
  TINKER_TRY(const std::string expected, signature_of(token.substr(0, end), key));
  if (!crypto::equal(token.substr(end + 1), expected)) {
    return refuse("the token is not one of this server");
  }
  const auto claims = read_claims(token.substr(header.size(), end - header.size()));
  if (!claims) return refuse("the token is not one of this server");
  if (now >= claims->expires)
    return refuse("the token has expired; exchange the key for a new one");
  return *claims;
}

}  // namespace tinker::server
