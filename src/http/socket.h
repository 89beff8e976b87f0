#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): Asio's name.
}

namespace tinker::http {

/// Where a socket connects to: an IPv4 or IPv6 address with its port.
struct Address {
  std::array<unsigned char, 16> bytes = {};  // network order; IPv4 has 4
  bool is_v6 = false;
  std::uint32_t scope = 0;  // of link-local IPv6 addresses
  std::uint16_t port = 0;

  /// "127.0.0.1:80" or "[::1]:80".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Address&, const Address&) = default;
};

/// A TCP socket that never blocks. Loop thread only. Callbacks come later, never inside a call, and
/// not after the socket has died.
class Socket {
 public:
  enum class Status { ok, would_block, ended, failed };
  struct Progress {
    Status status = Status::ok;
    std::size_t bytes = 0;
    int error = 0;  // an errno, with `failed`
  };

  explicit Socket(boost::asio::io_context& io);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  void connect(const Address& address, UniqueFunction<void(Result<void>)> done);
  Progress read(std::span<char> buffer) noexcept;
  Progress write(std::string_view data) noexcept;
  /// Calls `ready` once there is something to read, the end included.
  void wait_readable(UniqueFunction<void()> ready);
  void wait_writable(UniqueFunction<void()> ready);
  void close() noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// "connection reset by peer" and the like.
std::string error_text(int error);

}  // namespace tinker::http
