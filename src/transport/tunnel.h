#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/exchange.h"
#include "transport/h1_parser.h"
#include "transport/proxy.h"

namespace tinker::http {

/// Asks a proxy for a connection to a server (CONNECT). Bytes in, bytes out.
class Tunnel {
 public:
  /// To `target`, through `proxy`; both must outlive it.
  Tunnel(const Url& target, const Proxy& proxy, HeadLimits limits);

  /// What is to be sent, once.
  [[nodiscard]] std::string take_request() { return std::exchange(request_, {}); }
  /// Takes the proxy's answer; what follows it belongs to the server. Nothing until the answer is
  /// complete. A proxy that refuses is an error.
  Result<std::optional<std::string_view>> receive(std::string_view bytes);

 private:
  [[nodiscard]] Error refusal() const;

  const Url& target_;
  const Proxy& proxy_;
  std::string request_;
  Exchange exchange_;
  H1Parser parser_;
};

}  // namespace tinker::http
