#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "async/asio_loop.h"
#include "http/exchange.h"
#include "http/resolver.h"
#include "http/tls_context.h"
#include "tinker/transport.h"

namespace tinker::http {

/// What all connections of one transport share. Loop thread only.
class NetContext {
 public:
  NetContext(std::shared_ptr<async::AsioLoop> loop, TransportOptions options)
      : loop_(std::move(loop)), options_(std::move(options)), resolver_(loop_) {}

  [[nodiscard]] async::AsioLoop& loop() const noexcept { return *loop_; }
  [[nodiscard]] Resolver& resolver() noexcept { return resolver_; }
  [[nodiscard]] const TransportOptions& options() const noexcept { return options_; }
  [[nodiscard]] HeadLimits head_limits() const {
    return {.max_bytes = options_.max_response_header_bytes};
  }
  /// Made when it is first needed: reading the system's store takes a while.
  Result<std::shared_ptr<TlsContext>> tls();

  /// For bytes from a socket, until the next read; connections have no buffers of their own, so
  /// that thousands of idle ones cost little.
  std::span<char> read_buffer();
  /// For what comes out of the given layer of TLS, which may carry another.
  std::span<char> plain_buffer(std::size_t layer);

 private:
  std::shared_ptr<async::AsioLoop> loop_;
  TransportOptions options_;
  Resolver resolver_;
  std::optional<Result<std::shared_ptr<TlsContext>>> tls_ = {};
  std::vector<char> read_buffer_;
  std::array<std::vector<char>, 2> plain_buffers_;
};

}  // namespace tinker::http
