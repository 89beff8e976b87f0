#include <limits>
#include <string>

#include "unit/server/future_store_support.h"

namespace tinker::server::future_store_batch_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;

TEST_F(FutureStoreTest, HoldsABatchedPollUntilAnEvent) {  // PROTOCOL 9.38 rule 1
  open_sample("r-1");
  auto answer = start_poll_all({.target = target(0)});
  time_.advance(5s);
  EXPECT_FALSE(answer.is_ready());

  finish("r-1");

  EXPECT_THAT(ids(answer.get().value()), ElementsAre("r-1"));
  EXPECT_EQ(time_.elapsed(), 5s);
}

TEST_F(FutureStoreTest, AnswersABatchedPollWithNothingAfterItsTime) {  // PROTOCOL 9.38 rules 1, 6
  const auto answer = poll_all(17);

  EXPECT_THAT(answer.completions, IsEmpty());
  EXPECT_EQ(answer.cursor, 17);
  EXPECT_EQ(time_.elapsed(), 30s);
}

TEST_F(FutureStoreTest, SaysSizesAndFailures) {  // PROTOCOL 9.38
  open_sample("r-1");
  open_sample("r-2");
  finish("r-1", "12345");
  store_->finish("r-2", Error{.message = "broken"});

  EXPECT_THAT(poll_all(0).completions,
              ElementsAre(FutureCompletion(FutureFinished{.request_id = "r-1",
                                                          .response_payload_uncompressed_size = 5}),
                          FutureCompletion(FutureFailed{.request_id = "r-2"})));
}

TEST_F(FutureStoreTest, ARepeatedCursorGivesTheEventsAgain) {  // PROTOCOL 9.38 rule 2
  open_sample("r-1");
  open_sample("r-2");
  finish("r-1");
  const auto first = poll_all(0);
  finish("r-2");
  const auto second = poll_all(first.cursor);

  EXPECT_EQ(poll_all(first.cursor), second);
  EXPECT_THAT(ids(second), ElementsAre("r-2"));
  EXPECT_THAT(ids(poll_all(0)), ElementsAre("r-1", "r-2"));
}

TEST_F(FutureStoreTest, CursorsNeverGoBackwards) {  // PROTOCOL 9.38 rule 2
  open_sample("r-1");
  finish("r-1");
  const auto first = poll_all(0);
  const auto empty = poll_all(first.cursor);
  open_sample("r-2");
  finish("r-2");

  EXPECT_EQ(empty.cursor, first.cursor);
  EXPECT_GT(poll_all(first.cursor).cursor, first.cursor);
}

TEST_F(FutureStoreTest, CursorsGoOnAfterARestart) {
  open_sample("r-1");
  finish("r-1");
  const auto before = poll_all(0).cursor;
  time_.advance(1s);
  make(FutureLimits());
  open_sample("r-2");
  finish("r-2");

  const auto answer = poll_all(before);

  EXPECT_THAT(ids(answer), ElementsAre("r-2"));
  EXPECT_GT(answer.cursor, before);
}

TEST_F(FutureStoreTest, ACursorThatWasNeverGivenMissesNothing) {
  open_sample("r-1");
  finish("r-1");

  EXPECT_THAT(ids(poll_all(std::numeric_limits<std::int64_t>::max())), ElementsAre("r-1"));
  EXPECT_THAT(ids(poll_all(-5)), ElementsAre("r-1"));
}

TEST_F(FutureStoreTest, RequestsOfOtherClonesAreOfOtherTargets) {  // PROTOCOL 9.38 rule 3
  open_sample("r-1", 0);
  open_sample("r-2", 7);
  open("r-3");
  for (const auto* id : {"r-1", "r-2", "r-3"}) finish(id);

  EXPECT_THAT(ids(poll_all(0)), ElementsAre("r-1"));
  EXPECT_THAT(ids(start_poll_all({.target = target(7)}).get().value()), ElementsAre("r-2"));
}

TEST_F(FutureStoreTest, RequestsOfOtherOwnersAreOfOtherTargets) {
  open_sample("r-1");
  finish("r-1");

  FuturesRetrieveRequest request{.target = target(0), .retrieved_request_ids = {"r-1"}};
  auto theirs = start(store_->poll_all(std::move(request), "somebody else"));

  EXPECT_THAT(theirs.get().value().completions, IsEmpty());
  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, RetrievedResultsAreDropped) {  // PROTOCOL 9.38 rule 5
  open_sample("r-1");
  open_sample("r-2");
  finish("r-1");
  const auto first = poll_all(0);
  finish("r-2");

  const auto second = poll_all(first.cursor, {"r-1", "unknown"});
  const auto again = poll_all(first.cursor, {"r-1", "unknown"});

  EXPECT_EQ(second, again);
  EXPECT_THAT(ids(again), ElementsAre("r-2"));
  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(store_->kept(), 1U);
}

TEST_F(FutureStoreTest, AnEventThatWasNotSeenStaysWhenItsResultIsRetrieved) {  // rules 2 and 5
  open_sample("r-1");
  finish("r-1");

  EXPECT_THAT(ids(poll_all(0, {"r-1"})), ElementsAre("r-1"));
  EXPECT_THAT(ids(poll_all(0, {"r-1"})), ElementsAre("r-1"));
}

TEST_F(FutureStoreTest, OnlyEndedRequestsOfTheTargetAreDropped) {  // PROTOCOL 9.38 rule 5
  open_sample("pending");
  open_sample("other", 7);
  open("training");
  finish("other");
  finish("training");

  poll_all(0, {"pending", "other", "training"});

  EXPECT_EQ(polled("other"), "done");
  EXPECT_EQ(polled("training"), "done");
  EXPECT_EQ(store_->pending(), 1U);
}

TEST_F(FutureStoreTest, ACancelledRequestHasAnEvent) {  // PROTOCOL 9.38 rule 3
  open_sample("r-1");
  auto answer = start_poll_all({.target = target(0)});

  store_->cancel("r-1", "me");

  EXPECT_THAT(ids(answer.get().value()), ElementsAre("r-1!"));
}

TEST_F(FutureStoreTest, EventsGoWithTheirResults) {
  open_sample("r-1");
  finish("r-1");
  store_->delivered("r-1");

  time_.advance(10min);

  EXPECT_THAT(poll_all(0).completions, IsEmpty());
}

TEST_F(FutureStoreTest, TakesAShorterTimeFromTheRequest) {
  auto short_one = start_poll_all({.target = target(0), .timeout = 1.5});
  ASSERT_THAT(short_one.get().value().completions, IsEmpty());
  EXPECT_EQ(time_.elapsed(), 1500ms);

  for (const double no_time : {0.0, -1e300}) {
    start_poll_all({.target = target(0), .timeout = no_time}).get().value();
  }

  EXPECT_EQ(time_.elapsed(), 1500ms);
}

TEST_F(FutureStoreTest, NeverHoldsABatchedPollLonger) {  // PROTOCOL 9.38 rule 1
  for (const double long_time : {1e300, std::numeric_limits<double>::quiet_NaN()}) {
    start_poll_all({.target = target(0), .timeout = long_time}).get().value();
  }

  EXPECT_EQ(time_.elapsed(), 60s);
}

TEST_F(FutureStoreTest, ABatchedPollThatGivesUpDoesNotStrandOthers) {  // SERVER 4.1 Waiting
  open_sample("r-1");
  auto gone = start_poll_all({.target = target(0)});
  auto other = start_poll_all({.target = target(0)});

  gone.cancel();
  time_.run_ready();
  finish("r-1");

  EXPECT_THAT(gone.get(), IsError(ErrorCode::cancelled, HasSubstr("")));
  EXPECT_THAT(ids(other.get().value()), ElementsAre("r-1"));
}

TEST_F(FutureStoreTest, OneAnswerHasAllThatEndedTogether) {
  for (const auto* id : {"r-1", "r-2", "r-3"}) open_sample(id);
  auto answer = start_poll_all({.target = target(0)});

  for (const auto* id : {"r-1", "r-2", "r-3"}) finish(id);

  EXPECT_THAT(ids(answer.get().value()), ElementsAre("r-1", "r-2", "r-3"));
}

TEST_F(FutureStoreTest, SplitsVeryLongAnswers) {
  for (int i = 0; i < 10'001; ++i) {
    open_sample(std::to_string(i));
    finish(std::to_string(i));
  }

  const auto first = poll_all(0);

  EXPECT_EQ(first.completions.size(), 10'000U);
  EXPECT_THAT(ids(poll_all(first.cursor)), ElementsAre("10000"));
}

}  // namespace
}  // namespace tinker::server::future_store_batch_test
