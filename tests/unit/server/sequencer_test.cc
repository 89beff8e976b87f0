#include <limits>
#include <optional>
#include <string>

#include "unit/server/sequencer_support.h"

namespace tinker::server::sequencer_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

TEST_F(SequencerTest, HoldsChunksUntilTheFirstOneWhichComesLast) {  // PROTOCOL 10.3
  submit(pass(3));
  submit(pass(2));
  submit(pass(4));
  EXPECT_THAT(started_, IsEmpty());
  EXPECT_EQ(sequencer_->waiting(), 3U);

  submit(pass(1));

  EXPECT_THAT(started_, ElementsAre("p1", "p2", "p3", "p4"));
  EXPECT_EQ(sequencer_->waiting(), 0U);
}

TEST_F(SequencerTest, StartsAtOnceWhatIsNext) {
  submit(pass(1));
  submit(barrier(2));
  submit(pass(3));

  EXPECT_THAT(started_, ElementsAre("p1", "b2", "p3"));
}

TEST_F(SequencerTest, KnowsTheNumberThatARequestWaitsFor) {
  submit(pass(2));
  submit(pass(4));
  submit(request(std::nullopt, Kind::pass, "behind 4"));
  EXPECT_EQ(sequencer_->awaited_by("p2"), 1);
  EXPECT_EQ(sequencer_->awaited_by("p4"), 1);

  submit(pass(1));

  EXPECT_EQ(sequencer_->awaited_by("p2"), std::nullopt);
  EXPECT_EQ(sequencer_->awaited_by("p4"), 3);
  EXPECT_EQ(sequencer_->awaited_by("behind 4"), 3);
  EXPECT_EQ(sequencer_->awaited_by("unknown"), std::nullopt);
}

TEST_F(SequencerTest, ExpectsWhatItHasAndWhatOthersWaitFor) {
  EXPECT_FALSE(sequencer_->is_expected(1));
  submit(pass(3));
  EXPECT_TRUE(sequencer_->is_expected(1));
  EXPECT_FALSE(sequencer_->is_expected(2));
  EXPECT_TRUE(sequencer_->is_expected(3));

  submit(pass(1));

  EXPECT_TRUE(sequencer_->is_expected(1));
  EXPECT_TRUE(sequencer_->is_expected(2));
  EXPECT_FALSE(sequencer_->is_expected(4));
}

TEST_F(SequencerTest, StartsWhatWaitsWhenItIsToldTo) {
  submit(pass(2));
  submit(pass(4));

  sequencer_->stop_waiting();

  EXPECT_THAT(started_, ElementsAre("p2", "p4"));
  submit(pass(1));
  submit(pass(5));
  loop_->advance(10s);
  EXPECT_THAT(started_, ElementsAre("p2", "p4", "p1", "p5"));
  EXPECT_THAT(failed_, IsEmpty());
}

TEST_F(SequencerTest, HasAGapWhereAPassMayStillCome) {
  submit(pass(3));
  EXPECT_FALSE(sequencer_->has_gap());  // it waits

  sequencer_->stop_waiting();
  EXPECT_TRUE(sequencer_->has_gap());
  submit(pass(1));
  EXPECT_TRUE(sequencer_->has_gap());
  submit(pass(2));
  EXPECT_FALSE(sequencer_->has_gap());
  submit(pass(6));
  submit(barrier(8));

  EXPECT_FALSE(sequencer_->has_gap());  // those below a barrier are given up
}

TEST_F(SequencerTest, FailsAPassThatComesAfterItsNumberWasGivenUp) {
  submit(pass(2));
  submit(pass(4));
  sequencer_->stop_waiting();

  sequencer_->give_up_missing();

  EXPECT_FALSE(sequencer_->has_gap());
  submit(pass(3));
  submit(pass(5));
  EXPECT_THAT(started_, ElementsAre("p2", "p4", "p3", "p5"));
  EXPECT_THAT(failed_, ElementsAre(::testing::Key("p3")));
}

TEST_F(SequencerTest, CountsFromTheNumberItWasGiven) {  // PROTOCOL 10.3: 0 is the creation
  Sequencer from_zero(loop_, 0, 10s);
  ASSERT_THAT(from_zero.submit(pass(1)), IsOk());
  EXPECT_THAT(started_, IsEmpty());

  ASSERT_THAT(from_zero.submit(pass(0)), IsOk());

  EXPECT_THAT(started_, ElementsAre("p0", "p1"));
}

TEST_F(SequencerTest, RunsPassesAboveAGapWhenTheyHaveWaitedLongEnough) {  // PROTOCOL 10.4
  submit(pass(3));
  loop_->advance(4s);
  submit(pass(2));
  submit(pass(6));
  loop_->advance(6s - 1ns);
  EXPECT_THAT(started_, IsEmpty());

  loop_->advance(1ns);  // 3 is due, 2 is below it, 6 came later

  EXPECT_THAT(started_, ElementsAre("p2", "p3"));
  loop_->advance(4s);
  EXPECT_THAT(started_, ElementsAre("p2", "p3", "p6"));
  EXPECT_THAT(failed_, IsEmpty());
}

TEST_F(SequencerTest, RunsWhatFollowsWithoutAGapWithAPassThatIsDue) {
  submit(pass(2));
  loop_->advance(5s);
  submit(pass(3));

  loop_->advance(5s);

  EXPECT_THAT(started_, ElementsAre("p2", "p3"));
}

TEST_F(SequencerTest, MeasuresAgainAfterAGapThatWasClosedInTime) {
  submit(pass(2));
  loop_->advance(5s);
  submit(pass(1));
  submit(pass(4));
  loop_->advance(5s);  // when 2 would have been due
  EXPECT_THAT(started_, ElementsAre("p1", "p2"));

  loop_->advance(5s);

  EXPECT_THAT(started_, ElementsAre("p1", "p2", "p4"));
}

TEST_F(SequencerTest, ABarrierReleasesWhatIsBelowItAndWaitsForNothing) {  // PROTOCOL 10.4
  submit(pass(4));
  submit(pass(2));
  submit(pass(7));

  submit(barrier(5));

  EXPECT_THAT(started_, ElementsAre("p2", "p4", "b5"));
  EXPECT_EQ(sequencer_->waiting(), 1U);
}

TEST_F(SequencerTest, ABarrierReleasesWhatFollowsIt) {
  submit(pass(3));

  submit(barrier(2));

  EXPECT_THAT(started_, ElementsAre("b2", "p3"));
}

TEST_F(SequencerTest, FailsAPassBelowABarrierThatHasStarted) {  // PROTOCOL 10.4
  submit(barrier(3));

  const auto admission = submit(pass(2));

  EXPECT_EQ(admission.request_id, "p2");
  EXPECT_FALSE(admission.is_duplicate);
  ASSERT_TRUE(failed_.contains("p2"));
  EXPECT_THAT(failed_["p2"].message, AllOf(HasSubstr("seq_id 2"), HasSubstr("given it up")));
  EXPECT_EQ(failed_["p2"].category, RequestErrorCategory::user);
}

TEST_F(SequencerTest, FailsABarrierBelowAPassThatHasStarted) {  // PROTOCOL 10.4
  submit(pass(2));
  loop_->advance(10s);

  submit(barrier(1));

  EXPECT_THAT(started_, ElementsAre("p2", "b1"));
  EXPECT_TRUE(failed_.contains("b1"));
}

TEST_F(SequencerTest, RunsTheFirstChunkThatCameAfterTheOthersHadStarted) {  // PROTOCOL 10.4
  submit(pass(2));
  submit(pass(3));
  loop_->advance(10s);

  submit(pass(1));

  EXPECT_THAT(started_, ElementsAre("p2", "p3", "p1"));
  EXPECT_THAT(failed_, IsEmpty());
}

TEST_F(SequencerTest, ARepeatGetsTheFirstOnesIdAndIsNotRun) {  // PROTOCOL 10.2
  submit(pass(1));
  auto repeat = pass(1);
  repeat.request_id = "another";

  const auto admission = submit(std::move(repeat));

  EXPECT_EQ(admission.request_id, "p1");
  EXPECT_TRUE(admission.is_duplicate);
  EXPECT_THAT(started_, ElementsAre("p1"));
}

TEST_F(SequencerTest, ARepeatOfOneThatWaitsIsNotRunEither) {  // PROTOCOL 10.2
  submit(pass(2));

  EXPECT_TRUE(submit(pass(2)).is_duplicate);

  submit(pass(1));
  EXPECT_THAT(started_, ElementsAre("p1", "p2"));
}

TEST_F(SequencerTest, ARepeatOfOneThatFailedGetsItsId) {
  submit(barrier(3));
  submit(pass(2));

  EXPECT_TRUE(submit(pass(2)).is_duplicate);
  EXPECT_THAT(started_, ElementsAre("b3", "p2"));
}

TEST_F(SequencerTest, RefusesAnotherPayloadUnderTheSameNumber) {  // SERVER 4.1: 400, never 409
  submit(pass(1));
  auto other = pass(1);
  other.payload_hash = "another";

  EXPECT_THAT(
      sequencer_->submit(std::move(other)),
      IsError(ErrorCode::bad_request, HasSubstr("seq_id 1 was used for a forward_backward with")));
}

TEST_F(SequencerTest, RefusesAnotherTypeUnderTheSameNumber) {  // SERVER 4.1
  submit(pass(1));
  auto other = barrier(1);
  other.payload_hash = pass(1).payload_hash;

  EXPECT_THAT(sequencer_->submit(std::move(other)),
              IsError(ErrorCode::bad_request,
                      HasSubstr("seq_id 1 of this optim_step was used for a request of type "
                                "forward_backward")));
}

TEST_F(SequencerTest, RefusesNumbersThatCannotBe) {
  EXPECT_THAT(sequencer_->submit(pass(-1)),
              IsError(ErrorCode::bad_request, HasSubstr("seq_id -1 is out of range")));
  EXPECT_THAT(sequencer_->submit(barrier(std::numeric_limits<std::int64_t>::max())),
              IsError(ErrorCode::bad_request, HasSubstr("out of range")));
  EXPECT_THAT(started_, IsEmpty());
}

TEST_F(SequencerTest, NeverMergesRequestsWithoutANumber) {  // SERVER 4.1: no seq, never merged
  submit(request(std::nullopt, Kind::pass, "x"));

  EXPECT_FALSE(submit(request(std::nullopt, Kind::pass, "x")).is_duplicate);

  EXPECT_THAT(started_, ElementsAre("x", "x"));
}

TEST_F(SequencerTest, RunsRequestsWithoutANumberAfterWhatIsHere) {
  submit(pass(3));
  submit(request(std::nullopt, Kind::pass, "x"));
  submit(request(std::nullopt, Kind::pass, "y"));
  submit(pass(4));
  EXPECT_EQ(sequencer_->waiting(), 4U);
  submit(pass(2));

  submit(pass(1));

  EXPECT_THAT(started_, ElementsAre("p1", "p2", "p3", "x", "y", "p4"));
}

TEST_F(SequencerTest, ABarrierWithoutANumberWaitsForNothing) {
  submit(pass(3));

  submit(request(std::nullopt, Kind::barrier, "x"));
  submit(pass(1));

  EXPECT_THAT(started_, ElementsAre("p3", "x", "p1"));
  EXPECT_TRUE(failed_.contains("p1"));
}

TEST_F(SequencerTest, ARequestRefusedForItsContentUsesUpItsNumber) {  // SERVER 0.5, PROTOCOL 10.17
  submit(pass(2));
  auto refused = pass(1);
  refused.start = [this](std::optional<Error>) { started_.emplace_back("refused"); };

  submit(std::move(refused));

  EXPECT_THAT(started_, ElementsAre("refused", "p2"));
}

TEST_F(SequencerTest, ForgetsTheOldestNumbersAndTakesTheirRepeatsForGivenUp) {
  for (std::int64_t number = 1; number <= 100'001; ++number) submit(pass(number));
  started_.clear();

  EXPECT_FALSE(submit(pass(1)).is_duplicate);
  EXPECT_TRUE(submit(pass(100'001)).is_duplicate);

  EXPECT_THAT(started_, ElementsAre("p1"));
  EXPECT_TRUE(failed_.contains("p1"));
}

}  // namespace
}  // namespace tinker::server::sequencer_test
