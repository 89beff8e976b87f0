#pragma once

#include <memory>

#include "async/asio_loop.h"
#include "async/runtime_core.h"
#include "tinker/executor.h"
#include "tinker/http.h"
#include "tinker/transport.h"

namespace tinker::http {

class ConnectionPool;

/// The real transport: HTTP/1.1, and HTTP/2 over TLS.
///
/// Everything happens on the loop; other threads only hand requests over. When it dies, what is in
/// flight ends with `cancelled`.
///
/// Thread-safe.
class AsioTransport final : public Transport {
 public:
  /// `workers` decompresses large answers. Options that cannot be used fail every request with
  /// `invalid_argument`.
  static std::shared_ptr<Transport> create(std::shared_ptr<async::AsioLoop> loop,
                                           std::shared_ptr<Executor> workers,
                                           TransportOptions options);
  /// On the loop of a runtime; one in virtual time has no network.
  static Result<std::shared_ptr<Transport>> create(
      const std::shared_ptr<async::RuntimeCore>& runtime, TransportOptions options);

  ~AsioTransport() override;
  AsioTransport(const AsioTransport&) = delete;
  AsioTransport& operator=(const AsioTransport&) = delete;

  Future<Response> send(Request request) override;
  void close_channel(std::uint64_t channel) override;

 private:
  AsioTransport(std::shared_ptr<async::AsioLoop> loop,
                Result<std::shared_ptr<ConnectionPool>> pool);

  std::shared_ptr<async::AsioLoop> loop_;
  Result<std::shared_ptr<ConnectionPool>> pool_;
};

}  // namespace tinker::http
