#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "async/virtual_loop.h"
#include "http/server_connection.h"

namespace tinker::testing {

/// The client's end of a connection that exists in memory only. Shared with the server's end, which
/// the server destroys when it closes the connection.
struct MemoryWire {
  explicit MemoryWire(std::shared_ptr<async::EventLoop> l) : loop(std::move(l)) {}

  std::shared_ptr<async::EventLoop> loop;
  std::string to_server = {};
  std::string to_client = {};
  std::size_t room = std::string::npos;  ///< Bytes that the server can write.
  int writes = 0;
  bool is_ended_by_client = false;
  bool is_write_shut = false;  ///< The server has said that it sends no more.
  bool is_reset = false;       ///< It ends the connection without order.
  bool is_closed = false;      ///< By the server.
  UniqueFunction<void()> when_readable = {};
  UniqueFunction<void()> when_writable = {};

  void wake() {
    const bool has_input = !to_server.empty() || is_ended_by_client;
    if (has_input && when_readable) loop->post(std::exchange(when_readable, nullptr));
    if (room > 0 && when_writable) loop->post(std::exchange(when_writable, nullptr));
  }
};

/// The server's end.
class MemorySocket final : public http::Socket {
 public:
  explicit MemorySocket(std::shared_ptr<MemoryWire> wire) : wire_(std::move(wire)) {}
  ~MemorySocket() override {
    wire_->is_closed = true;
    wire_->when_readable = nullptr;
    wire_->when_writable = nullptr;
  }

  Progress read(std::span<char> buffer) noexcept override {
    std::string& in = wire_->to_server;
    if (in.empty()) {
      return {.status = wire_->is_ended_by_client ? Status::ended : Status::would_block};
    }
    const std::size_t size = std::min(buffer.size(), in.size());
    std::copy_n(in.begin(), size, buffer.begin());
    in.erase(0, size);
    return {.bytes = size};
  }
  Progress write(std::string_view data) noexcept override {
    const std::size_t size = std::min(data.size(), wire_->room);
    if (size == 0) return {.status = Status::would_block};
    if (wire_->room != std::string::npos) wire_->room -= size;
    wire_->to_client.append(data.substr(0, size));
    ++wire_->writes;
    return {.bytes = size};
  }
  void wait_readable(UniqueFunction<void()> ready) override {
    wire_->when_readable = std::move(ready);
    wire_->wake();
  }
  void wait_writable(UniqueFunction<void()> ready) override {
    wire_->when_writable = std::move(ready);
    wire_->wake();
  }
  void shutdown_write() noexcept override { wire_->is_write_shut = true; }
  void reset_on_close() noexcept override { wire_->is_reset = true; }

 private:
  std::shared_ptr<MemoryWire> wire_;
};

/// Connections to a server in virtual time, without sockets.
class ServerHarness {
 public:
  explicit ServerHarness(http::Handler handler) : ServerHarness(std::move(handler), {}) {}
  ServerHarness(http::Handler handler, const http::ServerLimits& limits)
      : core(std::make_shared<http::ServerCore>(loop, std::move(handler), limits)) {}
  ServerHarness(const ServerHarness&) = delete;
  ServerHarness& operator=(const ServerHarness&) = delete;
  ~ServerHarness() {
    const auto open = core->connections;
    for (const auto& connection : open) {
      connection->close({.code = ErrorCode::cancelled, .message = "the test ends"});
    }
    core->scope->cancel({.code = ErrorCode::cancelled, .message = "the test ends"});
    loop->run_ready();
    loop->stop();
  }

  std::shared_ptr<MemoryWire> connect() {
    auto wire = std::make_shared<MemoryWire>(loop);
    http::ServerConnection::open(core, std::make_unique<MemorySocket>(wire), nullptr, {});
    return wire;
  }
  /// The client sends; all that follows at once happens.
  void send(MemoryWire& wire, std::string_view bytes) {
    wire.to_server.append(bytes);
    wire.wake();
    loop->run_ready();
  }
  void end(MemoryWire& wire) {
    wire.is_ended_by_client = true;
    wire.wake();
    loop->run_ready();
  }
  /// What the server sent since the last call.
  static std::string receive(MemoryWire& wire) { return std::exchange(wire.to_client, {}); }
  /// Sends and receives.
  std::string ask(MemoryWire& wire, std::string_view bytes) {
    send(wire, bytes);
    return receive(wire);
  }

  std::shared_ptr<async::VirtualLoop> loop = std::make_shared<async::VirtualLoop>();
  std::shared_ptr<http::ServerCore> core;
};

}  // namespace tinker::testing
