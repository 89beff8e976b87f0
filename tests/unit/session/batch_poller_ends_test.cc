#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/batch_poller.h"
#include "tinker/testing/matchers.h"
#include "unit/session/batch_support.h"

// Reports (R6.21), and who lets go of what (R6.23, R6.24).

namespace tinker::session::batch_poller_ends_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

// ---- R6.21: reports

TEST_F(BatchPollerTest, ReportsResultsThatArrived) {  // R6.21, R6.17
  script({completed({"r-2", "r-1"}, 2), after(30s, nothing(2))});
  fixture.server->handle(std::string(kRetrieveFuture), [](const http::Request& request) {
    const bool is_second = http::view(request.body).find("r-2") != std::string_view::npos;
    return is_second ? json(R"({"error":"too long"})") : protobuf(sample_bytes());
  });

  auto first = await("r-1");
  auto second = await("r-2");
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsError(ErrorCode::request_failed, _));
  fixture.time.advance(1h);

  const auto polls = bodies(fixture, kRetrieveFutures);
  ASSERT_GE(polls.size(), 2U);
  std::string all;
  for (const auto& poll : polls) all += poll;
  EXPECT_THAT(all, AllOf(HasSubstr("\"r-1\""), HasSubstr("\"r-2\"")));
  EXPECT_LE(polls.size(), 3U);  // nothing is left to say after that
}

TEST_F(BatchPollerTest, RepeatsAReportUntilAPollSucceeds) {  // R6.21
  script({{.status = 503}, {.status = 503}, nothing()});

  on_loop([this] {
    poller->retrieved("r-2");
    poller->retrieved("r-1");
  });
  fixture.time.advance(1h);

  EXPECT_THAT(bodies(fixture, kRetrieveFutures),
              AllOf(SizeIs(3), Each(HasSubstr(R"("retrieved_request_ids":["r-1","r-2"])"))));
}

TEST_F(BatchPollerTest, KeepsWhatWasReportedWhileAPollWasUnderWay) {  // R6.21
  script({after(10s, nothing()), after(10s, nothing())});
  on_loop([this] { poller->retrieved("r-1"); });
  fixture.time.advance(5s);
  on_loop([this] { poller->retrieved("r-2"); });
  fixture.time.advance(1h);

  EXPECT_THAT(bodies(fixture, kRetrieveFutures),
              ElementsAre(HasSubstr(R"(["r-1"])"), HasSubstr(R"(["r-2"])")));
}

TEST_F(BatchPollerTest, DoesNotReportWhatFailedOnTheWay) {  // R6.21
  script({completed({"r-1", "r-2", "r-3"}, 3)});
  fixture.server->handle(std::string(kRetrieveFuture), [](const http::Request& request) {
    const auto body = http::view(request.body);
    if (body.find("r-1") != std::string_view::npos) return FakeReply{.status = 404};
    if (body.find("r-2") != std::string_view::npos) return protobuf("\xff\xff");
    return FakeReply{.never = true};
  });

  auto cancelled = await("r-3");
  EXPECT_THAT(await("r-1").get(), IsError(ErrorCode::not_found, _));
  EXPECT_THAT(await("r-2").get(), IsError(ErrorCode::invalid_response, _));
  cancelled.cancel();
  EXPECT_THAT(cancelled.get(), IsError(ErrorCode::cancelled, _));
  fixture.time.advance(1h);

  EXPECT_THAT(bodies(fixture, kRetrieveFutures), Each(HasSubstr(R"("retrieved_request_ids":[])")));
}

// ---- R6.23, R6.24: cancelled and closed

TEST_F(BatchPollerTest, KeepsNoCompletionOfACancelledWaiter) {  // R6.23, D18
  script({after(10s, completed({"r-1", "r-2", "r-3"}, 3))});
  auto first = wait("r-1");
  auto second = wait("r-2");
  auto third = wait("r-3");
  fixture.time.advance(1s);

  for (auto* one : {&first, &second, &third}) one->cancel();
  for (auto* one : {&first, &second, &third}) {
    EXPECT_THAT(one->get(), IsError(ErrorCode::cancelled, _));
  }
  EXPECT_EQ(fixture.time.elapsed(), 1s);
  fixture.time.advance(1h);

  EXPECT_EQ(poller->stored(), 0U);
  EXPECT_THAT(poll_times(), SizeIs(1));
}

TEST_F(BatchPollerTest, BoundsWhatItKeeps) {  // R6.23
  std::vector<std::string> ids = {"r-1"};
  for (int i = 0; i < 12'000; ++i) ids.push_back("other-" + std::to_string(i));
  script({completed(ids, 1)});

  EXPECT_THAT(wait("r-1").get(), IsOk());

  EXPECT_EQ(poller->stored(), 10'000U);
}

TEST_F(BatchPollerTest, CloseEndsEveryWaiter) {  // R6.24, D1
  script({{.never = true}});
  auto first = wait("r-1");
  auto second = await("r-2");
  fixture.time.advance(1s);

  on_loop(
      [this] { poller->close({.code = ErrorCode::closed, .message = "the client was closed"}); });

  EXPECT_THAT(first.get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(second.get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(wait("r-3").get(), IsError(ErrorCode::closed, _));
  EXPECT_EQ(fixture.time.elapsed(), 1s);
  EXPECT_EQ(fixture.server->in_flight(), 0U);
}

TEST_F(BatchPollerTest, TheEndOfTheSessionEndsEveryWaiter) {  // R6.24, D1
  script({{.never = true}});
  auto below = wait("r-1");
  auto outside =
      fixture.session->runtime->spawn(fixture.session->runtime->scope(), poller->wait("r-2"));
  fixture.time.advance(1s);

  on_loop(
      [this] { fixture.session->scope->cancel({.code = ErrorCode::closed, .message = "closed"}); });

  EXPECT_THAT(below.get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(outside.get(), IsError(ErrorCode::closed, _));
}

TEST_F(BatchPollerTest, EndsWithItsWorkWhenTheClientIsGone) {  // R6.14
  script({after(10s, completed({"r-1"}, 1))});
  auto waiting = wait("r-1");
  fixture.time.advance(1s);
  const std::weak_ptr<BatchPoller> weak = poller;
  poller.reset();

  EXPECT_THAT(waiting.get(), IsOk());
  fixture.time.advance(1s);

  EXPECT_TRUE(weak.expired());
}

TEST_F(BatchPollerTest, ServesManyWaitersAtOnce) {
  constexpr int kCount = 10'000;
  int cursor = 0;
  fixture.server->handle(std::string(kRetrieveFutures), [&cursor](const http::Request&) {
    std::vector<std::string> ids;
    for (int i = 0; i < 500 && cursor < kCount; ++i) ids.push_back("r-" + std::to_string(cursor++));
    return after(1s, completed(ids, cursor));
  });
  std::vector<Future<Completion>> all;
  all.reserve(kCount);
  for (int i = 0; i < kCount; ++i) all.push_back(wait("r-" + std::to_string(i)));

  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());

  EXPECT_EQ(fixture.time.elapsed(), 20s);
}

}  // namespace
}  // namespace tinker::session::batch_poller_ends_test
