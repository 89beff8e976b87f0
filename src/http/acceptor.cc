#include "http/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/strings.h"

namespace tinker::http {

namespace {

constexpr int kBacklog = 4096;
// Connections that are served may not wait for those that come.
constexpr int kAcceptsPerTurn = 64;
// How long to wait when the machine has no room for another connection.
constexpr auto kFullPause = std::chrono::milliseconds(100);

Error cannot_listen(const std::string& where, int error) {
  return {.code = ErrorCode::io_error,
          .message = base::concat("cannot listen at ", where, ": ", error_text(error))};
}

Result<base::FileDescriptor> listen_at(const sockaddr* address,
                                       socklen_t size,
                                       const std::string& where) {
  base::FileDescriptor fd(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return cannot_listen(where, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return cannot_listen(where, errno);
  }
  return fd;
}

Result<base::FileDescriptor> listen_tcp(const ListenAddress& address) {
  const std::string where = base::concat(address.host, ":", address.port);
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port(base::Piece(address.port).text());
  if (const int failed = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot listen at ", where, ": ", ::gai_strerror(failed))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  return listen_at(list->ai_addr, list->ai_addrlen, where);
}

/// Removes a socket that a process left behind when it ended: nobody answers there. A regular file
/// refuses connections too, so the kind of the file is looked at first.
Result<void> remove_stale_socket(const sockaddr_un& address, const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return {};  // `bind` says what else is wrong
  if (!S_ISSOCK(found.st_mode)) {
    return Error{
        .code = ErrorCode::io_error,
        .message = base::concat("cannot listen at ", path, ": a file is there that is no socket")};
  }
  // A socket whose queue is full is alive: it answers EAGAIN.
  const base::FileDescriptor probe(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  if (probe.is_open() && ::connect(probe.get(), name, sizeof address) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
  return {};
}

Result<base::FileDescriptor> listen_unix(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("the path of a Unix socket is too long: ", path)};
  }
  std::ranges::copy(path, std::begin(address.sun_path));
  TINKER_TRY(remove_stale_socket(address, path));
  return listen_at(reinterpret_cast<const sockaddr*>(&address), sizeof address, path);
}

/// Device and inode of the file at `path`.
std::optional<std::pair<dev_t, ino_t>> file_at(const std::string& path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  return std::pair(found.st_dev, found.st_ino);
}

std::optional<Address> address_of(const sockaddr_storage& peer) {
  Address out;
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    std::memcpy(out.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    out.port = ntohs(v4.sin_port);
    return out;
  }
  if (peer.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  std::memcpy(out.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  out.is_v6 = true;
  out.scope = v6.sin6_scope_id;
  out.port = ntohs(v6.sin6_port);
  return out;
}

}  // namespace

Result<std::shared_ptr<Acceptor>> Acceptor::listen(std::shared_ptr<async::AsioLoop> loop,
                                                   const ListenAddress& address) {
  const bool is_unix = !address.unix_path.empty();
  TINKER_TRY(auto fd, is_unix ? listen_unix(address.unix_path) : listen_tcp(address));
  return std::make_shared<Acceptor>(std::move(loop), fd.release(), address.unix_path);
}

Acceptor::Acceptor(std::shared_ptr<async::AsioLoop> loop, int fd, std::string unix_path)
    : loop_(std::move(loop)),
      fd_(fd),
      unix_path_(std::move(unix_path)),
      socket_(loop_->io(), base::FileDescriptor(fd)) {
  sockaddr_storage local = {};
  socklen_t size = sizeof local;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&local), &size);
  if (const auto address = address_of(local)) port_ = address->port;
  if (!unix_path_.empty()) file_ = file_at(unix_path_);
}

Acceptor::~Acceptor() {
  // Somebody else may have put another file there. The socket is still open, so that no other file
  // can have its inode.
  if (file_ && file_ == file_at(unix_path_)) ::unlink(unix_path_.c_str());
}

void Acceptor::start(OnAccepted on_accepted) {
  on_accepted_ = std::move(on_accepted);
  wait();
}

void Acceptor::resume() {
  if (!std::exchange(is_paused_, false)) return;
  wait();
}

void Acceptor::wait() {
  if (std::exchange(is_waiting_, true)) return;
  socket_.wait_readable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->is_waiting_ = false;
    self->accept_some();
  });
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn && !is_paused_; ++i) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof peer;
    base::FileDescriptor fd(
        ::accept4(fd_, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.is_open()) {
      on_accepted_(std::make_unique<AsioSocket>(loop_->io(), std::move(fd)), address_of(peer));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) continue;
    loop_->schedule_after(kFullPause, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->wait();
    });
    return;
  }
  if (!is_paused_) wait();
}

}  // namespace tinker::http
