#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certificates.h"

namespace tinker::testing {

/// The server's end of one connection, as bytes. Calls block.
class TcpPeer {
 public:
  TcpPeer(int fd, SSL_CTX* tls) : fd_(fd) {
    if (tls == nullptr) return;
    ssl_.reset(SSL_new(tls), SSL_free);
    SSL_set_fd(ssl_.get(), fd_);
    if (SSL_accept(ssl_.get()) != 1) is_over_ = true;
  }
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  /// Some bytes; empty at the end.
  std::string read() {
    if (is_over_) return {};
    std::array<char, 65536> buffer = {};
    const auto n = ssl_ ? SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()))
                        : ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n <= 0) is_over_ = true;
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  }
  /// Head and body of one request; empty when the client has gone.
  std::string read_request() {
    std::size_t head = 0;
    while ((head = pending_.find("\r\n\r\n")) == std::string::npos) {
      const std::string more = read();
      if (more.empty()) return {};
      pending_ += more;
    }
    head += 4;
    std::size_t body = 0;
    if (const auto at = pending_.find("Content-Length: "); at < head) {
      body = std::strtoul(pending_.c_str() + at + 16, nullptr, 10);
    }
    while (pending_.size() < head + body) {
      const std::string more = read();
      if (more.empty()) return {};
      pending_ += more;
    }
    std::string out = pending_.substr(0, head + body);
    pending_.erase(0, head + body);
    return out;
  }
  void write(std::string_view bytes) {
    while (!bytes.empty() && !is_over_) {
      const auto n = ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                          : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        is_over_ = true;
      } else {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      }
    }
  }
  void respond(std::string_view body, std::string_view headers = "") {
    write("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
          std::string(headers) + "\r\n" + std::string(body));
  }
  /// Waits until the client has gone.
  void wait_for_end() {
    while (!read().empty()) {
    }
  }
  /// Says goodbye, where TLS has one, and sends no more.
  void finish() {
    if (ssl_ && !is_over_) SSL_shutdown(ssl_.get());
    ::shutdown(fd_, SHUT_WR);
  }
  /// Ends the connection with a reset when it is closed.
  void reset() {
    const linger now = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  [[nodiscard]] bool is_over() const { return is_over_; }

  /// Carries bytes both ways until one side ends.
  static void relay(TcpPeer& a, TcpPeer& b) {
    const auto has_input = [](const TcpPeer& peer, const pollfd& poll) {
      return poll.revents != 0 || (peer.ssl_ && SSL_pending(peer.ssl_.get()) > 0);
    };
    while (!a.is_over_ && !b.is_over_) {
      const bool is_buffered =
          (a.ssl_ && SSL_pending(a.ssl_.get()) > 0) || (b.ssl_ && SSL_pending(b.ssl_.get()) > 0);
      std::array<pollfd, 2> polls = {{{a.fd_, POLLIN, 0}, {b.fd_, POLLIN, 0}}};
      ::poll(polls.data(), polls.size(), is_buffered ? 0 : -1);
      if (has_input(a, polls[0])) b.write(a.read());
      if (has_input(b, polls[1])) a.write(b.read());
    }
  }

 private:
  int fd_;
  std::shared_ptr<SSL> ssl_;
  std::string pending_;
  bool is_over_ = false;
};

/// Listens on a free port of this machine and runs `serve(peer, index)` on a thread per connection.
class TcpServer {
 public:
  using Serve = std::function<void(TcpPeer&, int index)>;

  explicit TcpServer(Serve serve) : serve_(std::move(serve)) { start(); }
  /// With TLS; `protocol` is what it agrees on: "h2" or "http/1.1".
  TcpServer(const Identity& identity, std::string protocol, Serve serve)
      : serve_(std::move(serve)), protocol_(std::move(protocol)) {
    tls_.reset(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    SSL_CTX_use_certificate(tls_.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(tls_.get(), identity.key.get());
    SSL_CTX_set_alpn_select_cb(tls_.get(), select_protocol, this);
    start();
  }
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;
  ~TcpServer() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url(std::string_view path = "/") const {
    return (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_) +
           std::string(path);
  }
  [[nodiscard]] int accepted() {
    const std::lock_guard lock(mutex_);
    return accepted_;
  }
  /// Waits until so many connections have been served to their end.
  void wait_until_ended(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
  }

 private:
  void start() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_, 1024);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  void accept_all() {
    while (true) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd, index = accepted_++] { run(fd, index); });
    }
  }
  void run(int fd, int index) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    {
      TcpPeer peer(fd, tls_.get());
      if (!peer.is_over()) serve_(peer, index);
    }
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
    ++ended_;
    changed_.notify_all();
  }
  static int select_protocol(SSL*,
                             const unsigned char** out,
                             unsigned char* out_size,
                             const unsigned char* in,
                             unsigned int in_size,
                             void* user_data) {
    const std::string& wanted = static_cast<TcpServer*>(user_data)->protocol_;
    const std::string_view offered(reinterpret_cast<const char*>(in), in_size);
    const auto at = offered.find(wanted);
    if (at == std::string_view::npos) return SSL_TLSEXT_ERR_NOACK;
    *out = in + at;
    *out_size = static_cast<unsigned char>(wanted.size());
    return SSL_TLSEXT_ERR_OK;
  }

  Serve serve_;
  std::string protocol_;
  std::shared_ptr<SSL_CTX> tls_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  int accepted_ = 0;
  int ended_ = 0;
};

/// Answers every request with its number on this connection.
inline void count_requests(TcpPeer& peer, int /*connection*/) {
  for (int i = 1; !peer.read_request().empty(); ++i) peer.respond(std::to_string(i));
}

}  // namespace tinker::testing
