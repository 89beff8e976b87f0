#include "server/links.h"

#include <charconv>
#include <chrono>
#include <optional>

#include "base/relative_path.h"
#include "base/strings.h"
#include "server/crypto.h"

namespace tinker::server {
namespace {

constexpr std::string_view kExpires = "expires";
constexpr std::string_view kSignature = "signature";

/// How often the query has a parameter of that name.
int count(std::string_view target, std::string_view name) {
  const std::size_t question = target.find('?');
  if (question == std::string_view::npos) return 0;
  int found = 0;
  for (auto rest = target.substr(question); !rest.empty();) {
    rest.remove_prefix(1);  // '?' or '&'
    const auto parameter = rest.substr(0, rest.find('&'));
    if (parameter.substr(0, parameter.find('=')) == name) ++found;
    rest.remove_prefix(parameter.size());
  }
  return found;
}

/// `target` up to the parameter `name`, which has to be its last, and that one's value.
struct Split {
  std::string_view before = {};
  std::string_view value = {};
};
std::optional<Split> split_last(std::string_view target, std::string_view name) {
  const std::size_t at = target.find_last_of("?&");
  if (at == std::string_view::npos) return std::nullopt;
  const auto parameter = target.substr(at + 1);
  if (!parameter.starts_with(base::concat(name, '='))) return std::nullopt;
  return Split{.before = target.substr(0, at), .value = parameter.substr(name.size() + 1)};
}

Result<std::string> signature_of(std::string_view text, std::string_view key) {
  TINKER_TRY(const std::string mac, crypto::hmac_sha256(key, text));
  return base::to_hex(mac);
}

Error refuse(std::string_view why) {
  return {.code = ErrorCode::permission_denied, .message = std::string(why)};
}

}  // namespace

Result<std::string> sign_link(std::string_view target, Instant expires, std::string_view key) {
  if (count(target, kExpires) + count(target, kSignature) != 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot sign the link ",
                                         base::quoted(target.substr(0, target.find('?'))),
                                         ": its query has 'expires' or 'signature'")};
  }
  const auto seconds = std::chrono::floor<std::chrono::seconds>(expires).time_since_epoch().count();
  const char separator = target.find('?') == std::string_view::npos ? '?' : '&';
  const std::string text = base::concat(target, separator, kExpires, '=', seconds);
  TINKER_TRY(const std::string signature, signature_of(text, key));
  return base::concat(text, '&', kSignature, '=', signature);
}

Result<void> check_link(std::string_view target, Instant now, std::string_view key) {
  if (count(target, kSignature) == 0) return refuse("the link has no signature");
  const auto signature = split_last(target, kSignature);
  const auto expires = signature ? split_last(signature->before, kExpires) : std::nullopt;
  if (!expires || count(target, kSignature) != 1 || count(target, kExpires) != 1) {
    return refuse("the link does not end with \"expires=...&signature=...\", each once");
  }
  TINKER_TRY(const std::string expected, signature_of(signature->before, key));
  if (!crypto::equal(signature->value, expected)) {
    return refuse("the link was not signed by this server, or it was changed");
  }
  std::int64_t seconds = 0;
  const char* const begin = expires->value.data();
  const char* const end = begin + expires->value.size();
  const auto read = std::from_chars(begin, end, seconds);
  if (read.ec != std::errc() || read.ptr != end) return refuse("the link has no expiry");
  if (now >= Instant(std::chrono::seconds(seconds)))
    return refuse("the link has expired; ask for a new one");
  return {};
}

}  // namespace tinker::server
