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

constexpr auto kExpiryPeriod = std::chrono::seconds(5);
constexpr auto kWritePeriod = std::chrono::seconds(10);
constexpr auto kRefusalPeriod = std::chrono::seconds(10);

/// A task that nobody waits for; its failure is a line in the log.
void run_beside(Service& service, async::Task<> task, const char* what) {
  service.spawn(service.scope(),
                std::move(task),
                [logger = service.options().logger, what](detail::Late<void> late) {
                  const Result<void> end = *std::move(late);
                  if (end.ok() || end.error().code == ErrorCode::closed) return;
                  logger.write(LogLevel::error, base::concat(what, ": ", end.error().to_string()));
                });
}

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

async::Task<> write_counts(Service* service, std::vector<UsageRecord> counts) {
  auto stored = service->disk.run([counts](Store& store) { return store.add_usage(counts); });
  auto wait = async::until(std::move(stored));
  const auto written = co_await wait;
  if (!written.ok()) service->usage.put_back(counts);
  co_return written;
}

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

/// Stands for a sampling session whose weights had no name and are gone; null if the id is none of
/// such a one.
std::shared_ptr<Sampler> dropped_sampler(const std::shared_ptr<Session>& session,
                                         std::string_view sampler_id) {
  for (const auto& [number, base_model] : session->dropped) {
    if (session->samplers.at(number) != sampler_id) continue;
    auto out = std::make_shared<Sampler>();
    out->record = {.sampler_id = std::string(sampler_id),
                   .session_id = session->record.session_id,
                   .owner = session->record.owner,
                   .base_model = base_model};
    out->session = session;
    out->is_dropped = true;
    out->scope->attach(session->scope);
    return out;
  }
  return nullptr;
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

void Service::start() {
  loop_->post([self = shared_from_this()] {
    run_beside(*self, self->sessions.restore(), "sessions of an earlier life");
  });
  every(std::min<std::chrono::nanoseconds>(kExpiryPeriod, options_.session_timeout),
        &Service::expire_sessions);
  every(options_.limits.sweep_time, &Service::sweep_checkpoints);
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
  run_beside(
      *this, write_last_request(this, found->second->record), "time of a run's last request");
  runs_.erase(found);
}

bool Service::is_catching_up(const std::string& sampler_id) const {
  for (const auto& [id, run] : runs_) {
    const bool is_of_session = sampler_id.starts_with(run->record.session_id + ":sample:");
    if (is_of_session && run->is_catching_up()) return true;
  }
  return false;
}

async::Task<std::shared_ptr<Sampler>> Service::find_sampler(std::string sampler_id,
                                                            std::string owner) {
  const auto in_memory = [&]() -> std::optional<Result<std::shared_ptr<Sampler>>> {
    auto sampler = samplers.find(sampler_id);
    if (!sampler) return std::nullopt;
    if (sampler->record.owner != owner) return no_such("sampling session", sampler_id);
    return sampler;
  };
  if (auto known = in_memory()) co_return *std::move(known);
  auto stored = disk.run([sampler_id](Store& store) { return store.find_sampler(sampler_id); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto record, co_await wait);
  while (!record) {  // it may be one that a save without a name made, in an earlier life
    if (auto known = in_memory()) co_return *std::move(known);
    if (!is_catching_up(sampler_id)) break;
    auto more = caught_up.wait(async::time_after(loop_->now(), kExpiryPeriod));
    TINKER_CO_TRY(co_await more);
  }
  if (record && record->owner != owner) co_return no_such("sampling session", sampler_id);
  auto search = sessions.find_open(
      record ? record->session_id : sampler_id.substr(0, sampler_id.rfind(":sample:")), owner);
  const auto found = co_await std::move(search);
  if (!record) {
    auto dropped = found.ok() ? dropped_sampler(*found, sampler_id) : nullptr;
    if (!dropped) co_return no_such("sampling session", sampler_id);
    co_return dropped;
  }
  TINKER_CO_TRY(const auto session, found);
  if (auto sampler = samplers.find(sampler_id)) co_return sampler;
  auto sampler = samplers.add(*std::move(record), session);
  revive(*sampler);
  co_return sampler;
}

Result<std::shared_ptr<Sampler>> Service::add_ephemeral(const std::shared_ptr<Session>& session,
                                                        const std::shared_ptr<LiveRun>& run,
                                                        std::int64_t number,
                                                        AdapterSnapshot weights) {
  const auto& id = session->record.session_id;
  const auto what = base::concat("an adapter to sample from, of rank ", run->record.lora.rank, ",");
  auto hold = models->hold(what, weights.bytes());
  while (!hold.ok() && !session->ephemeral.empty()) {
    drop_oldest_ephemeral(*session);
    hold = models->hold(what, weights.bytes());
  }
  if (!hold.ok()) return std::move(hold).error();
  const auto sampler = samplers.add({.sampler_id = base::concat(id, ":sample:", number),
                                     .session_id = id,
                                     .owner = run->record.owner,
                                     .base_model = run->record.base_model},
                                    session);
  sampler->ephemeral = std::move(weights);
  sampler->hold = *std::move(hold);
  sampler->run = run;
  session->samplers.emplace(number, sampler->record.sampler_id);
  session->ephemeral.insert(number);
  if (session->ephemeral.size() > options_.limits.ephemeral_saves) drop_oldest_ephemeral(*session);
  return sampler;
}

void Service::drop_oldest_ephemeral(Session& session) {
  const std::int64_t first = *session.ephemeral.begin();
  session.ephemeral.erase(first);
  const auto oldest = samplers.find(session.samplers.at(first));
  if (!oldest) return;
  oldest->ephemeral.reset();
  oldest->hold.reset();
  oldest->is_dropped = true;
  session.dropped.emplace(first, oldest->record.base_model);  // a session may have thousands
  samplers.remove(oldest->record.sampler_id);
  if (const auto owner = oldest->run.lock()) owner->drop_sampler(first);
}

void Service::set_checkpoint(const std::shared_ptr<Sampler>& sampler,
                             CheckpointRecord checkpoint) const {
  sampler->checkpoint = std::move(checkpoint);
  auto& holding = sampler->session->holding;
  holding.push_back(sampler);
  if (holding.size() <= options_.limits.ephemeral_saves) return;
  if (const auto oldest = holding.front().lock()) oldest->checkpoint->hold = {};
  holding.pop_front();
}

void Service::revive(Sampler& sampler) const {
  sampler.is_revived = true;
  // Clones of the earlier life have numbers too; those to come must be new (PROTOCOL 9.41).
  sampler.clones =
      std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
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

async::Task<AdapterSnapshot> Service::adapter_of(CheckpointRecord record,
                                                 std::shared_ptr<LoadedModel> model) {
  if (auto known = adapters.take(record.folder)) {
    adapters.put(record.folder, *known);
    co_return std::move(known)->weights;
  }
  TINKER_CO_TRY(const auto need, models->adapter_need(record.base_model, record.lora));
  TINKER_CO_TRY(
      auto hold,
      models->hold(base::concat("the adapter of ", record.path().to_string()), need.sampling));
  auto loaded = model->engine.load_snapshot_async(disk.store().folder_of(record));
  auto wait = async::until(std::move(loaded));
  TINKER_CO_TRY(auto snapshot, co_await wait);
  adapters.put(record.folder, {.weights = snapshot, .hold = std::move(hold)});
  co_return snapshot;
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
  run_beside(*this,
             write_audit(this,
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

void Service::write_refused_keys() {
  if (const auto line = refused_keys_.end_period()) options_.logger.write(LogLevel::warn, *line);
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
    run_beside(*this, write_last_request(this, run->record), "time of a run's last request");
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

void Service::expire_sessions() {
  run_beside(*this, sessions.expire(options_.session_timeout), "expiry of sessions");
}

void Service::sweep_checkpoints() {
  run_beside(*this, sweep(this), "sweeping of checkpoints");
}

void Service::write_usage() {
  auto counts = usage.take();
  if (!counts.empty()) run_beside(*this, write_counts(this, std::move(counts)), "usage counts");
}

void Service::write_last_requests() {
  for (const auto& [id, run] : runs_) {
    if (run->stored_request_at == run->record.last_request_at) continue;
    run->stored_request_at = run->record.last_request_at;
    run_beside(*this, write_last_request(this, run->record), "time of a run's last request");
  }
}

Future<void> Service::flush_usage() {
  return apart(write_counts(this, usage.take()));
}

}  // namespace tinker::server
