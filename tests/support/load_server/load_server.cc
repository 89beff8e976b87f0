#include "support/load_server/load_server.h"

#include <array>
#include <csignal>
#include <queue>
#include <unordered_map>
#include <vector>

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/file_descriptor.h"
#include "base/strings.h"
#include "support/load_server/certificate.h"
#include "support/load_server/connection.h"
#include "tinker/check.h"

namespace tinker::load_server {

namespace {

constexpr int kBacklog = 4096;
constexpr std::size_t kScratch = std::size_t{64} << 10U;

struct Listener {
  base::FileDescriptor fd;
  std::uint16_t port = 0;

  Listener() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how sockets take addresses.
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    TINKER_CHECK(::bind(fd.get(), any, size) == 0);
    TINKER_CHECK(::listen(fd.get(), kBacklog) == 0);
    TINKER_CHECK(::getsockname(fd.get(), any, &size) == 0);
    port = ntohs(address.sin_port);
  }
};

struct Timer {
  Time when = {};
  std::uint64_t connection = 0;
  std::uint32_t tag = 0;
  friend bool operator>(const Timer& a, const Timer& b) { return a.when > b.when; }
};

}  // namespace

class LoadServer::Impl final : public Host {
 public:
  explicit Impl(ServerOptions options) : api_(std::move(options)) {
    watch(plain_.fd.get(), EPOLLIN, kPlainId);
    watch(secure_.fd.get(), EPOLLIN, kSecureId);
  }

  void run(int stop_fd) {
    // TLS writes to a socket that is gone are ordinary here.
    sigset_t pipe = {};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    watch(stop_fd, EPOLLIN, kStopId);
    std::array<epoll_event, 256> events = {};
    while (true) {
      const int count = ::epoll_wait(
          epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_to_wait());
      now_ = std::chrono::steady_clock::now();
      for (int i = 0; i < count; ++i) {
        const auto id = events.at(static_cast<std::size_t>(i)).data.u64;
        if (id == kStopId) return;
        handle(id);
      }
      if (api_.take_release()) release();
      fire_timers();
    }
  }

  void wake_after(std::chrono::milliseconds delay,
                  std::uint64_t connection,
                  std::uint32_t tag) override {
    timers_.push({.when = now_ + delay, .connection = connection, .tag = tag});
  }
  void hold(std::uint64_t connection, std::uint32_t tag) override {
    held_.push_back({.connection = connection, .tag = tag});
    api_.connections().held = held_.size();
  }
  [[nodiscard]] Time now() const override { return now_; }
  Api& api() override { return api_; }

  [[nodiscard]] const Listener& plain() const noexcept { return plain_; }
  [[nodiscard]] const Listener& secure() const noexcept { return secure_; }
  [[nodiscard]] const ServerTls& tls() const noexcept { return tls_; }

 private:
  static constexpr std::uint64_t kPlainId = 0;
  static constexpr std::uint64_t kSecureId = 1;
  static constexpr std::uint64_t kStopId = 2;

  void watch(int fd, std::uint32_t events, std::uint64_t id) {
    epoll_event event = {.events = events, .data = {.u64 = id}};
    TINKER_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  }

  [[nodiscard]] int milliseconds_to_wait() const {
    if (timers_.empty()) return -1;
    const auto wait = timers_.top().when - std::chrono::steady_clock::now();
    const auto whole = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    return static_cast<int>(std::max<std::int64_t>(whole, 0));
  }

  void handle(std::uint64_t id) {
    if (id == kPlainId) return accept_all(plain_, nullptr);
    if (id == kSecureId) return accept_all(secure_, tls_.context());
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.on_io(scratch_);
    drop_if_closed(found);
  }

  void accept_all(const Listener& listener, ssl_ctx_st* tls) {
    while (true) {
      base::FileDescriptor fd(
          ::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.is_open()) return;
      const auto id = ++last_id_;
      // Edge-triggered in both directions: never changed again.
      watch(fd.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, id);
      connections_.try_emplace(id, *this, id, Socket(std::move(fd), tls));
      ++api_.connections().accepted;
      ++api_.connections().open;
    }
  }

  void release() {
    for (const auto& timer : std::exchange(held_, {})) timers_.push(timer);
    api_.connections().held = 0;
  }

  void fire_timers() {
    while (!timers_.empty() && timers_.top().when <= now_) {
      const Timer timer = timers_.top();
      timers_.pop();
      const auto found = connections_.find(timer.connection);
      if (found == connections_.end()) continue;
      found->second.on_timer(timer.tag);
      drop_if_closed(found);
    }
  }

  using Connections = std::unordered_map<std::uint64_t, Connection>;
  void drop_if_closed(Connections::iterator at) {
    if (!at->second.is_closed()) return;
    connections_.erase(at);
    --api_.connections().open;
  }

  Api api_;
  ServerTls tls_;
  Listener plain_;
  Listener secure_;
  base::FileDescriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  Time now_ = std::chrono::steady_clock::now();
  std::uint64_t last_id_ = kStopId;
  Connections connections_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<Timer> held_;
  std::vector<char> scratch_ = std::vector<char>(kScratch);
};

LoadServer::LoadServer() : LoadServer(ServerOptions()) {}

LoadServer::LoadServer(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

LoadServer::~LoadServer() {
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_fd_, 1);
  thread_.join();
  ::close(wake_fd_);
}

void LoadServer::start() {
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { impl_->run(wake_fd_); });
}

void LoadServer::run(int stop_fd) {
  impl_->run(stop_fd);
}

std::uint16_t LoadServer::port() const noexcept {
  return impl_->plain().port;
}
std::uint16_t LoadServer::tls_port() const noexcept {
  return impl_->secure().port;
}
const std::string& LoadServer::ca_file() const noexcept {
  return impl_->tls().ca_file();
}
std::string LoadServer::url() const {
  return base::concat("http://127.0.0.1:", port());
}
std::string LoadServer::tls_url() const {
  return base::concat("https://127.0.0.1:", tls_port());
}

}  // namespace tinker::load_server
