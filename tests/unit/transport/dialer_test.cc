#include "transport/dialer.h"

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::dialer_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;

Address v4(unsigned char last, std::uint16_t port = 80) {
  return {.bytes = {127, 0, 0, last}, .port = port};
}
Address v6(unsigned char last) {
  Address address = {.is_v6 = true, .port = 80};
  address.bytes[15] = last;
  return address;
}

TEST(Address, IsReadable) {
  EXPECT_EQ(v4(1, 9).to_string(), "127.0.0.1:9");
  EXPECT_EQ(v6(1).to_string(), "[::1]:80");
}

TEST(Dialer, TakesFamiliesInTurn) {
  EXPECT_THAT(Dialer::interleave({v6(1), v6(2), v6(3), v4(1)}),
              ElementsAre(v6(1), v4(1), v6(2), v6(3)));
  EXPECT_THAT(Dialer::interleave({v4(1), v4(2), v6(1)}), ElementsAre(v4(1), v6(1), v4(2)));
  EXPECT_THAT(Dialer::interleave({}), IsEmpty());
}

class DialerTest : public ::tinker::testing::LoopFixture {
 protected:
  /// Dials with a resolver that knows `addresses` for every name.
  Result<void> dial(Resolver::Lookup lookup) {
    Promise<void> promise;
    auto future = promise.future();
    struct Parts {
      std::unique_ptr<Resolver> resolver;
      std::unique_ptr<Dialer> dialer;
    };
    const auto parts = std::make_shared<Parts>();
    loop->post(
        [this, parts, lookup, promise = std::make_shared<Promise<void>>(std::move(promise))] {
          parts->resolver = std::make_unique<Resolver>(loop, lookup);
          parts->dialer = std::make_unique<Dialer>(*loop, loop->io(), *parts->resolver);
          parts->dialer->dial("name", 80, [promise](Result<std::unique_ptr<Socket>> socket) {
            promise->set(socket.ok() ? Result<void>() : std::move(socket).error());
          });
        });
    auto result = future.get();
    Promise<void> gone;
    auto ended = gone.future();
    loop->post([parts, gone = std::make_shared<Promise<void>>(std::move(gone))] {
      parts->dialer.reset();
      parts->resolver.reset();
      gone->set({});
    });
    (void)ended.get();
    return result;
  }
};

TEST_F(DialerTest, TakesTheFirstAddressThatAnswers) {
  TcpServer server([](TcpPeer& peer, int) { peer.wait_for_end(); });
  const std::uint16_t closed = [] { return TcpServer([](TcpPeer&, int) {}).port(); }();

  EXPECT_THAT(dial([&](const std::string&, std::uint16_t) -> Result<std::vector<Address>> {
                return std::vector{v4(1, closed), v4(1, closed), v4(1, server.port())};
              }),
              IsOk());
}

TEST_F(DialerTest, SaysHowManyAddressesFailed) {
  const std::uint16_t closed = [] { return TcpServer([](TcpPeer&, int) {}).port(); }();

  EXPECT_THAT(
      dial([&](const std::string&, std::uint16_t) -> Result<std::vector<Address>> {
        return std::vector{v4(1, closed), v4(2, closed), v4(3, closed)};
      }),
      IsError(ErrorCode::connection_failed,
              AllOf(HasSubstr("connection to 127.0.0.1:" + std::to_string(closed) + " refused"),
                    HasSubstr("2 more of host name"))));
}

TEST_F(DialerTest, PassesOnWhatTheResolverSays) {
  EXPECT_THAT(dial([](const std::string& host, std::uint16_t) -> Result<std::vector<Address>> {
                return Error{.code = ErrorCode::connection_failed,
                             .message = "cannot resolve host " + host};
              }),
              IsError(ErrorCode::connection_failed, HasSubstr("cannot resolve host name")));
}

class ResolverTest : public ::tinker::testing::LoopFixture {};

TEST_F(ResolverTest, AsksOnceForAllWhoWaitAndRemembers) {
  std::atomic<int> lookups = 0;
  std::latch asked(1);
  std::unique_ptr<Resolver> resolver;
  std::vector<Future<int>> futures;
  std::vector<std::shared_ptr<Promise<int>>> promises;
  for (int i = 0; i < 4; ++i) {
    promises.push_back(std::make_shared<Promise<int>>());
    futures.push_back(promises.back()->future());
  }
  const auto resolve = [&](int i) {
    resolver->resolve(
        "name", 80, [promise = promises[static_cast<std::size_t>(i)]](const auto& addresses) {
          promise->set(static_cast<int>(addresses->size()));
        });
  };

  loop->post([&] {
    resolver = std::make_unique<Resolver>(
        loop, [&](const std::string&, std::uint16_t) -> Result<std::vector<Address>> {
          asked.wait();
          ++lookups;
          return std::vector{v4(1)};
        });
    for (int i = 0; i < 3; ++i) resolve(i);
    asked.count_down();
  });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(futures[static_cast<std::size_t>(i)].get(), IsOk());
  loop->post([&] { resolve(3); });
  EXPECT_THAT(futures[3].get(), IsOk());
  EXPECT_EQ(lookups, 1);

  std::latch gone(1);
  loop->post([&] {
    resolver.reset();
    gone.count_down();
  });
  gone.wait();
}

TEST(ResolverLookup, ReadsAddressesWithoutAsking) {
  EXPECT_THAT(Resolver::system_lookup("127.0.0.7", 9).value(), ElementsAre(v4(7, 9)));
  EXPECT_THAT(Resolver::system_lookup("::2", 80).value(), ElementsAre(v6(2)));
}

}  // namespace
}  // namespace tinker::http::dialer_test
