#pragma once

#include <memory>
#include <optional>

#include "async/asio_loop.h"
#include "http/io_buffers.h"
#include "http/message.h"
#include "http/tls_context.h"
#include "tinker/transport.h"
#include "transport/resolver.h"

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

  [[nodiscard]] IoBuffers& buffers() noexcept { return buffers_; }

 private:
  std::shared_ptr<async::AsioLoop> loop_;
  TransportOptions options_;
  Resolver resolver_;
  std::optional<Result<std::shared_ptr<TlsContext>>> tls_ = {};
  IoBuffers buffers_;
};

}  // namespace tinker::http
