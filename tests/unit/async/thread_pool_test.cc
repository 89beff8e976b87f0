#include "async/thread_pool.h"

#include <atomic>
#include <csignal>
#include <future>
#include <latch>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "async/this_thread.h"

namespace tinker::async::thread_pool_test {
namespace {

using ::testing::ElementsAre;

TEST(ThreadPool, RunsWorkInOrderOnOneThread) {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  {
    ThreadPool pool("test", 1);
    for (int i = 0; i < 4; ++i) {
      pool.post([&, i] {
        order.push_back(i);
        threads.insert(std::this_thread::get_id());
      });
    }
  }  // waits

  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(threads, ::testing::SizeIs(1));
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, RunsAsManyAtATimeAsItHasThreads) {
  constexpr int kThreads = 4;
  std::latch together(kThreads);
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("test", kThreads);
    for (int i = 0; i < kThreads; ++i) {
      pool.post([&] {
        together.arrive_and_wait();  // hangs with fewer
        ++ran;
      });
    }
  }

  EXPECT_EQ(ran, kThreads);
}

TEST(ThreadPool, TakesABurstInOrderAndEmptiesIt) {
  std::vector<int> order;
  std::vector<UniqueFunction<void()>> works;
  for (int i = 0; i < 3; ++i) works.emplace_back([&, i] { order.push_back(i); });
  {
    ThreadPool pool("test", 1);
    pool.post_all(works);
    EXPECT_TRUE(works.empty());
    pool.post_all(works);  // of nothing
  }

  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(ThreadPool, RunsABurstOnAsManyThreadsAsItCan) {
  constexpr int kThreads = 3;
  ThreadPool pool("test", kThreads);
  for (int round = 0; round < 2; ++round) {  // with new threads, and with idle ones
    std::latch together(kThreads);
    std::vector<UniqueFunction<void()>> works;
    for (int i = 0; i < kThreads; ++i) works.emplace_back([&] { together.arrive_and_wait(); });
    pool.post_all(works);
    pool.wait_idle();
  }
}

TEST(ThreadPool, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("test", 2);
    for (int i = 0; i < 1000; ++i) pool.post([&] { ++ran; });
  }

  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, EndsWithoutEverHavingRun) {
  const ThreadPool pool("test", 3);
}

TEST(ThreadPool, TakesWorkFromManyThreads) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool("test", 3);
    std::vector<std::jthread> posters;
    posters.reserve(8);
    for (int i = 0; i < 8; ++i) {
      posters.emplace_back([&] {
        for (int k = 0; k < 200; ++k) pool.post([&] { ++ran; });
      });
    }
  }

  EXPECT_EQ(ran, 1600);
}

TEST(ThreadPool, WaitsUntilItIsIdleAndGoesOn) {
  ThreadPool pool("test", 3);
  std::atomic<int> ran = 0;
  const auto owned = std::make_shared<int>();
  pool.wait_idle();

  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 10; ++i) {
      pool.post([&, owned] {
        if (++ran % 10 == 0) pool.post([&, owned] { ran += 0; });
      });
    }
    pool.wait_idle();
    EXPECT_EQ(ran, round * 10);
    EXPECT_EQ(owned.use_count(), 1);
  }
}

TEST(ThreadPool, MayEndOnOneOfItsOwnThreads) {
  std::promise<void> done;
  auto pool = std::make_shared<ThreadPool>("test", 2);
  auto& posts = *pool;

  posts.post([&done, own = std::move(pool)]() mutable {
    own->post([&done] { done.set_value(); });  // still runs
    own.reset();
  });

  done.get_future().wait();
}

TEST(ThreadPool, LetsGoOfWorkRightAfterItRan) {
  ThreadPool pool("test", 1);
  const auto owned = std::make_shared<int>();
  std::promise<long> count;

  pool.post([owned] {});
  pool.post([&] { count.set_value(owned.use_count()); });

  EXPECT_EQ(count.get_future().get(), 1);
}

TEST(ThreadPool, MarksNamesAndShieldsItsThreads) {
  ThreadPool pool("a-name-that-is-too-long", 1);
  std::promise<void> done;
  bool is_library = false;
  bool is_blocked = false;
  bool faults_are_blocked = true;
  std::string name(16, '\0');

  pool.post([&] {
    is_library = this_thread().is_library;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    is_blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGPIPE) == 1;
    faults_are_blocked = sigismember(&mask, SIGSEGV) == 1;
    pthread_getname_np(pthread_self(), name.data(), name.size());
    done.set_value();
  });
  done.get_future().wait();

  EXPECT_TRUE(is_library);
  EXPECT_TRUE(is_blocked);
  EXPECT_FALSE(faults_are_blocked);
  EXPECT_STREQ(name.c_str(), "a-name-that-is-");
  EXPECT_FALSE(this_thread().is_library);
}

}  // namespace
}  // namespace tinker::async::thread_pool_test
