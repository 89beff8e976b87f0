#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace tinker::testing {

struct RawResponse {
  int status = 0;  ///< 0: the server closed the connection instead.
  std::string head = {};
  std::string body = {};

  /// Of a field that is there once; `name` in lower case.
  [[nodiscard]] std::string header(std::string_view name) const {
    std::string lower = head;
    for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c;
    const auto at = lower.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return {};
    const auto begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

/// A client of HTTP/1.1 that sends whatever it is told to. Calls block, for 60 seconds at most.
class RawHttp {
 public:
  explicit RawHttp(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(address);
  }
  explicit RawHttp(const std::filesystem::path& unix_socket)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    unix_socket.string().copy(std::begin(address.sun_path), sizeof address.sun_path - 1);
    connect(address);
  }
  RawHttp(const RawHttp&) = delete;
  RawHttp& operator=(const RawHttp&) = delete;
  ~RawHttp() { ::close(fd_); }

  [[nodiscard]] bool is_open() const { return is_open_; }

  void send(std::string_view bytes) {
    while (!bytes.empty() && is_open_) {
      const auto n =
          unless_interrupted([&] { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
      if (n <= 0) return;  // what the server answered before it closed can still be read
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Whether a byte of an answer is there.
  [[nodiscard]] bool has_answer() const {
    char byte = 0;
    return !pending_.empty() || ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  /// Sends no more.
  void finish() { ::shutdown(fd_, SHUT_WR); }

  RawResponse receive() {
    RawResponse out;
    std::size_t end = 0;
    while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return out;
    }
    out.head = pending_.substr(0, end + 2);
    const std::string length = out.header("content-length");
    const std::size_t size = end + 4 + std::strtoul(length.c_str(), nullptr, 10);
    while (pending_.size() < size) {
      if (!read_more()) return out;
    }
    out.status = std::atoi(out.head.c_str() + std::string_view("HTTP/1.1 ").size());
    out.body = pending_.substr(end + 4, size - end - 4);
    pending_.erase(0, size);
    return out;
  }

  /// One request and its answer. `headers` are whole lines, each with its end.
  RawResponse ask(std::string_view method,
                  std::string_view target,
                  std::string_view body = {},
                  std::string_view headers = {}) {
    send(request(method, target, body, headers));
    return receive();
  }
  static std::string request(std::string_view method,
                             std::string_view target,
                             std::string_view body,
                             std::string_view headers) {
    std::string out = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
    if (headers.find("Host:") == std::string_view::npos) out += "Host: 127.0.0.1\r\n";
    out += std::string(headers) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    return out.append(body);
  }

 private:
  template <typename Address>
  void connect(const Address& address) {
    const timeval limit = {.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    is_open_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  /// Signals end calls on a socket that has a time limit, whatever SA_RESTART says.
  template <typename Call>
  static ssize_t unless_interrupted(const Call& call) {
    ssize_t n = 0;
    do {
      n = call();
    } while (n < 0 && errno == EINTR);
    return n;
  }
  bool read_more() {
    if (!is_open_) return false;
    std::array<char, 65536> buffer = {};
    const auto n = unless_interrupted([&] { return ::recv(fd_, buffer.data(), buffer.size(), 0); });
    if (n <= 0) is_open_ = false;
    pending_.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return n > 0;
  }

  int fd_;
  bool is_open_ = false;
  std::string pending_ = {};
};

}  // namespace tinker::testing
