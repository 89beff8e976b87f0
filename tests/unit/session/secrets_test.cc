#include <gmock/gmock.h>

#include "session/json_call.h"
#include "session/retries.h"
#include "session/retrieval.h"
#include "support/holder_fixture.h"
#include "tinker/event_log.h"
#include "tinker/testing/matchers.h"
#include "wire/base64.h"

// Runs flows that succeed and flows that fail, at debug level, against a server that repeats what
// it was sent, and looks for credentials in everything that comes out.
namespace tinker::session::secrets_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::IsOk;

constexpr const char* kKey = "tml-very-secret-key";
constexpr const char* kCloudflare = "cloudflare-secret-text";
constexpr const char* kOverride = "override-secret-text";

struct SecretsTest : ::testing::Test, HolderFixture {
  std::string jwt =
      "eyJhbGciOiJub25lIn0." + wire::to_base64(R"({"exp":1767232800})") + ".jwt-secret-part";
  std::vector<std::string> errors;
  std::string events;
  Subscription subscription = time.runtime().events().subscribe([this](const Event& event) {
    events += std::string(event.name) + " " + std::string(event.message) + " " +
              std::string(event.endpoint);
    for (const auto& field : event.fields) {
      if (const auto* text = std::get_if<std::string>(&field.value)) events += " " + *text;
    }
    events += '\n';
  });
  Subscription logged = log_events(time.runtime().events(), log.logger());

  SecretsTest() {
    environment["CLOUDFLARE_ACCESS_CLIENT_SECRET"] = kCloudflare;
    server->reply("/client/config", {{.body = R"({"pjwt_auth_enabled":true})"}});
    server->reply("/auth/token", {{.body = R"({"jwt":")" + jwt + "\"}"}});
  }

  HolderOptions secret_options() {
    auto with = options();
    with.api_key = Secret(kKey);
    with.header_overrides = {{"X-Company-Token", kOverride}};
    return with;
  }
  /// All headers, as a careless server would put them into an error.
  static testing::FakeReply echo(const http::Request& request, int status) {
    std::string text;
    for (const auto& [name, value] : request.headers) {
      text.append(name).append(": ").append(value).append("; ");
    }
    return {
        .status = status, .body = text, .headers = {{"x-request-id", text}, {"retry-after", "1"}}};
  }
  template <typename T>
  void expect_failure(Future<T> future) {
    const auto result = future.get();
    ASSERT_FALSE(result.ok());
    errors.push_back(result.error().to_string());
  }
  void expect_no_secret(const std::string& where, const std::string& text) {
    for (const auto& secret : {std::string(kKey),
                               std::string(kCloudflare),
                               std::string(kOverride),
                               jwt,
                               std::string("jwt-secret-part")}) {
      EXPECT_THAT(text, Not(HasSubstr(secret))) << "in " << where;
    }
  }
};

TEST_F(SecretsTest, AppearNowhere) {  // R14.13, R17.3, R20.3, D6, D8
  const auto opened = open(Holder::Kind::with_session, secret_options()).get();
  ASSERT_THAT(opened, IsOk());
  const auto& holder = *opened;
  const auto session = holder->core();
  const auto run = [&](auto task) {
    return session->runtime->spawn(session->scope, std::move(task));
  };

  for (const int status : {400, 401, 403, 404, 410, 422}) {
    server->handle("/retrieve_future",
                   [status](const auto& request) { return echo(request, status); });
    expect_failure(run(poll_future(session, {.request_id = "r-1", .request_type = "Sample"})));
  }
  server->reply("/retrieve_future",
                {{.body = R"({"error":"bad )" + std::string(kKey) + R"(","category":"user"})"}});
  expect_failure(run(poll_future(session, {.request_id = "r-2", .request_type = "OptimStep"})));
  server->reply("/retrieve_future", {{.body = "not json " + jwt}});
  expect_failure(run(poll_future(session, {.request_id = "r-3", .request_type = "OptimStep"})));

  server->handle("/save_weights", [](const auto& request) { return echo(request, 500); });
  expect_failure(run(execute_with_retries<http::Response>(session, "save", [session](const auto&) {
    return session->api->call({.path = "/api/v1/save_weights", .max_retries = 2}, session->tokens);
  })));
  server->reply("/moved",
                {{.status = 307, .headers = {{"Location", "http://evil.test/?k=" + jwt}}}});
  expect_failure(run(session->api->call({.path = "/moved"}, session->tokens)));
  server->reply(
      "/down",
      {{.error = Error{.code = ErrorCode::connection_failed, .message = "reset after " + jwt}}});
  expect_failure(run(session->api->call({.path = "/down", .max_retries = 1}, session->tokens)));
  // The path to what is wrong names members of the answer.
  server->reply("/odd", {{.body = R"({")" + std::string(kKey) + R"(": )"}});
  expect_failure(run(call_json<UntypedApiFuture>(session, {.path = "/odd"})));
  server->handle("/session_heartbeat", [](const auto& request) { return echo(request, 500); });
  server->handle("/auth/token", [](const auto& request) { return echo(request, 500); });
  server->handle("/dynamic_config", [](const auto& request) { return echo(request, 500); });
  server->handle("/finish", [](const auto& request) { return echo(request, 404); });
  time.advance(2h);  // missed heartbeats, failed refreshes
  expect_failure(session->runtime->spawn(session->runtime->scope(),
                                         holder->finish(SessionFinishReason::success, {}, 10s)));
  session->telemetry->fatal({.code = ErrorCode::internal, .message = "it was " + jwt}, "test");
  time.advance(60s);

  const auto handle = encode_sampler_handle({.session_id = session->session_id,
                                             .sampling_session_id = "x",
                                             .base_url = session->api->base_url(),
                                             .config = session->config,
                                             .dynamic_config = session->dynamic_config});
  std::string reports;
  for (const auto& sent : server->sent("/telemetry")) reports += http::view(sent.request.body);

  EXPECT_EQ(errors.size(), 13U);
  EXPECT_THAT(reports, HasSubstr("APIFuture.result_async"));
  EXPECT_THAT(log.text(), HasSubstr("retrieve_future"));
  for (const auto& error : errors) expect_no_secret("an error", error);
  expect_no_secret("the log", log.text());
  expect_no_secret("an event", events);
  expect_no_secret("telemetry", reports);
  expect_no_secret("a handle", handle.value());
  expect_no_secret("a handle, decoded", wire::from_base64(handle.value()).value_or(handle.value()));
}

}  // namespace
}  // namespace tinker::session::secrets_test
