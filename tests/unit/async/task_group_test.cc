#include "async/task_group.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/runtime_core.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::async::task_group_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

class TaskGroupTest : public ::testing::Test {
 protected:
  struct Job {
    std::string name;
    std::chrono::seconds takes;
    bool fails = false;
  };
  static Task<> run(Job job, std::vector<std::string>* ended) {
    auto pause = sleep_for(job.takes);
    const auto slept = co_await pause;
    ended->push_back(job.name + (slept.ok() ? "" : " stopped"));
    TINKER_CO_TRY(slept);
    if (job.fails) co_return Error{.code = ErrorCode::io_error, .message = job.name};
    co_return Result<void>();
  }
  static Task<> run_all(std::vector<Job> jobs, std::vector<std::string>* ended) {
    auto ask = this_context();
    TaskGroup group(co_await ask);
    for (auto& job : jobs) group.start(run(job, ended));
    auto all = group.join();
    const auto joined = co_await all;
    ended->emplace_back("joined");
    co_return joined;
  }
  Future<void> start(std::vector<Job> jobs, SpawnOptions options = SpawnOptions()) {
    return core_->spawn(core_->scope(), run_all(std::move(jobs), &ended_), options);
  }

  testing::VirtualRuntime time_;
  std::shared_ptr<RuntimeCore> core_ = time_.runtime().core();
  std::vector<std::string> ended_;
};

TEST_F(TaskGroupTest, RunsThemSideBySide) {
  EXPECT_THAT(start({{"a", 3s}, {"b", 1s}, {"c", 2s}}).get(), IsOk());

  EXPECT_EQ(time_.elapsed(), 3s);
  EXPECT_THAT(ended_, ElementsAre("b", "c", "a", "joined"));
}

TEST_F(TaskGroupTest, NoneIsNoProblem) {
  EXPECT_THAT(start({}).get(), IsOk());
}

TEST_F(TaskGroupTest, TheFirstErrorStopsTheOthers) {
  EXPECT_THAT(start({{"a", 3s}, {"b", 1s, true}, {"c", 2s, true}}).get(),
              IsError(ErrorCode::io_error, "b"));

  EXPECT_EQ(time_.elapsed(), 1s);
  EXPECT_THAT(ended_, ElementsAre("b", "a stopped", "c stopped", "joined"));
}

TEST_F(TaskGroupTest, ACancelledScopeEndsThemAllBeforeItself) {
  EXPECT_THAT(start({{"a", 3s}, {"b", 2s}}, {.deadline = 1s}).get(),
              IsError(ErrorCode::deadline_exceeded, _));

  EXPECT_EQ(time_.elapsed(), 1s);
  EXPECT_THAT(ended_, ElementsAre("a stopped", "b stopped", "joined"));
}

TEST_F(TaskGroupTest, TasksThatEndAtOnceDoToo) {
  EXPECT_THAT(start({{"a", 0s}, {"b", 0s, true}}).get(), IsError(ErrorCode::io_error, "b"));
}

}  // namespace
}  // namespace tinker::async::task_group_test
