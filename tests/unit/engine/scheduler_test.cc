#include "engine/scheduler.h"

#include <atomic>
#include <future>
#include <latch>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/engine.h"
#include "tinker/testing/fake_clock.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::scheduler_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

/// Steps that call a function, and where each is cut; the result is how many were taken.
Resumable<int> steps(int count, Cut cut, std::function<void(int)> each) {
  for (int i = 0; i < count; ++i) {
    each(i);
    co_yield cut;
  }
  co_return count;
}

struct SchedulerTest : ::testing::Test {
  using Answer = std::future<Result<int>>;

  /// Work that calls `each(i)` in step i.
  Answer submit(LineId line,
                int count,
                std::function<void(int)> each,
                WorkOptions options = {},
                Cut cut = Cut::between) const {
    std::promise<Result<int>> promise;
    auto out = promise.get_future();
    scheduler->submit<int>(
        line,
        std::move(options),
        [=] { return steps(count, cut, each); },
        [promise = std::move(promise)](Result<int> result) mutable {
          promise.set_value(std::move(result));
        });
    return out;
  }
  std::future<Result<SampleResponse>> sample(std::int64_t tokens, WorkOptions options = {}) const {
    SampleJob job = {.seed = 1};
    job.request.prompt = ModelInput::from_tokens({1, 2, 3});
    job.request.sampling_params = {.max_tokens = tokens, .stop = std::vector<std::int32_t>()};
    std::promise<Result<SampleResponse>> promise;
    auto out = promise.get_future();
    options.name = "sample";
    scheduler->sample(std::move(job),
                      std::move(options),
                      [promise = std::move(promise)](Result<SampleResponse> result) mutable {
                        promise.set_value(std::move(result));
                      });
    return out;
  }
  static void nothing(int /*step*/) {}

  testing::FakeClock clock;
  ThreadPool threads{2};
  std::shared_ptr<const Model> model = tiny_model({.path = cpu_paths().back()}, threads);
  std::unique_ptr<Scheduler> scheduler =
      std::make_unique<Scheduler>(std::make_shared<Sampler>(model, threads, SamplerOptions{}),
                                  SchedulerOptions{.clock = &clock});
};

TEST_F(SchedulerTest, CountsWhatItHasToDo) {
  std::promise<void> begun;
  std::promise<void> gate;
  const auto line = scheduler->new_line();
  auto first = submit(line, 1, [&](int /*step*/) {
    begun.set_value();
    gate.get_future().wait();
  });
  begun.get_future().wait();
  auto second = submit(line, 1, nothing);
  auto other = submit(scheduler->new_line(), 1, nothing);
  auto drawn = sample(1);

  const auto busy = scheduler->queue();
  gate.set_value();
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());
  EXPECT_THAT(other.get(), IsOk());
  EXPECT_THAT(drawn.get(), IsOk());
  const auto idle = scheduler->queue();

  EXPECT_EQ(busy.training_calls, 3U);
  EXPECT_EQ(busy.training_runs, 1U);  // the thread has not seen the other one
  EXPECT_EQ(busy.samples, 1U);
  EXPECT_EQ(busy.samples_computing, 0U);
  EXPECT_EQ(idle.training_calls, 0U);
  EXPECT_EQ(idle.training_runs, 0U);
  EXPECT_EQ(idle.samples, 0U);
  EXPECT_EQ(idle.cache_bytes, 0U);
}

TEST_F(SchedulerTest, CountsNothingThatWasStopped) {
  std::promise<void> begun;
  std::promise<void> gate;
  const auto line = scheduler->new_line();
  auto first = submit(line, 1, [&](int /*step*/) {
    begun.set_value();
    gate.get_future().wait();
  });
  begun.get_future().wait();
  std::stop_source stop;
  auto stopped = submit(line, 1, nothing, {.stop = stop.get_token()});
  auto drawn = sample(1, {.stop = stop.get_token()});
  stop.request_stop();
  gate.set_value();
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(stopped.get(), IsError(ErrorCode::cancelled, HasSubstr("was asked to stop")));
  EXPECT_THAT(drawn.get(), IsError(ErrorCode::cancelled, HasSubstr("was asked to stop")));

  EXPECT_EQ(scheduler->queue().training_calls, 0U);
  EXPECT_EQ(scheduler->queue().samples, 0U);
}

TEST_F(SchedulerTest, DoesTheWorkOfALineInItsOrder) {
  std::vector<int> order;
  const auto line = scheduler->new_line();
  auto first = submit(line, 3, [&](int i) { order.push_back(i); });
  auto second = submit(line, 2, [&](int i) { order.push_back(10 + i); });

  EXPECT_THAT(second.get(), IsOkAndHolds(2));
  EXPECT_THAT(first.get(), IsOkAndHolds(3));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 10, 11));
}

TEST_F(SchedulerTest, LetsOtherLinesInBetweenTwoSteps) {
  std::latch is_queued(1);
  std::vector<char> order;
  auto first = submit(scheduler->new_line(), 4, [&](int i) {
    if (i == 0) is_queued.wait();
    clock.advance(std::chrono::milliseconds(10));
    order.push_back('a');
  });
  auto second = submit(scheduler->new_line(), 2, [&](int /*i*/) {
    clock.advance(std::chrono::milliseconds(10));
    order.push_back('b');
  });
  is_queued.count_down();

  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());
  EXPECT_THAT(order, ElementsAre('a', 'b', 'a', 'b', 'a', 'a'));
}

// The arrays of the passes hold what the first goes on with.
TEST_F(SchedulerTest, LetsOnlyThoseInThatLeaveThePassesAlone) {
  std::latch is_queued(1);
  std::string order;
  const WorkOptions passes = {.uses_passes = true};
  auto first = submit(
      scheduler->new_line(),
      4,
      [&](int i) {
        if (i == 0) is_queued.wait();
        clock.advance(std::chrono::milliseconds(10));
        order += 'a';
      },
      passes,
      Cut::inside);
  auto second = submit(scheduler->new_line(), 2, [&](int /*i*/) { order += 'b'; }, passes);
  auto third = submit(scheduler->new_line(), 1, [&](int /*i*/) { order += 'c'; });
  is_queued.count_down();

  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());
  EXPECT_THAT(third.get(), IsOk());
  EXPECT_EQ(order, "acaaabb");
}

TEST_F(SchedulerTest, SamplesWhileItTrains) {
  std::stop_source stop;
  std::latch has_begun(1);
  bool is_first = true;
  auto endless = submit(scheduler->new_line(),
                        1'000'000'000,
                        [&](int /*i*/) {
                          if (std::exchange(is_first, false)) has_begun.count_down();
                        },
                        {.name = "forward_backward", .stop = stop.get_token()});
  has_begun.wait();

  EXPECT_THAT(sample(20).get(), IsOk());

  stop.request_stop();
  EXPECT_THAT(endless.get(),
              IsError(ErrorCode::cancelled,
                      AllOf(HasSubstr("forward_backward was asked to stop"),
                            HasSubstr("while the engine worked on it"))));
}

TEST_F(SchedulerTest, WhatIsStoppedInTheQueueNeverBegins) {
  std::latch is_queued(1);
  std::stop_source stop;
  const auto line = scheduler->new_line();
  auto first = submit(line, 1, [&](int /*i*/) { is_queued.wait(); });
  auto second = submit(line, 1, [](int /*i*/) { ADD_FAILURE(); }, {.stop = stop.get_token()});
  auto third = submit(line, 1, nothing);
  auto drawn = sample(5, {.stop = stop.get_token()});
  stop.request_stop();
  is_queued.count_down();

  EXPECT_THAT(second.get(), IsError(ErrorCode::cancelled, HasSubstr("in the engine's queue")));
  EXPECT_THAT(drawn.get(), IsError(ErrorCode::cancelled, HasSubstr("sample was asked to stop")));
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(third.get(), IsOk());
}

TEST_F(SchedulerTest, EndsWhatHasPassedItsDeadline) {
  using std::chrono::milliseconds;
  const auto line = scheduler->new_line();
  const auto step = [&](int /*i*/) { clock.advance(milliseconds(10)); };
  std::latch is_queued(1);
  auto running = submit(line,
                        1000,
                        [&](int i) {
                          if (i == 0) is_queued.wait();
                          step(i);
                        },
                        {.name = "forward", .deadline = clock.now() + milliseconds(50)});
  auto waiting =
      submit(line, 1, nothing, {.name = "optim_step", .deadline = clock.now() + milliseconds(30)});
  auto last = submit(line, 2, step, {.deadline = clock.now() + std::chrono::hours(1)});
  is_queued.count_down();

  EXPECT_THAT(waiting.get(),
              IsError(ErrorCode::deadline_exceeded,
                      AllOf(HasSubstr("optim_step passed its deadline after 30 ms"),
                            HasSubstr("1 before it"))));
  EXPECT_THAT(running.get(),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("forward passed its deadline")));
  EXPECT_THAT(last.get(), IsOk());
}

// Neither a stop nor a deadline leaves a thing half done.
TEST_F(SchedulerTest, WhatIsCommittedGoesOnToItsEnd) {
  std::stop_source stop;
  const auto line = scheduler->new_line();
  int taken = 0;
  auto work = submit(
      line,
      5,
      [&](int i) {
        ++taken;
        if (i == 1) {
          stop.request_stop();
          clock.advance(std::chrono::hours(2));
        }
      },
      {.deadline = clock.now() + std::chrono::hours(1), .stop = stop.get_token()},
      Cut::committed);
  auto next = submit(line, 1, nothing);

  EXPECT_THAT(work.get(), IsOkAndHolds(5));
  EXPECT_EQ(taken, 5);
  EXPECT_THAT(next.get(), IsOk());
}

// ---- waiting

/// Waits until it is told to go on.
Resumable<int> wait_until(const std::atomic<bool>& is_there) {
  while (!is_there) co_yield Cut::waiting;
  co_return 1;
}

struct WaitingTest : SchedulerTest {
  Answer wait(LineId line, WorkOptions options = {}) {
    std::promise<Result<int>> promise;
    auto out = promise.get_future();
    options.name = "load";
    scheduler->submit<int>(
        line,
        std::move(options),
        [this] { return wait_until(is_there); },
        [promise = std::move(promise)](Result<int> result) mutable {
          promise.set_value(std::move(result));
        });
    return out;
  }
  std::atomic<bool> is_there = false;
};

TEST_F(WaitingTest, OthersGoOnAndItsLineKeepsItsOrder) {
  const auto line = scheduler->new_line();
  auto waiting = wait(line);
  std::atomic<bool> has_begun = false;
  auto behind = submit(line, 1, [&](int /*i*/) { has_begun = true; });

  EXPECT_THAT(submit(scheduler->new_line(), 3, nothing).get(), IsOkAndHolds(3));
  EXPECT_THAT(sample(3).get(), IsOk());
  scheduler->waker_of(line)();  // nothing has happened
  EXPECT_THAT(submit(scheduler->new_line(), 3, nothing).get(), IsOkAndHolds(3));
  EXPECT_FALSE(has_begun);
  is_there = true;
  scheduler->waker_of(line)();

  EXPECT_THAT(waiting.get(), IsOkAndHolds(1));
  EXPECT_THAT(behind.get(), IsOk());
}

TEST_F(WaitingTest, EndsWhenItIsStoppedAlsoWhereNothingElseGoesOn) {
  std::stop_source stop;
  const auto line = scheduler->new_line();
  auto waiting = wait(line, {.stop = stop.get_token()});
  auto behind = submit(line, 1, nothing);
  ASSERT_EQ(waiting.wait_for(std::chrono::milliseconds(10)), std::future_status::timeout);
  stop.request_stop();

  EXPECT_THAT(waiting.get(), IsError(ErrorCode::cancelled, HasSubstr("load was asked to stop")));
  EXPECT_THAT(behind.get(), IsOk());
}

TEST_F(WaitingTest, EndsAtItsDeadlineAndWithTheScheduler) {
  scheduler =
      std::make_unique<Scheduler>(std::make_shared<Sampler>(model, threads, SamplerOptions{}));
  const auto line = scheduler->new_line();
  const auto soon = Clock::system().now() + std::chrono::milliseconds(20);

  EXPECT_THAT(wait(line, {.deadline = soon}).get(),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("load passed its deadline")));
  auto waiting = wait(line);
  auto wake = scheduler->waker_of(line);
  scheduler.reset();
  EXPECT_THAT(waiting.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  wake();  // finds nobody
}

// ---- trouble

TEST_F(SchedulerTest, WhatThrowsEndsAndTheRestGoesOn) {
  const auto line = scheduler->new_line();
  auto broken = submit(line, 1, [](int /*i*/) { throw std::runtime_error("broken"); });
  auto next = submit(line, 1, nothing);

  EXPECT_THAT(broken.get(), IsError(ErrorCode::internal, "broken"));
  EXPECT_THAT(next.get(), IsOk());
}

TEST_F(SchedulerTest, WorkThatCannotBeginEndsAndCallbacksThatThrowDoNoHarm) {
  const auto line = scheduler->new_line();
  std::promise<Result<int>> promise;
  auto failed = promise.get_future();
  scheduler->submit<int>(
      line,
      {},
      []() -> Resumable<int> { throw std::bad_alloc(); },
      [promise = std::move(promise)](Result<int> result) mutable {
        promise.set_value(std::move(result));
        throw std::runtime_error("whoever listens");
      });
  auto next = submit(line, 1, nothing);

  EXPECT_THAT(failed.get(), IsError(ErrorCode::internal, "out of memory"));
  EXPECT_THAT(next.get(), IsOk());
}

TEST_F(SchedulerTest, WhatWasStoppedBeforeItCameEndsAtOnce) {
  std::stop_source running;
  std::latch has_begun(1);
  bool is_first = true;
  const auto line = scheduler->new_line();
  auto endless = submit(line,
                        1'000'000'000,
                        [&](int /*i*/) {
                          if (std::exchange(is_first, false)) has_begun.count_down();
                        },
                        {.stop = running.get_token()});
  has_begun.wait();
  std::stop_source stopped;
  stopped.request_stop();

  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(submit(line, 1, nothing, {.stop = stopped.get_token()}).get(),
                IsError(ErrorCode::cancelled, HasSubstr("stop")));
    EXPECT_THAT(sample(5, {.stop = stopped.get_token()}).get(),
                IsError(ErrorCode::cancelled, HasSubstr("stop")));
  }
  running.request_stop();
  EXPECT_THAT(endless.get(), IsError(ErrorCode::cancelled, HasSubstr("stop")));
}

// From many threads, stopped and late at random: every call is answered once, or a promise would be
// set twice or never.
TEST_F(SchedulerTest, EverythingIsAnsweredOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> answers = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    callers.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Answer> works;
      std::vector<std::future<Result<SampleResponse>>> samples;
      std::vector<std::stop_source> stops(60);
      for (auto& stop : stops) {
        WorkOptions options = {.name = "work",
                               .tenant = std::to_string(random() % 3),
                               .stop = stop.get_token(),
                               .uses_passes = random() % 2 == 0};
        if (random() % 4 == 0) options.deadline = clock.now() + std::chrono::milliseconds(1);
        if (random() % 3 == 0) {
          samples.push_back(sample(static_cast<std::int64_t>(1 + random() % 5), options));
        } else {
          const auto cut = options.uses_passes ? Cut::inside : Cut::between;
          const auto step = [this](int /*i*/) { clock.advance(std::chrono::microseconds(10)); };
          works.push_back(
              submit(1000 + random() % 5, static_cast<int>(random() % 6), step, options, cut));
        }
        if (random() % 3 == 0) stops[random() % stops.size()].request_stop();
      }
      for (auto& work : works) {
        (void)work.get();
        ++answers;
      }
      for (auto& one : samples) {
        (void)one.get();
        ++answers;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(answers, 4 * 60);
}

TEST_F(SchedulerTest, ItsEndEndsEverything) {
  std::latch has_begun(1);
  bool is_first = true;
  const auto line = scheduler->new_line();
  auto running = submit(line, 1'000'000'000, [&](int /*i*/) {
    if (std::exchange(is_first, false)) has_begun.count_down();
  });
  auto waiting = submit(line, 1, nothing);
  auto drawn = sample(200);
  has_begun.wait();

  scheduler.reset();

  EXPECT_THAT(running.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  EXPECT_THAT(waiting.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  EXPECT_THAT(drawn.get(),
              ::testing::AnyOf(IsOk(), IsError(ErrorCode::cancelled, HasSubstr("went away"))));
}

TEST_F(SchedulerTest, MayEndOnItsOwnThread) {
  std::promise<Result<int>> promise;
  auto done = promise.get_future();
  auto& target = *scheduler;
  target.submit<int>(
      target.new_line(),
      {},
      [] { return steps(1, Cut::between, nothing); },
      [last = std::move(scheduler), promise = std::move(promise)](Result<int> result) mutable {
        last.reset();
        promise.set_value(std::move(result));
      });
  EXPECT_THAT(done.get(), IsOk());
}

}  // namespace
}  // namespace tinker::engine::scheduler_test
