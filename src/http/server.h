#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "async/asio_loop.h"
#include "http/acceptor.h"
#include "http/server_connection.h"
#include "http/tls_server_context.h"
#include "tinker/future.h"

namespace tinker::http {

struct ServerOptions {
  ServerLimits limits = {};
  /// At a time; more wait in the queue of the system.
  std::size_t max_connections = 20'000;
};

/// An HTTP server: listens, and has `handler` answer each request. HTTP/1.1 and HTTP/2, by ALPN
/// with TLS, by prior knowledge without. Loop thread only, from the first `listen` on.
///
///     auto server = Server::create(loop, [](ServerRequest request, ResponseWriter writer) ->
///     Task<> {
///       writer.send({.body = "hello\n"});
///       co_return Result<void>();
///     }, {});
///     const auto port = server->listen({.port = 8080}, std::nullopt);
class Server : public std::enable_shared_from_this<Server> {
 public:
  static std::shared_ptr<Server> create(std::shared_ptr<async::AsioLoop> loop,
                                        Handler handler,
                                        const ServerOptions& options);
  Server(std::shared_ptr<async::AsioLoop> loop, Handler handler, const ServerOptions& options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Ends everything at once.
  ~Server();

  /// Accepts connections at `address`, with TLS where `identity` is given. May be called several
  /// times. Yields the port, 0 for a Unix socket.
  Result<std::uint16_t> listen(const ListenAddress& address,
                               const std::optional<TlsIdentity>& identity);
  /// Reads all certificates again, for connections to come. Where one cannot be used, all stay as
  /// they are.
  Result<void> reload_certificates();

  /// Stops listening, lets the requests that run finish, tells clients to go, then closes. After
  /// `limit` what is left is cancelled. The future ends on the loop, after the last handler.
  /// To be called once.
  Future<void> drain(std::chrono::nanoseconds limit);

  [[nodiscard]] std::size_t connections() const noexcept { return core_->connections.size(); }
  /// Connections that came, ever.
  [[nodiscard]] std::uint64_t accepted() const noexcept { return core_->accepted; }
  /// Handlers that have not ended.
  [[nodiscard]] std::size_t running() const noexcept { return core_->running; }

 private:
  struct Listener {
    std::shared_ptr<Acceptor> acceptor;
    std::optional<TlsIdentity> identity = {};
    std::shared_ptr<const TlsServerContext> tls = {};
  };

  void on_accepted(const Listener& listener,
                   std::unique_ptr<Socket> socket,
                   const std::optional<Address>& address);
  void on_change();
  void close_all(const Error& reason);

  std::shared_ptr<async::AsioLoop> loop_;
  std::size_t max_connections_;
  std::shared_ptr<ServerCore> core_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::optional<Promise<void>> drained_ = {};
  async::TimerId drain_timer_ = {};
};

}  // namespace tinker::http
