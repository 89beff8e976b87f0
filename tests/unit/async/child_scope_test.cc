#include "async/child_scope.h"

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::async::child_scope_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::VirtualRuntime;

class ChildScopeTest : public ::testing::Test {
 protected:
  void cancel_child_after(std::chrono::nanoseconds delay) {
    core_->loop()->schedule_after(delay, [child = child_] {
      child->cancel({.code = ErrorCode::stuck, .message = "the child alone"});
    });
  }

  VirtualRuntime time_;
  std::shared_ptr<RuntimeCore> core_ = time_.runtime().core();
  std::shared_ptr<Scope> child_ = std::make_shared<Scope>();
};

Task<int> answer_after(std::chrono::nanoseconds delay, int value) {
  auto pause = sleep_for(delay);
  TINKER_CO_TRY(co_await pause);
  co_return value;
}

/// Sleeps in the child, then, whatever came of that, on its own.
Task<std::string> child_then_own(std::shared_ptr<Scope> child) {
  auto inner = in_child_scope(std::move(child), answer_after(10s, 42));
  const auto result = co_await std::move(inner);
  auto pause = sleep_for(5s);
  TINKER_CO_TRY(co_await pause);
  co_return result.ok() ? "ok" : result.error().message;
}

TEST_F(ChildScopeTest, GivesTheResultOfItsTask) {
  auto future = core_->spawn(core_->scope(), in_child_scope(child_, answer_after(3s, 42)));

  EXPECT_THAT(future.get(), IsOkAndHolds(42));
  EXPECT_EQ(time_.elapsed(), 3s);
}

TEST_F(ChildScopeTest, EndsItsTaskWhenCancelledAndLetsTheCallerGoOn) {
  cancel_child_after(2s);

  auto future = core_->spawn(core_->scope(), child_then_own(child_));

  EXPECT_THAT(future.get(), IsOkAndHolds("the child alone"));
  EXPECT_EQ(time_.elapsed(), 7s);
}

TEST_F(ChildScopeTest, IsCancelledWithItsParent) {
  auto future = core_->spawn(core_->scope(), child_then_own(child_));
  time_.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(time_.elapsed(), 1s);
  EXPECT_TRUE(child_->is_cancelled());
}

TEST_F(ChildScopeTest, IsLeftAloneByItsParentAfterTheTask) {
  auto future = core_->spawn(core_->scope(), child_then_own(child_));
  time_.advance(12s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_FALSE(child_->is_cancelled());
}

TEST_F(ChildScopeTest, DoesNotStartItsTaskWhenCancelledBefore) {
  child_->cancel({.code = ErrorCode::stuck, .message = "before"});

  auto future = core_->spawn(core_->scope(), in_child_scope(child_, answer_after(3s, 42)));

  EXPECT_THAT(future.get(), IsError(ErrorCode::stuck, HasSubstr("before")));
  EXPECT_EQ(time_.elapsed(), 0s);
}

Task<int> nested(std::shared_ptr<Scope> outer, std::shared_ptr<Scope> inner) {
  auto task =
      in_child_scope(std::move(outer), in_child_scope(std::move(inner), answer_after(10s, 1)));
  co_return co_await std::move(task);
}

TEST_F(ChildScopeTest, PassesCancellationDownwardsOnly) {
  const auto inner = std::make_shared<Scope>();
  cancel_child_after(1s);
  auto future = core_->spawn(core_->scope(), nested(child_, inner));

  EXPECT_THAT(future.get(), IsError(ErrorCode::stuck, _));

  EXPECT_TRUE(inner->is_cancelled());
  EXPECT_FALSE(core_->scope()->is_cancelled());
}

}  // namespace
}  // namespace tinker::async::child_scope_test
