#include "tinker/circuit_breaker.h"

#include <gmock/gmock.h>

#include "client/rest.h"
#include "support/client_fixture.h"
#include "tinker/metrics.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::circuit_breaker_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

/// A service whose endpoints can be broken.
struct Guarded : ClientFixture {
  explicit Guarded(CircuitBreakerOptions breaker = {}) {
    auto with = options();
    with.circuit_breaker = std::move(breaker);
    service = connect(std::move(with));
  }

  SamplingClient sampler() const {
    return service->create_sampling_client({.base_model = "llama"}).get().value();
  }
  TrainingClient trainer() const {
    return service->create_lora_training_client("llama").get().value();
  }
  void break_endpoint(const std::string& path) { server->reply(path, {{.status = 503}}); }
  void repair_sampling(std::chrono::nanoseconds delay = {}) {
    server->handle("/asample", [this, delay](const http::Request&) {
      auto reply = accept_sample();
      reply.delay = delay;
      return reply;
    });
  }
  [[nodiscard]] CircuitBreakerStatus breaker(const std::string& endpoint) const {
    for (auto& status : service->circuit_breakers()) {
      if (status.name == endpoint) return status;
    }
    return {.name = "none"};
  }
  [[nodiscard]] std::vector<std::chrono::nanoseconds> times(std::string_view path) const {
    std::vector<std::chrono::nanoseconds> out;
    for (const auto& sent : server->sent(path)) out.push_back(sent.at);
    return out;
  }

  std::optional<ServiceClient> service;
};

TEST(GuardedClient, AnEndpointThatFailsIsLeftAloneForAWhile) {  // R5.4, TINKEX 6.1
  Guarded f;
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");

  auto sample = sampler.sample(kPrompt, {});
  f.time.advance(40s);
  EXPECT_EQ(f.breaker("/api/v1/asample").state, CircuitState::open);
  EXPECT_THAT(f.times("/asample"), ElementsAre(0s, 1s, 3s, 7s, 15s)) << "then nothing";
  f.repair_sampling();

  EXPECT_THAT(sample.get(), IsOk());
  EXPECT_THAT(f.times("/asample"), ElementsAre(0s, 1s, 3s, 7s, 15s, 45s));
  EXPECT_EQ(f.breaker("/api/v1/asample").state, CircuitState::closed);
}

TEST(GuardedClient, OtherEndpointsAreUnaffected) {
  Guarded f({.failure_threshold = 1});
  const auto sampler = f.sampler();
  const auto trainer = f.trainer();
  f.break_endpoint("/asample");
  auto sample = sampler.sample(kPrompt, {});
  f.time.run_ready();
  ASSERT_EQ(f.breaker("/api/v1/asample").state, CircuitState::open);

  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsOk());
  EXPECT_THAT(trainer.save_state("a").get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 0s);
  sample.cancel();
}

TEST(GuardedClient, FiftySamplesMakeOneProbeAndAllSucceed) {
  Guarded f;
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 50; ++i) samples.push_back(sampler.sample(kPrompt, {}));
  f.time.run_ready();
  ASSERT_THAT(f.server->sent("/asample"), SizeIs(50)) << "all were under way when it opened";
  f.repair_sampling(5s);

  for (auto& sample : samples) EXPECT_THAT(sample.get(), IsOk());

  const auto times = f.times("/asample");
  ASSERT_THAT(times, SizeIs(100)) << "none was sent that was not needed";
  EXPECT_EQ(times[50], 30s) << "the probe, alone";
  for (std::size_t i = 51; i < times.size(); ++i) EXPECT_GE(times[i], 35s) << "after its answer";
  EXPECT_EQ(f.breaker("/api/v1/asample").opens, 1);
}

TEST(GuardedClient, AProbeThatFailsMeansAnotherWhile) {
  Guarded f({.failure_threshold = 1, .reset_timeout = 10s});
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 20; ++i) samples.push_back(sampler.sample(kPrompt, {}));
  f.time.advance(25s);

  EXPECT_THAT(f.times("/asample"), SizeIs(22)) << "at 10 s and at 20 s one each";
  EXPECT_EQ(f.breaker("/api/v1/asample").opens, 3);
  f.repair_sampling();
  for (auto& sample : samples) EXPECT_THAT(sample.get(), IsOk());
}

TEST(GuardedClient, ACancelledSampleGivesItsProbeToAnother) {
  Guarded f({.failure_threshold = 1});
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");
  auto first = sampler.sample(kPrompt, {});
  f.time.run_ready();
  f.server->reply("/asample", {{.never = true}});
  f.time.advance(30s);
  ASSERT_THAT(f.server->sent("/asample"), SizeIs(2)) << "the probe hangs";
  f.repair_sampling();
  auto second = sampler.sample(kPrompt, {});
  f.time.advance(5s);
  ASSERT_THAT(f.server->sent("/asample"), SizeIs(2));

  first.cancel();

  EXPECT_THAT(second.get(), IsOk());
  EXPECT_THAT(f.server->sent("/asample"), SizeIs(3));
}

TEST(GuardedClient, HeartbeatsPollsAndTelemetryGoOn) {  // R4.2, R6.2, R14.8
  Guarded f({.failure_threshold = 1});
  const auto sampler = f.sampler();
  for (const char* path : {"/session_heartbeat", "/telemetry", "/client/dynamic_config"}) {
    f.break_endpoint(path);
  }
  const auto polls = std::make_shared<int>(0);
  f.server->handle("/retrieve_future", [&f, polls](const http::Request& request) {
    return ++*polls <= 8 ? FakeReply{.status = 503, .delay = 10s} : f.result(request);
  });

  EXPECT_THAT(sampler.sample(kPrompt, {}).get(), IsOk()) << "polls are not held up";

  EXPECT_EQ(f.time.elapsed(), 80s);
  EXPECT_THAT(f.times("/session_heartbeat"), ElementsAre(10s, 20s, 30s, 40s, 50s, 60s, 70s, 80s));
  for (const auto& status : f.service->circuit_breakers()) {
    EXPECT_EQ(status.state, CircuitState::closed) << status.name;
  }
}

TEST(GuardedClient, TurnsOfATrainingClientAreKept) {  // R7.2, R7.3
  Guarded f;
  const auto trainer = f.trainer();
  f.break_endpoint("/optim_step");

  auto first = trainer.optim_step(AdamParams());
  auto batch = trainer.forward_backward(make_data(1), LossFn::cross_entropy);
  auto second = trainer.optim_step(AdamParams());
  f.time.advance(20s);
  ASSERT_EQ(f.breaker("/api/v1/optim_step").state, CircuitState::open);
  EXPECT_THAT(f.batches, IsEmpty()) << "waits for its turn";
  f.server->handle("/optim_step", [&f](const http::Request&) { return f.accept(); });

  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(batch.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());
  const auto steps = f.bodies("/optim_step");
  EXPECT_THAT(steps, SizeIs(7));
  EXPECT_THAT(std::vector(steps.begin(), steps.end() - 1), Each(HasSubstr(R"("seq_id":1)")));
  EXPECT_THAT(steps.back(), HasSubstr(R"("seq_id":3)"));
}

TEST(GuardedClient, GivesUpWhereItsBreakerOutlastsTheCall) {  // R5.4.2
  Guarded f({.failure_threshold = 1, .reset_timeout = 10min});
  const auto trainer = f.trainer();
  f.break_endpoint("/optim_step");

  auto first = trainer.optim_step(AdamParams());
  auto behind = trainer.optim_step(AdamParams());
  const auto failed = first.get();

  EXPECT_THAT(failed,
              IsError(ErrorCode::circuit_open,
                      AllOf(HasSubstr("optim_step"), HasSubstr("next attempt in"))));
  EXPECT_TRUE(failed.error().retry.retryable);
  EXPECT_THAT(behind.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("circuit breaker")));
  EXPECT_THAT(f.server->sent("/optim_step"), SizeIs(1));
}

TEST(GuardedClient, ADeadlineThatComesFirstEndsACallAtOnce) {
  Guarded f({.failure_threshold = 1});
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");
  auto sample = sampler.sample(kPrompt, {});
  f.time.advance(5s);

  const auto rejected = sampler.with({.deadline = 20s}).sample(kPrompt, {}).get();

  EXPECT_THAT(rejected, IsError(ErrorCode::circuit_open, HasSubstr("next attempt in 25 s")));
  EXPECT_EQ(f.time.elapsed(), 5s);
  EXPECT_THAT(f.server->sent("/asample"), SizeIs(1));
  sample.cancel();
}

TEST(GuardedClient, ACallWithoutRoundsHasTheRetriesOfTheHttpLayer) {  // R5.6
  Guarded f({.failure_threshold = 1});
  f.break_endpoint("/create_sampling_session");

  EXPECT_THAT(f.service->create_sampling_client({.base_model = "llama"}).get(),
              IsError(ErrorCode::server_error, _));

  EXPECT_THAT(f.server->sent("/create_sampling_session"), SizeIs(6)) << "five waits, five retries";
  EXPECT_EQ(std::chrono::floor<std::chrono::seconds>(f.time.elapsed()), 150s);
}

TEST(GuardedClient, CanBeLookedAtAndReset) {
  Guarded f({.failure_threshold = 1, .reset_timeout = 1h});
  const auto sampler = f.sampler();
  EXPECT_THAT(f.service->circuit_breakers(),
              ElementsAre(Field(&CircuitBreakerStatus::name, "/api/v1/create_sampling_session"),
                          Field(&CircuitBreakerStatus::name, "/api/v1/create_session")));
  f.break_endpoint("/asample");
  (void)sampler.with({.deadline = 1min}).sample(kPrompt, {}).get();
  const auto open = f.breaker("/api/v1/asample");
  EXPECT_EQ(open.state, CircuitState::open);
  EXPECT_EQ(open.opens, 1);
  EXPECT_GE(open.rejected, 1);
  EXPECT_GT(open.retry_after, 50min);

  f.repair_sampling();
  f.service->reset_circuit_breakers("/api/v1/asample");

  EXPECT_THAT(sampler.sample(kPrompt, {}).get(), IsOk());
  f.break_endpoint("/asample");
  (void)sampler.with({.deadline = 1min}).sample(kPrompt, {}).get();
  f.service->reset_circuit_breakers();
  EXPECT_EQ(f.breaker("/api/v1/asample").state, CircuitState::closed);
}

TEST(GuardedClient, HasMetrics) {
  Guarded f({.failure_threshold = 1});
  const Metrics metrics(f.runtime.events());
  const auto sampler = f.sampler();
  f.break_endpoint("/asample");

  auto sample = sampler.sample(kPrompt, {});
  f.time.advance(10s);

  const auto text = metrics.prometheus();
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(tinker_event_value{event="circuit.state",endpoint="/api/v1/asample",field="is_open"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(tinker_events_total{event="circuit.rejected")"));
  sample.cancel();
}

TEST(GuardedClient, IsTheSameForAllOfItsClients) {
  Guarded f({.failure_threshold = 1, .reset_timeout = 1h});
  f.break_endpoint("/sessions");
  const auto rest = f.service->create_rest_client().with({.deadline = 1min});

  EXPECT_THAT(rest.list_sessions().get(), IsError(ErrorCode::circuit_open, _));

  EXPECT_EQ(f.breaker("/api/v1/sessions").state, CircuitState::open);
  EXPECT_THAT(f.server->sent("/sessions"), SizeIs(1));
}

TEST(GuardedClient, CanBeARestClientOfItsOwn) {
  ClientFixture f;
  f.server->reply("/sessions", {{.status = 503}});
  const RestClient rest(
      connect_rest(
          {.base_url = "http://server.test",
           .api_key = Secret("tml-secret-key"),
           .transport = f.server,
           .runtime = f.runtime,
           .circuit_breaker = CircuitBreakerOptions{.failure_threshold = 1, .reset_timeout = 1h}},
          f.variables())
          .value());

  EXPECT_THAT(rest.list_sessions().get(), IsError(ErrorCode::circuit_open, _));

  EXPECT_THAT(f.server->sent("/sessions"), SizeIs(1));
}

TEST(GuardedClient, CanBeASamplerOfAnotherProcess) {
  Guarded f;
  const auto handle = f.sampler().get_sampler_handle().get().value();
  f.break_endpoint("/asample");
  const auto copy =
      restore_sampler(
          handle,
          {.api_key = Secret("tml-secret-key"),
           .transport = f.server,
           .runtime = f.runtime,
           .circuit_breaker = CircuitBreakerOptions{.failure_threshold = 1, .reset_timeout = 1h}},
          f.variables())
          .get()
          .value();

  EXPECT_THAT(copy.with({.deadline = 1min}).sample(kPrompt, {}).get(),
              IsError(ErrorCode::circuit_open, _));

  EXPECT_THAT(f.server->sent("/asample"), SizeIs(1));
}

TEST(GuardedClient, HasNoBreakersUnlessAskedFor) {
  ClientFixture f;
  const auto service = f.connect();
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
  f.server->reply("/asample", {{.status = 503}});

  auto sample = sampler.sample(kPrompt, {});
  f.time.advance(100s);

  EXPECT_THAT(f.server->sent("/asample"), SizeIs(8)) << "0, 1, 3, 7, 15, 31, 61, 91 s";
  EXPECT_THAT(service.circuit_breakers(), IsEmpty());
  service.reset_circuit_breakers();
  sample.cancel();
}

TEST(GuardedClient, RefusesOptionsThatMakeNoSense) {
  ClientFixture f;
  auto options = f.options();
  options.circuit_breaker = CircuitBreakerOptions{.failure_threshold = -3};

  EXPECT_THAT(ServiceClient::connect(options),
              IsError(ErrorCode::invalid_argument, HasSubstr("failure_threshold")));
}

}  // namespace
}  // namespace tinker::client::circuit_breaker_test
