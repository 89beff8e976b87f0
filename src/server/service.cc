#include "server/service.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "server/crypto.h"
#include "server/errors.h"
#include "server/little_endian.h"

namespace tinker::server {

namespace {

async::Task<> write_last_request(Service* service, RunRecord record) {
  auto stored = service->disk.run([record = std::move(record)](Store& store) -> Result<void> {
    auto touched = store.touch_run(record.run_id, record.last_request_at);
    if (!touched.ok() && touched.error().code == ErrorCode::not_found) return {};  // it never began
    return touched;
  });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

async::Task<> write_audit(Service* service, AuditRecord entry) {
  auto stored = service->disk.run(
      [entry = std::move(entry)](Store& store) { return store.add_audit(entry); });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

/// What the log says of an entry of the audit log: "ada logged in".
std::string line_of(const Caller& caller, std::string_view event, const StringMap& details) {
  const auto path = details.find("tinker_path");
  const std::string_view checkpoint = path != details.end() ? path->second : std::string_view();
  const auto changed = [&](std::string_view how) {
    return base::concat("checkpoint ", checkpoint, " was ", how, " by ", caller.name);
  };
  if (event == "organization_login") return base::concat(caller.name, " logged in");
  if (event == "organization_logout")
    return base::concat(caller.name, " logged out: the key is revoked");
  if (event == "checkpoint_delete") return changed("deleted");
  if (event == "checkpoint_publish") return changed("published");
  if (event == "checkpoint_unpublish") return changed("made private");
  return base::concat(caller.name, ": ", event);
}

std::string end_of(const SessionRecord& record) {
  if (record.finish_reason) return base::concat("ended (", to_string(*record.finish_reason), ")");
  return "has expired: its heartbeats stopped";
}

FutureLimits future_limits(const LocalServerLimits& limits) {
  return {.hold = limits.poll_time,
          .hold_batch = limits.batch_poll_time,
          .keep_delivered = limits.delivered_time,
          .keep_unfetched = limits.unfetched_time,
          .keep_sessionless = limits.sessionless_time,
          .max_pending = limits.operations,
          .max_unfetched_bytes = limits.result_bytes,
          .max_delivered_bytes = limits.delivered_bytes,
          .metadata_only_bytes = limits.announced_bytes,
          .max_expired_ids = limits.expired_ids};
}

}  // namespace

Service::Service(Parts parts)
    : access(std::move(parts.access)),
      disk(std::move(parts.store), parts.loop),
      models(std::move(parts.models)),
      imported(std::move(parts.imported)),
      futures(parts.loop, future_limits(parts.options.limits)),
      sessions(parts.loop, disk, std::make_shared<async::Scope>()),
      adapters(parts.options.limits.adapters),
      uploads(parts.options.limits.uploads),
      journals(std::move(parts.journals)),
      started_at(parts.loop->now()),
      loop_(std::move(parts.loop)),
      workers_(std::move(parts.workers)),
      options_(std::move(parts.options)),
      scope_(sessions.parent()) {
  sessions.on_end([this](const std::shared_ptr<Session>& session, const Error& reason) {
    end_session(*session, reason);
  });
  models->on_shortage([this] {
    if (adapters.size() == 0) return false;
    (void)adapters.take(std::string(adapters.entries().front().first));
    return true;
  });
  sessions.on_forget([this](const std::string& session_id) { futures.forget(session_id + ":"); });
}

Service::~Service() = default;

void Service::begin_draining(const Error& reason) {
  is_draining_ = true;
  if (journals) return;  // what waits for other requests goes on in the next life
  for (const auto& [id, run] : runs_) run->close(reason);
}

void Service::stop(const Error& reason) {
  write_usage();
  write_last_requests();
  is_stopped_ = true;
  for (const auto& [id, run] : runs_) run->close(reason);
  // What has not ended goes on in the next life; its clients ask again.
  journals ? futures.end_polls() : futures.fail_all(reason);
  scope_->cancel(reason);
  caught_up.wake_all();
  runs_.clear();
}

Instant Service::now() const {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

std::string Service::random_id() {
  const std::uint64_t word = rng_.next();
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(word >> (8 * i));
  return base::to_hex(bytes);
}

Result<std::shared_ptr<LiveRun>> Service::find_run(const std::string& run_id,
                                                   const std::string& owner) {
  const auto found = runs_.find(run_id);
  if (found == runs_.end() || found->second->record.owner != owner) {
    Error error = no_such("model", run_id);
    error.message +=
        " in memory: it was unloaded, its session ended, or the server was started again";
    return error;
  }
  return found->second;
}

void Service::add_run(std::shared_ptr<LiveRun> run) {
  const std::string id = run->record.run_id;
  runs_.insert_or_assign(id, std::move(run));
}

std::size_t Service::waiting_requests() const noexcept {
  std::size_t out = 0;
  for (const auto& [id, run] : runs_) out += run->waiting();
  return out;
}

void Service::remove_run(const std::string& run_id) {
  const auto found = runs_.find(run_id);
  if (found == runs_.end()) return;
  found->second->forget();
  run_beside(write_last_request(this, found->second->record), "time of a run's last request");
  runs_.erase(found);
}

Result<Seed> Service::seed_of(const std::string& request_id,
                              const std::string& payload_hash) const {
  TINKER_TRY(const auto bytes,
             crypto::hkdf_sha256({.key = disk.store().secret(),
                                  .salt = payload_hash,
                                  .info = base::concat("tinker sample seeds\n", request_id)}));
  return Seed(get_little_endian<std::uint64_t>(bytes));
}

void Service::announce_lost_samples(const SamplingSessionFuturesTarget& target,
                                    const std::string& owner) {
  if (!journals) return;
  const std::string& sampler_id = target.sampling_session_id;
  const auto lost = journals->sample_numbers.take_lost(
      {.sampler_id = sampler_id, .clone = target.cloned_sampler_id});
  // More ids than that would be forgotten at once.
  const auto most = static_cast<std::int64_t>(options_.limits.expired_ids);
  for (auto number = std::max(lost.first, lost.end - most); number < lost.end; ++number) {
    const std::string id = base::concat(sampler_id, ":", number);
    if (futures.open({.request_id = id, .owner = owner, .target = target})) {
      futures.cancel(id, owner);  // it was not asked for again
    }
  }
}

async::Task<CheckpointRecord> Service::readable_checkpoint(std::string path, std::string owner) {
  TINKER_CO_TRY(auto parsed, TinkerPath::parse(path));
  if (const auto* adapter = imported.find(parsed)) co_return *adapter;
  auto stored = disk.run([parsed](Store& store) { return store.find_checkpoint(parsed); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto record, co_await wait);
  if (!record || (record->owner != owner && !record->is_public)) {
    co_return no_such("checkpoint", path);
  }
  if (record->owner != owner) record->user_metadata.reset();
  co_return *std::move(record);
}

async::Task<CheckpointRecord> Service::readable_checkpoint(std::string path,
                                                           std::string owner,
                                                           Secret token) {
  if (!token.empty()) {
    TINKER_CO_TRY(const auto other, access.authenticate(token.expose(), now()));
    auto search = readable_checkpoint(path, other.owner);
    if (auto found = co_await std::move(search); found.ok()) co_return found;
  }
  auto search = readable_checkpoint(std::move(path), std::move(owner));
  co_return co_await std::move(search);
}

async::Task<CheckpointRecord> Service::own_checkpoint(TinkerPath path, std::string owner) {
  auto search = readable_checkpoint(path.to_string(), owner);
  TINKER_CO_TRY(auto record, co_await std::move(search));
  if (record.owner != owner) co_return no_such("checkpoint", path.to_string());
  co_return record;
}

Result<void> Service::check_room(const std::string& owner, std::size_t bytes) const {
  TINKER_TRY(futures.check_room(owner));
  if (accepted_bytes_.admits(owner, bytes, options_.limits.accepted_bytes)) return {};
  return Error{.code = ErrorCode::rate_limited,
               .message = base::concat(accepted_bytes_.of(owner),
                                       " bytes of your training data wait; try again when there "
                                       "are fewer")};
}

std::shared_ptr<const void> Service::charge(const std::string& owner, std::size_t bytes) {
  accepted_bytes_.add(owner, bytes);
  return {this, [self = shared_from_this(), owner, bytes](const void*) {
            self->accepted_bytes_.remove(owner, bytes);
          }};
}

void Service::count(const RunRecord& run, UsageRecord::Kind kind, std::int64_t count) {
  usage.add({.hour = now(),
             .owner = run.owner,
             .session_id = run.session_id,
             .project_id = run.project_id,
             .base_model = run.base_model,
             .kind = kind,
             .count = count});
}

void Service::audit(const Caller& caller, std::string event, StringMap details) {
  TINKER_LOG(options_.logger, info, line_of(caller, event, details));
  run_beside(write_audit(this,
                         {.at = now(),
                          .owner = caller.owner,
                          .event = std::move(event),
                          .details = std::move(details)}),
             "audit log");
}

void Service::note_save(const RunRecord& run, const CheckpointRecord& checkpoint) {
  count(run, UsageRecord::Kind::checkpoint, 1);
  TINKER_LOG(options_.logger,
             info,
             "checkpoint ",
             checkpoint.path().to_string(),
             " is saved: ",
             checkpoint.size_bytes,
             " bytes");
}

void Service::note_refused_key(const http::Peer& peer) {
  if (const auto line = refused_keys_.add(peer.to_string())) {
    options_.logger.write(LogLevel::warn, *line);
  }
}

void Service::end_session(Session& session, const Error& reason) {
  std::size_t unloaded = 0;
  for (auto it = runs_.begin(); it != runs_.end();) {
    const auto run = it->second;
    if (run->record.session_id != session.record.session_id) {
      ++it;
      continue;
    }
    it = runs_.erase(it);
    ++unloaded;
    run->close(reason);
    run->forget();
    run_beside(write_last_request(this, run->record), "time of a run's last request");
  }
  if (journals) journals->forget(session.record.session_id);
  samplers.remove_of_session(session.record.session_id, reason);
  session.samples.clear();
  TINKER_LOG(options_.logger,
             info,
             "session ",
             session.record.session_id,
             " ",
             end_of(session.record),
             "; runs unloaded: ",
             unloaded);
}

void Service::write_last_requests() {
  for (const auto& [id, run] : runs_) {
    if (run->stored_request_at == run->record.last_request_at) continue;
    run->stored_request_at = run->record.last_request_at;
    run_beside(write_last_request(this, run->record), "time of a run's last request");
  }
}

}  // namespace tinker::server
