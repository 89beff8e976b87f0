#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/tls_context.h"
#include "http/tls_server_context.h"
#include "tinker/result.h"

struct bio_st;
struct bio_method_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace tinker::http {

/// One side of a TLS connection, without a socket: what is to be sent is appended to the `out` of
/// each call. Any error is the end of it. Loop thread only.
class TlsSession {
 public:
  enum class Peer { origin, origin_h1_only, proxy };

  /// To the server `host`:`port`, whose certificate has to be for `host`. Only an `origin` is
  /// offered HTTP/2, and pins do not concern a `proxy`.
  static Result<std::unique_ptr<TlsSession>> connect(std::shared_ptr<TlsContext> context,
                                                     std::string host,
                                                     std::uint16_t port,
                                                     Peer peer);
  /// The server's side of a connection that was accepted.
  static Result<std::unique_ptr<TlsSession>> accept(const TlsServerContext& context);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  /// Begins the handshake: a client sends its first message.
  Result<void> start(std::string& out);
  /// Takes bytes from the peer, which must stay until `read` has given nothing.
  void put(std::string_view in) noexcept { in_ = in; }
  /// Plain text of what was `put`, as much as fits into `buffer`; empty when that was all.
  Result<std::string_view> read(std::span<char> buffer, std::string& out);
  /// Requires `is_established()`.
  Result<void> write(std::string_view plain, std::string& out);
  /// Says goodbye to the peer.
  void close(std::string& out);

  [[nodiscard]] bool is_established() const noexcept { return is_established_; }
  /// The peer has said goodbye: nothing more will come, and nothing is missing.
  [[nodiscard]] bool is_closed_by_peer() const noexcept { return is_closed_by_peer_; }
  [[nodiscard]] bool is_http2() const noexcept { return is_http2_; }
  [[nodiscard]] bool is_resumed() const noexcept;

  // For `TlsContext`, which has OpenSSL call them.
  static int verify_certificate(x509_store_ctx_st* store, void* unused);
  static int keep_session(ssl_st* ssl, ssl_session_st* session);

 private:
  struct Free {
    void operator()(ssl_st* ssl) const noexcept;
  };
  struct Callbacks;

  TlsSession(std::shared_ptr<TlsContext> context, std::string host, Peer peer);
  Result<void> open(ssl_ctx_st* context);
  Result<void> configure_client();
  Result<void> shake_hands();
  [[nodiscard]] bool is_trusted(x509_store_ctx_st* store) const;
  [[nodiscard]] bool is_for_host(x509_st* certificate) const;
  [[nodiscard]] bool has_pinned_key(x509_store_ctx_st* store) const;
  [[nodiscard]] Error describe_failure(int ssl_error) const;
  [[nodiscard]] std::string describe_certificate(long reason) const;

  std::shared_ptr<TlsContext> context_;  // a client's
  std::string host_;                     // empty: the peer is a client
  std::string server_;                   // names the sessions that can be resumed
  Peer peer_;
  std::unique_ptr<ssl_st, Free> ssl_;
  std::string_view in_;
  std::string* out_ = nullptr;  // during a call
  bool is_established_ = false;
  bool is_closed_by_peer_ = false;
  bool is_http2_ = false;
};

}  // namespace tinker::http
