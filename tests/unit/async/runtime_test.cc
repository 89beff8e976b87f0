#include "tinker/runtime.h"

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "async/semaphore.h"
#include "async/this_thread.h"
#include "async/thread_pool.h"
#include "tinker/testing/matchers.h"

namespace tinker::async::runtime_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

// What is kept with `RuntimeCore::shared` and tells when the runtime has let go of it.
class Witness {
 public:
  explicit Witness(std::promise<void> gone) : gone_(std::move(gone)) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { gone_.set_value(); }

  // The future becomes ready at the end of `runtime`.
  static std::future<void> of(const Runtime& runtime) {
    std::promise<void> gone;
    auto future = gone.get_future();
    (void)runtime.core()->shared<Witness>(
        [&] { return std::make_shared<Witness>(std::move(gone)); });
    return future;
  }

 private:
  std::promise<void> gone_;
};

Task<int> answer_after(std::chrono::nanoseconds delay, int value) {
  auto pause = sleep_for(delay);
  TINKER_CO_TRY(co_await pause);
  co_return value;
}

Future<int> spawn(const Runtime& runtime, Task<int> task) {
  return runtime.core()->spawn(runtime.core()->scope(), std::move(task));
}

bool ended_well_or_cancelled(const Result<int>& result) {
  return result.ok() || result.error().code == ErrorCode::cancelled;
}

TEST(Runtime, RunsTasksAndTheirContinuations) {
  const auto runtime = Runtime::start();

  auto value = spawn(runtime, answer_after(1ms, 7)).then([](Result<int> r) { return *r * 2; });

  EXPECT_THAT(value.get(), IsOkAndHolds(14));
}

TEST(Runtime, TakesTasksFromManyThreads) {
  const auto runtime = Runtime::start();
  constexpr int kThreads = 8;
  constexpr int kEach = 250;
  std::atomic<int> total = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        std::vector<Future<int>> futures;
        futures.reserve(kEach);
        for (int k = 0; k < kEach; ++k) {
          futures.push_back(spawn(runtime, answer_after(std::chrono::microseconds(k % 3), 1)));
        }
        for (auto& future : futures) total += future.get().value();
      });
    }
  }

  EXPECT_EQ(total, kThreads * kEach);
}

TEST(Runtime, EndsWhatIsInFlightWhenTheLastHandleGoes) {
  std::optional<Runtime> runtime = Runtime::start();
  std::vector<Future<int>> futures;
  futures.reserve(1000);
  for (int i = 0; i < 1000; ++i) futures.push_back(spawn(*runtime, answer_after(1h, i)));
  const auto copy = std::make_unique<Runtime>(*runtime);
  auto gone = Witness::of(*runtime);

  runtime.reset();
  EXPECT_FALSE(futures.front().is_ready());
  *copy.get() = Runtime::start();

  for (auto& future : futures) {
    EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  }
  EXPECT_EQ(gone.wait_for(0s), std::future_status::ready);
}

TEST(Runtime, RunsTheContinuationsOfWhatEndedWithItBeforeItIsGone) {
  for (int round = 0; round < 20; ++round) {
    std::optional<Runtime> runtime = Runtime::start();
    std::atomic<int> ran = 0;
    for (int i = 0; i < 50; ++i) {
      (void)spawn(*runtime, answer_after(1h, i)).then([&](Result<int> r) {
        ran += r.ok() ? 0 : 1;
      });
    }

    runtime.reset();

    EXPECT_EQ(ran, 50);
  }
}

TEST(Runtime, LeavesItsCallbackThreadToFuturesThatOutliveIt) {
  std::optional<Runtime> runtime = Runtime::start();
  auto future = spawn(*runtime, answer_after(1h, 1));
  runtime.reset();

  auto late = std::move(future).then([](const Result<int>&) { return this_thread().is_library; });

  EXPECT_THAT(late.get(), IsOkAndHolds(true));
}

TEST(Runtime, EndsTasksThatWaitForAnything) {
  std::optional<Runtime> runtime = Runtime::start();
  const auto semaphore = Semaphore::counting(0);
  const auto signal = std::make_shared<Signal>();
  Promise<int> never;
  auto acquiring = spawn(*runtime, [](Semaphore s) -> Task<int> {
    auto acquire = s.acquire();
    TINKER_CO_TRY(const auto permit, co_await acquire);
    co_return 1;
  }(semaphore));
  auto listening = spawn(*runtime, [](std::shared_ptr<Signal> s) -> Task<int> {
    auto wait = s->wait();
    TINKER_CO_TRY(co_await wait);
    co_return 1;
  }(signal));
  auto awaiting = spawn(*runtime, [](Future<int> f) -> Task<int> {
    auto wait = until(std::move(f));
    co_return co_await wait;
  }(never.future()));

  runtime.reset();
  never.set(1);  // its loop is gone

  EXPECT_THAT(acquiring.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(listening.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(awaiting.get(), IsError(ErrorCode::cancelled, _));
}

TEST(Runtime, TakesTasksWhileItEnds) {
  for (int round = 0; round < 20; ++round) {
    std::optional<Runtime> runtime = Runtime::start();
    const auto core = runtime->core();
    std::latch started(5);
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        started.arrive_and_wait();
        for (int k = 0; k < 50; ++k) {
          // Below a scope of its own, which the runtime does not know before the task starts.
          const auto parent = k % 2 == 0 ? core->scope() : std::make_shared<Scope>();
          auto future = core->spawn(parent, answer_after(k % 2 == 0 ? 1h : 0h, k));
          EXPECT_TRUE(ended_well_or_cancelled(future.get()));
        }
      });
    }

    started.arrive_and_wait();
    runtime.reset();
  }
}

TEST(Runtime, CancelsWhatIsSpawnedAfterItsEnd) {
  std::optional<Runtime> runtime = Runtime::start();
  const auto core = runtime->core();
  runtime.reset();

  auto late = core->spawn(core->scope(), answer_after(0s, 1));

  EXPECT_THAT(late.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(core->offload([] { return 7; }).get(), IsOkAndHolds(7));
  EXPECT_NE(core->shared<int>([] { return std::make_shared<int>(1); }),
            core->shared<int>([] { return std::make_shared<int>(1); }));
}

TEST(Runtime, MayLoseItsLastHandleInACallback) {
  std::optional<Runtime> runtime = Runtime::start();
  auto gone = Witness::of(*runtime);
  auto other = spawn(*runtime, answer_after(1h, 1));
  auto future =
      spawn(*runtime, answer_after(1ms, 7)).then([own = *runtime](Result<int> r) { return r; });

  runtime.reset();

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
  EXPECT_THAT(other.get(), IsError(ErrorCode::cancelled, _));
  gone.wait();
}

TEST(Runtime, MayLoseItsLastHandleOnItsOwnLoop) {
  std::optional<Runtime> runtime = Runtime::start();
  auto gone = Witness::of(*runtime);
  auto other = spawn(*runtime, answer_after(1h, 1));
  auto future = spawn(*runtime, [](Runtime own) -> Task<int> {
    auto pause = sleep_for(1ms);
    TINKER_CO_TRY(co_await pause);
    co_return own.callbacks() ? 7 : 0;
  }(*runtime));

  runtime.reset();

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
  EXPECT_THAT(other.get(), IsError(ErrorCode::cancelled, _));
  gone.wait();
}

TEST(Runtime, MayLoseItsLastHandleOnAWorker) {
  std::optional<Runtime> runtime = Runtime::start();
  auto gone = Witness::of(*runtime);
  std::latch dropped(1);
  auto future = runtime->core()->offload([&dropped, own = *runtime] {
    dropped.wait();
    return own.callbacks() ? 7 : 0;
  });

  runtime.reset();
  dropped.count_down();

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
  gone.wait();
}

TEST(Runtime, MayLoseItsLastHandleOnAnotherRuntime) {
  std::optional<Runtime> first = Runtime::start();
  std::optional<Runtime> second = Runtime::start();
  auto first_gone = Witness::of(*first);
  auto second_gone = Witness::of(*second);
  (void)spawn(*first, answer_after(1ms, 1)).then([other = *second](const Result<int>&) {});
  (void)spawn(*second, answer_after(1ms, 1)).then([other = *first](const Result<int>&) {});

  first.reset();
  second.reset();

  first_gone.wait();
  second_gone.wait();
}

TEST(Runtime, StopsTasksFromOtherThreadsAtAnyMoment) {
  const auto runtime = Runtime::start();
  for (int round = 0; round < 300; ++round) {
    std::stop_source source;
    auto stopped =
        runtime.core()->spawn(runtime.core()->scope(),
                              answer_after(0s, 1),
                              SpawnOptions{.deadline = 1h, .stop_token = source.get_token()});
    auto cancelled = spawn(runtime, answer_after(0s, 1));

    const std::jthread other([&] { source.request_stop(); });
    cancelled.cancel();

    EXPECT_TRUE(ended_well_or_cancelled(stopped.get()));
    EXPECT_TRUE(ended_well_or_cancelled(cancelled.get()));
  }
}

TEST(Runtime, RunsContinuationsOnAnExecutorOfTheUsers) {
  class Mine final : public Executor {
   public:
    void post(UniqueFunction<void()> work) override {
      ++posts;
      pool_.post(std::move(work));
    }
    std::atomic<int> posts = 0;

   private:
    ThreadPool pool_{"mine", 1};
  };
  const auto mine = std::make_shared<Mine>();
  const auto runtime = Runtime::start({.callbacks = mine});

  auto future = spawn(runtime, answer_after(0s, 7)).then([](Result<int> r) { return r; });

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
  EXPECT_EQ(runtime.callbacks(), mine);
  EXPECT_EQ(mine->posts, 1);
}

TEST(RuntimeOffload, GivesResultsErrorsAndWhatWasThrown) {
  const auto runtime = Runtime::start();
  const auto& core = runtime.core();

  EXPECT_THAT(core->offload([] { return 7; }).get(), IsOkAndHolds(7));
  EXPECT_THAT(core->offload([]() -> Result<void> { return {}; }).get(), IsOk());
  EXPECT_THAT(core->offload([]() -> Result<int> {
                    return Error{.code = ErrorCode::conflict, .message = "taken"};
                  })
                  .get(),
              IsError(ErrorCode::conflict, HasSubstr("taken")));
  EXPECT_THAT(core->offload([]() -> int { throw std::runtime_error("it broke"); }).get(),
              IsError(ErrorCode::internal, HasSubstr("it broke")));
}

Task<bool> offloads(std::shared_ptr<RuntimeCore> core) {
  const auto loop_thread = std::this_thread::get_id();
  auto work = until(core->offload([] { return std::this_thread::get_id(); }));
  TINKER_CO_TRY(const auto worker, co_await work);
  co_return worker != loop_thread&& std::this_thread::get_id() == loop_thread;
}

TEST(RuntimeOffload, RunsOnAWorkerAndGoesOnOnTheLoop) {
  const auto runtime = Runtime::start();
  const auto& core = runtime.core();

  EXPECT_THAT(core->spawn(core->scope(), offloads(core)).get(), IsOkAndHolds(true));
}

TEST(RuntimeOffload, IsFinishedBeforeTheRuntimeIsGone) {
  std::atomic<int> ran = 0;
  {
    const auto runtime = Runtime::start({.worker_threads = 3});
    for (int i = 0; i < 200; ++i) (void)runtime.core()->offload([&] { return ++ran; });
  }

  EXPECT_EQ(ran, 200);
}

TEST(RuntimeOffload, HasAtLeastOneWorker) {
  const auto runtime = Runtime::start({.worker_threads = 0});

  EXPECT_THAT(runtime.core()->offload([] { return 7; }).get(), IsOkAndHolds(7));
}

TEST(RuntimeShared, IsMadeOnceForAllThreads) {
  const auto runtime = Runtime::start();
  std::atomic<int> made = 0;
  std::atomic<const int*> seen = nullptr;
  std::atomic<int> different = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(8);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto mine = runtime.core()->shared<int>([&] {
          ++made;
          return std::make_shared<int>(7);
        });
        const int* expected = nullptr;
        if (!seen.compare_exchange_strong(expected, mine.get()) && expected != mine.get()) {
          ++different;
        }
      });
    }
  }

  EXPECT_EQ(made, 1);
  EXPECT_EQ(different, 0);
}

TEST(RuntimeShared, MayBeMadeFromOtherSharedThings) {
  const auto runtime = Runtime::start();
  const auto& core = runtime.core();

  const auto text = core->shared<std::string>([&] {
    const auto number = core->shared<int>([] { return std::make_shared<int>(7); });
    return std::make_shared<std::string>(std::to_string(*number) + core->uuid4());
  });

  EXPECT_THAT(*text, ::testing::StartsWith("7"));
}

TEST(RuntimeIds, AreRepeatableWithASeedAndDifferOtherwise) {
  const auto first = Runtime::start({.seed = 7});
  const auto same = Runtime::start({.seed = 7});
  const auto other = Runtime::start();
  const auto id = first.core()->uuid4();

  EXPECT_EQ(same.core()->uuid4(), id);
  EXPECT_NE(other.core()->uuid4(), id);
  EXPECT_NE(first.core()->uuid4(), id);
}

TEST(RuntimeThreads, AreTheLibrarysOwn) {
  const auto runtime = Runtime::start();
  const auto is_library = [] { return this_thread().is_library; };
  Promise<int> promise(runtime.callbacks());
  auto callback = promise.future().then([&](const Result<int>&) { return is_library(); });
  promise.set(1);

  EXPECT_THAT(runtime.core()->offload(is_library).get(), IsOkAndHolds(true));
  EXPECT_THAT(callback.get(), IsOkAndHolds(true));
  EXPECT_FALSE(is_library());
}

}  // namespace
}  // namespace tinker::async::runtime_test
