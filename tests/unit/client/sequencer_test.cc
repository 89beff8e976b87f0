#include "client/sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/semaphore.h"
#include "support/log_capture.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::client::sequencer_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

/// Requests that take as long as they are told to, and write down when they leave.
class SequencerTest : public ::testing::Test {
 protected:
  Future<void> start(std::string name, std::chrono::nanoseconds takes, std::int64_t count = 1) {
    return start(std::move(name), takes, std::nullopt, count);
  }
  Future<void> start(std::string name,
                     std::chrono::nanoseconds takes,
                     std::optional<Error> failure,
                     std::int64_t count = 1) {
    auto turn = std::make_shared<Sequencer::Turn>(sequencer, sequencer->take(count), name);
    return core->spawn(core->scope(), request(this, std::move(turn), name, takes, failure));
  }
  static async::Task<> request(SequencerTest* test,
                               std::shared_ptr<Sequencer::Turn> turn,
                               std::string name,
                               std::chrono::nanoseconds takes,
                               std::optional<Error> failure) {
    auto entering = turn->enter();
    TINKER_CO_TRY(co_await std::move(entering));
    test->left.push_back(name);
    auto sending = async::sleep_for(takes);
    TINKER_CO_TRY(co_await sending);
    if (failure) {
      turn->fail(*failure);
      co_return *failure;
    }
    turn->leave();
    co_return Result<void>();
  }

  LogCapture log;
  testing::VirtualRuntime time{log.logger()};
  std::shared_ptr<async::RuntimeCore> core = time.runtime().core();
  std::shared_ptr<Sequencer> sequencer = std::make_shared<Sequencer>(core);
  std::vector<std::string> left;
  const Error broken = {.code = ErrorCode::unprocessable, .message = "bad datum"};
};

TEST_F(SequencerTest, HandsOutConsecutiveIds) {  // R7.1
  EXPECT_EQ(sequencer->take(3).first, 0);
  EXPECT_EQ(sequencer->take(1).first, 3);
  EXPECT_EQ(sequencer->taken(), 4);
}

TEST_F(SequencerTest, LetsRequestsLeaveInTheOrderOfTheirIds) {  // R7.2
  auto first = start("a", 3s);
  auto second = start("b", 1s, 4);
  auto third = start("c", 0s);

  EXPECT_THAT(third.get(), IsOk());

  EXPECT_THAT(left, ElementsAre("a", "b", "c"));
  EXPECT_EQ(time.elapsed(), 4s);
}

TEST_F(SequencerTest, WaitsForIdsWhoseRequestComesLater) {
  const auto early = sequencer->take(1);
  auto second = start("b", 0s);
  time.run_ready();
  EXPECT_THAT(left, IsEmpty());

  {
    const Sequencer::Turn first(sequencer, early, "a");
  }

  EXPECT_THAT(second.get(), IsOk());
}

TEST_F(SequencerTest, AFailureEndsWhatHasNotLeft) {  // D2
  auto first = start("forward_backward", 1s, broken, 3);
  auto second = start("optim_step", 0s);
  auto third = start("save_state", 0s);

  EXPECT_THAT(second.get(),
              IsError(ErrorCode::predecessor_failed,
                      AllOf(HasSubstr("forward_backward (seq_id 1)"), HasSubstr("bad datum"))));
  EXPECT_THAT(third.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad datum")));
  EXPECT_THAT(first.get(), IsError(ErrorCode::unprocessable, HasSubstr("bad datum")));
  EXPECT_THAT(left, ElementsAre("forward_backward"));
}

TEST_F(SequencerTest, CallsAfterAFailureLeaveNormally) {
  auto first = start("a", 1s, broken);
  auto second = start("b", 0s);
  EXPECT_THAT(second.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("a (seq_id 1)")));

  auto third = start("c", 0s);

  EXPECT_THAT(third.get(), IsOk());
  EXPECT_THAT(left, ElementsAre("a", "c"));
}

TEST_F(SequencerTest, ACallMadeBeforeAFailureIsEndedEvenIfItComesLater) {
  auto first = start("a", 1s, broken);
  const auto range = sequencer->take(1);  // called, but not yet on the loop
  (void)first.get();

  auto turn = std::make_shared<Sequencer::Turn>(sequencer, range, "b");
  auto second = core->spawn(core->scope(), request(this, turn, "b", 0s, std::nullopt));

  EXPECT_THAT(second.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad datum")));
}

TEST_F(SequencerTest, AFailureAfterItLeftEndsWhatHasNotLeft) {
  auto turn = std::make_shared<Sequencer::Turn>(sequencer, sequencer->take(1), "a");
  turn->leave();
  auto second = start("b", 5s);
  auto third = start("c", 0s);
  time.run_ready();

  turn->fail(broken);  // its result says so

  EXPECT_THAT(third.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad datum")));
  EXPECT_THAT(second.get(), IsOk()) << "it had left already";
}

TEST_F(SequencerTest, ACancelledRequestLetsTheNextOneGo) {  // D3
  auto first = start("a", 2s);
  auto second = start("b", 0s);
  auto third = start("c", 0s);
  time.run_ready();

  second.cancel();

  EXPECT_THAT(third.get(), IsOk());
  EXPECT_THAT(left, ElementsAre("a", "c"));
  EXPECT_THAT(second.get(), IsError(ErrorCode::cancelled, HasSubstr("cancelled")));
}

TEST_F(SequencerTest, ARequestCancelledBeforeItBeginsLetsTheNextOneGo) {
  auto first = start("a", 0s);
  first.cancel();  // the loop has not seen it yet
  auto second = start("b", 0s);

  EXPECT_THAT(second.get(), IsOk());
}

TEST_F(SequencerTest, SaysWhatItWaitsForAfterHalfAMinute) {
  auto first = start("a", 40s);
  auto second = start("optim_step", 0s);

  EXPECT_THAT(second.get(), IsOk());

  EXPECT_THAT(log.text(), AllOf(HasSubstr("optim_step"), HasSubstr("is being submitted")));
}

}  // namespace
}  // namespace tinker::client::sequencer_test
