// Our client and the server with a proxy between them that loses, refuses, cuts, delays, doubles
// and withholds what passes; and a server that has no descriptors left.
#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>
#include <map>
#include <memory>
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
#include "transport/asio_transport.h"

namespace tinker::faults_test {
namespace {

using testing::Exposition;
using testing::IsOk;
using testing::RawHttp;
using testing::TcpPeer;
using testing::TcpServer;

using std::chrono::milliseconds;

enum class Fault {
  none,
  lost_request,
  cut_request,
  refused_request,  // 503, and the server does not hear of it
  unheard,          // the server does not hear of it, and nobody says a word
  twice,
  lost_answer,
  late_answer,  // later than the client waits
  unanswered,   // it was done, and nobody says a word
  cut_answer,
  broken_answer,  // 500, after it was done
};
constexpr std::size_t kFaults = 10;

constexpr milliseconds kPatience(600);  // of clients, for an answer
constexpr milliseconds kDelay(900);
constexpr milliseconds kHold(200);  // of polls, by the server

/// What a request is for; faults are counted for each.
std::string kind_of(const std::string& request) {
  constexpr std::string_view kPrefix = "/api/v1/";
  const auto path = request.find(kPrefix) + kPrefix.size();
  auto name = request.substr(path, request.find_first_of(" ?/", path) - path);
  if (name.starts_with("save_weights")) return "save";
  return name;
}

/// Carries requests to a server. Of each kind the first request and the fourth one meet `fault`;
/// or, without one, every third request meets a fault, each another one, until all had their turn.
class FaultProxy {
 public:
  FaultProxy(std::uint16_t server, std::optional<Fault> fault)
      : fault_(fault), proxy_([this, server](TcpPeer& peer, int) { carry(peer, server); }) {}

  [[nodiscard]] std::string url() const { return proxy_.url(""); }
  /// How many requests of a kind have come; the first one met a fault.
  [[nodiscard]] std::size_t requests(const std::string& kind) {
    const std::scoped_lock lock(mutex_);
    return requests_[kind];
  }

 private:
  Fault next_fault(const std::string& kind) {
    const std::scoped_lock lock(mutex_);
    const std::size_t number = requests_[kind]++;
    if (number % 3 != 0 || number / 3 >= (fault_ ? 2 : kFaults)) return Fault::none;
    return fault_.value_or(static_cast<Fault>(1 + number / 3));
  }
  void carry(TcpPeer& peer, std::uint16_t server) {
    while (true) {
      const std::string request = peer.read_request();
      if (request.empty()) return;
      const Fault fault = next_fault(kind_of(request));
      if (fault == Fault::lost_request) return peer.reset();
      if (fault == Fault::unheard) return peer.wait_for_end();
      if (fault == Fault::cut_request) {
        RawHttp(server).send(std::string_view(request).substr(0, request.size() - 1));
        return peer.reset();
      }
      if (fault == Fault::refused_request) {
        peer.write(failure("503 Service Unavailable"));
        continue;
      }
      if (fault == Fault::twice) (void)answer(server, request);
      const std::string whole = answer(server, request);
      if (fault == Fault::lost_answer) return peer.reset();
      if (fault == Fault::unanswered) return peer.wait_for_end();
      if (fault == Fault::cut_answer) return peer.write(whole.substr(0, whole.size() - 3));
      if (fault == Fault::late_answer) std::this_thread::sleep_for(kDelay);
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

  const std::optional<Fault> fault_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> requests_;  // guarded by it
  TcpServer proxy_;
};

/// Waits for answers for a short time only.
class Impatient final : public http::Transport {
 public:
  explicit Impatient(std::shared_ptr<http::Transport> next) : next_(std::move(next)) {}

  Future<http::Response> send(http::Request request) override {
    request.timeouts.read = std::min<std::chrono::nanoseconds>(request.timeouts.read, kPatience);
    return next_->send(std::move(request));
  }
  void close_channel(std::uint64_t channel) override { next_->close_channel(channel); }

 private:
  std::shared_ptr<http::Transport> next_;
};

constexpr std::size_t kChunks = 3;  // of the batch, which clients cut after two data

std::vector<Datum> batch() {
  return {Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3}),
          Datum::next_token({8, 1, 4}),
          Datum::next_token({6, 10, 12, 13}),
          Datum::next_token({300, 2, 300}),
          Datum::next_token({17, 18, 19, 20, 21})};
}

ServiceClient connect(const std::string& url) {
  const auto runtime = Runtime::start();
  auto transport = http::AsioTransport::create(runtime.core(), {}).value();
  return ServiceClient::connect({.base_url = url,
                                 .api_key = Secret("tml-local-test"),
                                 .transport = std::make_shared<Impatient>(std::move(transport)),
                                 .runtime = runtime})
      .value();
}

/// What a client gets that does a little of everything.
struct Life {
  std::vector<std::string> checkpoints = {};
  std::vector<std::vector<std::int32_t>> drawn = {};
  std::vector<double> losses = {};

  bool operator==(const Life&) const = default;
};

void train(const TrainingClient& trainer, Life& life) {
  auto [gradients, update] =
      trainer.train_step(batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
  const auto passed = gradients.get();
  ASSERT_THAT(passed, IsOk());
  ASSERT_THAT(update.get(), IsOk());
  life.losses.push_back(passed->loss().value());
}

Life live(const std::string& url) {
  Life out;
  const auto service = connect(url);
  const auto create = [&] {
    return service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get();
  };
  auto made = create();
  if (!made.ok()) made = create();  // a session is asked for once
  const auto trainer = made.value();
  for (int i = 0; i < 2; ++i) train(trainer, out);
  const auto path = trainer.save_state("a").get().value().path;
  EXPECT_THAT(trainer.save_weights_for_sampler("a").get(), IsOk());
  train(trainer, out);
  const auto resumed = service.create_training_client_from_state_with_optimizer(path).get().value();
  train(resumed, out);
  EXPECT_THAT(resumed.load_state(path).get(), IsOk());
  out.losses.push_back(
      resumed.forward(batch(), LossFn::cross_entropy).get().value().loss().value());
  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  std::vector<Future<SampleResponse>> waiting;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    waiting.push_back(
        sampler.sample(ModelInput::from_tokens({5, 9, 12}),
                       {.max_tokens = 4, .seed = seed, .stop = std::vector<std::int32_t>()}));
  }
  for (auto& each : waiting) out.drawn.push_back(each.get().value().sequences.at(0).tokens);
  const auto rest = service.create_rest_client();
  for (const auto& each : rest.list_checkpoints(trainer.model_id()).get().value().checkpoints) {
    out.checkpoints.push_back(each.checkpoint_id);
  }
  return out;
}

/// What a server has done.
struct Work {
  double trained = 0;
  double sampled = 0;
};

Work work(std::uint16_t port) {
  const auto metrics = Exposition::parse(RawHttp(port).ask("GET", "/metrics").body).value();
  const auto tokens = [&](const char* kind) {
    return metrics.value("tinker_server_tokens_total", {{"model", "tiny"}, {"kind", kind}})
        .value_or(0);
  };
  return {.trained = tokens("training"), .sampled = tokens("sample")};
}

TEST(FaultyConnections, LoseNothingAndDoubleNothing) {
  const auto server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .threads = 1,
                          .precision = EnginePrecision::f32,
                          .flags = {{"fwdbwd_max_chunk_len", "2"}},
                          .limits = {.poll_time = kHold, .batch_poll_time = kHold}})
          .value();
  const Life undisturbed = live(server.base_url());
  const Work once = work(server.port());
  ASSERT_EQ(undisturbed.checkpoints.size(), 2U);

  std::array<Life, kFaults + 1> lives;  // most of their time they wait
  {
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      clients.emplace_back([&, i] {
        FaultProxy proxy(server.port(),
                         i == 0 ? std::nullopt : std::optional(static_cast<Fault>(i)));
        lives.at(i) = live(proxy.url());
        EXPECT_GE(proxy.requests("forward_backward"), 4 * kChunks);
        for (const char* kind : {"client",
                                 "create_session",
                                 "create_model",
                                 "optim_step",
                                 "save",
                                 "load_weights",
                                 "asample",
                                 "retrieve_future",
                                 "retrieve_futures",
                                 "training_runs"}) {
          EXPECT_GT(proxy.requests(kind), 0U) << kind;
        }
      });
    }
  }

  for (std::size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(lives.at(i), undisturbed) << "fault " << i;
  }
  const Work all = work(server.port());
  EXPECT_EQ(all.trained, (lives.size() + 1) * once.trained);
  EXPECT_EQ(all.sampled, (lives.size() + 1) * once.sampled);
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
