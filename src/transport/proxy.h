#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/url.h"
#include "tinker/result.h"
#include "tinker/secret.h"

namespace tinker::http {

struct Proxy {
  Url url = {};               ///< Where it listens; the target is always "/".
  Secret authorization = {};  ///< The value of `Proxy-Authorization`, or empty.
  std::string source = {};    ///< The variable or option that names it.
};

/// The hosts of one entry of `NO_PROXY`, as httpx reads them (PROTOCOL 2), and address ranges.
///
/// | entry | hosts |
/// |---|---|
/// | `example.com` | itself and every name below it |
/// | `.example.com`, `*.example.com` | every name below it |
/// | `localhost` | only that name |
/// | `10.1.2.3`, `::1`, `[::1]` | that address |
/// | `10.0.0.0/8`, `fd00::/8` | the addresses of that range |
/// | `https://example.com` | exactly that name, for that scheme (`all` is both) |
///
/// Each but ranges and bare IPv6 addresses may end in `:port`.
///
/// Immutable.
class NoProxyEntry {
 public:
  /// Nothing for text that can match no host; such entries are meant for other programs.
  static std::optional<NoProxyEntry> parse(std::string_view text);

  [[nodiscard]] bool matches(const Url& url) const;

 private:
  enum class Kind { any_host, exact_name, name_and_below, below_name, addresses };
  /// An address in network order: 4 bytes or 16, none for a name.
  struct Address {
    std::array<unsigned char, 16> bytes = {};
    std::size_t size = 0;

    static Address parse(std::string_view text);
  };

  NoProxyEntry() = default;
  bool read_addresses(std::string_view text);
  void read_name(std::string_view text);
  [[nodiscard]] bool matches_address(std::string_view host) const;

  Kind kind_ = Kind::any_host;
  std::string scheme_;  // empty is any
  std::optional<std::uint16_t> port_;
  std::string name_;
  Address address_;
  std::size_t prefix_bits_ = 0;
};

/// Which proxy a request goes through.
///
/// Immutable.
class ProxyRules {
 public:
  using Getenv = std::function<std::optional<std::string>(const char*)>;

  /// `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. The lower-case spelling wins where it
  /// is set, even to nothing. A `REQUEST_METHOD` means a CGI program: there `HTTP_PROXY` may come
  /// from a client's header and is not read.
  static Result<ProxyRules> from_environment(const Getenv& getenv);
  /// One proxy for every URL: `http://host:port`, also `https`, also with `user:password@`, each
  /// percent-decoded. Without a scheme it is `http`.
  static Result<ProxyRules> explicit_proxy(std::string_view url);
  static ProxyRules none() { return {}; }

  /// Null where the request goes straight to its server; valid as long as these rules.
  [[nodiscard]] const Proxy* for_url(const Url& url) const;

 private:
  ProxyRules() = default;

  std::optional<Proxy> http_;
  std::optional<Proxy> https_;
  std::vector<NoProxyEntry> exceptions_;
};

}  // namespace tinker::http
