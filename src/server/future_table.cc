#include "server/future_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace tinker::server {

namespace {

std::int64_t first_cursor(const Clock& clock) {
  const auto since_epoch = clock.wall_time().time_since_epoch();
  return std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count());
}

}  // namespace

FutureTable::Event::Event(std::shared_ptr<Target> announcer,
                          std::int64_t number,
                          FutureCompletion what)
    : target(std::move(announcer)), cursor(number), completion(std::move(what)) {
  target->events.emplace(cursor, this);
}

FutureTable::FutureTable(std::shared_ptr<async::EventLoop> loop, FutureLimits limits)
    : loop_(std::move(loop)),
      limits_(limits),
      last_cursor_(first_cursor(loop_->clock())),
      expired_(limits.max_expired_ids) {}

bool FutureTable::open(FutureStore::Spec spec) {
  if (find(spec.request_id) != nullptr) return false;
  expired_.remove(spec.request_id);
  std::shared_ptr<Target> announcer;
  if (spec.target) {
    announcer = target({.owner = spec.owner,
                        .sampling_session_id = std::move(spec.target->sampling_session_id),
                        .cloned_sampler_id = spec.target->cloned_sampler_id});
  }
  auto waiting = std::make_unique<Pending>();
  waiting->cancel = std::move(spec.cancel);
  waiting->why = std::move(spec.why);
  pending_.push_back({.id = std::move(spec.request_id),
                      .owner = std::move(spec.owner),
                      .target = std::move(announcer),
                      .pending = std::move(waiting),
                      .has_session = spec.has_session});
  pending_count_.add(pending_.back().owner, 1);
  by_id_.emplace(pending_.back().id, std::prev(pending_.end()));
  return true;
}

Result<void> FutureTable::check_room(const std::string& owner) const {
  if (pending_count_.admits(owner, 1, limits_.max_pending) &&
      unfetched_bytes_.admits(owner, 1, limits_.max_unfetched_bytes)) {
    return {};
  }
  return Error{.code = ErrorCode::rate_limited,
               .message = base::concat(pending_count_.of(owner),
                                       " of your requests wait and ",
                                       unfetched_bytes_.of(owner),
                                       " bytes of results are not fetched; try again when there "
                                       "are fewer")};
}

FutureTable::Entries& FutureTable::list_of(const Entry& entry) noexcept {
  if (entry.is_delivered) return delivered_;
  return entry.has_session ? unfetched_ : sessionless_;
}

void FutureTable::finish(std::string_view id, Result<EncodedResult> outcome) {
  const auto found = by_id_.find(id);
  if (found != by_id_.end() && found->second->pending) end(found->second, std::move(outcome));
}

void FutureTable::end(Place place, Result<EncodedResult> outcome) {
  Entry& entry = *place;
  // Dies at the end of the call, because what dies with its `cancel` may call the store.
  const auto pending = std::exchange(entry.pending, nullptr);
  if (outcome.ok()) {
    const auto bytes = static_cast<std::int64_t>(outcome->body.size());
    announce(entry,
             FutureFinished{.request_id = entry.id, .response_payload_uncompressed_size = bytes});
  } else {
    announce(entry, FutureFailed{.request_id = entry.id});
  }
  entry.outcome = std::make_shared<const Result<EncodedResult>>(std::move(outcome));
  entry.since = loop_->now();
  auto& results = list_of(entry);
  results.splice(results.end(), pending_, place);
  pending_count_.remove(entry.owner, 1);
  unfetched_bytes_.add(entry.owner, cost(entry));
  pending->waiters.wake_all();
  set_timer();
}

void FutureTable::announce(Entry& entry, FutureCompletion what) {
  if (!entry.target) return;
  entry.event = std::make_unique<Event>(entry.target, ++last_cursor_, std::move(what));
  entry.target->waiters.wake_all();
}

void FutureTable::delivered(std::string_view id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->pending) return;
  const Place place = found->second;
  delivered_.splice(delivered_.end(), list_of(*place), place);
  if (!std::exchange(place->is_delivered, true)) {
    unfetched_bytes_.remove(place->owner, cost(*place));
    delivered_bytes_ += cost(*place);
  }
  place->since = loop_->now();
  drop_overweight();
  set_timer();
}

void FutureTable::retrieved(std::string_view id, const Target& target, std::int64_t prev_cursor) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Entry& entry = *found->second;
  if (entry.pending || entry.target.get() != &target) return;
  const bool is_seen = entry.event->cursor <= prev_cursor;
  drop(found->second, is_seen ? nullptr : std::move(entry.event));
}

void FutureTable::cancel(std::string_view id, std::string_view owner) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->owner != owner) return;
  const Place place = found->second;
  if (!place->pending) return drop(place, nullptr);
  by_id_.erase(found);
  Entry entry = std::move(*place);
  pending_.erase(place);
  pending_count_.remove(entry.owner, 1);
  // A batched poll may still wait for it, so it has an event, too.
  announce(entry, FutureFailed{.request_id = entry.id});
  expired_.add(std::move(entry.id), std::move(entry.owner), std::move(entry.event));
  entry.pending->waiters.wake_all();
  if (entry.pending->cancel) entry.pending->cancel();
}

void FutureTable::forget(std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> found;  // ids and owners
  for (const Entries* entries : {&pending_, &unfetched_, &sessionless_, &delivered_}) {
    for (const Entry& entry : *entries) {
      if (entry.id.starts_with(prefix)) found.emplace_back(entry.id, entry.owner);
    }
  }
  for (const auto& [id, owner] : found) cancel(id, owner);
}

void FutureTable::fail_all(const Error& reason) {
  while (!pending_.empty()) end(pending_.begin(), reason);
}

void FutureTable::close() {
  fail_all({.code = ErrorCode::closed, .message = "the server has stopped"});
  end_polls();
}

void FutureTable::end_polls() {
  has_ended_polls_ = true;
  for (const Entry& entry : pending_) entry.pending->waiters.wake_all();
  for (const auto& [key, target] : targets_) {
    if (const auto alive = target.lock()) alive->waiters.wake_all();
  }
  loop_->cancel(timer_);
}

FutureTable::Entry* FutureTable::find(std::string_view id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

FutureTable::Entry* FutureTable::find(std::string_view id, std::string_view owner) {
  Entry* const entry = find(id);
  return entry != nullptr && entry->owner == owner ? entry : nullptr;
}

bool FutureTable::has_expired(std::string_view id, std::string_view owner) const {
  return expired_.contains(id, owner);
}

std::shared_ptr<FutureTable::Target> FutureTable::target(TargetKey key) {
  auto& place = targets_[key];
  auto alive = place.lock();
  if (!alive) place = alive = std::make_shared<Target>(*this, std::move(key));
  return alive;
}

std::size_t FutureTable::waiting() const noexcept {
  std::size_t sum = 0;
  for (const Entry& entry : pending_) sum += entry.pending->waiters.size();
  return sum;
}

// What an entry takes; errors and empty results are not free.
std::size_t FutureTable::cost(const Entry& entry) noexcept {
  const auto& outcome = *entry.outcome;
  const std::size_t payload = outcome.ok() ? outcome->body.size() : outcome.error().message.size();
  return sizeof(Entry) + sizeof(Event) + 2 * entry.id.size() + entry.owner.size() + payload;
}

void FutureTable::drop(Place place, std::unique_ptr<Event> event) {
  if (place->is_delivered) {
    delivered_bytes_ -= cost(*place);
  } else {
    unfetched_bytes_.remove(place->owner, cost(*place));
  }
  auto& from = list_of(*place);
  by_id_.erase(place->id);
  expired_.add(std::move(place->id), std::move(place->owner), std::move(event));
  from.erase(place);
}

// The one delivered last stays whatever its size: its answer may have been lost.
void FutureTable::drop_overweight() {
  while (delivered_bytes_ > limits_.max_delivered_bytes && delivered_.size() > 1) {
    drop(delivered_.begin(), nullptr);
  }
}

void FutureTable::drop_expired() {
  const auto drop_from = [this](Entries& entries, std::chrono::nanoseconds keep) {
    while (!entries.empty() && async::time_after(entries.front().since, keep) <= loop_->now()) {
      drop(entries.begin(), nullptr);
    }
  };
  drop_from(unfetched_, limits_.keep_unfetched);
  drop_from(sessionless_, limits_.keep_sessionless);
  drop_from(delivered_, limits_.keep_delivered);
}

// A timer that was set for an entry which has left since is not worth a cancellation: it finds
// nothing to drop and is set again.
void FutureTable::set_timer() {
  if (has_ended_polls_) return;
  auto next = async::TimePoint::max();
  const auto look_at = [&next](const Entries& entries, std::chrono::nanoseconds keep) {
    if (!entries.empty()) next = std::min(next, async::time_after(entries.front().since, keep));
  };
  look_at(unfetched_, limits_.keep_unfetched);
  look_at(sessionless_, limits_.keep_sessionless);
  look_at(delivered_, limits_.keep_delivered);
  if (next == async::TimePoint::max() || (timer_at_ && *timer_at_ <= next)) return;
  loop_->cancel(timer_);
  timer_at_ = next;
  timer_ = loop_->schedule(next, [this] {
    timer_at_.reset();
    drop_expired();
    set_timer();
  });
}

}  // namespace tinker::server
