#include "session/holder.h"

#include <gmock/gmock.h>

#include "support/holder_fixture.h"
#include "tinker/testing/matchers.h"
#include "tinker/version.h"
#include "wire/base64.h"

namespace tinker::session::holder_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

struct HolderTest : ::testing::Test, HolderFixture {
  [[nodiscard]] std::string body(std::string_view path, std::size_t index = 0) const {
    return std::string(http::view(server->sent(path).at(index).request.body));
  }
  [[nodiscard]] std::string key(std::string_view path, std::size_t index = 0) const {
    return std::string(
        server->sent(path).at(index).request.headers.find("x-api-key").value_or("-"));
  }
};

/// A token that the client takes for a JWT that ends at `exp`.
std::string jwt_until(std::int64_t exp) {
  return "eyJhbGciOiJub25lIn0." + wire::to_base64(R"({"exp":)" + std::to_string(exp) + "}") + ".x";
}
constexpr std::int64_t kMidnight = 1767225600;  // 2026-01-01, when virtual time begins

TEST_F(HolderTest, StartsUpInTheOfficialOrder) {  // R1.3
  ASSERT_THAT(open().get(), IsOk());

  EXPECT_THAT(
      paths(),
      ElementsAre(
          "/api/v1/client/config", "/api/v1/client/dynamic_config", "/api/v1/create_session"));
  EXPECT_EQ(body("/client/config"), R"({"sdk_version":"0.36.0"})");  // R2.4
  EXPECT_EQ(body("/dynamic_config"), R"({"sdk_version":"0.36.0"})");
  EXPECT_EQ(protocol_version(), "0.36.0");
}

TEST_F(HolderTest, ExchangesTheKeyBetweenTheTwoConfigurations) {  // R1.3, R3.5, R3.6
  server->reply("/client/config", {{.body = R"({"pjwt_auth_enabled":true})"}});
  const auto jwt = jwt_until(kMidnight + 3600);
  server->reply("/auth/token", {{.body = R"({"jwt":")" + jwt + "\"}"}});

  ASSERT_THAT(open().get(), IsOk());

  EXPECT_THAT(paths(),
              ElementsAre("/api/v1/client/config",
                          "/api/v1/auth/token",
                          "/api/v1/client/dynamic_config",
                          "/api/v1/create_session"));
  EXPECT_EQ(key("/client/config"), "tml-secret-key");
  EXPECT_EQ(key("/auth/token"), "tml-secret-key");
  EXPECT_EQ(key("/dynamic_config"), jwt);
  EXPECT_EQ(key("/create_session"), jwt);
}

TEST_F(HolderTest, FailsAtOnceWhenTheExchangeIsRefused) {  // R3.8
  server->reply("/client/config", {{.body = R"({"pjwt_auth_enabled":true})"}});
  server->reply("/auth/token", {{.status = 401, .body = "no"}});

  EXPECT_THAT(open().get(), IsError(ErrorCode::unauthenticated, _));
  EXPECT_EQ(time.elapsed(), 0s);
}

/// For credential commands, which are real processes and take real time.
struct HolderWithCommand : ::testing::Test {
  Runtime runtime = Runtime::start();
  std::shared_ptr<testing::FakeTransport> server =
      std::make_shared<testing::FakeTransport>(runtime);

  HolderWithCommand() {
    server->reply("/dynamic_config", {{.body = "{}"}});
    server->reply("/telemetry", {{.body = R"({"status":"accepted"})"}});
  }
  Result<std::shared_ptr<Holder>> open(std::optional<Secret> key) {
    const auto& core = runtime.core();
    HolderOptions with = {.base_url = "http://server.test",
                          .api_key = std::move(key),
                          .environment = [](const char* name) -> std::optional<std::string> {
                            if (std::string_view(name) != "TINKER_CREDENTIAL_CMD")
                              return std::nullopt;
                            return "printf from-command";
                          },
                          .transport = server};
    return core
        ->spawn(core->scope(), Holder::open(core, std::move(with), Holder::Kind::session_less))
        .get();
  }
  [[nodiscard]] std::string key(std::string_view path) const {
    return std::string(server->sent(path).at(0).request.headers.find("x-api-key").value_or("-"));
  }
};

TEST_F(HolderWithCommand,
       UsesItForTheExchangeWhenTheServerSaysSo) {  // section 2: credential_default_source
  server->reply(
      "/client/config",
      {{.body = R"({"pjwt_auth_enabled":true,"credential_default_source":"credential_cmd"})"}});
  server->reply("/auth/token", {{.body = R"({"jwt":")" + jwt_until(4102444800) + "\"}"}});

  ASSERT_THAT(open(Secret("tml-secret-key")), IsOk());

  EXPECT_EQ(key("/client/config"), "tml-secret-key");
  EXPECT_EQ(key("/auth/token"), "from-command");
}

TEST_F(HolderWithCommand, NeedsAPlainKeyWhenTheServerExchangesNone) {  // R3.17
  server->reply("/client/config", {{.body = "{}"}});

  EXPECT_THAT(open(std::nullopt), IsError(ErrorCode::invalid_argument, _));

  EXPECT_EQ(key("/client/config"), "from-command");
  EXPECT_THAT(server->sent(), SizeIs(1));
}

TEST_F(HolderTest, TakesDefaultsFromAServerWithoutDynamicConfiguration) {  // R1.3
  server->reply("/dynamic_config", {{.status = 404, .body = "no such thing"}});

  const auto holder = open().get();

  ASSERT_THAT(holder, IsOk());
  EXPECT_EQ((*holder)->core()->dynamic_config, ClientDynamicConfigResponse());
}

TEST_F(HolderTest, FailsWhenTheDynamicConfigurationCannotBeHad) {  // R1.3
  server->reply("/dynamic_config", {{.status = 403, .body = "no"}});

  EXPECT_THAT(open().get(), IsError(ErrorCode::permission_denied, _));
  EXPECT_THAT(server->sent("/create_session"), IsEmpty());
}

TEST_F(HolderTest, RetriesTheConfigurationsButNotTheSession) {  // R5.6
  server->reply("/client/config",
                {{.status = 503, .headers = {{"x-should-retry", "false"}}}, {.body = "{}"}});
  server->reply("/dynamic_config", {{.status = 503}, {.body = "{}"}});
  server->reply("/create_session",
                {{.status = 503, .body = "no", .headers = {{"x-should-retry", "false"}}}});

  EXPECT_THAT(open().get(), IsError(ErrorCode::server_error, _));
  EXPECT_THAT(server->sent("/client/config"), SizeIs(2));
  EXPECT_THAT(server->sent("/dynamic_config"), SizeIs(2));
  EXPECT_THAT(server->sent("/create_session"), SizeIs(1));
  EXPECT_EQ(time.elapsed(), 2s);  // a second before each second round
}

TEST_F(HolderTest, PausesOnA402DuringStartUp) {  // R5.5.5, D5
  server->reply("/client/config", {{.status = 402, .body = "pay"}, {.body = "{}"}});

  EXPECT_THAT(open().get(), IsOk());
  EXPECT_EQ(time.elapsed(), 5s);
}

TEST_F(HolderTest, RaisesA402OfTheSessionAtOnce) {  // R5.5.4
  server->reply("/create_session", {{.status = 402, .body = "pay"}});

  EXPECT_THAT(open().get(), IsError(ErrorCode::billing, _));
  EXPECT_EQ(time.elapsed(), 0s);
}

TEST_F(HolderTest, TellsTheServerAboutTheSession) {  // R4.1, PROTOCOL 9.4
  environment["TINKER_TAGS"] = "nightly,lab,nightly";
  environment["TINKER_PROJECT_ID"] = "proj-7";
  auto with = options();
  with.user_metadata = {{"team", "nlp"}};
  with.display_name = "Night run";

  ASSERT_THAT(open(Holder::Kind::with_session, with).get(), IsOk());

  EXPECT_EQ(body("/create_session"),
            R"({"tags":["nightly","lab"],"user_metadata":{"team":"nlp"},"sdk_version":"0.36.0",)"
            R"("project_id":"proj-7","display_name":"Night run","type":"create_session"})");
}

TEST_F(HolderTest, LeavesOutWhatWasNotGiven) {  // R1.11, PROTOCOL 9.4
  environment["TINKER_TAGS"] = "";
  environment["TINKER_PROJECT_ID"] = "";
  auto with = options();
  with.project_id = "";

  ASSERT_THAT(open(Holder::Kind::with_session, with).get(), IsOk());

  EXPECT_EQ(body("/create_session"),
            R"({"tags":[""],"user_metadata":{},"sdk_version":"0.36.0","type":"create_session"})");
}

TEST_F(HolderTest, PrefersTheProjectOfTheArgument) {  // R1.11
  environment["TINKER_PROJECT_ID"] = "from-environment";
  auto with = options();
  with.project_id = "mine";

  ASSERT_THAT(open(Holder::Kind::with_session, with).get(), IsOk());

  EXPECT_THAT(body("/create_session"), HasSubstr(R"("project_id":"mine")"));
}

TEST_F(HolderTest, LogsTheMessagesOfTheServer) {  // R4.1, R20.2
  server->reply(
      "/create_session",
      {{.body = R"({"session_id":"s-1","info_message":"Welcome","warning_message":"Careful",)"
                R"("error_message":"Broken"})"}});

  ASSERT_THAT(open().get(), IsOk());

  EXPECT_EQ(log.lines("Welcome").at(0).level, LogLevel::info);
  EXPECT_EQ(log.lines("Careful").at(0).level, LogLevel::warn);
  EXPECT_EQ(log.lines("Broken").at(0).level, LogLevel::error);
  EXPECT_EQ(log.lines("session s-1 started").at(0).level, LogLevel::info);
}

TEST_F(HolderTest, SendsCloudflareHeadersUnderTheUsersOwn) {  // R1.10, section 19
  environment["CLOUDFLARE_ACCESS_CLIENT_ID"] = "id-1";
  environment["CLOUDFLARE_ACCESS_CLIENT_SECRET"] = "secret-1";
  auto with = options();
  with.header_overrides = {{"CF-Access-Client-Id", "id-2"}, {"X-Tenant", "t"}};

  ASSERT_THAT(open(Holder::Kind::with_session, with).get(), IsOk());

  for (const auto& sent : server->sent()) {
    EXPECT_EQ(sent.request.headers.find("CF-Access-Client-Id"), "id-2");
    EXPECT_EQ(sent.request.headers.find("CF-Access-Client-Secret"), "secret-1");
    EXPECT_EQ(sent.request.headers.find("X-Tenant"), "t");
  }
}

TEST_F(HolderTest, HasNeitherSessionNorHeartbeatWithoutOne) {  // R1.4
  const auto holder = open(Holder::Kind::session_less).get();
  ASSERT_THAT(holder, IsOk());
  time.advance(1h);

  EXPECT_THAT(paths(), ElementsAre("/api/v1/client/config", "/api/v1/client/dynamic_config"));
  EXPECT_EQ((*holder)->canceller(), nullptr);
}

TEST_F(HolderTest, BeatsEveryTenSeconds) {  // R4.2
  const auto holder = open().get();
  ASSERT_THAT(holder, IsOk());
  time.advance(35s);

  const auto beats = server->sent("/session_heartbeat");
  ASSERT_THAT(beats, SizeIs(3));
  EXPECT_EQ(beats[0].at, 10s);
  EXPECT_EQ(beats[2].at, 30s);
  EXPECT_EQ(body("/session_heartbeat"), R"({"session_id":"s-1","type":"session_heartbeat"})");
  EXPECT_EQ(beats[0].request.headers.find("x-stainless-read-timeout"), "10");
}

TEST_F(HolderTest, StopsBeatingWhenTheSessionIsFinishedButGoesOn) {  // R4.2
  server->reply("/session_heartbeat", {{.body = "{}"}, {.status = 410, .body = "finished"}});
  const auto holder = open().get();
  time.advance(100s);

  EXPECT_THAT(server->sent("/session_heartbeat"), SizeIs(2));
  EXPECT_EQ(log.lines("is finished").at(0).level, LogLevel::info);
  EXPECT_FALSE((*holder)->core()->scope->is_cancelled());
}

TEST_F(HolderTest, WarnsWhenNoHeartbeatGotThroughForTwoMinutes) {  // R4.3
  server->reply("/session_heartbeat", {{.status = 500, .body = "down"}});
  const auto holder = open().get();
  time.advance(125s);
  EXPECT_THAT(log.lines("no heartbeat"), IsEmpty());
  time.advance(20s);

  const auto lines = log.lines("no heartbeat");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_THAT(lines[0].text, HasSubstr("s-1"));
  EXPECT_THAT(lines[0].text, HasSubstr("130 s"));
  EXPECT_THAT(lines[0].text, HasSubstr("500"));
  EXPECT_THAT(server->sent("/session_heartbeat"), SizeIs(14));
}

TEST_F(HolderTest, RefreshesTheDynamicConfiguration) {  // R2.1, R2.2
  server->reply("/dynamic_config",
                {{.body = R"({"refresh_interval_sec":1})"},
                 {.body = R"({"refresh_interval_sec":20,"sample_cancel_enabled":true})"}});
  const auto holder = open().get();
  time.advance(9s);
  EXPECT_THAT(server->sent("/dynamic_config"), SizeIs(1));
  time.advance(2s);  // below 10 s acts as 10 s

  EXPECT_THAT(server->sent("/dynamic_config"), SizeIs(2));
  EXPECT_TRUE((*holder)->core()->dynamic_config.sample_cancel_enabled);
  time.advance(20s);
  EXPECT_THAT(server->sent("/dynamic_config"), SizeIs(3));
  EXPECT_THAT(server->sent("/client/config"), SizeIs(1));
}

TEST_F(HolderTest, KeepsTheConfigurationWhenARefreshFails) {  // R2.3
  server->reply("/dynamic_config",
                {{.body = R"({"sample_cancel_enabled":true})"}, {.status = 500, .body = "no"}});
  const auto holder = open().get();
  time.advance(301s);

  EXPECT_THAT(server->sent("/dynamic_config"), SizeIs(2));  // no retries
  EXPECT_TRUE((*holder)->core()->dynamic_config.sample_cancel_enabled);
  EXPECT_EQ(log.lines("could not be refreshed").at(0).level, LogLevel::debug);
}

TEST_F(HolderTest, ConfiguresItsLimits) {  // section 2
  server->reply("/client/config",
                {{.body = R"({"sample_dispatch_bytes_semaphore_size":7,)"
                          R"("fwdbwd_dispatch_bytes_semaphore_size":8,)"
                          R"("inflight_response_bytes_semaphore_size":9,"some_future_flag":3})"}});

  const auto holder = open().get();

  ASSERT_THAT(holder, IsOk());
  EXPECT_EQ((*holder)->core()->sample_bytes.available(), 7);
  EXPECT_EQ((*holder)->core()->fwdbwd_bytes.available(), 8);
  EXPECT_EQ((*holder)->core()->inflight_response_bytes.available(), 9);
}

TEST_F(HolderTest, CountsFromZero) {  // R4.4
  const auto holder = open().get();

  ASSERT_THAT(holder, IsOk());
  EXPECT_EQ((*holder)->core()->next_model_seq_id, 0);
  EXPECT_EQ((*holder)->core()->next_sampling_session_seq_id, 0);
  EXPECT_EQ((*holder)->core()->next_custom_loss_seq_id, 0);
}

TEST_F(HolderTest, RefusesAnAnswerThatDoesNotFit) {  // R1.9
  server->reply("/create_session", {{.body = R"({"id":"s-1"})"}});

  EXPECT_THAT(open().get(),
              IsError(ErrorCode::invalid_response, HasSubstr("/api/v1/create_session")));
}

TEST_F(HolderTest, SendsNothingAfterTheEnd) {  // R1.16, D19
  auto holder = open().get();
  ASSERT_THAT(holder, IsOk());
  time.advance(15s);
  const auto before = server->sent().size();

  (*holder)->end({.code = ErrorCode::cancelled, .message = "gone"});
  time.advance(1h);

  EXPECT_EQ(server->sent().size(), before);
}

TEST_F(HolderTest, MakesAShadowWithoutARequest) {  // section 17, R3.10
  environment["TINKER_TELEMETRY"] = "0";
  const auto core = time.runtime().core();
  const auto holder = Holder::shadow(
      core,
      options(),
      {.session_id = "s-9", .sampling_session_id = "x", .base_url = "http://server.test/"});
  ASSERT_THAT(holder, IsOk());
  time.advance(9s);

  EXPECT_THAT(server->sent(), IsEmpty());
  time.advance(2s);
  EXPECT_EQ(body("/session_heartbeat"), R"({"session_id":"s-9","type":"session_heartbeat"})");
}

TEST_F(HolderTest, SendsNoTelemetryWhenSwitchedOff) {  // R14.1
  environment["TINKER_TELEMETRY"] = "0";
  const auto holder = open().get();
  ASSERT_THAT(holder, IsOk());
  time.advance(60s);

  EXPECT_THAT(server->sent("/telemetry"), IsEmpty());
}

Error refused_connection() {
  return {.code = ErrorCode::connection_failed, .message = "connection refused"};
}

TEST_F(HolderTest, GivesUpWhereNothingListens) {
  server->reply("/client/config", {{.error = refused_connection()}});

  const auto holder = open().get();

  EXPECT_THAT(holder,
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("no answer from http://server.test within 15 s"),
                            HasSubstr("(start_timeout)"),
                            HasSubstr("last attempt "),
                            HasSubstr("connection refused"))));
  EXPECT_EQ(time.elapsed(), 15s);
}

TEST_F(HolderTest, GivesUpOnASilentServer) {
  server->reply("/client/config", {{.never = true}});
  auto options = this->options();
  options.start_timeout = 7s;

  const auto holder = open(Holder::Kind::session_less, options).get();

  EXPECT_THAT(holder,
              IsError(ErrorCode::timed_out, HasSubstr("no answer from http://server.test within")));
  EXPECT_EQ(time.elapsed(), 7s);
  EXPECT_TRUE(server->sent("/client/config")[0].is_cancelled);
}

TEST_F(HolderTest, SaysAtOnceWhatStartUpWaitsFor) {
  server->reply("/client/config", {{.error = refused_connection()}});

  ASSERT_FALSE(open().get().ok());

  const auto lines = log.lines("start-up: 2 attempts failed in ");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_THAT(lines[0].text,
              AllOf(HasSubstr("POST http://server.test/api/v1/client/config: connection refused"),
                    HasSubstr("; goes on for up to 14"),
                    HasSubstr("(start_timeout); check base_url, or set start_timeout")));
}

TEST_F(HolderTest, AServerThatAnswersGetsTheOfficialRetries) {  // R5.4
  server->reply("/client/config", {{.status = 500, .body = "starting"}});

  EXPECT_THAT(open().get(), IsError(ErrorCode::server_error, HasSubstr("starting")));

  EXPECT_GE(time.elapsed(), 300s);
  EXPECT_THAT(log.lines("start-up: 2 attempts failed"), SizeIs(1));
  EXPECT_THAT(log.lines("start_timeout"), IsEmpty());
  EXPECT_THAT(log.lines("start-up takes long: 60 s so far, failing; attempt "), SizeIs(1));
}

TEST_F(HolderTest, GoesOnAsTheOfficialClientDoesWithoutAStartTimeout) {  // R5.4
  server->reply("/client/config", {{.error = refused_connection()}});
  auto options = this->options();
  options.start_timeout.reset();

  EXPECT_THAT(open(Holder::Kind::with_session, options).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("connection refused")));

  EXPECT_GE(time.elapsed(), 300s);
}

TEST_F(HolderTest, NamesTheLastFailureWhenTheDeadlineOfAStartPasses) {
  server->reply("/client/config", {{.error = refused_connection()}});
  const auto& core = time.runtime().core();
  auto future = core->spawn(core->scope(),
                            Holder::open(core, options(), Holder::Kind::with_session),
                            async::SpawnOptions{.deadline = 5s});

  EXPECT_THAT(future.get(),
              IsError(ErrorCode::deadline_exceeded,
                      AllOf(HasSubstr("; last attempt "), HasSubstr("connection refused"))));
}

}  // namespace
}  // namespace tinker::session::holder_test
