#include "http/acceptor.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::acceptor_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

class AcceptorTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<Acceptor>> listen() {
    return Acceptor::listen(loop, {.unix_path = folder.path("socket")});
  }
  /// A socket at the same path that accepts nothing and whose queue holds one connection.
  base::FileDescriptor listen_deaf() {
    base::FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), name(), sizeof address), 0);
    EXPECT_EQ(::listen(fd.get(), 0), 0);
    return fd;
  }
  const sockaddr* name() {
    address.sun_family = AF_UNIX;
    folder.path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    return reinterpret_cast<const sockaddr*>(&address);
  }

  testing::TemporaryFolder folder;
  std::shared_ptr<async::AsioLoop> loop = async::AsioLoop::create();
  sockaddr_un address = {};
};

TEST_F(AcceptorTest, LeavesAFileThatIsNoSocket) {
  folder.write("socket", "precious");
  EXPECT_THAT(listen(), IsError(ErrorCode::io_error, HasSubstr(folder.path("socket"))));
  EXPECT_EQ(folder.read("socket"), "precious");
}

TEST_F(AcceptorTest, LeavesALinkToAFile) {
  folder.write("file", "precious");
  std::filesystem::create_symlink(folder.path("file"), folder.path("socket"));
  EXPECT_THAT(listen(), IsError(ErrorCode::io_error, HasSubstr("no socket")));
  EXPECT_EQ(folder.read("file"), "precious");
}

TEST_F(AcceptorTest, DoesNotWaitForASocketWhoseQueueIsFull) {
  const auto deaf = listen_deaf();
  const base::FileDescriptor first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first.get(), name(), sizeof address), 0);
  EXPECT_THAT(listen(), IsError(ErrorCode::io_error, HasSubstr("in use")));
}

TEST_F(AcceptorTest, RemovesOnlyItsOwnSocket) {
  auto acceptor = listen();
  ASSERT_THAT(acceptor, IsOk());
  std::filesystem::remove(folder.path("socket"));
  const auto other = listen_deaf();
  *acceptor = nullptr;
  EXPECT_TRUE(std::filesystem::exists(folder.path("socket")));
}

TEST_F(AcceptorTest, RemovesItsSocketAtTheEnd) {
  auto acceptor = listen();
  ASSERT_THAT(acceptor, IsOk());
  EXPECT_TRUE(std::filesystem::exists(folder.path("socket")));
  *acceptor = nullptr;
  EXPECT_FALSE(std::filesystem::exists(folder.path("socket")));
}

}  // namespace
}  // namespace tinker::http::acceptor_test
