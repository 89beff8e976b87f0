#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): Asio's name.
}

namespace tinker::http {

/// The address of a TCP socket: an IPv4 or IPv6 address with its port.
struct Address {
  std::array<unsigned char, 16> bytes = {};  // network order; IPv4 has 4
  bool is_v6 = false;
  std::uint32_t scope = 0;  // of link-local IPv6 addresses
  std::uint16_t port = 0;

  /// "127.0.0.1:80" or "[::1]:80".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Address&, const Address&) = default;
};

/// One end of a connection; its calls never block. Loop thread only. Callbacks come later, never
/// inside a call, and not after the socket has died.
class Socket {
 public:
  enum class Status { ok, would_block, ended, failed };
  struct Progress {
    Status status = Status::ok;
    std::size_t bytes = 0;
    int error = 0;  // an errno, with `failed`
  };

  Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  virtual ~Socket() = default;

  virtual Progress read(std::span<char> buffer) noexcept = 0;
  virtual Progress write(std::string_view data) noexcept = 0;
  /// Calls `ready` once there is something to read, the end included.
  virtual void wait_readable(UniqueFunction<void()> ready) = 0;
  virtual void wait_writable(UniqueFunction<void()> ready) = 0;
  /// Tells the peer that nothing more will be written; reading goes on.
  virtual void shutdown_write() noexcept = 0;
  /// The coming close resets the connection (TCP RST).
  virtual void reset_on_close() noexcept = 0;
};

/// A socket of this machine: TCP, or a Unix socket.
class AsioSocket final : public Socket {
 public:
  explicit AsioSocket(boost::asio::io_context& io);
  /// Takes over an accepted connection.
  AsioSocket(boost::asio::io_context& io, base::FileDescriptor accepted);
  ~AsioSocket() override;

  void connect(const Address& address, UniqueFunction<void(Result<void>)> done);
  /// To the Unix socket at `path`, which has at most 107 bytes.
  void connect_unix(const std::string& path, UniqueFunction<void(Result<void>)> done);
  Progress read(std::span<char> buffer) noexcept override;
  Progress write(std::string_view data) noexcept override;
  void wait_readable(UniqueFunction<void()> ready) override;
  void wait_writable(UniqueFunction<void()> ready) override;
  void shutdown_write() noexcept override;
  void reset_on_close() noexcept override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// "connection reset by peer" and the like.
std::string error_text(int error);

}  // namespace tinker::http
