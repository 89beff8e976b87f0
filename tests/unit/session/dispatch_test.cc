#include "session/dispatch.h"

#include <functional>

#include <gmock/gmock.h>

#include "session/backoff.h"
#include "tinker/testing/matchers.h"
#include "unit/session/sample_support.h"

namespace tinker::session::dispatch_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

constexpr std::int64_t kSmall = 100;
constexpr std::int64_t kLarge = 131'073;
constexpr std::int64_t kAllBytes = 10'485'760;

FakeReply accepted_after(std::chrono::nanoseconds delay) {
  FakeReply reply = accepted();
  reply.delay = delay;
  return reply;
}

class DispatchTest : public ::testing::Test {
 protected:
  DispatchTest() { f_.session->backoff = backoff_; }

  void answer(std::vector<FakeReply> replies) {
    f_.server->reply(std::string(kAsample), std::move(replies));
  }
  Future<UntypedApiFuture> submit(std::int64_t bytes = kSmall) { return submit(f_.session, bytes); }
  Future<UntypedApiFuture> submit(const std::shared_ptr<SessionCore>& session, std::int64_t bytes) {
    return session->runtime->spawn(session->scope,
                                   submit_sample(session, bytes, [session](const auto& watch) {
                                     return asample(session, watch);
                                   }));
  }
  /// Submits `count` at once and waits for all.
  void flood(int count, std::int64_t bytes = kSmall) {
    auto futures = many(count, [&](int) { return submit(bytes); });
    EXPECT_THAT(when_all(std::move(futures)).get(), IsOkAndHolds(SizeIs(count)));
  }
  void expect_all_given_back() const {
    EXPECT_EQ(f_.session->sample_dispatch.available(), 400);
    EXPECT_EQ(f_.session->throttled_sample_dispatch.available(), 10);
    EXPECT_EQ(f_.session->sample_bytes.available(), kAllBytes);
    EXPECT_EQ(f_.session->sample_dispatch.waiting(), 0U);
    EXPECT_EQ(f_.session->throttled_sample_dispatch.waiting(), 0U);
    EXPECT_EQ(f_.session->sample_bytes.waiting(), 0U);
  }

  SessionFixture f_;
  std::shared_ptr<Backoff> backoff_ =
      shared_backoff(*f_.session->runtime, "http://server.test", Secret("tml-secret-key"));
};

// R10.3
TEST(EstimateBytes, CountsTokensTenfoldAndMediaByTheirLength) {
  ModelInput input = ModelInput::from_tokens({1, 2, 3});
  input.append(ImageChunk{.data = "1234567", .expected_tokens = 900});
  input.append(ImageAssetPointerChunk{.location = "tinker://a"});
  input.append(DmelChunk{.dmel = "12345"});

  EXPECT_EQ(estimate_bytes(input), 30 + 7 + 10 + 5);
  EXPECT_EQ(estimate_bytes(ModelInput()), 0);
}

TEST_F(DispatchTest, SubmitsAtOnceAndGivesAllBack) {
  answer({accepted_after(2s)});

  auto future = submit();
  f_.time.advance(1s);
  EXPECT_EQ(f_.session->sample_dispatch.available(), 399);
  EXPECT_EQ(f_.session->throttled_sample_dispatch.available(), 10);
  EXPECT_EQ(f_.session->sample_bytes.available(), kAllBytes - kSmall);

  EXPECT_EQ(future.get().value().request_id, "r1");
  expect_all_given_back();
}

// R10.4 (a)
TEST_F(DispatchTest, HasAtMostFourHundredInFlightUnderAFlood) {
  answer({accepted_after(1s)});

  flood(2000);

  EXPECT_EQ(most_at_once(times(f_), 1s), 400U);
  EXPECT_EQ(times(f_).back(), 4s);
  expect_all_given_back();
}

// R10.4 (b)
TEST_F(DispatchTest, HasAtMostTenInFlightAfterABackoff) {
  answer({accepted_after(1s)});
  backoff_->request(f_.session->now(), kSmall);

  flood(200);

  EXPECT_EQ(most_at_once(times(f_), 1s), 10U);
  EXPECT_EQ(times(f_).front(), 1s);  // not before the back-off ends
  EXPECT_EQ(times(f_).back(), 20s);
  expect_all_given_back();
}

// R10.4 (b), R10.5
TEST_F(DispatchTest, IsThrottledNoMoreTenSecondsAfterTheBackoffEnded) {
  answer({accepted_after(1s)});
  backoff_->request(f_.session->now(), kSmall);
  f_.time.advance(11s);

  flood(200);

  EXPECT_EQ(most_at_once(times(f_), 1s), 200U);
}

// R10.4 (c), R6.8: admitted while the balance is not negative.
TEST_F(DispatchTest, LimitsTheBytesInFlight) {
  answer({accepted_after(1s)});

  flood(50, 3'000'000);

  EXPECT_EQ(most_at_once(times(f_), 1s), 4U);
  expect_all_given_back();
}

// R10.4 (c): 9 × 1,200,000 would pass together; × 20, each is more than the whole.
TEST_F(DispatchTest, ChargesTwentyTimesTheBytesAfterABackoff) {
  answer({accepted_after(1s)});
  backoff_->request(f_.session->now(), kSmall);

  flood(9, 1'200'000);

  EXPECT_EQ(most_at_once(times(f_), 1s), 1U);
  expect_all_given_back();
}

// R6.8
TEST_F(DispatchTest, AdmitsASampleThatIsLargerThanTheWholeBudget) {
  answer({accepted()});

  EXPECT_THAT(submit(100 * kAllBytes).get(), IsOk());

  expect_all_given_back();
}

// R10.5: the byte gate looks again, so who waited for the throttled gate for long pays the plain
// price.
TEST_F(DispatchTest, AsksAtEachGateWhetherTheBackoffIsRecent) {
  answer({accepted_after(30s)});
  backoff_->request(f_.session->now(), kSmall);
  const auto futures = many(11, [&](int) { return submit(1000); });
  f_.time.advance(5s);
  EXPECT_EQ(f_.session->sample_bytes.available(), kAllBytes - 200'000);
  EXPECT_EQ(f_.session->throttled_sample_dispatch.waiting(), 1U);

  f_.time.advance(35s);

  EXPECT_THAT(times(f_), SizeIs(11));
  EXPECT_EQ(f_.session->throttled_sample_dispatch.available(), 9);
  EXPECT_EQ(f_.session->sample_bytes.available(), kAllBytes - 1000);
}

// R10.6
TEST_F(DispatchTest, LooksEverySecondWhetherTheBackoffIsOver) {
  answer({accepted()});
  f_.time.advance(500ms);
  backoff_->request(f_.session->now(), kSmall);  // until 1.5 s
  f_.time.advance(200ms);

  EXPECT_THAT(submit().get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(1700ms));
}

// R10.6: 1 s for a small sample, 5 s for a large one; not the waits of execute_with_retries.
TEST_F(DispatchTest, BacksOffOnA429) {
  answer({refused(429), refused(429), refused(429), accepted()});

  EXPECT_THAT(submit(kSmall).get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0s, 1s, 2s, 3s));
  expect_all_given_back();
}

TEST_F(DispatchTest, BacksOffLongerWhenTheSampleIsLarge) {
  answer({refused(429), refused(429), accepted()});

  EXPECT_THAT(submit(kLarge).get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0s, 5s, 10s));
}

TEST_F(DispatchTest, BacksOffForAsLongAsTheServerWants) {
  std::vector<FakeReply> replies(1000, refused(429));
  replies.push_back(accepted());
  answer(std::move(replies));

  EXPECT_THAT(submit().get(), IsOk());

  EXPECT_EQ(times(f_).back(), 1000s);
}

TEST_F(DispatchTest, ReportsNoBackoff) {
  answer({refused(429), refused(402), refused(429), accepted()});
  EXPECT_THAT(submit().get(), IsOk());

  EXPECT_THAT(reported(f_, "InternalClientHolder.execute_with_retries.exception"), IsEmpty());
}

// R5.5.3
TEST_F(DispatchTest, TreatsAPausing402LikeA429) {
  answer({refused(402), refused(402), accepted()});
  EXPECT_THAT(submit(kSmall).get(), IsOk());
  EXPECT_THAT(times(f_), ElementsAre(0s, 1s, 2s));

  answer({refused(402), accepted()});
  f_.time.advance(30s);
  EXPECT_THAT(submit(kLarge).get(), IsOk());
  EXPECT_EQ(times(f_).back() - times(f_).at(3), 5s);
  EXPECT_THAT(f_.log.lines("billing"), SizeIs(1));
}

// R5.5.2
TEST_F(DispatchTest, RaisesThe402WhenItsWindowHasPassed) {
  f_.session->config.billing_exception_max_pause_duration_sec = 10;
  answer({refused(402)});

  EXPECT_THAT(submit().get(), IsError(ErrorCode::billing, HasSubstr("402")));

  EXPECT_EQ(times(f_).back(), 11s);
  EXPECT_THAT(f_.log.lines("giving up"), SizeIs(1));
  EXPECT_THAT(reported(f_, "InternalClientHolder.execute_with_retries.exception"), SizeIs(1));
  expect_all_given_back();
}

// R5.6: asample is under execute_with_retries, whose 300 s start again after each back-off.
TEST_F(DispatchTest, RepeatsOtherFailuresAsExecuteWithRetriesDoes) {
  answer({refused(503), refused(503), refused(429), refused(503), accepted()});

  EXPECT_THAT(submit().get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0s, 1s, 3s, 4s, 5s));
}

TEST_F(DispatchTest, GivesAllBackWhenTheSampleFails) {
  answer({refused(422)});

  EXPECT_THAT(submit().get(), IsError(ErrorCode::unprocessable, _));

  expect_all_given_back();
}

// Two holders of the same server and key: what one is told holds for the other.
TEST_F(DispatchTest, SharesTheBackoffBetweenHolders) {
  const auto other = f_.make_session();
  other->backoff = shared_backoff(*other->runtime, "http://server.test", Secret("tml-secret-key"));
  answer({refused(429), accepted()});
  auto first = submit(f_.session, kLarge);
  f_.time.advance(100ms);

  auto second = submit(other, kSmall);

  EXPECT_THAT(second.get(), IsOk());
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(times(f_), ElementsAre(0ms, 5000ms, 5100ms));
  EXPECT_EQ(other->throttled_sample_dispatch.available(), 10);
}

async::Task<UntypedApiFuture> note(std::shared_ptr<std::vector<int>> order, int number) {
  order->push_back(number);
  auto pause = async::sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  co_return UntypedApiFuture();
}

TEST_F(DispatchTest, SubmitsInTheOrderOfTheCalls) {
  backoff_->request(f_.session->now(), kSmall);
  const auto order = std::make_shared<std::vector<int>>();
  auto futures = many(100, [&](int i) {
    return f_.spawn(
        submit_sample(f_.session, kSmall, [order, i](const auto&) { return note(order, i); }));
  });

  EXPECT_THAT(when_all(std::move(futures)).get(), IsOk());

  EXPECT_THAT(*order, SizeIs(100));
  EXPECT_TRUE(std::is_sorted(order->begin(), order->end()));
}

TEST_F(DispatchTest, SaysWhatASampleWaitsForWhenThatTakesLong) {
  answer({{.never = true}});
  const auto ahead = many(4, [&](int) { return submit(kAllBytes / 3); });
  auto future = submit();

  f_.time.advance(30s);

  EXPECT_THAT(f_.log.lines("as many bytes as allowed"), SizeIs(1));
  EXPECT_THAT(f_.log.lines("takes long: 30 s so far, sent"), SizeIs(4));
}

TEST_F(DispatchTest, DoesNotCallSentWhatWasRefused) {
  answer({refused(500)});
  auto future = submit();

  f_.time.advance(30s);

  EXPECT_THAT(f_.log.lines("so far, sent"), IsEmpty());
  EXPECT_THAT(f_.log.lines("submission of a sample takes long: 30 s so far, failing; attempt 5"),
              SizeIs(1));
}

/// A place where a sample can be when it is cancelled.
struct Place {
  std::string name;
  std::function<void(SessionFixture& fixture)> arrange;
  int ahead;  // samples that hold what it waits for
  std::vector<FakeReply> replies;
  std::chrono::nanoseconds when;
};

class CancelledDispatchTest : public DispatchTest, public ::testing::WithParamInterface<Place> {};

TEST_P(CancelledDispatchTest, EndsAtOnceAndGivesAllBack) {
  const Place& place = GetParam();
  place.arrange(f_);
  answer(place.replies);
  auto ahead = many(place.ahead, [&](int) { return submit(kAllBytes / 3); });
  auto future = submit();
  f_.time.advance(place.when);
  ASSERT_FALSE(future.is_ready());
  const auto before = times(f_).size();

  future.cancel();
  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(f_.time.elapsed(), place.when);
  for (auto& other : ahead) other.cancel();
  f_.time.advance(20s);

  EXPECT_EQ(times(f_).size(), before);
  expect_all_given_back();
}

void no_preparation(SessionFixture& /*fixture*/) {}
void back_off(SessionFixture& fixture) {
  fixture.session->backoff->request(fixture.session->now(), kSmall);
}

INSTANTIATE_TEST_SUITE_P(
    Places,
    CancelledDispatchTest,
    ::testing::Values(Place{"behind_four_hundred", no_preparation, 400, {{.never = true}}, 3s},
                      Place{"behind_the_throttled_ten", back_off, 10, {{.never = true}}, 3s},
                      Place{"behind_the_bytes", no_preparation, 4, {{.never = true}}, 3s},
                      Place{"in_the_backoff", back_off, 0, {accepted()}, 500ms},
                      Place{"in_the_request", no_preparation, 0, {{.never = true}}, 3s},
                      Place{"between_two_rounds", no_preparation, 0, {refused(503)}, 5s},
                      Place{"in_its_own_backoff", no_preparation, 0, {refused(429)}, 500ms}),
    [](const auto& place) { return place.param.name; });

}  // namespace
}  // namespace tinker::session::dispatch_test
