// What `Service` does for sampling sessions: it finds them, and has the weights that they draw
// from.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/service.h"

namespace tinker::server {

namespace {

constexpr auto kLookAgain = std::chrono::seconds(5);

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

}  // namespace

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
    auto more = caught_up.wait(async::time_after(loop_->now(), kLookAgain));
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
                                                        UnnamedSave save,
                                                        AdapterSnapshot weights) {
  const auto& id = session->record.session_id;
  const auto what = base::concat("an adapter to sample from, of rank ", run->record.lora.rank, ",");
  auto& saves = session->ephemeral;
  auto hold = models->hold(what, weights.bytes());
  while (!hold.ok() && !saves.empty()) {
    drop_ephemeral(*session, saves.begin());
    hold = models->hold(what, weights.bytes());
  }
  if (!hold.ok()) return std::move(hold).error();
  const auto sampler = samplers.add({.sampler_id = base::concat(id, ":sample:", save.number),
                                     .session_id = id,
                                     .owner = run->record.owner,
                                     .base_model = run->record.base_model},
                                    session);
  sampler->ephemeral = std::move(weights);
  sampler->hold = *std::move(hold);
  sampler->run = run;
  session->samplers.emplace(save.number, sampler->record.sampler_id);
  // One that an earlier life made, and dropped, may be older than those that it kept.
  const auto is_newer = [&](const UnnamedSave& other) {
    return other.run_id == save.run_id && save.seq_id && other.seq_id > save.seq_id;
  };
  saves.insert(std::ranges::find_if(saves, is_newer), save);
  const auto of_run = std::ranges::count(saves, save.run_id, &UnnamedSave::run_id);
  if (std::cmp_greater(of_run, options_.limits.ephemeral_saves)) {
    drop_ephemeral(*session, std::ranges::find(saves, save.run_id, &UnnamedSave::run_id));
  }
  return sampler;
}

void Service::drop_ephemeral(Session& session, std::vector<UnnamedSave>::iterator save) {
  const std::int64_t number = save->number;
  session.ephemeral.erase(save);
  const auto sampler = samplers.find(session.samplers.at(number));
  if (!sampler) return;
  sampler->ephemeral.reset();
  sampler->hold.reset();
  sampler->is_dropped = true;
  session.dropped.emplace(number, sampler->record.base_model);  // a session may have thousands
  samplers.remove(sampler->record.sampler_id);
  if (const auto run = sampler->run.lock()) run->drop_sampler(number);
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

async::Task<AdapterSnapshot> Service::adapter_of(CheckpointRecord record,
                                                 std::shared_ptr<LoadedModel> model) {
  if (auto known = adapters.take(record.folder)) {
    adapters.put(record.folder, *known);
    co_return std::move(known)->weights;
  }
  auto& waiters = loading_adapters_[record.folder];
  auto wait = async::until(waiters.emplace_back(loop_).future());
  if (waiters.size() == 1) {
    // In the scope of the service: who came first may give up.
    auto loading = load_adapter(record, std::move(model));
    auto done = [this, folder = record.folder](detail::Late<AdapterSnapshot> late) {
      const Result<AdapterSnapshot> loaded = *std::move(late);
      auto ended = loading_adapters_.extract(folder);
      for (auto& waiter : ended.mapped()) waiter.set(loaded);
    };
    spawn(scope_, std::move(loading), std::move(done));
  }
  co_return co_await wait;
}

async::Task<AdapterSnapshot> Service::load_adapter(CheckpointRecord record,
                                                   std::shared_ptr<LoadedModel> model) {
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

}  // namespace tinker::server
