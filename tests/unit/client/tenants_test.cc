// Several accounts and servers in one program.

#include <algorithm>
#include <future>
#include <iterator>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/backoff.h"
#include "support/client_fixture.h"
#include "tinker/metrics.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::tenants_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

/// One account at one server, with a transport of its own.
struct Tenant : ScriptedServer {
  Tenant(const Runtime& r, std::string n) : ScriptedServer(r), name(std::move(n)) {
    server->reply("/create_session", {{.body = R"({"session_id":"s-)" + name + "\"}"}});
    server->reply("/create_sampling_session",
                  {{.body = R"({"sampling_session_id":"s-)" + name + R"(:sample:0"})"}});
    results["CreateModel"] = {.body = R"({"model_id":"s-)" + name + R"(:train:0"})"};
    auto with = options();
    with.base_url = "http://" + name + ".test";
    with.api_key = Secret("tml-key-of-" + name);
    service.emplace(connect(with));
  }
  [[nodiscard]] SamplingClient sampler() const {
    return service->create_sampling_client({.base_model = "llama"}).get().value();
  }
  [[nodiscard]] TrainingClient trainer() const {
    return service->create_lora_training_client("llama").get().value();
  }
  [[nodiscard]] std::size_t count(std::string_view path) const { return server->sent(path).size(); }

  std::string name;
  std::optional<ServiceClient> service = {};
};

struct Tenants : VirtualTime {
  Tenant a{time.runtime(), "a"};
  Tenant b{time.runtime(), "b"};
};

std::vector<Future<SampleResponse>> start(const SamplingClient& sampler, int count) {
  std::vector<Future<SampleResponse>> out;
  for (int i = 0; i < count; ++i) out.push_back(sampler.sample(kPrompt, {}));
  return out;
}

TEST(Tenants, OneInBackoffDoesNotHoldUpTheOther) {  // R10.6
  Tenants f;
  const auto sampler_a = f.a.sampler();
  const auto sampler_b = f.b.sampler();
  int asked = 0;
  f.a.server->handle("/asample", [&](const http::Request&) {
    return ++asked == 1 ? FakeReply{.status = 429} : f.a.accept_sample();
  });
  auto slow = sampler_a.sample(kPrompt, {});
  f.time.advance(100ms);

  EXPECT_THAT(sampler_b.sample(kPrompt, {}).get(), IsOk());
  EXPECT_EQ(f.b.server->sent("/asample")[0].at, 100ms);
  EXPECT_FALSE(slow.is_ready());
  EXPECT_THAT(slow.get(), IsOk());
  EXPECT_EQ(f.a.server->sent("/asample")[1].at, 1s);
}

/// 60 samples and a training step each, at the same time. The server of `a` fails a submission, a
/// poll and a sample once each; that of `b` makes one result wait.
struct BusyTenants : Tenants {
  void run() {
    const auto sampler_a = a.sampler();
    const auto sampler_b = b.sampler();
    const auto trainer_a = a.trainer();
    const auto trainer_b = b.trainer();
    break_servers();
    auto samples_a = start(sampler_a, 60);
    auto samples_b = start(sampler_b, 60);
    auto step_a = trainer_a.train_step(make_data(2), LossFn::cross_entropy, AdamParams());
    auto step_b = trainer_b.train_step(make_data(3), LossFn::cross_entropy, AdamParams());
    EXPECT_THAT(when_all(std::move(samples_a)).get(), IsOkAndHolds(SizeIs(60)));
    EXPECT_THAT(when_all(std::move(samples_b)).get(), IsOkAndHolds(SizeIs(60)));
    EXPECT_EQ(step_a.forward_backward.get().value().metrics.at("loss:sum"), 2.0);
    EXPECT_EQ(step_b.forward_backward.get().value().metrics.at("loss:sum"), 3.0);
    EXPECT_THAT(step_a.optim_step.get(), IsOk());
    EXPECT_THAT(step_b.optim_step.get(), IsOk());
  }
  void break_servers() {
    a.server->handle("/forward_backward", [this](const http::Request& request) {
      return ++fwdbwds == 1 ? FakeReply{.status = 500} : a.accept_batch(request);
    });
    a.server->handle("/asample", [this](const http::Request&) {
      return ++samples == 1 ? FakeReply{.status = 429} : a.accept_sample();
    });
    a.server->handle("/retrieve_future", [this](const http::Request& request) {
      const bool is_step = request.headers.find("X-Tinker-Request-Type") == "OptimStep";
      return is_step && ++steps == 1 ? FakeReply{.status = 500} : a.result(request);
    });
    b.server->handle("/retrieve_future", [this](const http::Request& request) {
      const bool is_step = request.headers.find("X-Tinker-Request-Type") == "OptimStep";
      return is_step && ++waits == 1 ? FakeReply{.body = R"({"type":"try_again"})"}
                                     : b.result(request);
    });
  }

  int fwdbwds = 0;
  int samples = 0;
  int steps = 0;
  int waits = 0;
};

TEST(Tenants, FaultsOfOneCostExactlyItsOwnRetries) {
  BusyTenants f;
  f.run();

  EXPECT_EQ(f.a.count("/forward_backward"), 2U);
  EXPECT_EQ(f.a.count("/optim_step"), 1U);
  EXPECT_EQ(f.a.count("/asample"), 61U);
  EXPECT_EQ(f.a.count("/retrieve_future"),
            60U + 2 + 1 + 1);  // the model, the batch, the step twice
  EXPECT_EQ(f.b.count("/forward_backward"), 1U);
  EXPECT_EQ(f.b.count("/optim_step"), 1U);
  EXPECT_EQ(f.b.count("/asample"), 60U);
  EXPECT_EQ(f.b.count("/retrieve_future"), 60U + 2 + 1 + 1);
  for (const auto& sent : f.b.server->sent("/asample")) EXPECT_EQ(sent.at, 0s);
}

TEST(Tenants, NothingOfOneReachesTheOther) {
  BusyTenants f;
  f.run();

  for (Tenant* tenant : {&f.a, &f.b}) {
    const std::string other = tenant == &f.a ? "b" : "a";
    ASSERT_THAT(tenant->server->sent(), Not(IsEmpty()));
    for (const auto& sent : tenant->server->sent()) {
      EXPECT_THAT(sent.request.url, HasSubstr("://" + tenant->name + ".test/"));
      EXPECT_EQ(sent.request.headers.find("x-api-key"), "tml-key-of-" + tenant->name);
      EXPECT_THAT(std::string(http::view(sent.request.body)), Not(HasSubstr("s-" + other)));
    }
  }
  EXPECT_THAT(f.log.text(), AllOf(Not(HasSubstr("tml-key-of-a")), Not(HasSubstr("tml-key-of-b"))));
}

/// The events of one session, on a bus of their own.
struct EventsOf {
  EventsOf(const EventBus& all, std::string session_id)
      : subscription(all.subscribe([bus = bus, id = std::move(session_id)](const Event& event) {
          if (event.session_id == id) bus.publish(event);
        })) {}

  [[nodiscard]] std::uint64_t responses(std::string_view endpoint, std::string_view status) const {
    std::uint64_t out = 0;
    const auto counts = metrics.snapshot().counts;
    for (const auto& entry : counts) {
      if (entry.event == "http.response" && entry.endpoint == endpoint && entry.status == status) {
        out += entry.count;
      }
    }
    return out;
  }

  EventBus bus;
  Metrics metrics{bus};
  Subscription subscription;
};

TEST(Tenants, EachHasMetricsOfItsOwn) {
  BusyTenants f;
  const EventsOf a(f.time.runtime().events(), "s-a");
  const EventsOf b(f.time.runtime().events(), "s-b");

  f.run();

  EXPECT_EQ(a.responses("/api/v1/asample", "2xx"), 60U);
  EXPECT_EQ(a.responses("/api/v1/asample", "4xx"), 1U);
  EXPECT_EQ(a.responses("/api/v1/forward_backward", "5xx"), 1U);
  EXPECT_EQ(a.responses("/api/v1/retrieve_future", "5xx"), 1U);
  EXPECT_EQ(a.metrics.snapshot().count("http.retry"), 1U);
  EXPECT_EQ(b.responses("/api/v1/asample", "2xx"), 60U);
  EXPECT_EQ(b.responses("/api/v1/asample", "4xx"), 0U);
  EXPECT_EQ(b.responses("/api/v1/forward_backward", "2xx"), 1U);
  EXPECT_EQ(b.responses("/api/v1/retrieve_future", "5xx"), 0U);
  EXPECT_EQ(b.metrics.snapshot().count("http.retry"), 0U);
}

// ---- the same account twice

/// Samples with one client that is refused, then with another at `url` and `key`; when the second
/// one's sample reached the server.
std::chrono::nanoseconds second_after_a_refusal(const std::string& first_url,
                                                const std::string& url,
                                                const std::string& key) {
  ClientFixture f;
  const auto connect = [&](const std::string& address, const std::string& with_key) {
    auto options = f.options();
    options.base_url = address;
    options.api_key = Secret(with_key);
    return f.connect(options);
  };
  const auto first = connect(first_url, "tml-one");
  const auto second = connect(url, key);
  const auto refused = first.create_sampling_client({.base_model = "llama"}).get().value();
  const auto sampler = second.create_sampling_client({.base_model = "llama"}).get().value();
  f.server->reply("/asample", {{.status = 429}, {.body = R"({"request_id":"r-9"})"}});
  auto waiting = refused.sample(kPrompt, {});
  f.time.run_ready();
  const std::size_t before = f.server->sent("/asample").size();
  auto sample = sampler.sample(kPrompt, {});
  f.time.run_ready();
  const bool is_sent = f.server->sent("/asample").size() > before;
  EXPECT_THAT(sample.get(), IsOk());
  EXPECT_THAT(waiting.get(), IsOk());
  return is_sent ? 0s : f.server->sent("/asample").back().at;
}

TEST(Tenants, OneAccountSharesItsBackoffHoweverTheAddressIsSpelt) {  // R10.6
  for (const char* url : {"https://server.test",
                          "https://server.test:443",
                          "https://SERVER.Test/",
                          "HTTPS://server.test:0443//"}) {
    EXPECT_EQ(second_after_a_refusal("https://server.test", url, "tml-one"), 1s) << url;
  }
}

TEST(Tenants, OtherAddressesAndKeysHaveABackoffOfTheirOwn) {
  EXPECT_EQ(second_after_a_refusal("https://server.test", "https://server.test", "tml-two"), 0s);
  EXPECT_EQ(second_after_a_refusal("https://server.test", "http://server.test", "tml-one"), 0s);
  EXPECT_EQ(second_after_a_refusal("https://server.test", "https://server.test:444", "tml-one"),
            0s);
  EXPECT_EQ(second_after_a_refusal("https://server.test", "https://server.test/b", "tml-one"), 0s);
}

TEST(Tenants, ManyServiceClientsDoNotInterfere) {  // R1.5
  ClientFixture f;
  int sessions = 0;
  f.server->handle("/create_session", [&](const http::Request&) {
    return FakeReply{.body = R"({"session_id":"s-)" + std::to_string(++sessions) + "\"}"};
  });
  std::vector<ServiceClient> services;
  for (int i = 0; i < 20; ++i) {
    services.push_back(f.connect());
    ASSERT_THAT(services.back().create_lora_training_client("llama").get(), IsOk());
  }
  EXPECT_EQ(sessions, 20);
  EXPECT_THAT(f.bodies("/create_model"), Each(HasSubstr(R"("model_seq_id":0,)")));

  for (int i = 0; i < 19; ++i) {
    EXPECT_THAT(services[static_cast<std::size_t>(i)].close(SessionFinishReason::success).get(),
                IsOk());
  }

  EXPECT_THAT(services.back().create_lora_training_client("llama").get(), IsOk());
  EXPECT_THAT(services.front().create_lora_training_client("llama").get(),
              IsError(ErrorCode::closed, _));
  const auto before = f.server->sent("/session_heartbeat").size();
  f.time.advance(10s);
  EXPECT_EQ(f.server->sent("/session_heartbeat").size(), before + 1) << "one session is left";
}

TEST(Tenants, ClientsMadeAtOnceShareOneBackoff) {
  ScriptedServer f(Runtime::start());
  std::vector<std::optional<ServiceClient>> services(16);
  std::vector<std::thread> threads;
  for (auto& service : services) {
    threads.emplace_back([&f, &service] {
      service.emplace(f.connect());
      EXPECT_THAT(service->create_sampling_client({.base_model = "llama"}).get(), IsOk());
    });
  }
  for (auto& thread : threads) thread.join();

  std::promise<std::pair<std::size_t, long>> seen;
  const auto& core = f.runtime.core();
  core->loop()->post([&] {
    const auto table = core->shared<session::BackoffTable>(
        []() -> std::shared_ptr<session::BackoffTable> { return nullptr; });
    const auto backoff =
        session::shared_backoff(*core, "http://server.test", Secret("tml-secret-key"));
    seen.set_value({table->size(), backoff.use_count()});
  });

  EXPECT_THAT(seen.get_future().get(), ::testing::Pair(1U, Ge(17))) << "theirs and ours";
}

// ---- connections

TEST(Tenants, ShareNoConnectionWhereTheyShareATransport) {  // R5.3.3
  ClientFixture f;
  const auto connect = [&](const char* key) {
    auto options = f.options();
    options.api_key = Secret(key);
    return f.connect(options);
  };
  const auto one = connect("tml-one");
  const auto two = connect("tml-two");

  for (const auto& service : {one, two}) {
    const auto trainer = service.create_lora_training_client("llama").get().value();
    const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
    EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsOk());
    EXPECT_THAT(sampler.sample(kPrompt, {}).get(), IsOk());
  }

  std::map<std::string, std::set<std::uint64_t>> channels;
  for (const auto& sent : f.server->sent()) {
    channels[std::string(*sent.request.headers.find("x-api-key"))].insert(sent.request.channel);
  }
  ASSERT_THAT(channels, SizeIs(2));
  std::vector<std::uint64_t> shared;
  std::ranges::set_intersection(
      channels["tml-one"], channels["tml-two"], std::back_inserter(shared));
  EXPECT_THAT(shared, IsEmpty());

  EXPECT_THAT(one.close(SessionFinishReason::success).get(), IsOk());
  for (const auto channel : f.server->closed_channels()) {
    EXPECT_FALSE(channels["tml-two"].contains(channel)) << "a connection of somebody else";
  }
}

TEST(Tenants, AFullPoolOfOneLeavesTheOtherAlone) {
  Tenants f;
  const auto trainer_a = f.a.trainer();
  const auto trainer_b = f.b.trainer();
  f.a.server->reply("/optim_step", {{.never = true}});
  std::vector<Future<OptimStepResponse>> stuck;
  for (int i = 0; i < 100; ++i) stuck.push_back(trainer_a.optim_step(AdamParams()));
  f.time.run_ready();

  EXPECT_THAT(trainer_b.optim_step(AdamParams()).get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 0s);
  EXPECT_FALSE(stuck.front().is_ready());
}

}  // namespace
}  // namespace tinker::client::tenants_test
