#include "async/burst_executor.h"

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "async/asio_loop.h"
#include "async/this_thread.h"

namespace tinker::async::burst_executor_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class BurstExecutorTest : public ::testing::Test {
 protected:
  void start_loop() {
    thread_ = std::thread([this] {
      this_thread().loop = loop_.get();
      loop_->run();
      bursts_->flush();
    });
  }
  void end_loop() {
    loop_->stop();
    thread_.join();
    pool_->wait_idle();
  }

  std::shared_ptr<AsioLoop> loop_ = AsioLoop::create();
  std::shared_ptr<ThreadPool> pool_ = std::make_shared<ThreadPool>("test", 1);
  std::shared_ptr<BurstExecutor> bursts_ = BurstExecutor::create(loop_, pool_);
  std::thread thread_;
  std::vector<int> ran_;  // on the pool's one thread
};

TEST_F(BurstExecutorTest, PassesOnAtOnceWhatComesFromElsewhere) {
  bursts_->post([this] { ran_.push_back(1); });  // there is no loop running that could flush it

  pool_->wait_idle();
  EXPECT_THAT(ran_, ElementsAre(1));
}

TEST_F(BurstExecutorTest, PassesOnInOrderWhatTheLoopHasOnceItsTurnIsOver) {
  std::promise<bool> has_run_early;
  std::promise<void> done;
  start_loop();
  loop_->post([&] {
    bursts_->post([&] { ran_.push_back(1); });
    bursts_->post([&] { ran_.push_back(2); });
    bursts_->post([&] {
      ran_.push_back(3);
      done.set_value();
    });
    std::this_thread::sleep_for(10ms);
    has_run_early.set_value(!ran_.empty());  // nobody else touches it before the turn is over
  });

  EXPECT_FALSE(has_run_early.get_future().get());
  done.get_future().get();
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
  end_loop();
}

TEST_F(BurstExecutorTest, StartsAnotherBurstAfterTheFirst) {
  std::promise<void> done;
  start_loop();
  loop_->post([&] { bursts_->post([&] { ran_.push_back(1); }); });
  loop_->post([&] {
    loop_->post([&] {
      loop_->post([&] {
        bursts_->post([&] {
          ran_.push_back(2);
          done.set_value();
        });
      });
    });
  });

  done.get_future().get();
  EXPECT_THAT(ran_, ElementsAre(1, 2));
  end_loop();
}

TEST_F(BurstExecutorTest, LosesNothingWhenTheLoopEnds) {
  start_loop();
  loop_->post([&] {
    bursts_->post([&] { ran_.push_back(1); });
    loop_->stop();  // before the burst could go
  });

  thread_.join();
  pool_->wait_idle();
  EXPECT_THAT(ran_, ElementsAre(1));
}

TEST_F(BurstExecutorTest, PassesOnWhatComesWhenTheLoopIsGone) {
  loop_.reset();
  bursts_->post([this] { ran_.push_back(1); });

  pool_->wait_idle();
  EXPECT_THAT(ran_, ElementsAre(1));
}

}  // namespace
}  // namespace tinker::async::burst_executor_test
