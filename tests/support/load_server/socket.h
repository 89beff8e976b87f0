#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/file_descriptor.h"

struct ssl_ctx_st;
struct ssl_st;

namespace tinker::load_server {

/// One accepted connection, non-blocking, with or without TLS.
class Socket {
 public:
  enum class Status { ok, blocked, closed };
  struct Transfer {
    Status status = Status::ok;
    std::size_t bytes = 0;
  };

  /// Without `tls` it is plain TCP.
  Socket(base::FileDescriptor fd, ssl_ctx_st* tls);

  Transfer read(std::span<char> into);
  Transfer write(std::string_view bytes);
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool is_tls() const noexcept { return tls_ != nullptr; }
  /// Whether the client chose HTTP/2; known once something was read.
  [[nodiscard]] bool is_h2() const;
  /// Tells a TLS client that this was all.
  void say_goodbye();
  /// Makes the coming close a TCP RST.
  void reset_on_close();

 private:
  struct FreeTls {
    void operator()(ssl_st* tls) const noexcept;
  };
  Transfer result_of(int result);

  base::FileDescriptor fd_;
  std::unique_ptr<ssl_st, FreeTls> tls_;
};

}  // namespace tinker::load_server
