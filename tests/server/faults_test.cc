// Our client and the server with a proxy between them that loses, cuts, delays and doubles what
// passes; and a server that has no descriptors left.
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/file_descriptor.h"
#include "support/raw_http.h"
#include "support/tcp_server.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::faults_test {
namespace {

using testing::IsOk;
using testing::RawHttp;
using testing::TcpPeer;
using testing::TcpServer;

enum class Fault { none, lost_request, lost_answer, cut_answer, late_answer, twice };

/// Carries requests to a server. Every third one meets a fault, each kind in turn.
class FaultProxy {
 public:
  explicit FaultProxy(std::uint16_t server)
      : proxy_([this, server](TcpPeer& peer, int) { carry(peer, server); }) {}

  [[nodiscard]] std::string url() const { return proxy_.url(""); }
  [[nodiscard]] int faults() const { return requests_ / 3; }

 private:
  Fault next_fault() {
    constexpr std::array kFaults = {Fault::lost_request,
                                    Fault::twice,
                                    Fault::lost_answer,
                                    Fault::late_answer,
                                    Fault::cut_answer};
    const int number = requests_++;
    if (number % 3 != 2) return Fault::none;
    return kFaults.at(static_cast<std::size_t>(number / 3) % kFaults.size());
  }
  void carry(TcpPeer& peer, std::uint16_t server) {
    while (true) {
      const std::string request = peer.read_request();
      if (request.empty()) return;
      const Fault fault = next_fault();
      if (fault == Fault::lost_request) return peer.reset();
      if (fault == Fault::twice) (void)answer(server, request);
      const std::string whole = answer(server, request);
      if (fault == Fault::lost_answer) return peer.reset();
      if (fault == Fault::cut_answer) return peer.write(whole.substr(0, whole.size() - 3));
      if (fault == Fault::late_answer) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      peer.write(whole);
    }
  }
  static std::string answer(std::uint16_t server, const std::string& request) {
    RawHttp client(server);
    client.send(request);
    const auto out = client.receive();
    return out.head + "\r\n" + out.body;
  }

  std::atomic<int> requests_ = 0;
  TcpServer proxy_;
};

std::vector<Datum> batch() {
  return {Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3})};
}

/// The loss after a few steps in flight together.
double train(const std::string& url) {
  const auto service =
      ServiceClient::connect({.base_url = url, .api_key = Secret("tml-local-test")}).value();
  const auto trainer =
      service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get().value();
  for (int i = 0; i < 6; ++i) {
    auto [gradients, update] =
        trainer.train_step(batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
    EXPECT_THAT(gradients.get(), IsOk());
    EXPECT_THAT(update.get(), IsOk());
  }
  return trainer.forward(batch(), LossFn::cross_entropy).get().value().loss().value();
}

TEST(FaultProxy, LosesNoStepAndDoublesNone) {
  const auto server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .threads = 1,
                          .precision = EnginePrecision::f32})
          .value();
  const double undisturbed = train(server.base_url());
  const FaultProxy proxy(server.port());

  EXPECT_EQ(train(proxy.url()), undisturbed);
  EXPECT_GT(proxy.faults(), 5);
}

/// While it lives, this process has all the descriptors that it may have.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {.rlim_cur = 512, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    while (true) {
      base::FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!next.is_open()) break;
      taken_.push_back(std::move(next));
    }
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  void give_back_one() { taken_.pop_back(); }

 private:
  rlimit before_ = {};
  std::vector<base::FileDescriptor> taken_ = {};
};

TEST(LocalServer, WithoutDescriptorsServesWhomItHasAndAcceptsTheOthersLater) {
  const auto server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32"}}, .threads = 1})
          .value();
  constexpr std::string_view kHealth = "/api/v1/healthz";
  RawHttp early(server.port());
  ASSERT_EQ(early.ask("GET", kHealth).status, 200);
  std::optional<NoDescriptors> none(std::in_place);
  none->give_back_one();
  RawHttp late(server.port());  // has the last one, so that the server cannot accept it

  ASSERT_TRUE(late.is_open());
  late.send(RawHttp::request("GET", kHealth, "", ""));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(early.ask("GET", kHealth).status, 200);
  EXPECT_FALSE(late.has_answer());
  none.reset();

  EXPECT_EQ(late.receive().status, 200);
}

}  // namespace
}  // namespace tinker::faults_test
