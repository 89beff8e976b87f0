#include "transport/tunnel.h"

#include "base/strings.h"

namespace tinker::http {

namespace {

/// Host and port, the latter always: the target of CONNECT (RFC 9110, section 9.3.6).
std::string host_and_port(const Url& url) {
  const bool is_v6 = url.host.find(':') != std::string::npos;
  return is_v6 ? base::concat('[', url.host, "]:", url.port)
               : base::concat(url.host, ':', url.port);
}

}  // namespace

Tunnel::Tunnel(const Url& target, const Proxy& proxy, HeadLimits limits)
    : target_(target), proxy_(proxy), parser_(exchange_, limits, H1Parser::Expect::head_only) {
  const std::string authority = host_and_port(target);
  request_ = base::concat("CONNECT ", authority, " HTTP/1.1\r\nHost: ", authority, "\r\n");
  if (!proxy.authorization.empty()) {
    request_ += base::concat("Proxy-Authorization: ", proxy.authorization.expose(), "\r\n");
  }
  request_ += "\r\n";
}

Result<std::optional<std::string_view>> Tunnel::receive(std::string_view bytes) {
  auto rest = parser_.put(bytes);
  if (!rest.ok())
    return std::move(rest).error().with_context(base::concat("proxy ", proxy_.url.authority()));
  if (!parser_.is_complete()) return std::optional<std::string_view>();
  if (exchange_.response.status / 100 != 2) return refusal();
  return std::optional(*rest);
}

Error Tunnel::refusal() const {
  const int status = exchange_.response.status;
  const std::string proxy = proxy_.url.authority();
  // Asking again would not change these answers; others may pass.
  if (status == 407) {
    return {.code = ErrorCode::connection_failed,
            .message = base::concat("proxy ",
                                    proxy,
                                    proxy_.authorization.empty()
                                        ? " wants a user name and a password (407)"
                                        : " refused the user name or the password (407)")};
  }
  return connection_error(base::concat(
      "proxy ", proxy, " refused a connection to ", host_and_port(target_), " (", status, ")"));
}

}  // namespace tinker::http
