#include "api/endpoint_breakers.h"

#include <stdexcept>

#include <gmock/gmock.h>

#include "api/api_client.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::api::endpoint_breakers_test {
namespace {

using namespace std::chrono_literals;
using http::Response;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::tinker::testing::FakeTransport;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::VirtualRuntime;

struct Guarded {
  explicit Guarded(CircuitBreakerOptions options = {})
      : breakers(EndpointBreakers::create(std::move(options), time.runtime().core()).value()) {}

  Future<Response> call(Call call) { return spawn(std::move(call), {}); }
  Future<Response> spawn(Call call, async::SpawnOptions options) {
    const auto& core = time.runtime().core();
    return core->spawn(core->scope(), api->call(std::move(call), nullptr), options);
  }
  /// Without a retry, so that each is one request.
  Result<Response> once(std::string path) {
    return call({.path = std::move(path), .max_retries = 0}).get();
  }
  void open(const std::string& path) {
    for (int i = 0; i < 5; ++i) ASSERT_FALSE(once(path).ok());
  }
  [[nodiscard]] CircuitState state() const { return breakers->status().at(0).state; }

  VirtualRuntime time;
  std::shared_ptr<FakeTransport> server = std::make_shared<FakeTransport>(time.runtime());
  std::shared_ptr<EndpointBreakers> breakers;
  std::shared_ptr<ApiClient> api = std::make_shared<ApiClient>(
      time.runtime().core(),
      server,
      ApiClientOptions{.base_url = "http://server.test", .breakers = breakers});
};

TEST(EndpointBreakers, RejectWithoutARequest) {
  Guarded f;
  f.server->reply("/thing", {{.status = 503}});
  f.open("/thing");

  const auto rejected = f.once("/thing");

  EXPECT_THAT(rejected,
              IsError(ErrorCode::circuit_open,
                      HasSubstr("POST /thing: not sent, because the circuit breaker of /thing is "
                                "open after server_error (status 503); next attempt in 30 s")));
  EXPECT_EQ(rejected.error().retry.after, 30s);
  EXPECT_EQ(rejected.error().http_status, 0);
  EXPECT_THAT(f.server->sent(), SizeIs(5));
}

TEST(EndpointBreakers, ARetryWaitsUntilItMayGo) {  // R5.2
  Guarded f;
  f.server->reply("/thing",
                  {{.status = 503, .headers = {{"retry-after", "1"}}},
                   {.status = 503, .headers = {{"retry-after", "1"}}},
                   {.error = Error{.code = ErrorCode::timed_out}},
                   {.status = 400, .headers = {{"content-length", "0"}}},
                   {.body = "{}"}});

  // The empty 400 of a proxy ends a call; the next one begins with what that one left.
  ASSERT_THAT(f.call({.path = "/thing"}).get(), IsError(ErrorCode::connection_failed, _));
  EXPECT_EQ(f.breakers->status().at(0).failures, 4);
  f.server->reply("/thing", {{.status = 500, .headers = {{"retry-after", "1"}}}, {.body = "{}"}});
  const auto before = f.time.elapsed();
  ASSERT_THAT(f.call({.path = "/thing"}).get(), IsOk());

  EXPECT_EQ(f.time.elapsed() - before, 30s) << "one second to the retry, then what was left of 30";
  const auto sent = f.server->sent();
  ASSERT_THAT(sent, SizeIs(6));
  EXPECT_EQ(sent[5].request.headers.find("x-stainless-retry-count"), "1") << "of those sent";
  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(EndpointBreakers, AreWaitedForAsLongAsThereAreRetries) {
  Guarded f;
  f.server->reply("/thing",
                  {{.status = 503},
                   {.status = 503},
                   {.status = 503},
                   {.status = 503},
                   {.status = 503},
                   {.never = true}});
  f.open("/thing");
  f.time.advance(30s);
  auto probe = f.call({.path = "/thing"});
  f.time.run_ready();
  const auto before = f.time.elapsed();

  const auto rejected = f.call({.path = "/thing", .max_retries = 3}).get();

  EXPECT_THAT(rejected, IsError(ErrorCode::circuit_open, HasSubstr("is being probed")));
  EXPECT_EQ(f.time.elapsed() - before, 3s);
  EXPECT_THAT(f.server->sent(), SizeIs(6));
  probe.cancel();
}

TEST(EndpointBreakers, AreNotWaitedForLongerThanAServerMayAskFor) {  // R5.2.3
  for (const auto& [timeout, expected] : {std::pair(60s, 2), std::pair(61s, 1)}) {
    Guarded f({.failure_threshold = 1, .reset_timeout = timeout});
    f.server->reply("/thing", {{.status = 503}});
    ASSERT_FALSE(f.once("/thing").ok());
    f.server->reply("/thing", {{.body = "{}"}});

    EXPECT_EQ(f.call({.path = "/thing"}).get().ok(), expected == 2) << timeout.count();

    EXPECT_THAT(f.server->sent(), SizeIs(expected));
  }
}

TEST(EndpointBreakers, ADeadlineThatComesFirstEndsTheCallAtOnce) {
  Guarded f;
  f.server->reply("/thing", {{.status = 503}});
  f.open("/thing");
  const auto before = f.time.elapsed();

  EXPECT_THAT(f.spawn({.path = "/thing"}, {.deadline = 30s}).get(),
              IsError(ErrorCode::circuit_open, _));
  EXPECT_EQ(f.time.elapsed(), before);
  f.server->reply("/thing", {{.body = "{}"}});
  EXPECT_THAT(f.spawn({.path = "/thing"}, {.deadline = 31s}).get(), IsOk());
}

TEST(EndpointBreakers, AreOnePerEndpoint) {
  Guarded f;
  f.server->reply("/runs/1", {{.status = 500}});
  f.server->reply("/runs/2", {{.body = "{}"}});
  f.server->reply("/other", {{.body = "{}"}});
  const auto run = [&](const std::string& id) {
    return f.call({.path = "/runs/" + id, .endpoint = "/runs/{id}", .max_retries = 0}).get();
  };

  for (int i = 0; i < 5; ++i) ASSERT_FALSE(run("1").ok());

  EXPECT_THAT(run("2"), IsError(ErrorCode::circuit_open, HasSubstr("/runs/{id}")));
  EXPECT_THAT(f.once("/other"), IsOk());
  EXPECT_THAT(f.breakers->status(),
              ElementsAre(AllOf(Field(&CircuitBreakerStatus::name, "/other"),
                                Field(&CircuitBreakerStatus::state, CircuitState::closed)),
                          AllOf(Field(&CircuitBreakerStatus::name, "/runs/{id}"),
                                Field(&CircuitBreakerStatus::state, CircuitState::open))));
}

TEST(EndpointBreakers, LeaveAloneWhatIsNotGuarded) {
  Guarded f;
  f.server->reply("/beat", {{.status = 503}});
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(f.call({.path = "/beat", .max_retries = 0, .is_guarded = false}).get(),
                IsError(ErrorCode::server_error, _));
  }

  EXPECT_THAT(f.server->sent(), SizeIs(10));
  EXPECT_THAT(f.breakers->status(), SizeIs(0));
}

TEST(EndpointBreakers, DoNotCountBackpressureAndOtherAnswers) {
  for (const int status : {400, 401, 402, 404, 408, 409, 410, 422, 429}) {
    Guarded f({.failure_threshold = 1});
    f.server->reply("/thing", {{.status = status, .body = "no"}});

    EXPECT_EQ(f.once("/thing").error().http_status, status);

    EXPECT_EQ(f.state(), CircuitState::closed) << status;
  }
}

TEST(EndpointBreakers, ACancelledProbeGivesItsPlaceBack) {
  Guarded f;
  f.server->reply("/thing", {{.status = 503}});
  f.open("/thing");
  f.time.advance(30s);
  f.server->reply("/thing", {{.never = true}});
  auto probe = f.call({.path = "/thing"});
  f.time.run_ready();
  EXPECT_THAT(f.once("/thing"), IsError(ErrorCode::circuit_open, _));

  probe.cancel();
  EXPECT_THAT(probe.get(), IsError(ErrorCode::cancelled, _));
  f.server->reply("/thing", {{.body = "{}"}});

  EXPECT_EQ(f.state(), CircuitState::half_open);
  EXPECT_THAT(f.once("/thing"), IsOk());
  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(EndpointBreakers, TakeTheUsersClassifierAndListener) {
  std::vector<std::string> changes;
  Guarded f({.failure_threshold = 1,
             .is_failure = [](const Error& error) { return error.http_status == 404; },
             .on_change =
                 [&](const CircuitBreakerStatus& status) {
                   changes.push_back(status.name + " " + std::string(to_string(status.state)));
                 }});
  f.server->reply("/thing", {{.status = 500}, {.status = 404}});

  EXPECT_THAT(f.once("/thing"), IsError(ErrorCode::server_error, _));
  EXPECT_THAT(f.once("/thing"), IsError(ErrorCode::not_found, _));
  EXPECT_THAT(f.once("/thing"), IsError(ErrorCode::circuit_open, _));

  EXPECT_THAT(changes, ElementsAre("/thing open"));
}

TEST(EndpointBreakers, AClassifierThatThrowsFailsTheCallOnly) {
  Guarded f({.is_failure = [](const Error&) -> bool { throw std::runtime_error("no"); }});
  f.server->reply("/thing", {{.status = 500}});

  EXPECT_THAT(f.once("/thing"), IsError(ErrorCode::internal, HasSubstr("no")));

  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(EndpointBreakers, PublishWhatTheyDo) {
  Guarded f({.failure_threshold = 1});
  f.server->reply("/thing", {{.status = 503}, {.body = "{}"}});
  std::vector<std::string> seen;
  const auto subscription = f.time.runtime().events().subscribe([&](const Event& event) {
    if (!event.name.starts_with("circuit.")) return;
    auto line = std::string(event.name) + " " + std::string(event.endpoint);
    if (event.error) line += " " + std::string(to_string(*event.error));
    if (!event.fields.empty()) line += " " + std::get<std::string>(event.fields[0].value);
    seen.push_back(line);
  });

  (void)f.once("/thing");
  (void)f.once("/thing");
  f.time.advance(30s);
  (void)f.once("/thing");

  EXPECT_THAT(seen,
              ElementsAre("circuit.state /thing open",
                          "circuit.rejected /thing circuit_open",
                          "circuit.state /thing half_open",
                          "circuit.state /thing closed"));
}

TEST(EndpointBreakers, AreResetOneByOneOrTogether) {
  Guarded f({.failure_threshold = 1});
  for (const char* path : {"/a", "/b", "/c"}) {
    f.server->reply(path, {{.status = 503}});
    (void)f.once(path);
  }
  const auto states = [&] {
    std::string out;
    for (const auto& status : f.breakers->status()) {
      out += status.state == CircuitState::open ? 'o' : 'c';
    }
    return out;
  };

  f.breakers->reset("/b");
  EXPECT_EQ(states(), "oco");
  f.breakers->reset("/unknown");
  EXPECT_EQ(states(), "oco");
  f.breakers->reset();
  EXPECT_EQ(states(), "ccc");
}

TEST(EndpointBreakers, NameTheOptionThatMakesNoSense) {
  const VirtualRuntime time;

  EXPECT_THAT(EndpointBreakers::create({.max_probes = 0}, time.runtime().core()),
              IsError(ErrorCode::invalid_argument, HasSubstr("circuit_breaker: max_probes")));
}

}  // namespace
}  // namespace tinker::api::endpoint_breakers_test
