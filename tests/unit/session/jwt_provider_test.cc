#include "session/jwt_provider.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "http/retry_after.h"
#include "session/jwt.h"
#include "support/jwt.h"
#include "support/session_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::jwt_provider_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeReply;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::make_jwt;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kPath = "/api/v1/auth/token";
constexpr const char* kRawKey = "tml-raw-credential";

class FailingToken final : public api::TokenProvider {
 public:
  async::Task<Secret> token() override {
    co_return Error{.code = ErrorCode::invalid_argument, .message = "printed no credential"};
  }
};

class JwtProviderTest : public ::testing::Test {
 protected:
  explicit JwtProviderTest(
      std::shared_ptr<api::TokenProvider> raw = std::make_shared<FixedToken>(kRawKey))
      : provider(std::make_shared<JwtProvider>(fixture.session->runtime,
                                               fixture.session->api,
                                               std::move(raw),
                                               fixture.session->scope)) {}

  /// The number makes each one different.
  std::string jwt(std::chrono::seconds life, int number = 0) const {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
        fixture.time.clock().wall_time().time_since_epoch());
    return make_jwt(R"({"exp":)" + std::to_string((now + life).count()) + R"(,"jti":)" +
                    std::to_string(number) + "}")
        .expose();
  }
  static FakeReply answer(const std::string& token) {
    return {.body = R"({"jwt":")" + token + "\"}"};
  }
  /// Every exchange gives a new token of that life.
  void serve(std::chrono::seconds life) {
    fixture.server->handle(
        kPath, [this, life](const http::Request&) { return answer(jwt(life, ++served)); });
  }

  Future<Secret> ask() { return fixture.spawn(provider->token()); }
  std::string token() {
    auto future = ask();
    const auto result = future.get();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->expose() : "";
  }
  std::size_t exchanges() const { return fixture.server->sent(kPath).size(); }
  std::vector<LogCapture::Line> complaints() const {
    return fixture.log.lines("could not be replaced");
  }

  SessionFixture fixture;
  int served = 0;
  std::shared_ptr<JwtProvider> provider;
};

TEST_F(JwtProviderTest, MakesTheExchangeWhenTheFirstRequestNeedsIt) {  // R3.6
  const auto expected = jwt(1h);
  fixture.server->reply(kPath, {answer(expected)});
  fixture.time.advance(10s);
  EXPECT_EQ(exchanges(), 0U);
  EXPECT_EQ(provider->current(), std::nullopt);

  EXPECT_EQ(token(), expected);

  const auto sent = fixture.server->sent(kPath);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].request.method, http::Method::post);
  EXPECT_EQ(http::view(sent[0].request.body), "{}");
  EXPECT_EQ(sent[0].request.headers.find("X-API-Key"), kRawKey);
  EXPECT_EQ(provider->current(), Secret(expected));
}

TEST_F(JwtProviderTest, KeepsATokenWithMoreThan60SecondsLeft) {  // R3.8
  serve(100s);
  const auto first = token();
  fixture.time.advance(39'999ms);
  EXPECT_EQ(token(), first);
  EXPECT_EQ(exchanges(), 1U);

  fixture.time.advance(1ms);
  EXPECT_NE(token(), first);
  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, SharesOneExchange) {  // R3.8
  fixture.server->reply(kPath, {{.body = R"({"jwt":"eyJ.e30.x"})", .delay = 1s}});
  auto first = ask();
  auto second = ask();
  auto third = ask();
  EXPECT_EQ(first.get()->expose(), "eyJ.e30.x");
  EXPECT_EQ(second.get()->expose(), "eyJ.e30.x");
  EXPECT_EQ(third.get()->expose(), "eyJ.e30.x");
  EXPECT_EQ(exchanges(), 1U);
}

TEST_F(JwtProviderTest, SharesAFailure) {  // R3.8
  fixture.server->reply(kPath, {{.status = 403, .body = "no", .delay = 1s}});
  auto first = ask();
  auto second = ask();
  EXPECT_THAT(first.get(), IsError(ErrorCode::permission_denied, HasSubstr("403")));
  EXPECT_THAT(second.get(), IsError(ErrorCode::permission_denied, HasSubstr("403")));
  EXPECT_EQ(exchanges(), 1U);

  EXPECT_THAT(ask().get(), IsError(ErrorCode::permission_denied, HasSubstr("403")));
  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, GoesOnForOthersWhenTheFirstToAskIsCancelled) {
  const auto expected = jwt(1h);
  fixture.server->reply(kPath, {{.body = R"({"jwt":")" + expected + "\"}", .delay = 5s}});
  auto first = ask();
  auto second = ask();
  fixture.time.advance(1s);
  first.cancel();
  EXPECT_THAT(first.get(), IsError(ErrorCode::cancelled, HasSubstr("cancelled")));
  EXPECT_EQ(fixture.time.elapsed(), 1s);
  EXPECT_EQ(second.get()->expose(), expected);
  EXPECT_EQ(exchanges(), 1U);
}

TEST_F(JwtProviderTest, FailsAtOnceWhereTheServerSaysNo) {  // R3.8, R3.11, D5
  for (const auto& [status, code] : {std::pair(401, ErrorCode::unauthenticated),
                                     std::pair(402, ErrorCode::billing),
                                     std::pair(403, ErrorCode::permission_denied)}) {
    const auto before = exchanges();
    fixture.server->reply(kPath, {{.status = status, .body = "no"}});
    const auto started = fixture.time.elapsed();
    EXPECT_THAT(ask().get(), IsError(code, HasSubstr(std::to_string(status))));
    EXPECT_EQ(exchanges(), before + 1);
    EXPECT_EQ(fixture.time.elapsed(), started);
  }
}

TEST_F(JwtProviderTest, RetriesTenTimesInTheHttpLayer) {
  fixture.server->reply(kPath, {{.status = 503}});
  const auto result = ask().get();
  EXPECT_THAT(result, IsError(ErrorCode::server_error, HasSubstr("503")));
  EXPECT_TRUE(http::is_retryable(result.error()));
  EXPECT_EQ(exchanges(), 11U);
  EXPECT_THAT(fixture.log.lines("exchange of the credential: 2 attempts failed in "), SizeIs(1));
}

class JwtProviderWithoutCredential : public JwtProviderTest {
 protected:
  JwtProviderWithoutCredential() : JwtProviderTest(std::make_shared<FailingToken>()) {}
};

TEST_F(JwtProviderWithoutCredential, PassesTheErrorOfTheCredentialOn) {  // R3.3
  const auto result = ask().get();
  EXPECT_EQ(result.error(),
            (Error{.code = ErrorCode::invalid_argument, .message = "printed no credential"}));
  EXPECT_EQ(exchanges(), 0U);
}

TEST_F(JwtProviderTest, UsesTheOldTokenWithAWarningWhenNoneCanBeHad) {  // R3.8
  const auto old = jwt(100s);
  fixture.server->reply(kPath, {answer(old), {.status = 403, .delay = 1s}});
  EXPECT_EQ(token(), old);
  fixture.time.advance(40s);

  auto first = ask();
  auto second = ask();

  EXPECT_EQ(first.get()->expose(), old);
  EXPECT_EQ(second.get()->expose(), old);
  ASSERT_THAT(complaints(), SizeIs(1));
  EXPECT_EQ(complaints()[0].level, LogLevel::warn);
  EXPECT_EQ(token(), old);  // asks again
  EXPECT_EQ(exchanges(), 3U);
}

TEST_F(JwtProviderTest, ReplacesTheToken300SecondsBeforeItsEnd) {  // R3.9
  serve(1h);
  const auto first = token();
  fixture.time.advance(3299s);
  EXPECT_EQ(exchanges(), 1U);
  fixture.time.advance(1s);
  EXPECT_EQ(exchanges(), 2U);
  EXPECT_NE(provider->current(), Secret(first));
  fixture.time.advance(3300s);
  EXPECT_EQ(exchanges(), 3U);
}

TEST_F(JwtProviderTest, TriesAgain60SecondsAfterAFailedReplacement) {  // R3.9
  const auto old = jwt(1h);
  fixture.server->reply(kPath, {answer(old), {.status = 403}, {.status = 401}, answer(jwt(2h, 1))});
  EXPECT_EQ(token(), old);
  fixture.time.advance(3300s);
  EXPECT_EQ(exchanges(), 2U);
  EXPECT_EQ(token(), old);  // good for 300 s more
  fixture.time.advance(59s);
  EXPECT_EQ(exchanges(), 2U);
  fixture.time.advance(1s);
  EXPECT_EQ(exchanges(), 3U);
  fixture.time.advance(60s);
  EXPECT_EQ(exchanges(), 4U);
  EXPECT_NE(provider->current(), Secret(old));
  ASSERT_THAT(complaints(), SizeIs(2));
  EXPECT_EQ(complaints()[0].level, LogLevel::debug);
}

TEST_F(JwtProviderTest, ReplacesATokenOfUnknownEndAfter60Seconds) {  // R3.7, R3.9
  fixture.server->reply(kPath, {{.body = R"({"jwt":"opaque"})"}});
  EXPECT_EQ(token(), "opaque");
  fixture.time.advance(59s);
  EXPECT_EQ(exchanges(), 1U);
  fixture.time.advance(1s);
  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, DoesNotLoopOnShortLivedTokens) {  // D26
  serve(200s);
  token();
  fixture.time.advance(1h);
  EXPECT_EQ(exchanges(), 37U);  // every 100 s
}

TEST_F(JwtProviderTest, DoesNotLoopOnExpiredTokens) {  // D26
  serve(-5s);
  token();
  fixture.time.advance(1min);
  EXPECT_EQ(exchanges(), 7U);  // every 10 s
}

TEST_F(JwtProviderTest, DoesNotMakeAnExchangePerRequestForShortLivedTokens) {  // D26
  serve(30s);
  const auto first = token();
  fixture.time.advance(9s);
  EXPECT_EQ(token(), first);
  EXPECT_EQ(exchanges(), 1U);
  fixture.time.advance(1s);
  EXPECT_NE(token(), first);
  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, PlansAnewAfterAnExchangeOnDemand) {
  fixture.server->reply(kPath, {answer(jwt(100s)), answer(jwt(2h, 1))});
  token();
  fixture.time.advance(45s);
  token();
  EXPECT_EQ(exchanges(), 2U);
  fixture.time.advance(1h);  // without it, the plan of the first token was 50 s
  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, EndsWithItsScope) {
  serve(1h);
  token();
  const auto scope = fixture.session->scope;
  fixture.session->runtime->loop()->post(
      [scope] { scope->cancel({.code = ErrorCode::closed, .message = "the client is closed"}); });
  fixture.time.advance(10h);
  EXPECT_EQ(exchanges(), 1U);
  EXPECT_THAT(complaints(), IsEmpty());
}

TEST_F(JwtProviderTest, EndsAnExchangeWithItsScope) {
  fixture.server->reply(kPath, {{.never = true}});
  auto asked =
      fixture.session->runtime->spawn(fixture.session->runtime->scope(), provider->token());
  fixture.time.advance(1s);
  const auto scope = fixture.session->scope;
  fixture.session->runtime->loop()->post(
      [scope] { scope->cancel({.code = ErrorCode::closed, .message = "the client is closed"}); });
  EXPECT_THAT(asked.get(), IsError(ErrorCode::closed, HasSubstr("closed")));
  // Nor does a later one begin.
  auto later =
      fixture.session->runtime->spawn(fixture.session->runtime->scope(), provider->token());
  EXPECT_THAT(later.get(), IsError(ErrorCode::closed, HasSubstr("closed")));
  EXPECT_EQ(exchanges(), 1U);
}

TEST_F(JwtProviderTest, StopsReplacingWhenNobodyHoldsIt) {
  serve(1h);
  token();
  const std::weak_ptr<JwtProvider> weak = provider;
  provider.reset();
  EXPECT_TRUE(weak.expired());
  fixture.time.advance(10h);
  EXPECT_EQ(exchanges(), 1U);
}

TEST_F(JwtProviderTest, RefusesATokenThatCannotBeSent) {
  for (const char* body : {R"({"jwt":""})",
                           R"({"jwt":"hush\r\nX: y"})",
                           R"({"jwt":"a hush"})",
                           R"({"jwt":5})",
                           R"({})",
                           R"({"jwt":"hush)",
                           R"(hush)"}) {
    fixture.server->reply(kPath, {{.body = body}});
    EXPECT_THAT(ask().get(),
                IsError(ErrorCode::invalid_response,
                        AllOf(HasSubstr("auth/token"), Not(HasSubstr("hush")))))
        << body;
  }
}

// ---- somebody sets the clock

TEST_F(JwtProviderTest, IsReplacedInTimeWhenTheClockIsSetBack) {
  serve(1h);
  const auto first = token();

  fixture.time.shift_wall_time(-24h);
  fixture.time.advance(55min);

  EXPECT_EQ(exchanges(), 2U) << "300 s before its end, by a clock that nobody sets";
  EXPECT_NE(token(), first);
}

TEST_F(JwtProviderTest, IsExchangedOnceWhenTheClockIsSetForward) {
  serve(1h);
  token();
  fixture.time.advance(1min);

  fixture.time.shift_wall_time(24h);
  token();
  token();

  EXPECT_EQ(exchanges(), 2U) << "the new one is good by the new clock";
}

TEST_F(JwtProviderTest, IsReplacedInTimeByAClockThatIsADayBehind) {
  const auto of_the_server = [this] {
    return std::chrono::duration_cast<std::chrono::seconds>(
               fixture.time.clock().wall_time().time_since_epoch() + 24h)
        .count();
  };
  fixture.server->handle(kPath, [&](const http::Request&) {
    const auto now = of_the_server();
    return answer(make_jwt(R"({"iat":)" + std::to_string(now) + R"(,"exp":)" +
                           std::to_string(now + 3600) + "}")
                      .expose());
  });
  token();

  fixture.time.advance(55min);

  EXPECT_EQ(exchanges(), 2U);
}

TEST_F(JwtProviderTest, ShowsNoSecretAnywhere) {
  std::string seen;
  const auto subscription = fixture.session->runtime->events().subscribe([&](const Event& event) {
    seen += std::string(event.name) + " " + std::string(event.message) + "\n";
  });
  const auto old = jwt(100s);
  // A server that repeats the credential in its answers.
  const FakeReply refusal = {.status = 403, .body = std::string("bad key ") + kRawKey};
  fixture.server->reply(kPath, {refusal, answer(old), refusal, {.status = 200, .body = old}});
  const auto failed = ask().get();
  token();
  fixture.time.advance(45s);
  token();
  fixture.time.advance(5min);

  ASSERT_FALSE(failed.ok());
  EXPECT_GE(exchanges(), 4U);
  seen += fixture.log.text() + failed.error().to_string();
  EXPECT_THAT(seen, HasSubstr("auth.exchange"));
  EXPECT_THAT(seen, HasSubstr("could not be replaced"));
  EXPECT_THAT(seen, Not(HasSubstr(kRawKey)));
  EXPECT_THAT(seen, Not(HasSubstr(old)));
  EXPECT_THAT(seen, Not(HasSubstr(old.substr(20, 20))));
}

TEST(RefreshDelay, IsNeverWithoutAPause) {  // R3.9, D26
  const auto seconds = [](std::optional<double> left) {
    return std::chrono::duration<double>(refresh_delay(left)).count();
  };
  EXPECT_EQ(seconds(3600), 3300);
  EXPECT_EQ(seconds(601), 301);
  EXPECT_EQ(seconds(600), 300);
  EXPECT_EQ(seconds(400), 200);
  EXPECT_EQ(seconds(200), 100);
  EXPECT_EQ(seconds(30.5), 15.25);
  EXPECT_EQ(seconds(19), 10);
  EXPECT_EQ(seconds(0), 10);
  EXPECT_EQ(seconds(-1e300), 10);
  EXPECT_EQ(seconds(1e300), 365 * 86'400.0);
  EXPECT_EQ(seconds(std::nullopt), 60);
}

}  // namespace
}  // namespace tinker::session::jwt_provider_test
