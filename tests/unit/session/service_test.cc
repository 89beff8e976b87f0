#include "session/service.h"

#include <gmock/gmock.h>

#include "support/holder_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::service_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

struct ServiceTest : ::testing::Test, HolderFixture {
  std::optional<ServiceHandle> handle = ServiceHandle(time.runtime(), options());

  Future<std::shared_ptr<Holder>> session_holder() {
    const auto& service = handle->service();
    return service->runtime()->spawn(service->scope(), service->session_holder());
  }
  Future<std::shared_ptr<Holder>> rest_holder() {
    const auto& service = handle->service();
    return service->runtime()->spawn(service->scope(), service->rest_holder());
  }
  Future<void> close(SessionFinishReason reason, std::optional<std::string> detail = {}) {
    const auto& service = handle->service();
    return service->runtime()->spawn(service->runtime()->scope(),
                                     service->close(reason, std::move(detail)));
  }
};

async::Task<> wait_for_ever() {
  auto pause = async::sleep_for(24h);
  TINKER_CO_TRY(co_await pause);
  co_return Result<void>();
}

TEST_F(ServiceTest, DoesNothingUntilItIsUsed) {  // R1.1
  time.advance(1h);

  EXPECT_THAT(server->sent(), IsEmpty());
}

TEST_F(ServiceTest, MakesEachHolderOnce) {  // R1.2, R1.5
  auto first = session_holder();
  auto second = session_holder();
  auto rest = rest_holder();

  const auto a = first.get();
  const auto b = second.get();
  const auto c = rest.get();

  ASSERT_THAT(a, IsOk());
  EXPECT_EQ(*a, b.value());
  EXPECT_NE(*a, c.value());
  EXPECT_THAT(server->sent("/client/config"), SizeIs(2));
  EXPECT_THAT(server->sent("/create_session"), SizeIs(1));
}

TEST_F(ServiceTest, TriesAgainAfterAFailedStart) {  // R1.2
  server->reply("/create_session",
                {{.status = 403, .body = "no"}, {.body = R"({"session_id":"s-2"})"}});

  EXPECT_THAT(session_holder().get(), IsError(ErrorCode::permission_denied, _));
  EXPECT_THAT(session_holder().get(), IsOk());
}

TEST_F(ServiceTest, ThoseWhoWaitForAStartShareItsFailure) {  // R1.2
  server->reply("/client/config", {{.never = true}});
  auto first = session_holder();
  auto second = session_holder();

  EXPECT_THAT(first.get(), IsError(ErrorCode::timed_out, HasSubstr("start_timeout")));
  EXPECT_THAT(second.get(), IsError(ErrorCode::timed_out, HasSubstr("start_timeout")));

  EXPECT_THAT(server->sent("/client/config"), SizeIs(1));
}

TEST_F(ServiceTest, WhoGivesUpDuringTheStartDoesNotSpeakForOthers) {
  server->reply("/client/config", {{.never = true}, {.body = "{}"}});
  auto first = session_holder();
  auto second = session_holder();

  time.advance(1s);
  first.cancel();

  EXPECT_THAT(first.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(second.get(), IsOk());
}

TEST_F(ServiceTest, TellsTheServerHowTheSessionEnded) {  // R1.12
  ASSERT_THAT(session_holder().get(), IsOk());

  EXPECT_THAT(close(SessionFinishReason::errored, "out of data").get(), IsOk());

  const auto sent = server->sent("/finish");
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].path, "/api/v1/sessions/s-1/finish");
  EXPECT_EQ(http::view(sent[0].request.body),
            R"({"reason":{"type":"errored"},"detail":"out of data"})");
}

TEST_F(ServiceTest, SendsANullDetail) {  // R1.12
  ASSERT_THAT(session_holder().get(), IsOk());
  ASSERT_THAT(close(SessionFinishReason::success).get(), IsOk());

  EXPECT_EQ(http::view(server->sent("/finish").at(0).request.body),
            R"({"reason":{"type":"success"},"detail":null})");
}

TEST_F(ServiceTest, FinishesNothingWithoutASession) {  // R1.12
  ASSERT_THAT(rest_holder().get(), IsOk());

  EXPECT_THAT(close(SessionFinishReason::success).get(), IsOk());

  EXPECT_THAT(server->sent("/finish"), IsEmpty());
}

TEST_F(ServiceTest, ClosesOnce) {  // R1.8, R1.12
  ASSERT_THAT(session_holder().get(), IsOk());
  ASSERT_THAT(close(SessionFinishReason::success).get(), IsOk());

  EXPECT_THAT(close(SessionFinishReason::interrupted).get(), IsOk());

  EXPECT_THAT(server->sent("/finish"), SizeIs(1));
}

TEST_F(ServiceTest, DrainsTelemetryBeforeItClosesTheConnections) {  // R1.8, R14.14
  const auto holder = session_holder().get();
  ASSERT_THAT(holder, IsOk());
  (*holder)->core()->telemetry->generic("something", Severity::info, {});

  ASSERT_THAT(close(SessionFinishReason::success).get(), IsOk());

  const auto sent = server->sent("/telemetry");
  ASSERT_THAT(sent, Not(IsEmpty()));
  EXPECT_THAT(std::string(http::view(sent.back().request.body)), HasSubstr("something"));
  EXPECT_THAT(server->closed_channels(), Not(IsEmpty()));
  time.advance(1h);
  EXPECT_THAT(server->sent("/session_heartbeat"), IsEmpty());
}

TEST_F(ServiceTest, ReportsAFailedFinishAfterEverythingIsClosed) {  // R1.13
  server->reply("/finish", {{.status = 404, .body = "unknown session"}});
  const auto holder = session_holder().get();

  EXPECT_THAT(close(SessionFinishReason::success).get(),
              IsError(ErrorCode::not_found, HasSubstr("finish the session")));

  EXPECT_TRUE((*holder)->core()->scope->is_cancelled());
  const auto reports = server->sent("/telemetry");
  ASSERT_THAT(reports, Not(IsEmpty()));
  std::string all;
  for (const auto& report : reports) all += http::view(report.request.body);
  EXPECT_THAT(all, HasSubstr("user_error"));
  EXPECT_THAT(all, Not(HasSubstr("SESSION_END")));
}

TEST_F(ServiceTest, BoundsTheFinishRequest) {  // R5.5.7, D15
  for (const int status : {503, 402}) {
    server->reply("/finish", {{.status = status, .body = "no"}});
    handle.emplace(time.runtime(), options());
    ASSERT_THAT(session_holder().get(), IsOk());
    const auto before = time.elapsed();

    EXPECT_THAT(close(SessionFinishReason::success).get(),
                IsError(ErrorCode::deadline_exceeded, _));

    EXPECT_LE(time.elapsed() - before, 31s) << status;
  }
}

TEST_F(ServiceTest, ClosesInBoundedTimeWhenNothingAnswers) {  // D15
  ASSERT_THAT(session_holder().get(), IsOk());
  server->reply("/finish", {{.never = true}});
  server->reply("/telemetry", {{.never = true}});
  const auto before = time.elapsed();

  EXPECT_THAT(close(SessionFinishReason::success).get(), IsError(ErrorCode::deadline_exceeded, _));

  EXPECT_LE(time.elapsed() - before, 61s);
}

TEST_F(ServiceTest, EndsWhatIsInFlightWhenClosed) {  // R1.15, D1, D14
  const auto holder = session_holder().get();
  const auto& core = (*holder)->core();
  auto slow = core->runtime->spawn(core->scope, wait_for_ever());
  auto under_service = core->runtime->spawn(handle->service()->scope(), wait_for_ever());

  ASSERT_THAT(close(SessionFinishReason::success).get(), IsOk());

  EXPECT_THAT(slow.get(), IsError(ErrorCode::closed, HasSubstr("closed")));
  EXPECT_THAT(under_service.get(), IsError(ErrorCode::closed, _));
}

TEST_F(ServiceTest, RefusesCallsAfterCloseAtOnce) {  // R1.15, D14
  ASSERT_THAT(session_holder().get(), IsOk());
  ASSERT_THAT(close(SessionFinishReason::success).get(), IsOk());
  const auto before = time.elapsed();

  EXPECT_THAT(session_holder().get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(rest_holder().get(), IsError(ErrorCode::closed, _));

  EXPECT_EQ(time.elapsed(), before);
}

TEST_F(ServiceTest, EndsAStartUnderWayWhenClosed) {  // R1.2: nothing waits behind it
  server->reply("/client/config", {{.never = true}});
  auto starting = session_holder();
  time.run_ready();

  EXPECT_THAT(close(SessionFinishReason::success).get(), IsOk());

  EXPECT_THAT(starting.get(), IsError(ErrorCode::closed, _));
  EXPECT_EQ(time.elapsed(), 0s);
}

TEST_F(ServiceTest, EndsWithTheLastHandleWithoutAWord) {  // R1.16, D19
  const auto holder = session_holder().get();
  const auto& core = (*holder)->core();
  auto slow = core->runtime->spawn(core->scope, wait_for_ever());
  time.run_ready();
  std::optional<ServiceHandle> copy = handle;
  handle.reset();
  time.advance(15s);
  EXPECT_THAT(server->sent("/session_heartbeat"), SizeIs(1));  // a copy is left
  const auto before = server->sent().size();

  copy.reset();
  time.advance(1h);

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  EXPECT_EQ(server->sent().size(), before);
  EXPECT_THAT(server->sent("/finish"), IsEmpty());
}

TEST_F(ServiceTest, KnowsItsPageInTheConsole) {  // R1.18
  EXPECT_EQ(handle->service()->console_url(), "https://tinker.thinkingmachines.ai/sessions");
  ASSERT_THAT(session_holder().get(), IsOk());
  EXPECT_EQ(handle->service()->console_url(), "https://tinker.thinkingmachines.ai/sessions/s-1");
}

}  // namespace
}  // namespace tinker::session::service_test
