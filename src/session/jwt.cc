#include "session/jwt.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "wire/base64.h"
#include "wire/json_reader.h"

namespace tinker::session {

namespace {

using wire::JsonView;

Error unreadable(std::string_view why) {
  return {.code = ErrorCode::invalid_response, .message = base::concat("unreadable JWT: ", why)};
}

/// The JSON between the first two dots.
std::optional<std::string> payload_of(std::string_view jwt) {
  const auto first = jwt.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const auto rest = jwt.substr(first + 1);
  std::string text(rest.substr(0, rest.find('.')));
  text.resize(text.find_last_not_of('=') + 1);
  for (char& c : text) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  text.resize((text.size() + 3) / 4 * 4, '=');
  return wire::from_base64(text);
}

/// As a number, or as a text that is one: the official client takes both.
std::optional<double> number_claim(const JsonView& root, std::string_view claim) {
  const auto value = root.member(claim);
  if (!value) return std::nullopt;
  double out = 0;
  if (value->is_number()) {
    out = value->number();
  } else if (value->kind() == JsonView::Kind::string) {
    const std::string_view text = value->string();
    const char* begin = text.data();
    const char* end = begin + text.size();
    const auto read = std::from_chars(begin, end, out);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

std::optional<std::string> text_claim(const JsonView& root, std::string_view claim) {
  const auto value = root.member(claim);
  if (!value || value->kind() != JsonView::Kind::string) return std::nullopt;
  return std::string(value->string());
}

}  // namespace

bool looks_like_jwt(const Secret& credential) noexcept {
  return credential.expose().starts_with("eyJ");
}

Result<JwtClaims> parse_jwt(const Secret& jwt) {
  const auto payload = payload_of(jwt.expose());
  if (!payload) return unreadable("expected three parts in base64url with dots between them");
  // The parser's own message would quote what it found.
  const auto document = wire::JsonDocument::parse(*payload);
  if (!document || document->root().kind() != JsonView::Kind::object) {
    return unreadable("expected a JSON object as its second part");
  }
  const JsonView root = document->root();
  return JwtClaims{.exp = number_claim(root, "exp"),
                   .iat = number_claim(root, "iat"),
                   .sub = text_claim(root, "sub"),
                   .org_id = text_claim(root, "org_id"),
                   .email = text_claim(root, "email"),
                   .iss = text_claim(root, "iss")};
}

std::optional<double> seconds_left(const Secret& jwt, std::chrono::system_clock::time_point now) {
  const auto claims = parse_jwt(jwt);
  if (!claims) return std::nullopt;
  const std::optional<double> exp = claims->exp;
  if (!exp) return std::nullopt;
  const double ours = std::chrono::duration<double>(now.time_since_epoch()).count();
  return *exp - std::max(ours, claims->iat.value_or(ours));
}

bool is_identity_jwt(const Secret& credential) {
  if (!looks_like_jwt(credential)) return false;
  const auto claims = parse_jwt(credential);
  return claims.ok() && claims->iss.value_or("").starts_with("passport-");
}

Result<WhoamiResponse> whoami(const Secret& jwt) {
  TINKER_TRY(auto claims, parse_jwt(jwt));
  if (!claims.sub) return unreadable("expected a text as claim 'sub'");
  if (!claims.org_id) return unreadable("expected a text as claim 'org_id'");
  if (claims.email && claims.email->empty()) claims.email.reset();
  return WhoamiResponse{.user_urn = *std::move(claims.sub),
                        .org_urn = base::concat("tml:organization:", *claims.org_id),
                        .email = std::move(claims.email)};
}

}  // namespace tinker::session
