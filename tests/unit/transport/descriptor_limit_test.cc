// The server when there is no file descriptor for another connection.
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "http/server.h"
#include "support/loop_fixture.h"

namespace {

std::atomic<int> full_accepts = 0;  // that found no room
std::atomic<int> next_error = 0;    // what accepting fails with, 0: nothing

}  // namespace

/// In place of libc's, to count and to fail.
extern "C" int accept4(int fd, sockaddr* addr, socklen_t* addr_len, int flags) {
  long accepted = -1;
  errno = next_error;
  if (errno == 0) accepted = ::syscall(SYS_accept4, fd, addr, addr_len, flags);
  if (accepted < 0 && errno != EAGAIN) ++full_accepts;
  return static_cast<int>(accepted);
}

namespace tinker::http::descriptor_limit_test {
namespace {

using ::testing::EndsWith;

constexpr int kRequests = 200;

/// Leaves the process no free descriptor, until it dies.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const base::FileDescriptor lowest_free(::dup(STDERR_FILENO));
    const rlimit none = {static_cast<rlim_t>(lowest_free.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

/// Has all accepts fail with `error`, until it dies.
class AcceptsFail {
 public:
  explicit AcceptsFail(int error) { next_error = error; }
  AcceptsFail(const AcceptsFail&) = delete;
  AcceptsFail& operator=(const AcceptsFail&) = delete;
  ~AcceptsFail() { next_error = 0; }
};

async::Task<> say_target(ServerRequest request, ResponseWriter writer) {
  writer.send({.body = std::string(request.target())});
  co_return Result<void>();
}

class DescriptorLimitTest : public testing::LoopFixture {
 protected:
  DescriptorLimitTest() {
    full_accepts = 0;
    on_loop([this] {
      server = Server::create(loop, say_target, {});
      port = server->listen({}, std::nullopt).value();
    });
  }
  ~DescriptorLimitTest() override {
    on_loop([this] { server.reset(); });
  }
  /// Runs `f` on the loop and waits for it.
  void on_loop(const std::function<void()>& f) {
    std::promise<void> done;
    loop->post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }

  static base::FileDescriptor make_socket() {
    return base::FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  void connect(const base::FileDescriptor& fd) const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  static void ask(const base::FileDescriptor& fd, std::string_view target) {
    const std::string request = "GET " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n\r\n";
    ASSERT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
  }
  static std::string answer(const base::FileDescriptor& fd) {
    std::array<char, 4096> buffer = {};  // an answer is one packet
    const ssize_t size = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }

  /// While a `Full` lives there is no room: the connection that is there is served, one that comes
  /// waits without keeping the loop busy, and is accepted when there is room again.
  template <typename Full, typename... Arguments>
  void expect_waiting_while(Arguments... arguments) {
    const auto kept = make_socket();
    const auto late = make_socket();
    connect(kept);
    ask(kept, "/first");
    ASSERT_THAT(answer(kept), EndsWith("\r\n\r\n/first"));
    full_accepts = 0;
    {
      const Full full(arguments...);
      connect(late);
      ask(late, "/late");
      while (full_accepts == 0) std::this_thread::yield();
      for (int i = 0; i < kRequests; ++i) {
        ask(kept, "/kept");
        ASSERT_THAT(answer(kept), EndsWith("\r\n\r\n/kept"));
      }
      // The loop turns at least once a request. An acceptor that spins tries in each turn.
      EXPECT_LT(full_accepts, kRequests);
      on_loop([this] { EXPECT_EQ(server->connections(), 1U); });
    }
    EXPECT_THAT(answer(late), EndsWith("\r\n\r\n/late"));
  }

  std::shared_ptr<Server> server;
  std::uint16_t port = 0;
};

TEST_F(DescriptorLimitTest, ConnectionsWaitForTheProcessToHaveRoom) {
  expect_waiting_while<NoDescriptors>();
}

TEST_F(DescriptorLimitTest, ConnectionsWaitForTheSystemToHaveRoom) {
  expect_waiting_while<AcceptsFail>(ENFILE);
}

}  // namespace
}  // namespace tinker::http::descriptor_limit_test
