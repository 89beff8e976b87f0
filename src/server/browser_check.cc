#include "server/browser_check.h"

#include <algorithm>
#include <optional>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/relative_path.h"
#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::server {
namespace {

namespace ascii = http::ascii;

struct Authority {
  std::string host = {};  // lower case, an IPv6 address without its brackets
  std::string port = {};  // empty: the default one

  friend bool operator==(const Authority&, const Authority&) = default;
};

/// "host", "host:port" or "[::1]:port".
std::optional<Authority> parse_authority(std::string_view text) {
  std::string_view host = text.substr(0, text.find(':'));
  std::string_view rest = text.substr(host.size());
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  }
  if (host.empty()) return std::nullopt;
  if (!rest.empty() && !rest.starts_with(':')) return std::nullopt;
  if (!rest.empty()) rest.remove_prefix(1);
  if (!std::ranges::all_of(rest, ascii::is_digit)) return std::nullopt;
  return Authority{.host = ascii::to_lower(host), .port = std::string(rest)};
}

/// The authority of "https://host:port"; `default_port` becomes what its scheme stands for.
std::optional<Authority> parse_origin(std::string_view origin, std::string_view& default_port) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  const std::string scheme = ascii::to_lower(origin.substr(0, kHttps.size()));
  const bool is_https = scheme == kHttps;
  if (!is_https && !scheme.starts_with(kHttp)) return std::nullopt;
  default_port = is_https ? "443" : "80";
  origin.remove_prefix(is_https ? kHttps.size() : kHttp.size());
  return parse_authority(origin);
}

Authority with_port(Authority authority, std::string_view default_port) {
  if (authority.port.empty()) authority.port = default_port;
  return authority;
}

Error refuse(std::string message) {
  return {.code = ErrorCode::permission_denied, .message = std::move(message)};
}

Error refuse_origin(std::string_view origin) {
  return refuse(base::concat("pages of ", base::quoted(origin), " may not use this server"));
}

/// Whether a server on loopback answers to `host`.
bool is_our_name(const std::optional<Authority>& host, std::string_view public_origin) {
  if (!host) return false;
  if (is_loopback_host(host->host)) return true;
  std::string_view default_port;
  const auto front = parse_origin(public_origin, default_port);
  return front && front->host == host->host;
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  const std::string name = ascii::to_lower(host);
  if (name.find('\0') != std::string::npos) return false;  // inet_pton would stop there
  if (name == "localhost") return true;
  in_addr v4 = {};
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6 = {};
  return ::inet_pton(AF_INET6, name.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<void> check_browser(std::string_view host,
                           std::string_view origin,
                           bool is_loopback,
                           std::string_view public_origin) {
  const auto ours = parse_authority(host);
  if (is_loopback && !is_our_name(ours, public_origin)) {
    return refuse(base::concat("the Host header is ",
                               host.empty() ? "missing" : base::quoted(host),
                               "; this server listens on loopback and answers to localhost, "
                               "127.0.0.1, [::1] and the host of its --public-url alone"));
  }
  if (origin.empty() || origin == public_origin) return {};
  std::string_view default_port;
  const auto theirs = parse_origin(origin, default_port);
  if (!theirs) return refuse_origin(origin);
  const bool is_allowed =
      is_loopback ? is_loopback_host(theirs->host)
                  : ours && with_port(*theirs, default_port) == with_port(*ours, default_port);
  return is_allowed ? Result<void>() : refuse_origin(origin);
}

}  // namespace tinker::server
