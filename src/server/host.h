#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "async/asio_loop.h"
#include "http/server.h"
#include "server/service.h"
#include "tinker/local_server.h"

namespace tinker::server {

/// A running server: its loop's thread, its service, its sockets. Thread-safe.
class Host {
 public:
  static Result<std::shared_ptr<Host>> start(LocalServerOptions options);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();

  [[nodiscard]] const std::string& base_url() const noexcept { return base_url_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::filesystem::path& data_dir() const noexcept { return data_dir_; }
  Result<void> stop(std::chrono::nanoseconds limit);
  Result<void> reload_certificates();

 private:
  Host() = default;
  Result<void> open(LocalServerOptions options);
  /// With what an earlier life of a durable server left.
  Result<void> go_on();
  Result<void> listen(const LocalServerOptions& options);

  std::shared_ptr<async::AsioLoop> loop_ = async::AsioLoop::create();
  std::shared_ptr<async::ThreadPool> workers_ =
      std::make_shared<async::ThreadPool>("tinker-server", 2);
  std::shared_ptr<Service> service_ = {};
  std::shared_ptr<http::Server> http_ = {};
  std::thread thread_ = {};
  std::mutex stop_mutex_ = {};
  std::string base_url_ = {};
  std::uint16_t port_ = 0;
  std::filesystem::path data_dir_ = {};
};

}  // namespace tinker::server
