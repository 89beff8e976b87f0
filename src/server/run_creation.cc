#include "server/run_creation.h"

#include <string>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/strings.h"
#include "server/errors.h"
#include "server/service.h"

namespace tinker::server {

namespace {

// Beyond the width of every layer that is served: such an adapter would only take memory.
constexpr std::int64_t kMaxRank = 32'768;

Future<LocalTrainer> begin_making(const Service& service,
                                  const LiveRun& run,
                                  const RunOrigin& origin,
                                  const Engine& engine) {
  if (origin.restored && origin.restored->snapshot) {
    return engine.load_trainer_async(*origin.restored->snapshot);
  }
  if (!origin.checkpoint) return engine.create_trainer_async(run.record.lora);
  const auto parts =
      origin.with_optimizer ? CheckpointParts::weights_and_optimizer : CheckpointParts::weights;
  return engine.load_trainer_async(service.disk.store().folder_of(*origin.checkpoint), parts);
}

/// Sampling sessions of saves without a name. One whose weights cannot be read is gone, the others
/// are not.
async::Task<> restore_samplers(std::shared_ptr<Service> service,
                               std::shared_ptr<LiveRun> run,
                               std::vector<UnnamedSave> saves,
                               Engine engine) {
  const auto& record = run->record;
  auto search = service->sessions.find_open(record.session_id, record.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  for (const auto& save : saves) {
    auto loading = engine.load_snapshot_async(run->journal()->sampler_folder(save.number));
    auto wait = async::until(std::move(loading));
    auto snapshot = co_await wait;
    const auto sampler = snapshot.ok()
                             ? service->add_ephemeral(session, run, save, *std::move(snapshot))
                             : Result<std::shared_ptr<Sampler>>(snapshot.error());
    if (!sampler.ok()) {
      service->options().logger.write(
          LogLevel::warn,
          base::concat(
              record.session_id, ":sample:", save.number, ": ", sampler.error().to_string()));
      continue;
    }
    service->revive(**sampler);
  }
  co_return Result<void>();
}

/// Takes the run into the catalogue, unless an earlier life did so.
async::Task<> store_run(std::shared_ptr<Service> service, RunRecord record) {
  auto stored = service->disk.run([record = std::move(record)](Store& store) -> Result<void> {
    TINKER_TRY(const auto known, store.find_run(record.run_id));
    return known ? Result<void>() : store.add_run(record);
  });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

/// The model, and memory that is given back when the run lets the model go.
std::shared_ptr<LoadedModel> with_hold(std::shared_ptr<LoadedModel> model, MemoryHold hold) {
  auto* const same = model.get();
  return {same, [model = std::move(model), hold = std::move(hold)](LoadedModel*) mutable {
            model.reset();
            hold.reset();
          }};
}

/// Loads the model and makes the trainer.
async::Task<> build(std::shared_ptr<Service> service,
                    std::shared_ptr<LiveRun> run,
                    RunOrigin origin,
                    std::string request_id) {
  if (origin.refusal) co_return *std::move(origin.refusal);
  service->futures.set_state(
      request_id, QueueState::paused_capacity, base::concat("loading ", run->record.base_model));
  auto loading = service->models->acquire(run->record.base_model);
  TINKER_CO_TRY(auto model, co_await std::move(loading));
  service->futures.set_state(request_id, QueueState::active, "");
  const auto& lora = run->record.lora;
  TINKER_CO_TRY(const auto need, service->models->adapter_need(run->record.base_model, lora));
  TINKER_CO_TRY(auto hold,
                service->models->hold(base::concat("training of an adapter of rank ", lora.rank),
                                      need.training));
  model = with_hold(std::move(model), std::move(hold));
  const Engine engine = model->engine.for_tenant(run->record.owner);
  auto making = begin_making(*service, *run, origin, engine);
  auto wait = async::until(std::move(making));
  TINKER_CO_TRY(auto trainer, co_await wait);
  auto storing = store_run(service, run->record);
  TINKER_CO_TRY(co_await std::move(storing));
  if (origin.restored) {
    auto restoring = restore_samplers(service, run, origin.restored->samplers, engine);
    TINKER_CO_TRY(co_await std::move(restoring));
  }
  const bool is_restored_state = origin.restored && origin.restored->snapshot;
  if (origin.checkpoint && origin.journal && !is_restored_state) {
    auto writing = origin.journal->write_first_state(trainer);
    TINKER_CO_TRY(co_await std::move(writing));
  }
  run->open(std::move(model), std::move(trainer));
  co_return Result<void>();
}

/// Where the weights of a new run come from; nothing for a run of an earlier life.
std::optional<std::string> origin_text(const RunOrigin& origin) {
  if (origin.restored) return std::nullopt;
  return origin.checkpoint ? base::concat(", from ", origin.checkpoint->path().to_string())
                           : std::string();
}

void log_creation(const Service& service,
                  const RunRecord& record,
                  const std::optional<std::string>& made_of,
                  const Result<void>& built) {
  const auto& logger = service.options().logger;
  if (!built.ok()) {
    TINKER_LOG(
        logger, warn, "run ", record.run_id, " could not be created: ", built.error().to_string());
  } else if (made_of) {
    TINKER_LOG(logger,
               info,
               "run ",
               record.run_id,
               " is created: ",
               record.base_model,
               ", rank ",
               record.lora.rank,
               *made_of);
  }
}

}  // namespace

Result<void> check_new_run(const Call& call, const Session& session) {
  if (call.source.is_replay) return {};
  const std::size_t most = call.service->options().limits.runs;
  if (session.models.size() < most) return call.service->futures.check_room(call.caller.owner);
  return bad_request(
      base::concat("a session can make ", most, " training runs; begin another one"));
}

Result<void> check_rank(const LoraConfig& lora) {
  if (lora.rank >= 1 && lora.rank <= kMaxRank) return {};
  return bad_request(
      base::concat("lora_config.rank: expected 1 to ", kMaxRank, ", found ", lora.rank));
}

std::optional<Error> refuse_optimizer(const OptimizerConfig& config) {
  if (std::holds_alternative<AdamOptimizerConfig>(config)) return std::nullopt;
  const auto* other = std::get_if<OtherOptimizerConfig>(&config);
  return bad_request(base::concat("optimizer '",
                                  other != nullptr ? other->type : "dimuon",
                                  "' is not served here, only 'adamw'"));
}

void add_journal(const Call& call,
                 std::string type,
                 const RunRecord& record,
                 std::string note,
                 RunOrigin& origin) {
  if (call.source.run) {
    origin.restored = call.source.run;
    origin.journal = call.source.run->journal;
    // With a state of its own, the run does not need what it began with.
    if (origin.restored->snapshot) origin.refusal.reset();
    return;
  }
  if (!call.service->journals || origin.refusal) return;
  origin.journal =
      call.service->journals->create(record.session_id, record.run_id, call.service->futures);
  origin.journal->create({.kind = JournalRecord::Kind::created,
                          .request_id = record.run_id,
                          .type = std::move(type),
                          .payload_hash = call.payload_hash,
                          .content_type = call.source.content_type,
                          .owner = record.owner,
                          .note = std::move(note),
                          .body = call.source.body});
}

async::Task<UntypedApiFuture> answer_when_recorded(std::shared_ptr<Service> service,
                                                   std::string owner,
                                                   UntypedApiFuture answer) {
  const auto run = service->find_run(answer.model_id.value_or(""), owner);
  if (!run.ok() || !(*run)->journal()) co_return answer;
  auto syncing = (*run)->journal()->sync();
  TINKER_CO_TRY(co_await std::move(syncing));
  co_return answer;
}

Result<std::optional<UntypedApiFuture>> find_accepted(
    const std::map<std::int64_t, Accepted>& accepted,
    std::int64_t number,
    const std::string& payload_hash,
    std::string_view what) {
  const auto found = accepted.find(number);
  if (found == accepted.end()) return std::optional<UntypedApiFuture>();
  if (found->second.payload_hash.value_or(payload_hash) != payload_hash) {
    return bad_request(base::concat(what, " ", number, " was used before, for another request"));
  }
  return std::optional(found->second.answer);
}

UntypedApiFuture create_run(const std::shared_ptr<Service>& service,
                            const std::shared_ptr<Session>& session,
                            RunRecord record,
                            RunOrigin origin,
                            UniqueFunction<Result<std::string>()> encode) {
  const std::string run_id = record.run_id;
  const std::string request_id = run_id + ":0";
  service->futures.open({.request_id = request_id, .owner = record.owner});
  const auto restored = origin.restored;
  if (origin.refusal && !restored) {
    log_creation(*service, record, std::nullopt, *origin.refusal);
    service->futures.finish(request_id, *std::move(origin.refusal));
    return {.request_id = request_id, .model_id = run_id};
  }
  const LiveRun::Journalled journalled = {.journal = origin.journal,
                                          .next = restored ? restored->next : 1,
                                          .is_restored = restored != nullptr};
  auto run = std::make_shared<LiveRun>(service, std::move(record), session->scope, journalled);
  service->add_run(run);
  auto made_of = origin_text(origin);
  auto task = build(service, run, std::move(origin), request_id);
  auto done = [service, run, request_id, made_of = std::move(made_of), encode = std::move(encode)](
                  detail::Late<void> late) mutable {
    const Result<void> built = *std::move(late);
    service->caught_up.wake_all();
    if (run->journal() && service->is_stopped()) return;
    log_creation(*service, run->record, made_of, built);
    if (!built.ok()) {
      run->fail(built.error());
      return service->futures.finish(request_id, built.error());
    }
    auto json = encode();
    if (!json.ok()) return service->futures.finish(request_id, std::move(json).error());
    service->futures.finish(request_id, EncodedResult{.body = *std::move(json)});
  };
  UniqueFunction<void()> begin =
      [service, run, task = std::move(task), done = std::move(done)]() mutable {
        service->spawn(run->scope(), std::move(task), std::move(done));
      };
  if (restored) {
    restored->build = std::move(begin);
  } else {
    begin();
  }
  return {.request_id = request_id, .model_id = run_id};
}

}  // namespace tinker::server
