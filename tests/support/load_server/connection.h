#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "support/load_server/api.h"
#include "support/load_server/socket.h"

namespace tinker::load_server {

class Connection;

/// What all connections share.
struct Host {
  virtual ~Host() = default;
  /// `Connection::on_timer(tag)` after `delay`, if that connection still exists.
  virtual void wake_after(std::chrono::milliseconds delay,
                          std::uint64_t connection,
                          std::uint32_t tag) = 0;
  /// `Connection::on_timer(tag)` at the next release.
  virtual void hold(std::uint64_t connection, std::uint32_t tag) = 0;
  [[nodiscard]] virtual Time now() const = 0;
  virtual Api& api() = 0;
};

/// Speaks HTTP over a connection.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void receive(std::string_view bytes) = 0;
  virtual void on_timer(std::uint32_t tag) = 0;
  /// Puts what is ready into the connection's output.
  virtual void produce() {}
};
std::unique_ptr<Protocol> make_h1(Connection& connection);
std::unique_ptr<Protocol> make_h2(Connection& connection);

class Connection {
 public:
  Connection(Host& host, std::uint64_t id, Socket socket);

  // For the server; afterwards `is_closed()` may have become true.
  void on_io(std::span<char> scratch);
  void on_timer(std::uint32_t tag);
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  // For the protocols.
  [[nodiscard]] bool is_open() const noexcept { return !is_closed_ && !is_finishing_; }
  [[nodiscard]] std::string& output() noexcept { return out_; }
  /// Closes it when the output is sent.
  void finish() noexcept { is_finishing_ = true; }
  /// As `finish`, and says so to TLS clients.
  void finish_politely() noexcept {
    is_finishing_ = true;
    is_polite_ = true;
  }
  /// Closes it now, with a TCP RST.
  void reset();
  void wake_after(std::chrono::milliseconds delay, std::uint32_t tag) {
    host_->wake_after(delay, id_, tag);
  }
  void hold(std::uint32_t tag) { host_->hold(id_, tag); }
  [[nodiscard]] Host& host() noexcept { return *host_; }

 private:
  void flush();

  Host* host_;
  std::uint64_t id_;
  Socket socket_;
  std::unique_ptr<Protocol> protocol_;
  std::string out_;
  std::size_t sent_ = 0;
  bool is_finishing_ = false;
  bool is_polite_ = false;
  bool is_closed_ = false;
};

}  // namespace tinker::load_server
