// Our client and the server with a proxy between them that loses, refuses, cuts, delays and doubles
// what passes; and a server that has no descriptors left.
#include <chrono>
#include <initializer_list>
#include <map>
#include <mutex>
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
#include "base/strings.h"
#include "support/exposition.h"
#include "support/raw_http.h"
#include "support/tcp_server.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::faults_test {
namespace {

using testing::Exposition;
using testing::IsOk;
using testing::RawHttp;
using testing::TcpPeer;
using testing::TcpServer;

enum class Fault {
  none,
  lost_request,
  refused_request,  // 503, and the server does not hear of it
  twice,
  lost_answer,
  late_answer,
  cut_answer,
  broken_answer,  // 500, after it was done
};

/// What a request is for; faults are counted for each.
std::string kind_of(const std::string& request) {
  constexpr std::string_view kPrefix = "/api/v1/";
  const auto path = request.find(kPrefix) + kPrefix.size();
  auto name = request.substr(path, request.find_first_of(" ?/", path) - path);
  if (name.starts_with("save_weights")) return "save";
  return name;
}

/// Carries requests to a server. Every second one of a kind meets a fault, all faults in turn.
class FaultProxy {
 public:
  explicit FaultProxy(std::uint16_t server)
      : proxy_([this, server](TcpPeer& peer, int) { carry(peer, server); }) {}

  [[nodiscard]] std::string url() const { return proxy_.url(""); }
  /// How many faults the requests of a kind have met.
  [[nodiscard]] std::size_t faults(const std::string& kind) {
    const std::scoped_lock lock(mutex_);
    return requests_[kind] / 2;
  }
  static constexpr std::size_t kFaults = 7;

 private:
  Fault next_fault(const std::string& kind) {
    const std::scoped_lock lock(mutex_);
    const std::size_t number = requests_[kind]++;
    return number % 2 == 0 ? Fault::none : static_cast<Fault>(1 + number / 2 % kFaults);
  }
  void carry(TcpPeer& peer, std::uint16_t server) {
    while (true) {
      const std::string request = peer.read_request();
      if (request.empty()) return;
      const Fault fault = next_fault(kind_of(request));
      if (fault == Fault::lost_request) return peer.reset();
      if (fault == Fault::refused_request) {
        peer.write(failure("503 Service Unavailable"));
        continue;
      }
      if (fault == Fault::twice) (void)answer(server, request);
      const std::string whole = answer(server, request);
      if (fault == Fault::lost_answer) return peer.reset();
      if (fault == Fault::cut_answer) return peer.write(whole.substr(0, whole.size() - 3));
      if (fault == Fault::late_answer) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      peer.write(fault == Fault::broken_answer ? failure("500 Internal Server Error") : whole);
    }
  }
  static std::string failure(std::string_view status) {
    return base::concat("HTTP/1.1 ", status, "\r\nContent-Length: 14\r\n\r\n{\"detail\":\"x\"}");
  }
  static std::string answer(std::uint16_t server, const std::string& request) {
    RawHttp client(server);
    client.send(request);
    const auto out = client.receive();
    return out.head + "\r\n" + out.body;
  }

  std::mutex mutex_;
  std::map<std::string, std::size_t> requests_;  // guarded by it
  TcpServer proxy_;
};

std::vector<Datum> batch() {
  return {Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3})};
}

class FaultProxyTest : public ::testing::Test {
 protected:
  [[nodiscard]] static ServiceClient connect(const std::string& url) {
    return ServiceClient::connect({.base_url = url, .api_key = Secret("tml-local-test")}).value();
  }
  static double loss_of(const TrainingClient& trainer) {
    return trainer.forward(batch(), LossFn::cross_entropy).get().value().loss().value();
  }
  static void train(const TrainingClient& trainer, int steps) {
    for (int i = 0; i < steps; ++i) {
      auto [gradients, update] =
          trainer.train_step(batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
      EXPECT_THAT(gradients.get(), IsOk());
      EXPECT_THAT(update.get(), IsOk());
    }
  }
  /// Tokens that the server has worked on since the last call.
  double work(const char* kind) {
    const auto answer = RawHttp(server_.port()).ask("GET", "/metrics");
    const double all = Exposition::parse(answer.body)
                           .value()
                           .value("tinker_server_tokens_total", {{"model", "tiny"}, {"kind", kind}})
                           .value_or(0);
    return all - std::exchange(counted_, all);
  }
  void expect_all_faults(std::initializer_list<const char*> kinds) {
    for (const char* kind : kinds) EXPECT_GE(proxy_.faults(kind), FaultProxy::kFaults) << kind;
  }

  const LocalServer server_ =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .threads = 1,
                          .precision = EnginePrecision::f32,
                          // The proxy ends after the last poll that it carries.
                          .limits = {.batch_poll_time = std::chrono::milliseconds(200)}})
          .value();
  FaultProxy proxy_{server_.port()};

 private:
  double counted_ = 0;
};

TEST_F(FaultProxyTest, LosesNoStepAndDoublesNone) {
  const auto loss_after_steps = [](const std::string& url) {
    const auto service = connect(url);
    const auto trainer =
        service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get().value();
    train(trainer, 10);
    return loss_of(trainer);
  };
  const double undisturbed = loss_after_steps(server_.base_url());
  const double tokens = work("training");

  EXPECT_EQ(loss_after_steps(proxy_.url()), undisturbed);
  EXPECT_EQ(work("training"), tokens);
  expect_all_faults({"forward_backward", "optim_step", "retrieve_future"});
}

TEST_F(FaultProxyTest, LosesNoSaveAndDoublesNone) {
  struct Saved {
    std::vector<std::string> names = {};
    double loss = 0;  ///< Of the run that goes on from the last one.
    bool operator==(const Saved&) const = default;
  };
  const auto save = [](const std::string& url) {
    const auto service = connect(url);
    const auto trainer =
        service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get().value();
    std::string last;
    for (int i = 0; i < 5; ++i) {
      train(trainer, 1);
      const auto name = std::to_string(i);
      EXPECT_THAT(trainer.save_weights_for_sampler(name).get(), IsOk());
      last = trainer.save_state(name).get().value().path;
    }
    const auto resumed =
        service.create_training_client_from_state_with_optimizer(last).get().value();
    train(resumed, 1);
    Saved out = {.loss = loss_of(resumed)};
    const auto rest = service.create_rest_client();
    for (const auto& each : rest.list_checkpoints(trainer.model_id()).get().value().checkpoints) {
      out.names.push_back(each.checkpoint_id);
    }
    return out;
  };
  const Saved undisturbed = save(server_.base_url());

  const Saved saved = save(proxy_.url());

  EXPECT_EQ(saved.names.size(), 10U);
  EXPECT_EQ(saved, undisturbed);
  expect_all_faults({"save"});
}

TEST_F(FaultProxyTest, LosesNoSampleAndDrawsNoneTwice) {
  const auto sample = [](const std::string& url) {
    const auto sampler = connect(url).create_sampling_client({.base_model = "tiny"}).get().value();
    std::vector<std::vector<std::int32_t>> drawn;
    for (std::uint64_t round = 0; round < 8; ++round) {
      std::vector<Future<SampleResponse>> waiting;
      for (std::uint64_t i = 0; i < 2; ++i) {
        waiting.push_back(sampler.sample(ModelInput::from_tokens({5, 9, 12}),
                                         {.max_tokens = 4, .seed = 2 * round + i}));
      }
      for (auto& each : waiting) drawn.push_back(each.get().value().sequences.at(0).tokens);
    }
    return drawn;
  };
  const auto undisturbed = sample(server_.base_url());
  const double tokens = work("sample");

  EXPECT_EQ(sample(proxy_.url()), undisturbed);
  EXPECT_EQ(work("sample"), tokens);
  expect_all_faults({"asample", "retrieve_futures"});
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
