#include "http/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/strings.h"
#include "http/ascii.h"
#include "http/message.h"

namespace tinker::http {

namespace asio = boost::asio;
using asio::generic::stream_protocol;
using asio::ip::tcp;

/// Shared with what waits, so that a callback never meets a socket that has died.
struct AsioSocket::State {
  explicit State(asio::io_context& io) : socket(io) {}

  /// `opened` is what went wrong before. A socket that is not open fails here as well, and reports
  /// that later, as all callbacks come.
  static void connect(const std::shared_ptr<State>& self,
                      const stream_protocol::endpoint& endpoint,
                      std::string peer,
                      boost::system::error_code opened,
                      UniqueFunction<void(Result<void>)> done);

  stream_protocol::socket socket;
};

namespace {

tcp::endpoint endpoint_of(const Address& address) {
  if (address.is_v6) {
    return {asio::ip::address_v6(address.bytes, address.scope), address.port};
  }
  asio::ip::address_v4::bytes_type bytes = {};
  std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
  return {asio::ip::address_v4(bytes), address.port};
}

Error connect_error(std::string_view peer, int error) {
  if (error == ECONNREFUSED) {
    return connection_error(base::concat("connection to ", peer, " refused"));
  }
  return connection_error(base::concat("cannot connect to ", peer, ": ", error_text(error)));
}

Socket::Progress progress_of(ssize_t result) {
  if (result > 0) return {.bytes = static_cast<std::size_t>(result)};
  if (result == 0) return {.status = Socket::Status::ended};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {.status = Socket::Status::would_block};
  return {.status = Socket::Status::failed, .error = errno};
}

template <typename Call>
ssize_t uninterrupted(const Call& call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

std::string Address::to_string() const {
  const tcp::endpoint endpoint = endpoint_of(*this);
  boost::system::error_code ignored;
  const std::string text = endpoint.address().to_string(ignored);
  return is_v6 ? base::concat('[', text, "]:", port) : base::concat(text, ':', port);
}

std::string error_text(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty()) text.front() = ascii::to_lower(text.front());
  return text;
}

void AsioSocket::State::connect(const std::shared_ptr<State>& self,
                                const stream_protocol::endpoint& endpoint,
                                std::string peer,
                                boost::system::error_code opened,
                                UniqueFunction<void(Result<void>)> done) {
  self->socket.async_connect(
      endpoint,
      [weak = std::weak_ptr(self), peer = std::move(peer), opened, done = std::move(done)](
          const boost::system::error_code& error) mutable {
        if (weak.expired() || error == asio::error::operation_aborted) return;
        const auto& failure = opened ? opened : error;
        if (failure) return done(connect_error(peer, failure.value()));
        done({});
      });
}

AsioSocket::AsioSocket(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

AsioSocket::AsioSocket(asio::io_context& io, base::FileDescriptor accepted) : AsioSocket(io) {
  sockaddr_storage local = {};
  socklen_t size = sizeof local;
  ::getsockname(accepted.get(), reinterpret_cast<sockaddr*>(&local), &size);
  if (local.ss_family != AF_UNIX) {
    const int on = 1;
    ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  boost::system::error_code ignored;  // a socket that cannot be used fails at its first use
  // NOLINTBEGIN(bugprone-unused-return-value): they give back the error that they also store.
  (void)state_->socket.assign(stream_protocol(local.ss_family, 0), accepted.release(), ignored);
  (void)state_->socket.native_non_blocking(true, ignored);
  // NOLINTEND(bugprone-unused-return-value)
}

AsioSocket::~AsioSocket() {
  boost::system::error_code ignored;
  // NOLINTNEXTLINE(bugprone-unused-return-value): it gives back what it also stores.
  (void)state_->socket.close(ignored);
}

void AsioSocket::connect(const Address& address, UniqueFunction<void(Result<void>)> done) {
  boost::system::error_code ec;
  auto& socket = state_->socket;
  // NOLINTBEGIN(bugprone-unused-return-value): they give back the error that they also store.
  (void)socket.open(address.is_v6 ? tcp::v6() : tcp::v4(), ec);
  if (!ec) (void)socket.native_non_blocking(true, ec);
  if (!ec) (void)socket.set_option(tcp::no_delay(true), ec);
  // NOLINTEND(bugprone-unused-return-value)
  State::connect(state_, endpoint_of(address), address.to_string(), ec, std::move(done));
}

void AsioSocket::connect_unix(const std::string& path, UniqueFunction<void(Result<void>)> done) {
  boost::system::error_code ec;
  auto& socket = state_->socket;
  // NOLINTBEGIN(bugprone-unused-return-value): they give back the error that they also store.
  (void)socket.open(asio::local::stream_protocol(), ec);
  if (!ec) (void)socket.native_non_blocking(true, ec);
  // NOLINTEND(bugprone-unused-return-value)
  const asio::local::stream_protocol::endpoint endpoint(path);
  State::connect(state_, endpoint, path, ec, std::move(done));
}

Socket::Progress AsioSocket::read(std::span<char> buffer) noexcept {
  const int fd = state_->socket.native_handle();
  return progress_of(uninterrupted([&] { return ::recv(fd, buffer.data(), buffer.size(), 0); }));
}

Socket::Progress AsioSocket::write(std::string_view data) noexcept {
  const int fd = state_->socket.native_handle();
  return progress_of(
      uninterrupted([&] { return ::send(fd, data.data(), data.size(), MSG_NOSIGNAL); }));
}

void AsioSocket::wait_readable(UniqueFunction<void()> ready) {
  state_->socket.async_wait(stream_protocol::socket::wait_read,
                            [state = std::weak_ptr(state_), ready = std::move(ready)](
                                const boost::system::error_code& error) mutable {
                              if (!state.expired() && error != asio::error::operation_aborted)
                                ready();
                            });
}

void AsioSocket::wait_writable(UniqueFunction<void()> ready) {
  state_->socket.async_wait(stream_protocol::socket::wait_write,
                            [state = std::weak_ptr(state_), ready = std::move(ready)](
                                const boost::system::error_code& error) mutable {
                              if (!state.expired() && error != asio::error::operation_aborted)
                                ready();
                            });
}

void AsioSocket::shutdown_write() noexcept {
  ::shutdown(state_->socket.native_handle(), SHUT_WR);
}

void AsioSocket::reset_on_close() noexcept {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(state_->socket.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace tinker::http
