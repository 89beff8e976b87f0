#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/strings.h"
#include "server/service.h"

// What the service does now and then.
namespace tinker::server {

namespace {

constexpr auto kExpiryPeriod = std::chrono::seconds(5);
constexpr auto kHistoryPeriod = std::chrono::hours(1);
constexpr auto kWritePeriod = std::chrono::seconds(10);
constexpr auto kRefusalPeriod = std::chrono::seconds(10);

async::Task<> sweep(Service* service) {
  auto swept =
      service->disk.run([uploads = service->uploads.take_expired(service->now())](Store& store) {
        for (const auto& place : uploads) store.abandon_checkpoint(place);
        return store.sweep();
      });
  auto wait = async::until(std::move(swept));
  TINKER_CO_TRY(const auto gone, co_await wait);
  for (const auto& path : gone) {
    TINKER_LOG(service->options().logger, info, "checkpoint ", path.to_string(), " has expired");
  }
  co_return Result<void>();
}

async::Task<> forget(Service* service) {
  const Instant before = service->now() - service->options().limits.history_time;
  auto forgotten =
      service->disk.run([before](Store& store) { return store.forget_before(before); });
  auto wait = async::until(std::move(forgotten));
  co_return co_await wait;
}

async::Task<> write_counts(Service* service, std::vector<UsageRecord> counts) {
  auto stored = service->disk.run([counts](Store& store) { return store.add_usage(counts); });
  auto wait = async::until(std::move(stored));
  const auto written = co_await wait;
  if (!written.ok()) service->usage.put_back(counts);
  co_return written;
}

}  // namespace

void Service::run_beside(async::Task<> task, const char* what) {
  spawn(scope(), std::move(task), [logger = options_.logger, what](detail::Late<void> late) {
    const Result<void> end = *std::move(late);
    if (end.ok() || end.error().code == ErrorCode::closed) return;
    logger.write(LogLevel::error, base::concat(what, ": ", end.error().to_string()));
  });
}

void Service::start() {
  loop_->post([self = shared_from_this()] {
    self->run_beside(self->sessions.restore(), "sessions of an earlier life");
    self->forget_history();
  });
  every(std::min<std::chrono::nanoseconds>(kExpiryPeriod, options_.session_timeout),
        &Service::expire_sessions);
  every(options_.limits.sweep_time, &Service::sweep_checkpoints);
  every(kHistoryPeriod, &Service::forget_history);
  every(kWritePeriod, &Service::write_usage);
  every(kWritePeriod, &Service::write_last_requests);
  every(kRefusalPeriod, &Service::write_refused_keys);
}

void Service::every(std::chrono::nanoseconds period, void (Service::*what)()) {
  loop_->schedule_after(period, [weak = weak_from_this(), period, what] {
    const auto self = weak.lock();
    if (!self || self->is_stopped_) return;
    ((*self).*what)();
    self->every(period, what);
  });
}

void Service::expire_sessions() {
  run_beside(sessions.expire(options_.session_timeout), "expiry of sessions");
}

void Service::sweep_checkpoints() {
  run_beside(sweep(this), "sweeping of checkpoints");
}

void Service::forget_history() {
  run_beside(forget(this), "removal of old history");
}

void Service::write_usage() {
  auto counts = usage.take();
  if (!counts.empty()) run_beside(write_counts(this, std::move(counts)), "usage counts");
}

Future<void> Service::flush_usage() {
  return apart(write_counts(this, usage.take()));
}

void Service::write_refused_keys() {
  if (const auto line = refused_keys_.end_period()) options_.logger.write(LogLevel::warn, *line);
}

}  // namespace tinker::server
