#include "api/api_client.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "support/log_capture.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"
#include "tinker/version.h"

namespace tinker::api::api_client_test {
namespace {

using namespace std::chrono_literals;
using http::Headers;
using http::Method;
using http::Response;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::tinker::testing::FakeTransport;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::VirtualRuntime;

class Tokens final : public TokenProvider {
 public:
  explicit Tokens(Result<Secret> answer) : answer_(std::move(answer)) {}
  async::Task<Secret> token() override {
    ++asked;
    co_return answer_;
  }
  int asked = 0;

 private:
  Result<Secret> answer_;
};

struct ApiClientTest : ::testing::Test {
  LogCapture log;
  VirtualRuntime time{log.logger()};
  std::shared_ptr<FakeTransport> server = std::make_shared<FakeTransport>(time.runtime());
  std::shared_ptr<Tokens> tokens = std::make_shared<Tokens>(Secret("tml-secret-key"));
  std::shared_ptr<ApiClient> api = make_client({});

  std::shared_ptr<ApiClient> make_client(Headers defaults) {
    return std::make_shared<ApiClient>(time.runtime().core(),
                                       server,
                                       ApiClientOptions{.base_url = "http://server.test/base",
                                                        .default_headers = std::move(defaults)});
  }
  Future<Response> call(Call call) {
    const auto& core = time.runtime().core();
    return core->spawn(core->scope(), api->call(std::move(call), tokens));
  }
  [[nodiscard]] std::vector<std::chrono::nanoseconds> times() const {
    std::vector<std::chrono::nanoseconds> out;
    for (const auto& sent : server->sent()) out.push_back(sent.at);
    return out;
  }
  [[nodiscard]] std::vector<std::string> header(std::string_view name) const {
    std::vector<std::string> out;
    for (const auto& sent : server->sent()) {
      out.emplace_back(sent.request.headers.find(name).value_or("(none)"));
    }
    return out;
  }
};

TEST_F(ApiClientTest, SendsTheHeadersOfTheProtocol) {  // PROTOCOL 3
  server->reply("/api/v1/thing", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/api/v1/thing", .body = std::make_shared<std::string>("{}")}).get(),
              IsOk());

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].request.url, "http://server.test/base/api/v1/thing");
  const Headers& headers = sent[0].request.headers;
  EXPECT_THAT(headers.find("Accept"), Optional(std::string_view("application/json")));
  EXPECT_THAT(headers.find("Accept-Encoding"), Optional(std::string_view("gzip, deflate, zstd")));
  EXPECT_THAT(headers.find("Content-Type"), Optional(std::string_view("application/json")));
  EXPECT_THAT(headers.find("X-API-Key"), Optional(std::string_view("tml-secret-key")));
  EXPECT_THAT(headers.find("X-Stainless-Package-Version"), Optional(protocol_version()));
  EXPECT_THAT(headers.find("X-Stainless-OS"), Optional(_));
  EXPECT_THAT(headers.find("X-Stainless-Arch"), Optional(_));
  EXPECT_THAT(headers.find("X-Stainless-Runtime"), Optional(_));
  EXPECT_THAT(headers.find("X-Stainless-Runtime-Version"), Optional(_));
  EXPECT_THAT(headers.find("X-Stainless-Async"), Optional(_));
  EXPECT_THAT(headers.find("User-Agent"), Optional(StartsWith("tinker-cpp/")));
  EXPECT_THAT(headers.find("x-stainless-retry-count"), Optional(std::string_view("0")));
  EXPECT_THAT(headers.find("x-stainless-read-timeout"), Optional(std::string_view("60")));
  EXPECT_THAT(headers.find("X-Idempotency-Key"), Optional(SizeIs(17 + 36)));
  EXPECT_FALSE(headers.contains("Authorization"));
}

TEST_F(ApiClientTest, SendsNeitherContentTypeNorIdempotencyKeyOnGet) {  // PROTOCOL 3
  server->reply("/api/v1/thing", {{.body = "{}"}});

  ASSERT_THAT(call({.method = Method::get, .path = "/api/v1/thing", .query = "a=1"}).get(), IsOk());

  EXPECT_EQ(server->sent()[0].request.url, "http://server.test/base/api/v1/thing?a=1");
  EXPECT_FALSE(server->sent()[0].request.headers.contains("Content-Type"));
  EXPECT_FALSE(server->sent()[0].request.headers.contains("X-Idempotency-Key"));
}

TEST_F(ApiClientTest, ReplacesAllFourTimeOutsByTheCallsOwn) {  // PROTOCOL 2.1
  server->reply("/poll", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/poll", .timeout = 45s}).get(), IsOk());
  ASSERT_THAT(call({.path = "/poll", .timeout = 5s, .timeout_text = "5.0"}).get(), IsOk());
  ASSERT_THAT(call({.path = "/poll"}).get(), IsOk());

  const auto sent = server->sent();
  EXPECT_EQ(sent[0].request.timeouts.connect, 45s);
  EXPECT_EQ(sent[0].request.timeouts.read, 45s);
  EXPECT_EQ(sent[0].request.timeouts.write, 45s);
  EXPECT_EQ(sent[0].request.timeouts.queue, 45s);
  EXPECT_EQ(sent[2].request.timeouts.connect, 5s);
  EXPECT_EQ(sent[2].request.timeouts.read, 60s);
  EXPECT_THAT(header("x-stainless-read-timeout"), ElementsAre("45", "5.0", "60"));
}

TEST_F(ApiClientTest, PutsUserHeadersOverItsOwnButNotOverTheCredential) {  // R1.10, R3.2
  api = make_client({{"X-Tenant", "t-1"}, {"x-api-key", "from-the-user"}, {"User-Agent", "mine"}});
  server->reply("/thing", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing", .headers = {{"X-Tinker-Request-Type", "Sample"}}}).get(),
              IsOk());

  EXPECT_THAT(header("X-Tenant"), ElementsAre("t-1"));
  EXPECT_THAT(header("X-API-Key"), ElementsAre("tml-secret-key"));
  EXPECT_THAT(header("User-Agent"), ElementsAre("mine"));
  EXPECT_THAT(header("X-Tinker-Request-Type"), ElementsAre("Sample"));
}

TEST_F(ApiClientTest, LeavesTheDefaultHeaderWhenTheCredentialIsEmpty) {  // R3.2
  api = make_client({{"X-API-Key", "from-the-user"}});
  tokens = std::make_shared<Tokens>(Secret());
  server->reply("/thing", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  EXPECT_THAT(header("X-API-Key"), ElementsAre("from-the-user"));
}

TEST_F(ApiClientTest, KeepsTheIdempotencyKeyOverRetriesAndCountsThem) {  // R5.1.1, R5.1.2
  server->reply("/thing", {{.status = 500}, {.status = 503}, {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());
  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  const auto keys = header("X-Idempotency-Key");
  ASSERT_THAT(keys, SizeIs(4));
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_EQ(keys[0], keys[2]);
  EXPECT_NE(keys[0], keys[3]);
  EXPECT_THAT(header("x-stainless-retry-count"), ElementsAre("0", "1", "2", "0"));
}

TEST_F(ApiClientTest, KeepsAnIdempotencyKeyOfTheCallers) {  // R5.1.1: copy_weights
  server->reply("/thing", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing", .idempotency_key = "mine"}).get(), IsOk());
  ASSERT_THAT(call({.path = "/thing", .idempotency_key = "mine"}).get(), IsOk());

  EXPECT_THAT(header("X-Idempotency-Key"), ElementsAre("mine", "mine"));
}

TEST_F(ApiClientTest, MakesElevenAttemptsByDefaultAndOneWithoutRetries) {  // R5.2.1
  server->reply("/thing", {{.status = 500, .body = "down"}});

  EXPECT_THAT(call({.path = "/thing"}).get(),
              IsError(ErrorCode::server_error, HasSubstr("500 - down")));
  EXPECT_THAT(server->sent(), SizeIs(11));
  EXPECT_LE(time.elapsed(), 66s);  // R5.2.5: 65.5 s without jitter
  EXPECT_GE(time.elapsed(), 49s);  // with all the jitter there can be

  EXPECT_THAT(call({.path = "/thing", .max_retries = 0}).get(),
              IsError(ErrorCode::server_error, _));
  EXPECT_THAT(server->sent(), SizeIs(12));
}

TEST_F(ApiClientTest, RetriesTheStatusesOfTheTableOnly) {  // R5.2.2, PROTOCOL 6.2
  const std::set<int> retried = {408, 409, 429, 500, 502, 503, 504, 529};
  for (const int status :
       {302, 400, 401, 402, 403, 404, 408, 409, 410, 413, 422, 429, 500, 502, 503, 504, 529}) {
    const auto path = "/status/" + std::to_string(status);
    server->reply(path, {{.status = status, .body = "no"}});

    const auto result = call({.path = path, .max_retries = 1}).get();

    EXPECT_THAT(result, IsError(error_code_for_status(status), _));
    EXPECT_EQ(result.error().http_status, status);
    EXPECT_THAT(server->sent(path), SizeIs(retried.contains(status) ? 2 : 1)) << status;
  }
}

TEST_F(ApiClientTest, ObeysXShouldRetry) {  // R5.2.2
  server->reply("/yes", {{.status = 404, .headers = {{"x-should-retry", "true"}}}, {.body = "{}"}});
  server->reply("/no", {{.status = 500, .headers = {{"x-should-retry", "false"}}}, {.body = "{}"}});
  server->reply("/other",
                {{.status = 500, .headers = {{"x-should-retry", "maybe"}}}, {.body = "{}"}});

  EXPECT_THAT(call({.path = "/yes"}).get(), IsOk());
  EXPECT_THAT(call({.path = "/no"}).get(), IsError(ErrorCode::server_error, _));
  EXPECT_THAT(call({.path = "/other"}).get(), IsOk());
}

TEST_F(ApiClientTest, WaitsAsLongAsTheServerAsks) {  // R5.2.3
  server->reply("/thing",
                {{.status = 429, .headers = {{"retry-after-ms", "250"}, {"retry-after", "9"}}},
                 {.status = 429, .headers = {{"retry-after", "1.5"}}},
                 {.status = 429, .headers = {{"retry-after", "Thu, 01 Jan 2026 00:00:11 GMT"}}},
                 {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  const auto at = times();
  EXPECT_EQ(at[1], 250ms);
  EXPECT_EQ(at[2], 1750ms);
  EXPECT_EQ(at[3], 11s);  // the clock began at midnight
}

TEST_F(ApiClientTest, BacksOffByItselfWhenTheServerAsksForTooMuch) {  // R5.2.3
  server->reply("/thing", {{.status = 429, .headers = {{"retry-after", "61"}}}, {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  EXPECT_GT(times()[1], 375ms - 1ns);
  EXPECT_LE(times()[1], 500ms);
}

TEST_F(ApiClientTest, RetriesTransportErrorsAndTellsTimeOutsFromOthers) {  // R5.2.2, R5.2.4
  const Error refused = {.code = ErrorCode::connection_failed, .message = "refused"};
  const Error late = {.code = ErrorCode::timed_out, .message = "no answer"};
  server->reply("/thing", {{.error = refused}, {.error = late}, {.body = "{}"}});
  server->reply("/late", {{.error = late}});

  EXPECT_THAT(call({.path = "/thing"}).get(), IsOk());
  EXPECT_THAT(server->sent("/thing"), SizeIs(3));
  const auto result = call({.path = "/late", .max_retries = 1}).get();
  EXPECT_THAT(result, IsError(ErrorCode::timed_out, HasSubstr("POST /late")));
  EXPECT_TRUE(result.error().retry.retryable);
}

TEST_F(ApiClientTest, GivesTheErrorOfTheCredentialAsItIs) {  // R3.3
  tokens =
      std::make_shared<Tokens>(Error{.code = ErrorCode::invalid_argument, .message = "no key"});
  server->reply("/thing", {{.body = "{}"}});

  const auto result = call({.path = "/thing"}).get();

  EXPECT_EQ(result.error(), (Error{.code = ErrorCode::invalid_argument, .message = "no key"}));
  EXPECT_EQ(tokens->asked, 1);
  EXPECT_THAT(server->sent(), IsEmpty());
}

TEST_F(ApiClientTest, AsksForTheCredentialOnEveryAttempt) {  // R3.2
  server->reply("/thing", {{.status = 500}, {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  EXPECT_EQ(tokens->asked, 2);
}

TEST_F(ApiClientTest, TakesAnEmpty400ForAProxysRejection) {  // R5.3.1, R5.3.2
  server->reply("/thing", {{.status = 400}});

  for (int i = 0; i < 16; ++i) {
    const auto result = call({.path = "/thing"}).get();
    ASSERT_THAT(result, IsError(ErrorCode::connection_failed, HasSubstr("400"))) << i;
    EXPECT_EQ(result.error().http_status, 0);
  }
  EXPECT_THAT(call({.path = "/thing"}).get(), IsError(ErrorCode::bad_request, _));

  EXPECT_THAT(server->closed_channels(), SizeIs(17));  // each time a fresh connection
}

TEST_F(ApiClientTest, RecoversTheBudgetOfRejectionsWithEachSuccess) {  // R5.3.2
  server->reply("/bad", {{.status = 400}});
  server->reply("/good", {{.body = "{}"}});
  for (int i = 0; i < 17; ++i) (void)call({.path = "/bad"}).get();

  ASSERT_THAT(call({.path = "/good"}).get(), IsOk());

  EXPECT_THAT(call({.path = "/bad"}).get(), IsError(ErrorCode::connection_failed, _));
  EXPECT_THAT(call({.path = "/bad"}).get(), IsError(ErrorCode::bad_request, _));
}

TEST_F(ApiClientTest, TakesA400WithoutLengthForARejectionToo) {  // R5.3.1
  server->reply("/thing", {{.status = 400, .body = "text", .no_length = true}});

  EXPECT_THAT(call({.path = "/thing"}).get(), IsError(ErrorCode::connection_failed, _));
}

TEST_F(ApiClientTest, LeavesA400WithABodyAlone) {  // R5.3.1
  server->reply("/thing", {{.status = 400, .body = R"({"detail":"bad"})"}});

  EXPECT_THAT(call({.path = "/thing"}).get(), IsError(ErrorCode::bad_request, HasSubstr("bad")));
  EXPECT_THAT(server->closed_channels(), IsEmpty());
}

TEST_F(ApiClientTest, FollowsRedirectsWithinTheOriginWithMethodBodyAndKey) {  // D28
  server->reply("/old", {{.status = 302, .headers = {{"Location", "/base/new"}}}});
  server->reply("/new", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/old", .body = std::make_shared<std::string>("payload")}).get(),
              IsOk());

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[1].request.url, "http://server.test/base/new");
  EXPECT_EQ(sent[1].request.method, Method::post);
  EXPECT_EQ(http::view(sent[1].request.body), "payload");
  EXPECT_EQ(header("X-Idempotency-Key")[0], header("X-Idempotency-Key")[1]);
}

TEST_F(ApiClientTest, NeverFollowsARedirectToAnotherOrigin) {  // D28
  for (const auto* location : {"http://evil.test/base/x",
                               "https://server.test/base/x",
                               "http://server.test:81/base/x",
                               "//evil.test/x"}) {
    for (const int status : {301, 302, 303, 307, 308}) {
      server->reply("/old", {{.status = status, .headers = {{"Location", location}}}});

      const auto result = call({.path = "/old"}).get();

      EXPECT_THAT(result, IsError(ErrorCode::unexpected_status, HasSubstr("another origin")));
      EXPECT_EQ(result.error().http_status, status);
    }
  }
  EXPECT_THAT(server->sent(), SizeIs(20));
}

TEST_F(ApiClientTest, GivesUpAfterTenRedirects) {
  server->reply("/loop", {{.status = 307, .headers = {{"Location", "/base/loop"}}}});

  EXPECT_THAT(call({.path = "/loop"}).get(),
              IsError(ErrorCode::unexpected_status,
                      HasSubstr("the server redirects more than 10 times, last to /base/loop (")));
  EXPECT_THAT(server->sent(), SizeIs(11));
}

TEST_F(ApiClientTest, LogsDeprecationNoticesOfFinalAnswersOnly) {  // R5.2.6
  const Headers note = {{"x-deprecation-note", "use the new one"}};
  const Headers loud = {{"x-deprecation-note", "gone soon"}, {"x-deprecation-level", " ERROR "}};
  server->reply("/a", {{.status = 500, .headers = note}, {.body = "{}", .headers = note}});
  server->reply("/b", {{.status = 404, .headers = loud}});

  (void)call({.path = "/a"}).get();
  (void)call({.path = "/b"}).get();

  const auto lines = log.lines("Deprecation notice: ");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].text, "Deprecation notice: use the new one");
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_EQ(lines[1].level, LogLevel::error);
}

TEST_F(ApiClientTest, NamesStatusBodyAndRequestIdInStatusErrors) {  // section 15, PROTOCOL 6.1
  server->reply(
      "/a",
      {{.status = 422, .body = R"({"detail":"too long"})", .headers = {{"x-request-id", "q-7"}}}});
  server->reply("/b", {{.status = 404, .no_length = true}});

  const auto with_body = call({.path = "/a"}).get();
  const auto without = call({.path = "/b"}).get();

  EXPECT_EQ(with_body.error().message, R"(error code: 422 - {"detail":"too long"})");
  EXPECT_EQ(with_body.error().request_id, "q-7");
  EXPECT_FALSE(with_body.error().retry.retryable);
  EXPECT_EQ(without.error().message, "error code: 404");
}

TEST_F(ApiClientTest, HintsWhenARetryMayHelp) {
  server->reply("/a", {{.status = 429, .body = "slow", .headers = {{"retry-after", "7"}}}});

  const auto result = call({.path = "/a", .max_retries = 0}).get();

  EXPECT_EQ(result.error().retry, (RetryHint{.retryable = true, .after = 7000ms}));
}

TEST_F(ApiClientTest, NeverShowsACredential) {
  api = make_client({{"CF-Access-Client-Secret", "cloud-secret"}});
  server->reply("/echo", {{.status = 403, .body = "you sent tml-secret-key and cloud-secret"}});
  server->reply(
      "/fail",
      {{.error = Error{.code = ErrorCode::connection_failed, .message = "tml-secret-key"}}});

  const auto denied = call({.path = "/echo", .loggable = "key=tml-secret-key"}).get();
  const auto failed = call({.path = "/fail", .max_retries = 0}).get();

  for (const auto& text : {denied.error().to_string(), failed.error().to_string(), log.text()}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("tml-secret-key")), Not(HasSubstr("cloud-secret"))));
  }
  EXPECT_THAT(denied.error().message, HasSubstr("[redacted] and [redacted]"));
  EXPECT_THAT(log.text(), HasSubstr("POST /echo"));
}

TEST_F(ApiClientTest, RedactsASecretThatIsPartOfTheReplacement) {
  api = make_client({{"X-Secret", "redacted"}});
  server->reply("/echo", {{.status = 403, .body = "you sent redacted, redacted"}});

  const auto denied = call({.path = "/echo"}).get();

  EXPECT_THAT(denied.error().message, HasSubstr("you sent [redacted], [redacted]"));
}

TEST_F(ApiClientTest, RedactsWhatIsInUseAfterHundredsOfTokens) {
  api = make_client({{"CF-Access-Client-Secret", "cloud-secret"}});
  server->reply("/slow",
                {{.status = 403,
                  .body = "the-slow-one tml-secret-key cloud-secret",
                  .delay = std::chrono::hours(1)}});
  auto slow = call({.path = "/slow", .secret = Secret("the-slow-one")});
  for (int i = 0; i < 500; ++i) {
    tokens = std::make_shared<Tokens>(Secret("exchanged-token-" + std::to_string(i)));
    server->reply("/thing", {{.body = "{}"}});
    ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());
  }

  const auto denied = slow.get();

  EXPECT_THAT(denied.error().message, HasSubstr("403 - [redacted] [redacted] [redacted]"));
  EXPECT_EQ(api->redact("it was exchanged-token-499"), "it was [redacted]");
}

TEST_F(ApiClientTest, RedactsAKeyThatIsCutOffByTheLimitOfErrorTexts) {
  server->reply("/echo", {{.status = 403, .body = std::string(4090, 'x') + "tml-secret-key"}});

  const auto denied = call({.path = "/echo"}).get();

  EXPECT_THAT(denied.error().message, Not(HasSubstr("tml-se")));
}

TEST_F(ApiClientTest, AllowsControlEndpointsSixteenMebibytes) {
  server->reply("/thing", {{.body = "{}"}});
  server->reply("/result", {{.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());
  ASSERT_THAT(call({.path = "/result", .max_response_bytes = kMaxResultBytes}).get(), IsOk());

  EXPECT_EQ(server->sent()[0].request.max_response_bytes, std::size_t{16} << 20U);
  EXPECT_EQ(server->sent()[1].request.max_response_bytes, std::size_t{1} << 30U);
}

TEST_F(ApiClientTest, EndsAtOnceWhenCancelledBetweenRetries) {
  server->reply("/thing", {{.status = 500}});
  auto future = call({.path = "/thing"});
  time.advance(100ms);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(time.elapsed(), 100ms);
}

TEST_F(ApiClientTest, CancelsTheRequestUnderWay) {
  server->reply("/thing", {{.never = true}});
  auto future = call({.path = "/thing"});
  time.run_ready();

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_TRUE(server->sent()[0].is_cancelled);
}

TEST_F(ApiClientTest, SendsTheCallersTraceContextWithEveryAttempt) {
  const auto trace =
      TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1")
          .value();
  server->reply("/thing", {{.status = 500}, {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing", .trace = trace}).get(), IsOk());
  ASSERT_THAT(call({.path = "/thing"}).get(), IsOk());

  EXPECT_THAT(header("traceparent"), ElementsAre(trace.traceparent, trace.traceparent, "(none)"));
  EXPECT_THAT(header("tracestate"), ElementsAre("vendor=1", "vendor=1", "(none)"));
}

TEST_F(ApiClientTest, RefusesATraceContextThatIsNone) {
  EXPECT_THAT(call({.path = "/thing", .trace = TraceContext{.traceparent = "00-1\r\nX: y"}}).get(),
              IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(server->sent(), IsEmpty());
}

TEST_F(ApiClientTest, PublishesAnEventForEveryAttempt) {
  std::vector<std::string> seen;
  const auto subscription = time.runtime().events().subscribe([&](const Event& event) {
    seen.push_back(std::string(event.name) + " " + std::string(event.endpoint) + " " +
                   std::to_string(event.http_status));
  });
  server->reply("/thing/7", {{.status = 500}, {.body = "{}"}});

  ASSERT_THAT(call({.path = "/thing/7", .endpoint = "/thing/{id}"}).get(), IsOk());

  EXPECT_THAT(seen,
              ElementsAre("http.response /thing/{id} 500",
                          "http.retry /thing/{id} 500",
                          "http.response /thing/{id} 200"));
}

TEST_F(ApiClientTest, KeepsPoolsApart) {  // R5.3.3, PROTOCOL 2.2
  server->reply("/thing", {{.body = "{}", .delay = 1s}});
  std::vector<Future<Response>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(call({.path = "/thing", .pool = PoolKind::train}));
  for (int i = 0; i < 51; ++i) calls.push_back(call({.path = "/thing", .pool = PoolKind::sample}));
  time.run_ready();

  std::map<std::uint64_t, int> per_channel;
  for (const auto& sent : server->sent()) ++per_channel[sent.request.channel];
  std::multiset<int> sizes;
  for (const auto& [channel, count] : per_channel) sizes.insert(count);

  EXPECT_THAT(sizes, ElementsAre(1, 1, 1, 1, 50));
  EXPECT_THAT(when_all(std::move(calls)).get(), IsOk());
}

TEST_F(ApiClientTest, ReusesTheFirstChannelWithRoom) {  // PROTOCOL 2.2
  server->reply("/thing", {{.body = "{}"}});

  for (int i = 0; i < 3; ++i)
    ASSERT_THAT(call({.path = "/thing", .pool = PoolKind::train}).get(), IsOk());

  const auto sent = server->sent();
  EXPECT_EQ(sent[0].request.channel, sent[1].request.channel);
  EXPECT_EQ(sent[0].request.channel, sent[2].request.channel);
}

}  // namespace
}  // namespace tinker::api::api_client_test
