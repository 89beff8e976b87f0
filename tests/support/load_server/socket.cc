#include "support/load_server/socket.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

namespace tinker::load_server {

void Socket::FreeTls::operator()(ssl_st* tls) const noexcept {
  SSL_free(tls);
}

Socket::Socket(base::FileDescriptor fd, ssl_ctx_st* tls) : fd_(std::move(fd)) {
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (tls == nullptr) return;
  tls_.reset(SSL_new(tls));
  SSL_set_fd(tls_.get(), fd_.get());
  SSL_set_accept_state(tls_.get());
}

Socket::Transfer Socket::result_of(int result) {
  if (result > 0) return {.bytes = static_cast<std::size_t>(result)};
  const int why = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  const bool is_blocked = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
  return {.status = is_blocked ? Status::blocked : Status::closed};
}

Socket::Transfer Socket::read(std::span<char> into) {
  if (tls_) {
    const auto most = std::min<std::size_t>(into.size(), std::numeric_limits<int>::max());
    return result_of(SSL_read(tls_.get(), into.data(), static_cast<int>(most)));
  }
  const auto count = ::recv(fd_.get(), into.data(), into.size(), 0);
  if (count > 0) return {.bytes = static_cast<std::size_t>(count)};
  const bool is_blocked = count < 0 && (errno == EAGAIN || errno == EINTR);
  return {.status = is_blocked ? Status::blocked : Status::closed};
}

Socket::Transfer Socket::write(std::string_view bytes) {
  if (tls_) {
    const auto most = std::min<std::size_t>(bytes.size(), std::numeric_limits<int>::max());
    return result_of(SSL_write(tls_.get(), bytes.data(), static_cast<int>(most)));
  }
  const auto count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return {.bytes = static_cast<std::size_t>(count)};
  const bool is_blocked = errno == EAGAIN || errno == EINTR;
  return {.status = is_blocked ? Status::blocked : Status::closed};
}

bool Socket::is_h2() const {
  if (!tls_) return false;
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(tls_.get(), &name, &length);
  return length == 2 && name[0] == 'h' && name[1] == '2';
}

void Socket::say_goodbye() {
  if (tls_ && SSL_is_init_finished(tls_.get()) == 1) SSL_shutdown(tls_.get());
  ERR_clear_error();
}

void Socket::reset_on_close() {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace tinker::load_server
