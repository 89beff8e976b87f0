#include <string>
#include <vector>

#include "unit/server/future_store_support.h"

namespace tinker::server::future_store_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;

const Error kFailure{.code = ErrorCode::request_failed,
                     .message = "sequence too long",
                     .category = RequestErrorCategory::user};

TEST_F(FutureStoreTest, ResolvesAPollOnCompletion) {  // SERVER 4.1 Waiting
  open("r-1");
  auto answer = start_poll("r-1");
  time_.advance(3s);
  EXPECT_FALSE(answer.is_ready());

  finish("r-1", "bytes");

  EXPECT_EQ(text(answer.get().value()), "bytes");
  EXPECT_EQ(time_.elapsed(), 3s);
}

TEST_F(FutureStoreTest, AnswersAtOnceWhatHasEnded) {  // PROTOCOL 9.38 rule 4
  open("r-1");
  finish("r-1", "bytes");

  EXPECT_EQ(polled("r-1"), "bytes");
  EXPECT_EQ(time_.elapsed(), 0s);
}

TEST_F(FutureStoreTest, GivesTheBytesAsTheyAreAndTheirEncoding) {  // SERVER 4.1: verbatim
  const std::string bytes("\0\xff\n", 3);
  open("r-1");
  store_->finish("r-1", EncodedResult{.body = bytes, .is_protobuf = true});

  const auto ready = std::get<Ready>(poll("r-1"));

  EXPECT_EQ(ready.result->body, bytes);
  EXPECT_TRUE(ready.result->is_protobuf);
}

TEST_F(FutureStoreTest, SurfacesFailures) {  // PROTOCOL 9.19 form 4
  open("r-1");
  auto answer = start_poll("r-1");

  store_->finish("r-1", kFailure);

  EXPECT_EQ(std::get<Error>(answer.get().value()), kFailure);
}

TEST_F(FutureStoreTest, TheFirstOutcomeCounts) {
  open("r-1");
  finish("r-1", "first");
  store_->finish("r-1", kFailure);
  finish("r-2", "nobody opened this");

  EXPECT_EQ(polled("r-1"), "first");
  EXPECT_EQ(polled("r-2"), "404");
}

TEST_F(FutureStoreTest, RefusesUnknownIdsAtOnce) {  // SERVER 4.1 Waiting
  EXPECT_EQ(polled("r-1"), "404");
  EXPECT_EQ(time_.elapsed(), 0s);
}

TEST_F(FutureStoreTest, DoesNotKnowTheIdsOfOthers) {
  open("r-1");
  finish("r-1");

  auto theirs = start(store_->poll("r-1", "somebody else", false));

  EXPECT_EQ(text(theirs.get().value()), "404");
}

TEST_F(FutureStoreTest, HoldsAPollForItsTimeThenSaysWhyItWaits) {  // SERVER 0.2
  open("r-1");
  store_->set_state("r-1", QueueState::paused_capacity, "waiting for memory");

  const auto answer = std::get<StillPending>(poll("r-1"));

  EXPECT_EQ(time_.elapsed(), 35s);
  EXPECT_EQ(answer.state, QueueState::paused_capacity);
  EXPECT_EQ(answer.reason, "waiting for memory");
}

TEST_F(FutureStoreTest, AsksWhyItWaitsWhenThePollEndsAndNoReasonWasSet) {
  int asked = 0;
  store_->open({.request_id = "r-1", .owner = "me", .why = [&](std::string_view id) {
                  ++asked;
                  return StillPending{.reason = "why of " + std::string(id)};
                }});
  auto polling = start_poll("r-1");
  EXPECT_EQ(asked, 0);

  EXPECT_EQ(std::get<StillPending>(polling.get().value()).reason, "why of r-1");

  EXPECT_EQ(asked, 1);
  EXPECT_EQ(store_->state("r-1").reason, "why of r-1");
  store_->set_state("r-1", QueueState::paused_capacity, "what was set");
  EXPECT_EQ(std::get<StillPending>(poll("r-1")).reason, "what was set");
}

TEST_F(FutureStoreTest, SaysActiveWhereNothingWasSaid) {
  open("r-1");

  EXPECT_EQ(std::get<StillPending>(poll("r-1")).state, QueueState::active);
}

TEST_F(FutureStoreTest, IgnoresStatesOfWhatIsNotPending) {
  open("r-1");
  finish("r-1");

  store_->set_state("r-1", QueueState::paused_capacity, "late");
  store_->set_state("r-2", QueueState::paused_capacity, "unknown");

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, AWaiterThatGivesUpLeavesNothingAndDoesNotStrandOthers) {  // SERVER 4.1
  open("r-1");
  auto gone = start_poll("r-1");
  auto other = start_poll("r-1");
  EXPECT_EQ(store_->waiting(), 2U);

  gone.cancel();
  time_.run_ready();

  EXPECT_EQ(store_->waiting(), 1U);
  EXPECT_THAT(gone.get(), IsError(ErrorCode::cancelled, HasSubstr("")));
  finish("r-1");
  EXPECT_EQ(text(other.get().value()), "done");
  EXPECT_EQ(store_->waiting(), 0U);
}

TEST_F(FutureStoreTest, APollWhoseTimeIsOverDoesNotStrandOthers) {  // SERVER 4.1 Waiting
  open("r-1");
  auto early = start_poll("r-1");
  time_.advance(10s);
  auto late = start_poll("r-1");

  EXPECT_EQ(text(early.get().value()), "408");
  EXPECT_EQ(store_->waiting(), 1U);
  finish("r-1");

  EXPECT_EQ(text(late.get().value()), "done");
  EXPECT_EQ(time_.elapsed(), 35s);
}

TEST_F(FutureStoreTest, AResultThatComesAsItsWaiterGivesUpIsKept) {  // SERVER 4.1: SkyRL #2162
  open("r-1");
  auto gone = start_poll("r-1");
  gone.cancel();
  finish("r-1");
  time_.advance(1h);

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, AnnouncesLargeResultsBySizeWhereAllowed) {  // PROTOCOL 9.19 form 3
  make({.metadata_only_bytes = 10});
  open("large");
  finish("large", std::string(10, 'x'));
  open("small");
  finish("small", "123456789");

  EXPECT_EQ(std::get<TooLarge>(start_poll("large", true).get().value()).bytes, 10U);
  EXPECT_EQ(polled("large"), "xxxxxxxxxx");
  EXPECT_EQ(text(start_poll("small", true).get().value()), "123456789");
}

TEST_F(FutureStoreTest, NeverAnnouncesFailuresBySize) {
  make({.metadata_only_bytes = 0});
  open("r-1");
  store_->finish("r-1", kFailure);

  EXPECT_EQ(text(start_poll("r-1", true).get().value()), kFailure.message);
}

TEST_F(FutureStoreTest, CancellingTellsTheOperationOnce) {  // PROTOCOL 9.39
  int told = 0;
  store_->open({.request_id = "r-1", .owner = "me", .cancel = [&] { ++told; }});
  auto waiting = start_poll("r-1");

  store_->cancel("r-1", "me");
  store_->cancel("r-1", "me");

  EXPECT_EQ(told, 1);
  EXPECT_EQ(text(waiting.get().value()), "410");
  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(store_->pending(), 0U);
}

TEST_F(FutureStoreTest, TheOutcomeOfACancelledOperationIsDropped) {
  store_->open({.request_id = "r-1", .owner = "me", .cancel = [&] { finish("r-1"); }});

  store_->cancel("r-1", "me");
  finish("r-1");

  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(store_->kept(), 0U);
}

TEST_F(FutureStoreTest, CancellingDropsAResult) {
  open("r-1");
  finish("r-1");

  store_->cancel("r-1", "me");

  EXPECT_EQ(polled("r-1"), "410");
  EXPECT_EQ(store_->kept_bytes(), 0U);
}

TEST_F(FutureStoreTest, NobodyCancelsForOthers) {
  open("r-1");

  store_->cancel("r-1", "somebody else");
  store_->cancel("r-2", "me");
  finish("r-1");

  EXPECT_EQ(polled("r-1"), "done");
}

TEST_F(FutureStoreTest, FailsAllThatIsPendingTogether) {
  open("r-1");
  open("r-2");
  open("r-3");
  finish("r-3");
  auto waiting = start_poll("r-1");

  store_->fail_all(kFailure);

  EXPECT_EQ(text(waiting.get().value()), kFailure.message);
  EXPECT_EQ(polled("r-2"), kFailure.message);
  EXPECT_EQ(polled("r-3"), "done");
  EXPECT_EQ(store_->pending(), 0U);
}

TEST_F(FutureStoreTest, ItsEndEndsThePollsThatAreHeld) {
  open_sample("r-1");
  auto single = start_poll("r-1");
  auto idle = start_poll_all({.target = target(7)});

  store_.reset();

  EXPECT_EQ(text(single.get().value()), "the server has stopped");
  EXPECT_TRUE(idle.get().value().completions.empty());
  EXPECT_EQ(time_.elapsed(), 0s);
}

TEST_F(FutureStoreTest, TenThousandPollsEndWithTheirResultsAndNoTimePasses) {
  std::vector<Future<PollAnswer>> answers;
  for (int i = 0; i < 10'000; ++i) {
    open(std::to_string(i));
    answers.push_back(core_->spawn(core_->scope(), store_->poll(std::to_string(i), "me", false)));
  }
  time_.run_ready();
  EXPECT_EQ(store_->waiting(), 10'000U);

  for (int i = 0; i < 10'000; ++i) finish(std::to_string(i), "result " + std::to_string(i));

  for (int i = 0; i < 10'000; ++i) {
    auto& answer = answers[static_cast<std::size_t>(i)];
    ASSERT_EQ(text(answer.get().value()), "result " + std::to_string(i));
  }
  EXPECT_EQ(time_.elapsed(), 0s);
}

}  // namespace
}  // namespace tinker::server::future_store_test
