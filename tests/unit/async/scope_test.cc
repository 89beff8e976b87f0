#include "async/scope.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::async::scope_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Error reason(std::string message) {
  return {.code = ErrorCode::cancelled, .message = std::move(message)};
}

class Listener final : public Scope::Hook {
 public:
  Listener(std::string name, std::vector<std::string>& heard)
      : name_(std::move(name)), heard_(heard) {}
  std::function<void()> then = [] {};

 private:
  void on_cancel(const Error& error) override {
    heard_.push_back(name_ + ": " + error.message);
    then();
  }
  std::string name_;
  std::vector<std::string>& heard_;
};

class ScopeTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Scope> below(const std::shared_ptr<Scope>& parent) {
    auto scope = std::make_shared<Scope>();
    scope->attach(parent);
    return scope;
  }

  std::vector<std::string> heard_;
  std::shared_ptr<Scope> root_ = std::make_shared<Scope>();
};

TEST_F(ScopeTest, TellsItsHooksOnceInOrder) {
  Listener first("first", heard_);
  Listener second("second", heard_);
  root_->add(first);
  root_->add(second);

  root_->cancel(reason("stop"));
  root_->cancel(reason("again"));

  EXPECT_THAT(heard_, ElementsAre("first: stop", "second: stop"));
  EXPECT_FALSE(first.is_linked());
}

TEST_F(ScopeTest, KeepsTheFirstReason) {
  EXPECT_FALSE(root_->is_cancelled());

  root_->cancel(reason("stop"));
  root_->cancel(reason("again"));

  EXPECT_TRUE(root_->is_cancelled());
  EXPECT_EQ(root_->reason().message, "stop");
}

TEST_F(ScopeTest, CancelsWhatIsBelowAndNothingElse) {
  const auto left = below(root_);
  const auto right = below(root_);
  const auto leaf = below(left);

  left->cancel(reason("left"));

  EXPECT_TRUE(leaf->is_cancelled());
  EXPECT_FALSE(right->is_cancelled());
  EXPECT_FALSE(root_->is_cancelled());
  root_->cancel(reason("root"));
  EXPECT_EQ(right->reason().message, "root");
  EXPECT_EQ(leaf->reason().message, "left");
}

TEST_F(ScopeTest, IsCancelledAtOnceBelowACancelledOne) {
  root_->cancel(reason("stop"));

  EXPECT_EQ(below(root_)->reason().message, "stop");
}

TEST_F(ScopeTest, ForgetsHooksThatAreGone) {
  Listener kept("kept", heard_);
  {
    Listener gone("gone", heard_);
    root_->add(gone);
    root_->add(kept);
  }

  root_->cancel(reason("stop"));

  EXPECT_THAT(heard_, ElementsAre("kept: stop"));
}

TEST_F(ScopeTest, ForgetsScopesThatAreGone) {
  below(root_).reset();
  const auto kept = below(root_);

  root_->cancel(reason("stop"));

  EXPECT_TRUE(kept->is_cancelled());
}

TEST_F(ScopeTest, LeavesItsParent) {
  const auto child = below(root_);
  EXPECT_EQ(root_.use_count(), 2);

  child->detach();
  root_->cancel(reason("stop"));

  EXPECT_FALSE(child->is_cancelled());
  EXPECT_EQ(root_.use_count(), 1);
}

TEST_F(ScopeTest, KeepsItsParentAlive) {
  const auto child = below(below(root_));

  root_->cancel(reason("stop"));

  EXPECT_TRUE(child->is_cancelled());
}

TEST_F(ScopeTest, LetsAHookRemoveAnotherWhileItIsTold) {
  Listener first("first", heard_);
  auto second = std::make_unique<Listener>("second", heard_);
  Listener third("third", heard_);
  root_->add(first);
  root_->add(*second);
  root_->add(third);
  first.then = [&] { second.reset(); };

  root_->cancel(reason("stop"));

  EXPECT_THAT(heard_, ElementsAre("first: stop", "third: stop"));
}

TEST_F(ScopeTest, TellsAHookThatWasAddedWhileItCancels) {
  Listener first("first", heard_);
  Listener late("late", heard_);
  root_->add(first);
  first.then = [&] { root_->add(late); };

  root_->cancel(reason("stop"));

  EXPECT_THAT(heard_, ElementsAre("first: stop", "late: stop"));
}

TEST_F(ScopeTest, DoesNotTellHooksThatWereUnlinked) {
  Listener listener("listener", heard_);
  root_->add(listener);
  EXPECT_TRUE(listener.is_linked());

  listener.unlink();
  listener.unlink();
  root_->cancel(reason("stop"));

  EXPECT_THAT(heard_, IsEmpty());
}

using ScopeDeathTest = ScopeTest;

TEST_F(ScopeDeathTest, MustNotDieBeforeItsHooks) {
  const auto die = [this] {
    Listener listener("listener", heard_);
    Scope().add(listener);
  };

  EXPECT_DEATH(die(), "hooks_");
}

TEST_F(ScopeDeathTest, HasOneParent) {
  const auto child = below(root_);

  EXPECT_DEATH(child->attach(root_), "parent_");
}

std::shared_ptr<const Failure> failure(std::string what, std::chrono::milliseconds at) {
  return std::make_shared<const Failure>(
      Failure{.what = std::move(what), .at = std::chrono::steady_clock::time_point(at)});
}

TEST_F(ScopeTest, NamesTheLatestFailureInTheReason) {
  const auto root = std::make_shared<Scope>();
  const auto operation = below(root);
  const auto inner = below(operation);
  const std::chrono::steady_clock::time_point now(std::chrono::milliseconds(21'000));

  inner->note(failure("connection reset", std::chrono::milliseconds(1000)));
  inner->note(failure("connection refused", std::chrono::milliseconds(19'800)));

  EXPECT_EQ(operation->with_cause(reason("too late"), now).message,
            "too late; last attempt 1.2 s ago: connection refused");
}

TEST_F(ScopeTest, NamesAFailureOfOthersOfTheSameClientAsSuch) {
  const auto root = std::make_shared<Scope>();
  const auto client = below(root);
  const auto operation = below(client);
  below(client)->note(failure("connection refused", std::chrono::milliseconds(5000)));

  EXPECT_EQ(
      operation
          ->with_cause(reason("too late"),
                       std::chrono::steady_clock::time_point(std::chrono::milliseconds(25'000)))
          .message,
      "too late; last failure of the client 20 s ago: connection refused");
}

TEST_F(ScopeTest, TellsNothingOfOtherClients) {
  const auto root = std::make_shared<Scope>();
  const auto operation = below(root);
  below(root)->note(failure("connection refused", {}));

  EXPECT_EQ(operation->with_cause(reason("too late"), {}).message, "too late");
}

TEST_F(ScopeTest, ForgetsAFailureAfterASuccess) {
  const auto root = std::make_shared<Scope>();
  const auto operation = below(root);
  operation->note(failure("connection refused", {}));
  operation->note(nullptr);

  EXPECT_EQ(operation->with_cause(reason("too late"), {}).message, "too late");
}

}  // namespace
}  // namespace tinker::async::scope_test
