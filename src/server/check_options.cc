#include "server/check_options.h"

#include <chrono>

#include "base/strings.h"
#include "server/browser_check.h"
#include "server/errors.h"
#include "server/limits.h"

namespace tinker::server {

Result<void> check_options(const LocalServerOptions& options) {
  const bool is_loopback = !options.unix_socket.empty() || is_loopback_host(options.host);
  if (!is_loopback && options.keys.empty()) {
    return bad_request(base::concat("host '",
                                    options.host,
                                    "' can be reached from other machines: give keys "
                                    "(--api-key-file), or listen at 127.0.0.1"));
  }
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return bad_request("TLS: expected a certificate and a key, found only one of them");
  }
  if (options.session_timeout <= std::chrono::seconds(0)) {
    return bad_request(base::concat(
        "session_timeout: expected at least 1 s, found ", options.session_timeout.count(), " s"));
  }
  if (options.snapshot_steps < 1)
    return bad_request("snapshot_steps: expected at least 1, found 0");
  return check_limits(options.limits);
}

}  // namespace tinker::server
