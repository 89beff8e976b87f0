#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tinker/secret.h"

namespace tinker::http {

/// How the library's own transport reaches servers.
struct TransportOptions {
  /// Certificates must be valid, for the host, and from an authority that is trusted. Default: yes.
  /// Without it anyone on the way can read and change everything, credentials included.
  bool verify_tls = true;
  /// Authorities to trust instead of the system's, as a file of PEM certificates. Default: the
  /// system's store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
  std::string ca_file = {};
  /// The same as a folder with one certificate per file, named by `openssl rehash`.
  std::string ca_path = {};
  /// If there is any, the server's certificate or one above it must hold one of these public keys,
  /// besides all other checks; with `verify_tls` off, the server's own must. Each is the SHA-256
  /// hash of a key's SubjectPublicKeyInfo: "sha256//" and base64, or 64 hexadecimal digits.
  /// Default: any key.
  std::vector<std::string> pinned_keys = {};
  /// Proxy for all requests: `http://user:password@host:port`, also `https`. Default: none.
  Secret proxy = {};
  /// Without `proxy`, whether `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` count.
  /// Default: yes.
  bool use_environment_proxy = true;
  /// A connection nobody used for so long is closed. Default: 60 s.
  std::chrono::nanoseconds idle_timeout = std::chrono::seconds(60);
  /// Connections of one channel to one server. Default: 1000. Requests beyond wait.
  std::size_t max_connections_per_channel = 1000;
  /// How many of those are kept open while they have nothing to do. Default: 20.
  std::size_t max_idle_per_channel = 20;
  /// Offer HTTP/2 to servers with TLS. Default: yes. Otherwise, and without TLS, it is HTTP/1.1.
  bool enable_http2 = true;
  /// An answer with longer headers is refused. In bytes, names and values together. Default: 256
  /// KiB.
  std::size_t max_response_header_bytes = std::size_t{256} << 10U;
};

}  // namespace tinker::http
