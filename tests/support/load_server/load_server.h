#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "support/load_server/api.h"

namespace tinker::load_server {

/// A server for load and fault tests on ephemeral ports of 127.0.0.1: HTTP/1.1 without TLS on one,
/// HTTP/2 or HTTP/1.1 by ALPN on the other. One thread does everything.
class LoadServer {
 public:
  LoadServer();
  explicit LoadServer(ServerOptions options);
  LoadServer(const LoadServer&) = delete;
  LoadServer& operator=(const LoadServer&) = delete;
  ~LoadServer();

  /// Serves on a thread of its own until this dies.
  void start();
  /// Serves here until `stop_fd` can be read or was closed at its other end.
  void run(int stop_fd);

  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] std::uint16_t tls_port() const noexcept;
  [[nodiscard]] std::string ca_file() const;
  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::string tls_url() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace tinker::load_server
