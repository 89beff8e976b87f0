#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/expired_ids.h"
#include "server/future_store.h"
#include "server/shares.h"
#include "server/wait_list.h"

namespace tinker::server {

/// What a `FutureStore` knows: pending operations, their results, and when results are dropped.
///
/// An entry is in one of four lists: pending, unfetched, unfetched of no session, delivered. The
/// last three are in the order in which their entries entered them. Since all entries of a list are
/// kept equally long, its first one expires first and one timer serves all. Nothing here resumes a
/// task inside a call.
class FutureTable {
 public:
  struct Target;
  /// The end of a request as its target announces it. Leaves the target's events when it dies.
  struct Event {
    Event(std::shared_ptr<Target> announcer, std::int64_t number, FutureCompletion what);
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { target->events.erase(cursor); }

    std::shared_ptr<Target> target;
    std::int64_t cursor;
    FutureCompletion completion;
  };
  struct TargetKey {
    std::string owner = {};
    std::string sampling_session_id = {};
    std::int64_t cloned_sampler_id = 0;
    friend auto operator<=>(const TargetKey&, const TargetKey&) = default;
  };
  /// Lives while it has requests or somebody polls for it.
  struct Target {
    Target(FutureTable& in, TargetKey name) : table(in), key(std::move(name)) {}
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    ~Target() { table.targets_.erase(key); }

    FutureTable& table;
    TargetKey key;
    std::map<std::int64_t, const Event*> events = {};  // by cursor
    WaitList waiters = {};
  };
  struct Pending {
    UniqueFunction<void()> cancel = {};
    UniqueFunction<StillPending(std::string_view)> why = {};
    QueueState state = QueueState::active;
    std::string reason = {};
    WaitList waiters = {};
  };
  struct Entry {
    std::string id;
    std::string owner;
    std::shared_ptr<Target> target;                             // null: not a sample
    std::unique_ptr<Pending> pending;                           // null: it has ended
    std::shared_ptr<const Result<EncodedResult>> outcome = {};  // null while it is pending
    std::unique_ptr<Event> event = {};
    bool is_delivered = false;
    bool has_session = true;
    async::TimePoint since = {};  // it is in its list
  };

  FutureTable(std::shared_ptr<async::EventLoop> loop, FutureLimits limits);
  FutureTable(const FutureTable&) = delete;
  FutureTable& operator=(const FutureTable&) = delete;
  ~FutureTable() { close(); }

  bool open(FutureStore::Spec spec);
  [[nodiscard]] Result<void> check_room(const std::string& owner) const;
  void finish(std::string_view id, Result<EncodedResult> outcome);
  void delivered(std::string_view id);
  /// The client reports that it has the result (PROTOCOL 9.38 rule 5). The event goes, too, if the
  /// client has seen it: if not, it shall be told again (rule 2).
  void retrieved(std::string_view id, const Target& target, std::int64_t prev_cursor);
  void cancel(std::string_view id, std::string_view owner);
  void forget(std::string_view prefix);
  void fail_all(const Error& reason);
  /// Ends every poll, also of what is pending, and those to come.
  void end_polls();
  /// Ends all that is pending, too.
  void close();

  /// Null for unknown ids. Holds until the loop goes on.
  [[nodiscard]] Entry* find(std::string_view id);
  [[nodiscard]] Entry* find(std::string_view id, std::string_view owner);
  [[nodiscard]] bool has_expired(std::string_view id, std::string_view owner) const;
  std::shared_ptr<Target> target(TargetKey key);

  [[nodiscard]] async::EventLoop& loop() const noexcept { return *loop_; }
  [[nodiscard]] const FutureLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::int64_t last_cursor() const noexcept { return last_cursor_; }
  [[nodiscard]] bool has_ended_polls() const noexcept { return has_ended_polls_; }
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.size(); }
  [[nodiscard]] std::size_t kept() const noexcept {
    return unfetched_.size() + sessionless_.size() + delivered_.size();
  }
  [[nodiscard]] std::size_t kept_bytes() const noexcept {
    return unfetched_bytes_.total() + delivered_bytes_;
  }
  [[nodiscard]] std::size_t waiting() const noexcept;

 private:
  using Entries = std::list<Entry>;
  using Place = Entries::iterator;

  static std::size_t cost(const Entry& entry) noexcept;
  /// The list of a result.
  Entries& list_of(const Entry& entry) noexcept;
  void end(Place place, Result<EncodedResult> outcome);
  void announce(Entry& entry, FutureCompletion what);
  /// Drops a result. Its id is remembered for a while, and `event` with it.
  void drop(Place place, std::unique_ptr<Event> event);
  void drop_overweight();
  void drop_expired();
  void set_timer();

  std::shared_ptr<async::EventLoop> loop_;
  FutureLimits limits_;
  std::int64_t last_cursor_;
  // Targets leave this map when the last of their entries and events dies, so it dies last.
  std::map<TargetKey, std::weak_ptr<Target>> targets_ = {};
  Entries pending_ = {};
  Entries unfetched_ = {};
  Entries sessionless_ = {};  // unfetched, too
  Entries delivered_ = {};
  std::unordered_map<std::string_view, Place> by_id_ = {};
  ExpiredIds<std::unique_ptr<Event>> expired_;
  Shares pending_count_ = {};
  Shares unfetched_bytes_ = {};
  std::size_t delivered_bytes_ = 0;
  async::TimerId timer_ = {};
  std::optional<async::TimePoint> timer_at_ = {};
  bool has_ended_polls_ = false;
};

}  // namespace tinker::server
