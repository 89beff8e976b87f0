#include "http/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::http {
namespace {

constexpr std::size_t kMaxUrlBytes = 65536;
constexpr std::size_t kMaxHostBytes = 253;  // RFC 1035, section 2.3.4
constexpr std::size_t kMaxSocketPathBytes = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view kUnix = "http+unix";

Error bad_url(std::string_view text, std::string_view why) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("invalid URL '", printable_url(text), "': ", why)};
}

std::uint16_t default_port(std::string_view scheme) noexcept {
  return scheme == "https" ? 443 : 80;
}

/// A piece of text and what comes after the mark that ended it.
struct Cut {
  std::string_view head;
  std::string_view tail;  // from the mark on
};

Cut cut_at_any(std::string_view text, std::string_view marks) noexcept {
  const auto at = std::min(text.find_first_of(marks), text.size());
  return {.head = text.substr(0, at), .tail = text.substr(at)};
}

/// The scheme in front of ':', or nothing (RFC 3986, section 3.1).
std::optional<std::string_view> scheme_of(std::string_view text) noexcept {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || !ascii::is_alpha(text.front())) return {};
  const auto scheme = text.substr(0, colon);
  const bool valid = std::ranges::all_of(
      scheme, [](char c) { return ascii::is_alnum(c) || c == '+' || c == '-' || c == '.'; });
  return valid ? std::optional(scheme) : std::nullopt;
}

std::optional<std::string> canonical_ipv6(const std::string& text) {
  in6_addr address = {};
  std::array<char, INET6_ADDRSTRLEN> out = {};
  if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) return std::nullopt;
  if (::inet_ntop(AF_INET6, &address, out.data(), out.size()) == nullptr) return std::nullopt;
  return std::string(out.data());
}

bool is_ipv4(const std::string& text) {
  in_addr address = {};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

/// Dotted labels of letters, digits, '-' and '_'. A name that ends in a number must be an address:
/// resolvers read "127.1" as one, and nobody means that.
bool is_host_name(const std::string& host) {
  if (host.empty() || host.size() > kMaxHostBytes || host.front() == '.') return false;
  if (host.find("..") != std::string::npos) return false;
  const bool valid = std::ranges::all_of(
      host, [](char c) { return ascii::is_alnum(c) || c == '-' || c == '_' || c == '.'; });
  if (!valid) return false;
  const std::string_view name =
      host.back() == '.' ? std::string_view(host).substr(0, host.size() - 1) : host;
  const auto label = name.substr(name.rfind('.') + 1);
  return !std::ranges::all_of(label, ascii::is_digit) || is_ipv4(host);
}

/// Host and port out of "host:port" or "[address]:port"; the reason why not, or nothing.
std::optional<std::string_view> read_authority(std::string_view text, Url& url) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return "'[' without ']'";
    auto address = canonical_ipv6(std::string(text.substr(1, close - 1)));
    if (!address) return "no IPv6 address between '[' and ']'";
    url.host = *std::move(address);
    port = text.substr(close + 1);
    if (!port.empty() && port.front() != ':') return "expected ':' and a port after ']'";
  } else {
    const auto [host, rest] = cut_at_any(text, ":");
    if (host.empty()) return "no host";
    url.host = ascii::to_lower(host);
    if (!is_host_name(url.host)) return "not a host name or address";
    port = rest;
  }
  url.port = default_port(url.scheme);
  if (port.size() <= 1)
    return std::nullopt;  // RFC 3986, section 3.2.3: an empty port is the default
  port.remove_prefix(1);
  const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (failure != std::errc() || end != port.data() + port.size() || url.port == 0) {
    return "the port is no number from 1 to 65535";
  }
  return std::nullopt;
}

/// The path of a Unix socket; the reason why not, or nothing.
std::optional<std::string_view> read_socket_path(std::string_view text, Url& url) {
  url.host = ascii::percent_decoded(text);
  if (!url.host.starts_with('/')) return "expected the absolute path of a socket, '/' as %2F";
  if (url.host.size() > kMaxSocketPathBytes) return "paths of Unix sockets have at most 107 bytes";
  if (std::ranges::any_of(url.host, ascii::is_control)) return "it holds a control character";
  return std::nullopt;
}

/// RFC 3986, section 5.2.4, for a path that starts with '/'.
std::string remove_dot_segments(std::string_view path) {
  std::string out;
  if (!path.empty() && path.find("/.") == std::string_view::npos) return out.assign(path);
  while (!path.empty()) {
    const auto [segment, rest] = cut_at_any(path.substr(1), "/");
    const bool up = segment == "..";
    if (up) out.resize(std::min(out.rfind('/'), out.size()));
    if (!up && segment != ".") {
      out += '/';
      out += segment;
    } else if (rest.empty()) {
      out += '/';
    }
    path = rest;
  }
  return out.empty() ? "/" : out;
}

/// Path and query as a request line takes them; `path` is empty or starts with '/'.
std::string make_target(std::string_view path, std::string_view query) {
  constexpr std::string_view kEncoded = "\"<>\\^`{|}";
  const auto is_encoded = [&](char c) { return c < 0 || kEncoded.find(c) != kEncoded.npos; };
  auto raw = remove_dot_segments(path).append(query);
  if (std::ranges::none_of(raw, is_encoded)) return raw;
  std::string out;
  out.reserve(raw.size());
  for (const char c : raw) {
    if (is_encoded(c)) {
      ascii::append_percent_encoded(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<std::string_view> find_forbidden(std::string_view text) noexcept {
  if (text.size() > kMaxUrlBytes) return "longer than 65536 bytes";
  if (std::ranges::any_of(text, ascii::is_control)) return "it holds a control character";
  if (text.find(' ') != std::string_view::npos) return "it holds a space";
  return std::nullopt;
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
  if (const auto why = find_forbidden(text)) return bad_url(text, *why);
  const auto scheme = scheme_of(text).value_or("");
  Url url = {.scheme = ascii::to_lower(scheme), .host = {}, .port = 0, .target = {}};
  if (url.scheme != "http" && url.scheme != "https" && url.scheme != kUnix) {
    return bad_url(text, "expected http:// or https://, or http+unix:// for a Unix socket");
  }
  auto rest = text.substr(scheme.size() + 1);
  if (!rest.starts_with("//")) return bad_url(text, "expected '//' after the scheme");
  rest.remove_prefix(2);

  const auto [authority, after] = cut_at_any(rest, "/?#");
  if (authority.find('@') != std::string_view::npos) {
    return bad_url(text, "a user name or password may not be part of it");
  }
  const auto why =
      url.is_unix() ? read_socket_path(authority, url) : read_authority(authority, url);
  if (why) return bad_url(text, *why);
  const auto [path, query] = cut_at_any(cut_at_any(after, "#").head, "?");
  url.target = make_target(path, query);
  return url;
}

Result<Url> Url::resolve(std::string_view reference) const {
  if (scheme_of(reference)) {
    TINKER_TRY(auto url, parse(reference));
    if (!url.is_unix() || url.same_origin(*this)) return url;
    return bad_url(reference, "a Unix socket that is not the one it comes from");
  }
  if (reference.starts_with("//")) return parse(base::concat(scheme, ":", reference));
  if (const auto why = find_forbidden(reference)) return bad_url(reference, *why);

  const auto [own_path, own_query] = cut_at_any(target, "?");
  const auto [path, query] = cut_at_any(cut_at_any(reference, "#").head, "?");
  Url url = *this;
  if (path.starts_with('/')) {
    url.target = make_target(path, query);
  } else if (!path.empty()) {
    const auto folder = own_path.substr(0, own_path.rfind('/') + 1);
    url.target = make_target(base::concat(folder, path), query);
  } else if (!query.empty()) {
    url.target = make_target(own_path, query);
  }
  return url;
}

std::string Url::authority() const {
  if (is_unix()) return encode_path_segment(host);
  const bool ipv6 = host.find(':') != std::string::npos;
  auto out = ipv6 ? base::concat("[", host, "]") : host;
  if (port != default_port(scheme)) out += base::concat(":", port);
  return out;
}

std::string Url::host_header() const {
  return is_unix() ? "localhost" : authority();
}

std::string Url::server() const {
  return is_unix() ? host : authority();
}

std::string Url::origin() const {
  return base::concat(scheme, "://", authority());
}

std::string Url::to_string() const {
  return origin() + target;
}

bool Url::same_origin(const Url& other) const noexcept {
  return scheme == other.scheme && host == other.host && port == other.port;
}

std::string printable_url(std::string_view text) {
  std::string out;
  const auto scheme = scheme_of(text);
  if (scheme && text.substr(scheme->size()).starts_with("://")) {
    out = ascii::printable(*scheme).append("://");
    text.remove_prefix(scheme->size() + 3);
  }
  // Whatever stands before an '@' may be a password with characters that should have been encoded.
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    out += "***";
    text.remove_prefix(at);
  }
  const auto [authority, after] = cut_at_any(text, "/?#");
  // Likewise what stands in the place of a port and is none: "user:password" without a host.
  const auto [host, port] = cut_at_any(authority, authority.starts_with('[') ? "]" : ":");
  const bool hidden =
      port.starts_with(':') && !std::all_of(port.begin() + 1, port.end(), ascii::is_digit);
  out += ascii::printable(hidden ? host : authority);
  if (hidden) out += ":***";
  const auto [path, query] = cut_at_any(after, "?");
  out += ascii::printable(path);
  if (!query.empty()) out += "?***";
  return out;
}

Result<std::string> normalize_base_url(std::string_view text) {
  TINKER_TRY(const auto url, Url::parse(text));
  if (text.find_first_of("?#") != std::string_view::npos) {
    return bad_url(text, "a base URL has no query and no fragment");
  }
  auto out = url.to_string();
  out.resize(out.find_last_not_of('/') + 1);
  return out;
}

std::string join_url(std::string_view base, std::string_view path) {
  const auto scheme = scheme_of(path);
  if (scheme && path.substr(scheme->size()).starts_with("://")) return std::string(path);
  base = base.substr(0, base.find_last_not_of('/') + 1);
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return base::concat(base, "/", path);
}

std::string encode_path_segment(std::string_view text) {
  constexpr std::string_view kPlain = "-._~:";
  const bool dots = text == "." || text == "..";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (!dots && (ascii::is_alnum(c) || kPlain.find(c) != std::string_view::npos)) {
      out += c;
    } else {
      ascii::append_percent_encoded(out, c);
    }
  }
  return out;
}

std::string unix_url(std::string_view path) {
  return base::concat(kUnix, "://", encode_path_segment(path));
}

std::string encode_checkpoint_id(std::string_view id) {
  const auto [folder, rest] = cut_at_any(id, "/");
  auto out = encode_path_segment(folder);
  if (!rest.empty()) out += base::concat("/", encode_path_segment(rest.substr(1)));
  return out;
}

bool is_ip_address(std::string_view host) {
  const std::string text(host);
  return is_ipv4(text) || canonical_ipv6(text).has_value();
}

std::string sni_host(std::string_view host) {
  if (is_ip_address(host)) return {};
  std::string out(host);
  if (out.ends_with('.')) out.pop_back();
  std::ranges::replace(out, '_', '-');
  return out;
}

}  // namespace tinker::http
