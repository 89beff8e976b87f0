#include "tinker/events.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>

namespace tinker::events_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EventBusTest : public ::testing::Test {
 protected:
  EventSink sink(std::string who) {
    return [this, who = std::move(who)](const Event& event) {
      heard_.push_back(who + ":" + std::string(event.name));
    };
  }

  EventBus bus_;
  std::vector<std::string> heard_;
};

TEST_F(EventBusTest, CarriesEventsToAllWhoListen) {
  const auto a = bus_.subscribe(sink("a"));
  const auto b = bus_.subscribe(sink("b"));

  bus_.publish({.name = "one"});
  bus_.publish({.name = "two"});

  EXPECT_THAT(heard_, ElementsAre("a:one", "b:one", "a:two", "b:two"));
}

TEST_F(EventBusTest, HandsAllDetailsOn) {
  std::vector<EventField> fields = {{.name = "count", .value = std::int64_t{7}}};
  Event seen;
  std::int64_t count = 0;
  const auto subscription = bus_.subscribe([&](const Event& event) {
    seen = event;
    count = std::get<std::int64_t>(event.fields.front().value);
  });

  bus_.publish({.name = "http.response", .http_status = 429, .attempt = 2, .fields = fields});

  EXPECT_EQ(seen.http_status, 429);
  EXPECT_EQ(seen.attempt, 2);
  EXPECT_EQ(count, 7);
}

TEST_F(EventBusTest, KnowsWhetherAnybodyListens) {
  EXPECT_FALSE(bus_.is_observed());
  {
    const auto subscription = bus_.subscribe(sink("a"));
    EXPECT_TRUE(bus_.is_observed());
  }
  EXPECT_FALSE(bus_.is_observed());
  bus_.publish({.name = "one"});
  EXPECT_THAT(heard_, IsEmpty());
}

TEST_F(EventBusTest, IsTheSameBusWhenCopied) {
  const EventBus copy = bus_;
  const auto subscription = copy.subscribe(sink("a"));

  bus_.publish({.name = "one"});

  EXPECT_THAT(heard_, ElementsAre("a:one"));
}

TEST_F(EventBusTest, SurvivesASinkThatThrows) {
  const auto bad = bus_.subscribe([](const Event&) { throw std::runtime_error("it broke"); });
  const auto good = bus_.subscribe(sink("good"));

  bus_.publish({.name = "one"});

  EXPECT_THAT(heard_, ElementsAre("good:one"));
}

TEST_F(EventBusTest, LetsGoOfASinkWithItsSubscription) {
  const auto owned = std::make_shared<int>();
  {
    const auto subscription = bus_.subscribe([owned](const Event&) {});
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(EventBusTest, MovesSubscriptions) {
  auto a = bus_.subscribe(sink("a"));
  auto moved = std::move(a);
  auto b = bus_.subscribe(sink("b"));

  moved = std::move(b);  // ends that of "a" at once
  bus_.publish({.name = "one"});

  EXPECT_THAT(heard_, ElementsAre("b:one"));
}

TEST_F(EventBusTest, OutlivesItsOwnHandle) {
  auto bus = std::make_unique<EventBus>();
  const EventBus copy = *bus;
  auto subscription = bus->subscribe(sink("a"));
  bus.reset();

  copy.publish({.name = "one"});
  subscription = Subscription();
  copy.publish({.name = "two"});

  EXPECT_THAT(heard_, ElementsAre("a:one"));
}

TEST_F(EventBusTest, LetsASinkEndItsOwnSubscription) {
  const auto owned = std::make_shared<int>();
  Subscription subscription;
  subscription = bus_.subscribe([&, owned](const Event& event) {
    subscription = Subscription();
    heard_.push_back("once:" + std::string(event.name));
  });

  bus_.publish({.name = "one"});
  bus_.publish({.name = "two"});

  EXPECT_THAT(heard_, ElementsAre("once:one"));
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(EventBusTest, LetsASinkEndAnotherSubscription) {
  Subscription second;
  const auto first = bus_.subscribe([&](const Event&) { second = Subscription(); });
  second = bus_.subscribe(sink("second"));

  bus_.publish({.name = "one"});

  EXPECT_THAT(heard_, IsEmpty());
}

TEST_F(EventBusTest, LetsASinkSubscribeForWhatComesLater) {
  Subscription inner;
  int calls = 0;
  const auto outer = bus_.subscribe([&](const Event&) {
    if (++calls == 1) inner = bus_.subscribe(sink("inner"));
  });

  bus_.publish({.name = "one"});
  bus_.publish({.name = "two"});

  EXPECT_THAT(heard_, ElementsAre("inner:two"));
}

TEST_F(EventBusTest, LetsASinkPublish) {
  const auto subscription = bus_.subscribe([&](const Event& event) {
    heard_.emplace_back(event.name);
    if (event.name == "outer") bus_.publish({.name = "inner"});
  });

  bus_.publish({.name = "outer"});

  EXPECT_THAT(heard_, ElementsAre("outer", "inner"));
}

TEST(EventBus, WaitsForCallsUnderWayWhenASubscriptionEnds) {
  const EventBus bus;
  std::latch entered(1);
  std::atomic<bool> may_leave = false;
  std::atomic<bool> has_left = false;
  auto subscription = std::make_unique<Subscription>(bus.subscribe([&](const Event&) {
    entered.count_down();
    may_leave.wait(false);
    has_left = true;
  }));
  const std::jthread publisher([&] { bus.publish({.name = "one"}); });
  entered.wait();

  const std::jthread releaser([&] {
    may_leave = true;
    may_leave.notify_all();
  });
  subscription.reset();

  EXPECT_TRUE(has_left);
}

TEST(EventBus, CallsNoSinkAfterItsSubscriptionHasEnded) {
  const EventBus bus;
  std::atomic<bool> is_over = false;
  std::atomic<int> heard = 0;
  std::vector<std::jthread> publishers;
  publishers.reserve(3);
  for (int i = 0; i < 3; ++i) {
    publishers.emplace_back([&] {
      while (!is_over) bus.publish({.name = "one"});
    });
  }

  for (int round = 0; round < 300; ++round) {
    auto is_alive = std::make_unique<std::atomic<bool>>(true);
    auto subscription = bus.subscribe([&heard, alive = is_alive.get()](const Event&) {
      EXPECT_TRUE(*alive);
      ++heard;
    });
    const auto passing = bus.subscribe([](const Event&) {});
    while (round == 0 && heard == 0) std::this_thread::yield();
    subscription = Subscription();
    *is_alive = false;
    is_alive.reset();  // a call now would be seen by the sanitizers
  }
  is_over = true;

  EXPECT_GT(heard, 0);
}

TEST(EventBus, LetsSinksOnTwoThreadsEndEachOther) {
  for (int round = 0; round < 100; ++round) {
    const EventBus bus;
    std::latch both(2);
    Subscription a;
    Subscription b;
    a = bus.subscribe([&](const Event& event) {
      if (event.name != "a") return;
      both.arrive_and_wait();
      b = Subscription();
    });
    b = bus.subscribe([&](const Event& event) {
      if (event.name != "b") return;
      both.arrive_and_wait();
      a = Subscription();
    });

    std::thread other([&] { bus.publish({.name = "a"}); });
    bus.publish({.name = "b"});
    other.join();

    EXPECT_FALSE(bus.is_observed());
  }
}

}  // namespace
}  // namespace tinker::events_test
