#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::http {

/// An absolute `http` or `https` URL in the form that requests use: two URLs of the same resource
/// that differ in case, default port or dot segments come out equal. A server at a Unix socket is
/// "http+unix://" and the percent-encoded path of the socket.
///
/// Thread-compatible.
struct Url {
  std::string scheme = "https";  ///< "http", "https" or "http+unix".
  /// Lower case; an IPv6 address without its brackets. The path of a Unix socket, which is
  /// absolute.
  std::string host = {};
  std::uint16_t port = 443;  ///< 0 for a Unix socket.
  std::string target = "/";  ///< Path and query, ready for a request line; never a fragment.

  /// Fails with `invalid_argument`. User names and passwords are refused and never shown. A
  /// fragment is dropped, dot segments are removed, and what may not stand in a request line is
  /// percent-encoded; only spaces and control characters are refused. Host names are ASCII: other
  /// scripts have to come in their `xn--` form.
  static Result<Url> parse(std::string_view text);

  /// Where a reference found at this URL leads (RFC 3986, section 5.2): the target of a redirect.
  /// Leads to no other Unix socket than its own: a server must not choose what a client connects to
  /// on its machine.
  [[nodiscard]] Result<Url> resolve(std::string_view reference) const;

  [[nodiscard]] bool is_tls() const noexcept { return scheme == "https"; }
  [[nodiscard]] bool is_unix() const noexcept { return scheme == "http+unix"; }
  /// Host and, unless it is the default, port.
  [[nodiscard]] std::string authority() const;
  /// The value of `Host`: the authority, or "localhost" for a Unix socket.
  [[nodiscard]] std::string host_header() const;
  /// For messages: the authority, or the path of a Unix socket.
  [[nodiscard]] std::string server() const;
  /// "https://host" or "https://host:8443".
  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] bool same_origin(const Url& other) const noexcept;

  friend bool operator==(const Url&, const Url&) = default;
};

/// `text` for messages, whether it is a URL or not: what may be a user name, a password or a signed
/// query is left out, all but printable ASCII is escaped, and it is cut where it gets long.
std::string printable_url(std::string_view text);

/// The one spelling of a base URL, for all who send to it or keep something by it (R3.18): scheme
/// and host in lower case, no default port, no trailing slash. A query or fragment is refused.
Result<std::string> normalize_base_url(std::string_view text);

/// The URL of `path` below a base URL (PROTOCOL 1): exactly one slash between them. A `path` that
/// is an absolute URL stays as it is.
std::string join_url(std::string_view base, std::string_view path);

/// One segment of a path that stands for `text` alone: everything but unreserved characters and ':'
/// is percent-encoded, and so are the dots of "." and "..", which would be taken for dot segments.
std::string encode_path_segment(std::string_view text);

/// A checkpoint id such as "weights/0001" (PROTOCOL 1): its first '/' parts two segments, every
/// later one is encoded with the rest.
std::string encode_checkpoint_id(std::string_view id);

/// "http+unix://%2Frun%2Ftinker.sock": the base URL of the server at a Unix socket. `path` is
/// absolute.
std::string unix_url(std::string_view path);

/// Whether a host as in `Url::host` is an IPv4 or IPv6 address.
bool is_ip_address(std::string_view host);

/// The server name for TLS (PROTOCOL 1): '_' becomes '-', a final dot is dropped. Empty for an IP
/// address, which may not be sent as one (RFC 6066, section 3).
std::string sni_host(std::string_view host);

}  // namespace tinker::http
