#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

#include "async/asio_loop.h"
#include "base/file_descriptor.h"
#include "http/socket.h"
#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace tinker::http {

/// Where a server listens.
struct ListenAddress {
  std::string host = "127.0.0.1";  ///< A name or an address; "::" or "0.0.0.0" for all of them.
  std::uint16_t port = 0;          ///< 0: a free one.
  std::string unix_path = {};      ///< A Unix socket there, instead of TCP.
};

/// Accepts connections. Loop thread only.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  /// Gets each connection; no address for a Unix socket.
  using OnAccepted = UniqueFunction<void(std::unique_ptr<Socket>, std::optional<Address>)>;

  /// Listens from now on. Fails with `invalid_argument` for an address that this machine does not
  /// have, `io_error` where listening there is not possible. A Unix socket that nobody listens to
  /// any more is replaced; any other file stays.
  static Result<std::shared_ptr<Acceptor>> listen(std::shared_ptr<async::AsioLoop> loop,
                                                  const ListenAddress& address);
  Acceptor(std::shared_ptr<async::AsioLoop> loop, int fd, std::string unix_path);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  void start(OnAccepted on_accepted);
  /// Leaves new connections in the queue of the system until `resume`.
  void pause() noexcept { is_paused_ = true; }
  void resume();
  /// 0 for a Unix socket.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  void wait();
  void accept_some();

  std::shared_ptr<async::AsioLoop> loop_;
  int fd_;  // owned by `socket_`
  std::string unix_path_;
  std::optional<std::pair<dev_t, ino_t>> file_;  // of the Unix socket
  AsioSocket socket_;                            // only to wait
  OnAccepted on_accepted_;
  std::uint16_t port_ = 0;
  bool is_paused_ = false;
  bool is_waiting_ = false;
};

}  // namespace tinker::http
