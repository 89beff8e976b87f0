#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "async/asio_loop.h"
#include "async/thread_pool.h"
#include "transport/asio_transport.h"

namespace tinker::testing {

/// A real loop on a thread of its own, and transports on it.
class LoopFixture : public ::testing::Test {
 protected:
  LoopFixture() {
    thread_ = std::thread([loop = loop] {
      async::enter_library_thread("test-loop");
      loop->run();
    });
  }
  ~LoopFixture() override {
    loop->stop();
    thread_.join();
  }

  std::shared_ptr<http::Transport> transport(http::TransportOptions options) {
    options.use_environment_proxy = false;
    return http::AsioTransport::create(loop, workers, std::move(options));
  }
  std::shared_ptr<http::Transport> transport() { return transport(http::TransportOptions()); }
  static http::Request get(std::string url) {
    return {.method = http::Method::get, .url = std::move(url)};
  }
  static http::Request post(std::string url, std::string body) {
    return {.method = http::Method::post,
            .url = std::move(url),
            .body = std::make_shared<const std::string>(std::move(body))};
  }

  std::shared_ptr<async::AsioLoop> loop = async::AsioLoop::create();
  std::shared_ptr<async::ThreadPool> workers =
      std::make_shared<async::ThreadPool>("test-worker", 1);

 private:
  std::thread thread_;
};

}  // namespace tinker::testing
