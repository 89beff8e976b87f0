#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/store_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::store_events_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOkAndHolds;
using ::testing::SizeIs;

class StoreEvents : public testing::StoreTest {
 protected:
  std::vector<std::string> events(std::string_view owner,
                                  std::chrono::seconds from,
                                  std::chrono::seconds to,
                                  std::string_view prefix = {}) {
    std::vector<std::string> names;
    for (const auto& entry : store_->audit(owner, start_ + from, start_ + to, prefix).value()) {
      names.push_back(entry.event);
    }
    return names;
  }
  void add(std::chrono::seconds at, const std::string& event, const std::string& owner = "ada") {
    store_->add_audit({.at = start_ + at, .owner = owner, .event = event}).value();
  }

  const Instant start_ = now();
};

TEST_F(StoreEvents, KeepAllThatAnAuditWantsToKnow) {
  const AuditRecord entry = {
      .at = now() + 1us, .owner = "ada", .event = "a_b", .details = {{"path", "tinker://'"}}};
  store_->add_audit(entry).value();
  reopen();

  EXPECT_THAT(store_->audit("ada", now(), now() + 1s, ""), IsOkAndHolds(ElementsAre(entry)));
}

// PROTOCOL 9.35: from midnight to midnight.
TEST_F(StoreEvents, AreFoundByTime) {
  add(2s, "second");
  add(1s, "first");
  add(3s, "third");

  EXPECT_THAT(events("ada", 0s, 9s), ElementsAre("first", "second", "third"));
  EXPECT_THAT(events("ada", 1s, 3s), ElementsAre("first", "second"));
  EXPECT_THAT(events("ada", 4s, 9s), IsEmpty());
}

TEST_F(StoreEvents, AreFoundByOwnerAndByTheBeginningOfTheirNames) {
  add(1s, "checkpoint_read");
  add(2s, "project_set");
  add(3s, "checkpoint_read", "bob");

  EXPECT_THAT(events("ada", 0s, 9s, "checkpoint_"), ElementsAre("checkpoint_read"));
  EXPECT_THAT(events("ada", 0s, 9s, "%"), IsEmpty());
  EXPECT_THAT(events("bob", 0s, 9s), ElementsAre("checkpoint_read"));
}

// PROTOCOL 9.36
TEST_F(StoreEvents, SumUsageByHour) {
  using Kind = UsageRecord::Kind;
  const UsageRecord first = {
      .hour = start_ + 5min, .owner = "ada", .session_id = "s", .base_model = "m", .count = 3};
  auto same_hour = first;
  same_hour.hour = start_ + 59min;
  auto next_hour = first;
  next_hour.hour = start_ + 60min;
  auto other_kind = first;
  other_kind.kind = Kind::sampling_prefill_cached;
  store_->add_usage(std::vector{first, other_kind}).value();
  store_->add_usage(std::vector{same_hour, next_hour}).value();
  reopen();

  auto summed = first;
  summed.hour = start_;
  summed.count = 6;
  next_hour.hour = start_ + 1h;
  other_kind.hour = start_;
  EXPECT_THAT(store_->usage("ada", start_, start_ + 2h),
              IsOkAndHolds(ElementsAre(other_kind, summed, next_hour)));
  EXPECT_THAT(store_->usage("ada", start_ + 1h, start_ + 2h), IsOkAndHolds(ElementsAre(next_hour)));
  EXPECT_THAT(store_->usage("bob", start_, start_ + 2h), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreEvents, KeepUsageOfEveryKind) {
  using Kind = UsageRecord::Kind;
  for (const auto kind : {Kind::training,
                          Kind::sampling_prefill,
                          Kind::sampling_prefill_cached,
                          Kind::sampling_sample,
                          Kind::checkpoint}) {
    const UsageRecord usage = {.hour = start_, .owner = "ada", .kind = kind, .count = 1};
    store_->add_usage({&usage, 1}).value();
    EXPECT_THAT(store_->usage("ada", start_, start_ + 1h),
                IsOkAndHolds(::testing::Contains(usage)));
  }
}

class StoreHistory : public testing::StoreTest {
 protected:
  /// A session that began then, with a sampler.
  void add_session(const std::string& id, Instant at, bool is_over) {
    SessionRecord session = {.session_id = id, .owner = "ada", .created_at = at};
    if (is_over) session.finish_reason = SessionFinishReason::success;
    store_->add_session(session).value();
    store_->add_sampler({.sampler_id = id + ":sample:1", .session_id = id, .owner = "ada"}).value();
  }
  void add_run(const std::string& session, Instant used_at) {
    store_
        ->add_run({.run_id = session + ":train:1",
                   .session_id = session,
                   .owner = "ada",
                   .last_request_at = used_at})
        .value();
  }
  /// Whether session, run and sampler are there.
  std::vector<bool> found(const std::string& id) {
    return {store_->find_session(id).value().has_value(),
            store_->find_run(id + ":train:1").value().has_value(),
            store_->find_sampler(id + ":sample:1").value().has_value()};
  }

  const Instant old_ = now() - 10s;
  const Instant before_ = now() - 5s;
};

TEST_F(StoreHistory, GoesWhenItIsOverAndOld) {
  add_session("over", old_, true);
  add_run("over", old_);
  add_session("without runs", old_, true);
  store_->add_audit({.at = old_, .owner = "ada", .event = "old"}).value();
  store_->add_audit({.at = before_, .owner = "ada", .event = "new"}).value();

  store_->forget_before(before_).value();

  EXPECT_THAT(found("over"), ElementsAre(false, false, false));
  EXPECT_THAT(found("without runs"), ElementsAre(false, false, false));
  EXPECT_THAT(store_->audit("ada", old_, now(), ""), IsOkAndHolds(SizeIs(1)));
}

TEST_F(StoreHistory, StaysWhileItMayBeNeeded) {
  add_session("open", old_, false);
  add_run("open", old_);
  add_session("in use", old_, true);
  add_run("in use", before_);
  add_session("new", before_, true);
  add_run("new", old_);
  add_session("with a checkpoint", old_, true);
  add_run("with a checkpoint", old_);
  put({.run_id = "with a checkpoint:train:1", .name = "a", .owner = "ada"});

  store_->forget_before(before_).value();

  EXPECT_THAT(found("open"), ElementsAre(true, true, true));
  EXPECT_THAT(found("in use"), ElementsAre(true, true, true));
  EXPECT_THAT(found("new"), ElementsAre(true, false, true));
  EXPECT_THAT(found("with a checkpoint"), ElementsAre(true, true, true));
}

TEST_F(StoreHistory, OfUsageGoesByTheHour) {
  const Instant hour = std::chrono::floor<std::chrono::hours>(now());
  store_
      ->add_usage(std::vector<UsageRecord>{{.hour = hour - 1h, .owner = "ada", .count = 1},
                                           {.hour = hour, .owner = "ada", .count = 2}})
      .value();

  store_->forget_before(hour).value();

  EXPECT_THAT(store_->usage("ada", hour - 2h, hour + 1h), IsOkAndHolds(SizeIs(1)));
}

}  // namespace
}  // namespace tinker::server::store_events_test
