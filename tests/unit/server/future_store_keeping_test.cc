#include <string>

#include "unit/server/future_store_support.h"

namespace tinker::server::future_store_keeping_test {
namespace {

using namespace std::chrono_literals;

TEST_F(FutureStoreTest, GivesADeliveredResultAgainForItsTime) {  // SERVER 2.4, PROTOCOL 9.19
  deliver("r-1");

  time_.advance(10min - 1ns);
  EXPECT_EQ(polled("r-1"), "done");
  time_.advance(1ns);

  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(store_->kept(), 0U);
  EXPECT_EQ(store_->kept_bytes(), 0U);
}

TEST_F(FutureStoreTest, CountsFromTheLastDelivery) {
  deliver("r-1");
  time_.advance(6min);
  store_->delivered("r-1");
  time_.advance(6min);
  EXPECT_EQ(polled("r-1"), "done");

  time_.advance(4min);

  EXPECT_EQ(polled("r-1"), "410");
}

TEST_F(FutureStoreTest, AFailureIsDeliveredLikeAResult) {
  open("r-1");
  store_->finish("r-1", Error{.message = "broken"});
  store_->delivered("r-1");

  time_.advance(10min);

  EXPECT_EQ(polled("r-1"), "410");
}

TEST_F(FutureStoreTest, APollAloneIsNoDelivery) {  // SERVER 4.1: SkyRL #2162
  open("r-1");
  finish("r-1");
  EXPECT_EQ(polled("r-1"), "done");

  time_.advance(1h);

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, KeepsAResultThatNobodyFetchedForItsOwnTime) {
  open("r-1");
  time_.advance(48h);
  finish("r-1");

  time_.advance(24h - 1ns);
  EXPECT_EQ(polled("r-1"), "done");
  time_.advance(1ns);

  EXPECT_EQ(polled("r-1"), "410");
}

TEST_F(FutureStoreTest, KeepsAResultOfNoSessionForAShorterTime) {
  store_->open({.request_id = "r-1", .owner = "me", .has_session = false});
  finish("r-1");
  open("r-2");
  finish("r-2");

  time_.advance(1h - 1ns);
  EXPECT_EQ(polled("r-1"), "done");
  time_.advance(1ns);

  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(polled("r-2"), "done");
}

TEST_F(FutureStoreTest, HasRoomForOwnersWithLittleWhenOneHasTooMuchPending) {
  make({.max_pending = 4});
  for (const auto* id : {"r-1", "r-2", "r-3", "r-4"}) open(id);

  EXPECT_THAT(
      store_->check_room("me"),
      testing::IsError(ErrorCode::rate_limited, ::testing::HasSubstr("4 of your requests wait")));
  EXPECT_THAT(store_->check_room("you"), testing::IsOk());
  store_->open({.request_id = "y-1", .owner = "you"});
  EXPECT_THAT(store_->check_room("you"), testing::IsOk());
  store_->cancel("r-1", "me");
  finish("r-2");
  EXPECT_THAT(store_->check_room("me"), testing::IsOk());
}

TEST_F(FutureStoreTest, HasRoomForOwnersWithLittleWhenOneFetchesNothing) {
  make({.max_unfetched_bytes = 1000});
  open("r-1");
  finish("r-1", std::string(1000, 'x'));
  store_->open({.request_id = "y-1", .owner = "you"});
  finish("y-1", "x");

  EXPECT_THAT(store_->check_room("me"), testing::IsError(ErrorCode::rate_limited, ::testing::_));
  EXPECT_THAT(store_->check_room("you"), testing::IsOk());
  store_->delivered("r-1");
  EXPECT_THAT(store_->check_room("me"), testing::IsOk());
}

TEST_F(FutureStoreTest, DropsEachResultAtItsOwnTime) {
  open("unfetched");
  finish("unfetched");
  time_.advance(1min);
  deliver("first");
  time_.advance(1min);
  deliver("second");

  time_.advance(9min);

  EXPECT_EQ(polled("first"), "410");
  EXPECT_EQ(polled("second"), "done");
  EXPECT_EQ(store_->kept(), 2U);
  time_.advance(1min);
  EXPECT_EQ(polled("second"), "410");
  EXPECT_EQ(polled("unfetched"), "done");
}

TEST_F(FutureStoreTest, KeepsWhatIsPendingForEver) {
  open("r-1");

  time_.advance(24h * 365);
  finish("r-1");

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, DropsTheOldestDeliveredResultsWhenTheyAreTooManyBytes) {
  make({.max_delivered_bytes = 30'000});
  deliver("first", std::string(12'000, 'x'));
  deliver("second", std::string(12'000, 'x'));
  store_->delivered("first");  // again: now the second is the older one

  deliver("third", std::string(12'000, 'x'));

  EXPECT_EQ(polled("second"), "410");
  EXPECT_EQ(polled("first").size(), 12'000U);
  EXPECT_EQ(polled("third").size(), 12'000U);
}

TEST_F(FutureStoreTest, NeverDropsForItsBytesWhatWasNotDelivered) {
  make({.max_delivered_bytes = 100});
  open("unfetched");
  finish("unfetched", std::string(1'000, 'x'));
  deliver("first");
  deliver("second");

  EXPECT_EQ(polled("first"), "410");
  EXPECT_EQ(polled("unfetched").size(), 1'000U);
}

TEST_F(FutureStoreTest, KeepsTheLastDeliveredResultWhateverItsSize) {  // PROTOCOL 9.19: a repeat
  make({.max_delivered_bytes = 100});

  deliver("r-1", std::string(1'000, 'x'));

  EXPECT_EQ(polled("r-1").size(), 1'000U);
}

TEST_F(FutureStoreTest, CountsEmptyResultsAndFailuresToo) {
  make({.max_delivered_bytes = 10'000});

  for (int i = 0; i < 1'000; ++i) {
    open(std::to_string(i));
    store_->finish(std::to_string(i), Error{});
    store_->delivered(std::to_string(i));
  }

  EXPECT_LT(store_->kept(), 100U);
  EXPECT_LE(store_->kept_bytes(), 10'000U);
}

TEST_F(FutureStoreTest, ForgetsTheOldestExpiredIds) {
  make({.keep_delivered = 1s, .max_expired_ids = 2});
  for (const auto* id : {"r-1", "r-2", "r-3"}) deliver(id);

  time_.advance(1s);

  EXPECT_EQ(polled("r-1"), "404");
  EXPECT_EQ(polled("r-2"), "410");
  EXPECT_EQ(polled("r-3"), "410");
}

TEST_F(FutureStoreTest, DoesNotTellOthersThatAnIdHasExpired) {
  deliver("r-1");
  time_.advance(10min);

  auto theirs = start(store_->poll("r-1", "somebody else", false));

  EXPECT_EQ(text(theirs.get().value()), "404");
}

TEST_F(FutureStoreTest, AnExpiredIdMayBeUsedAgain) {
  deliver("r-1", "old");
  time_.advance(10min);

  open("r-1");
  finish("r-1", "new");

  EXPECT_EQ(polled("r-1"), "new");
}

TEST_F(FutureStoreTest, AnIdInUseStaysAsItIs) {
  open("r-1");
  finish("r-1");

  open("r-1");

  EXPECT_EQ(polled("r-1"), "done");
  EXPECT_EQ(store_->pending(), 0U);
}

TEST_F(FutureStoreTest, IgnoresDeliveriesOfWhatHasNotEnded) {
  open("r-1");
  store_->delivered("r-1");
  store_->delivered("unknown");
  finish("r-1");

  time_.advance(1h);

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, AnAnswerOutlivesTheResult) {
  open("r-1");
  finish("r-1", "bytes");
  const auto answer = poll("r-1");

  store_->cancel("r-1", "me");
  store_.reset();

  EXPECT_EQ(text(answer), "bytes");
}

}  // namespace
}  // namespace tinker::server::future_store_keeping_test
