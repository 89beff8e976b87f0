#include "server/future_store.h"

#include <algorithm>
#include <utility>

#include "server/future_table.h"

namespace tinker::server {

namespace {

using Table = std::shared_ptr<FutureTable>;

constexpr std::size_t kMostCompletions = 10'000;  // of one answer; the next one has the rest

StillPending state_of(const FutureTable::Entry& entry) {
  auto& pending = *entry.pending;
  if (pending.reason.empty() && pending.why) return pending.why(entry.id);
  return {.state = pending.state, .reason = pending.reason};
}

PollAnswer answer(const FutureTable::Entry& entry,
                  bool allow_metadata_only,
                  const FutureLimits& limits) {
  if (entry.pending) return state_of(entry);
  const auto& outcome = *entry.outcome;
  if (!outcome.ok()) return outcome.error();
  const std::size_t bytes = outcome->body.size();
  if (allow_metadata_only && bytes >= limits.metadata_only_bytes) return TooLarge{bytes};
  return Ready{std::shared_ptr<const EncodedResult>(entry.outcome, &*outcome)};
}

async::Task<PollAnswer> poll_one(Table table,
                                 std::string request_id,
                                 std::string owner,
                                 bool allow_metadata_only) {
  const auto until = async::time_after(table->loop().now(), table->limits().hold);
  while (true) {
    const auto* entry = table->find(request_id, owner);
    if (entry == nullptr) {
      const bool has_expired = table->has_expired(request_id, owner);
      co_return has_expired ? PollAnswer(Expired()) : PollAnswer(UnknownId());
    }
    if (!entry->pending || table->has_ended_polls() || table->loop().now() >= until) {
      co_return answer(*entry, allow_metadata_only, table->limits());
    }
    auto wait = entry->pending->waiters.wait(until);
    TINKER_CO_TRY(co_await wait);
  }
}

/// All that happened after `prev_cursor`. A cursor that this server did not give stands for 0: to
/// hear of an end twice does no harm (PROTOCOL 9.38 rule 2), to miss one does.
FuturesRetrieveResponse events_after(const FutureTable& table,
                                     const FutureTable::Target& target,
                                     std::int64_t prev_cursor) {
  FuturesRetrieveResponse response{.cursor = std::max<std::int64_t>(prev_cursor, 0)};
  const auto& events = target.events;
  auto event = events.upper_bound(prev_cursor > table.last_cursor() ? 0 : prev_cursor);
  for (; event != events.end() && response.completions.size() < kMostCompletions; ++event) {
    response.completions.push_back(event->second->completion);
    response.cursor = event->first;
  }
  return response;
}

std::chrono::nanoseconds hold_of(const FuturesRetrieveRequest& request,
                                 std::chrono::nanoseconds most) {
  if (!request.timeout) return most;
  const std::chrono::duration<double> asked(*request.timeout);
  if (asked <= most.zero()) return most.zero();
  if (!(asked < most)) return most;  // also where it is not a number
  return std::chrono::duration_cast<std::chrono::nanoseconds>(asked);
}

async::Task<FuturesRetrieveResponse> poll_target(Table table,
                                                 FuturesRetrieveRequest request,
                                                 std::string owner) {
  const auto target =
      table->target({.owner = std::move(owner),
                     .sampling_session_id = std::move(request.target.sampling_session_id),
                     .cloned_sampler_id = request.target.cloned_sampler_id});
  for (const auto& id : request.retrieved_request_ids) {
    table->retrieved(id, *target, request.prev_cursor);
  }
  const auto hold = hold_of(request, table->limits().hold_batch);
  const auto until = async::time_after(table->loop().now(), hold);
  while (true) {
    auto response = events_after(*table, *target, request.prev_cursor);
    const bool is_over = table->has_ended_polls() || table->loop().now() >= until;
    if (is_over || !response.completions.empty()) co_return response;
    auto wait = target->waiters.wait(until);
    TINKER_CO_TRY(co_await wait);
  }
}

}  // namespace

FutureStore::FutureStore(std::shared_ptr<async::EventLoop> loop, FutureLimits limits)
    : table_(std::make_shared<FutureTable>(std::move(loop), limits)) {}

FutureStore::~FutureStore() {
  table_->close();
}

bool FutureStore::open(Spec spec) {
  return table_->open(std::move(spec));
}

Result<void> FutureStore::check_room(const std::string& owner) const {
  return table_->check_room(owner);
}

void FutureStore::finish(const std::string& request_id, Result<EncodedResult> outcome) {
  table_->finish(request_id, std::move(outcome));
}

void FutureStore::set_state(const std::string& request_id, QueueState state, std::string reason) {
  const auto* entry = table_->find(request_id);
  if (entry == nullptr || !entry->pending) return;
  entry->pending->state = state;
  entry->pending->reason = std::move(reason);
}

StillPending FutureStore::state(std::string_view request_id) const {
  const auto* entry = table_->find(request_id);
  return entry != nullptr && entry->pending ? state_of(*entry) : StillPending();
}

async::Task<PollAnswer> FutureStore::poll(std::string request_id,
                                          std::string owner,
                                          bool allow_metadata_only) {
  return poll_one(table_, std::move(request_id), std::move(owner), allow_metadata_only);
}

void FutureStore::delivered(const std::string& request_id) {
  table_->delivered(request_id);
}

std::shared_ptr<const Result<EncodedResult>> FutureStore::outcome(
    const std::string& request_id, std::chrono::nanoseconds ask_again) const {
  const auto* entry = table_->find(request_id);
  if (entry == nullptr || entry->pending) return nullptr;
  const bool is_over =
      entry->is_delivered && async::time_after(entry->since, ask_again) <= table_->loop().now();
  return is_over ? nullptr : entry->outcome;
}

bool FutureStore::is_awaited(const std::string& request_id) const {
  const auto* entry = table_->find(request_id);
  return entry != nullptr && !entry->is_delivered;
}

async::Task<FuturesRetrieveResponse> FutureStore::poll_all(FuturesRetrieveRequest request,
                                                           std::string owner) {
  return poll_target(table_, std::move(request), std::move(owner));
}

void FutureStore::cancel(const std::string& request_id, std::string_view owner) {
  table_->cancel(request_id, owner);
}

void FutureStore::forget(std::string_view prefix) {
  table_->forget(prefix);
}

void FutureStore::end_polls() {
  table_->end_polls();
}

void FutureStore::fail_all(const Error& reason) {
  table_->fail_all(reason);
}

std::size_t FutureStore::pending() const noexcept {
  return table_->pending();
}
std::size_t FutureStore::kept() const noexcept {
  return table_->kept();
}
std::size_t FutureStore::kept_bytes() const noexcept {
  return table_->kept_bytes();
}
std::size_t FutureStore::waiting() const noexcept {
  return table_->waiting();
}

}  // namespace tinker::server
