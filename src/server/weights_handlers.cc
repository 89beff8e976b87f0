#include <filesystem>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "server/commit_once.h"
#include "server/errors.h"
#include "server/external_export.h"
#include "server/handlers.h"
#include "server/link_files.h"
#include "server/metadata.h"
#include "server/run_creation.h"
#include "server/service.h"
#include "wire/json.h"

namespace tinker::server {

namespace {

/// A save that has its place on the disk.
struct Save {
  CheckpointRecord record = {};
  CheckpointPlace place = {};
  bool overwrite = false;
  /// The place that it had in an earlier life of the server: if the catalogue has it, all is done.
  std::string earlier = {};
};

/// What a save asks for, checked; the error is the operation's (PROTOCOL 9.14).
Result<CheckpointRecord> record_of(const Call& call,
                                   const LiveRun& run,
                                   CheckpointType kind,
                                   const std::string& name,
                                   std::optional<std::int64_t> ttl_seconds) {
  TINKER_TRY(Store::check_name(name));
  if (ttl_seconds) {
    TINKER_TRY(Store::check_ttl(*ttl_seconds));
  }
  CheckpointRecord out = {.run_id = run.record.run_id,
                          .kind = kind,
                          .name = name,
                          .owner = run.record.owner,
                          .base_model = run.record.base_model,
                          .lora = run.record.lora,
                          .optimizer = run.record.optimizer,
                          .has_optimizer_state = kind == CheckpointType::training,
                          .created_at = call.service->now()};
  if (ttl_seconds) out.expires_at = out.created_at + std::chrono::seconds(*ttl_seconds);
  return out;
}

/// Finds a place for what will be saved. Also for a save that will fail: its number counts.
async::Task<CheckpointPlace> find_place(std::shared_ptr<Service> service) {
  auto begun = service->disk.run([](Store& store) { return store.begin_checkpoint(); });
  auto wait = async::until(std::move(begun));
  co_return co_await wait;
}

async::Task<CheckpointRecord> commit(std::shared_ptr<Service> service,
                                     std::shared_ptr<LiveRun> run,
                                     Save save) {
  const std::string folder = save.place.name;
  auto stored = service->disk.run([save = std::move(save)](Store& store) {
    return commit_once(store, save.record, save.place, save.overwrite, save.earlier);
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto record, co_await wait);
  if (record.folder == folder) service->note_save(run->record, record);
  co_return record;
}

void abandon(const std::shared_ptr<Service>& service, CheckpointPlace place) {
  auto gone = service->disk.run([place = std::move(place)](Store& store) -> Result<void> {
    store.abandon_checkpoint(place);
    return {};
  });
  (void)std::move(gone).then([](const Result<void>&) {});
}

/// Writes the adapter as it is when the operation's turn comes, then takes it into the catalogue.
async::Task<CheckpointRecord> write(std::shared_ptr<Service> service,
                                    std::shared_ptr<LiveRun> run,
                                    Save save) {
  const auto parts = save.record.kind == CheckpointType::training
                         ? CheckpointParts::weights_and_optimizer
                         : CheckpointParts::weights;
  auto writing = run->trainer().save_async(save.place.folder, parts);
  auto wait = async::until(std::move(writing));
  if (auto written = co_await wait; !written.ok()) {
    abandon(service, save.place);
    co_return written.error();
  }
  // A checkpoint of a request that is not in the journal would be made twice after a crash.
  auto recording = run->recorded();
  TINKER_CO_TRY(co_await std::move(recording));
  auto committing = commit(service, run, std::move(save));
  co_return co_await std::move(committing);
}

async::Task<EncodedResult> run_save(std::shared_ptr<Service> service,
                                    std::shared_ptr<LiveRun> run,
                                    Save save) {
  auto writing = write(service, std::move(run), std::move(save));
  TINKER_CO_TRY(const auto record, co_await std::move(writing));
  TINKER_CO_TRY(std::string json,
                wire::encode_json(SaveWeightsResponse{.path = record.path().to_string()}));
  co_return EncodedResult{.body = std::move(json)};
}

async::Task<EncodedResult> run_sampler_save(std::shared_ptr<Service> service,
                                            std::shared_ptr<LiveRun> run,
                                            Save save) {
  const std::string folder = save.place.name;
  auto taking = run->trainer().snapshot_async();  // what was saved is in memory, too
  auto writing = write(service, run, std::move(save));
  TINKER_CO_TRY(const auto record, co_await std::move(writing));
  auto wait = async::until(std::move(taking));
  TINKER_CO_TRY(auto snapshot, co_await wait);
  auto hold = service->models->hold("an adapter to sample from", snapshot.bytes());
  if (hold.ok()) {  // else the first sample reads it again
    service->adapters.put(folder, {.weights = std::move(snapshot), .hold = *std::move(hold)});
  }
  TINKER_CO_TRY(
      std::string json,
      wire::encode_json(SaveWeightsForSamplerResponseInternal{.path = record.path().to_string()}));
  co_return EncodedResult{.body = std::move(json)};
}

async::Task<EncodedResult> run_ephemeral_save(std::shared_ptr<Service> service,
                                              std::shared_ptr<LiveRun> run,
                                              std::shared_ptr<Session> session,
                                              UnnamedSave save,
                                              bool is_replay) {
  const std::string id = base::concat(session->record.session_id, ":sample:", save.number);
  TINKER_CO_TRY(
      std::string json,
      wire::encode_json(SaveWeightsForSamplerResponseInternal{.sampling_session_id = id}));
  const auto known = service->samplers.find(id);
  if (is_replay && known && known->run.lock() == run) {  // the journal had its weights, too
    co_return EncodedResult{.body = std::move(json)};
  }
  const Error used_before = bad_request(
      base::concat("sampling_session_seq_id ", save.number, " was used before, for other weights"));
  if (!session->samplers.emplace(save.number, id).second) co_return used_before;
  auto taking = run->trainer().snapshot_async();
  auto wait = async::until(std::move(taking));
  auto snapshot = co_await wait;
  if (snapshot.ok() && service->samplers.find(id)) snapshot = used_before;
  const auto sampler = snapshot.ok() ? service->add_ephemeral(session, run, save, *snapshot)
                                     : Result<std::shared_ptr<Sampler>>(snapshot.error());
  if (!sampler.ok()) {
    session->samplers.erase(save.number);
    co_return sampler.error();
  }
  if (!(*sampler)->is_dropped) run->keep_sampler(save, *std::move(snapshot));
  if (is_replay) service->revive(**sampler);
  co_return EncodedResult{.body = std::move(json)};
}

/// What a load reads.
struct LoadSource {
  std::filesystem::path folder = {};
  FolderHold hold = {};  ///< Of a checkpoint's folder.
};

async::Task<EncodedResult> run_load(std::shared_ptr<LiveRun> run,
                                    LoadSource source,
                                    LoadWeightsRequest request) {
  const auto parts =
      request.optimizer ? CheckpointParts::weights_and_optimizer : CheckpointParts::weights;
  auto loading = run->trainer().load_async(source.folder, parts);
  const auto clearing = run->begin_clearing();
  auto wait = async::until(std::move(loading));
  const auto loaded = co_await wait;
  run->end_clearing(clearing, loaded.ok());
  if (!loaded.ok()) co_return loaded.error();
  TINKER_CO_TRY(
      std::string json,
      wire::encode_json(LoadWeightsResponse{.path = request.path, .model_id = request.model_id}));
  co_return EncodedResult{.body = std::move(json)};
}

using MakeSave = async::Task<EncodedResult> (*)(std::shared_ptr<Service>,
                                                std::shared_ptr<LiveRun>,
                                                Save);

/// Queues a save of either kind that has a name.
async::Task<std::string> submit_save(Call call,
                                     std::shared_ptr<LiveRun> run,
                                     LiveRun::Operation operation,
                                     Result<CheckpointRecord> record,
                                     MakeSave make,
                                     bool overwrite) {
  if (!record.ok()) {
    operation.work = LiveRun::refusal(record.error());
    auto submitting = run->submit(call.service, std::move(operation));
    co_return co_await std::move(submitting);
  }
  auto finding = find_place(call.service);
  TINKER_CO_TRY(auto place, co_await std::move(finding));
  operation.note = place.name;
  operation.is_final = true;
  Save save = {.record = *std::move(record),
               .place = std::move(place),
               .overwrite = overwrite,
               .earlier = call.source.note};
  operation.work = [service = call.service, make, save = std::move(save)](
                       std::shared_ptr<LiveRun> self) mutable {
    return make(service, std::move(self), std::move(save));
  };
  auto submitting = run->submit(call.service, std::move(operation));
  co_return co_await std::move(submitting);
}

}  // namespace

async::Task<UntypedApiFuture> save_weights(Call call, SaveWeightsRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  // A save without a name gets one of its number.
  const std::string name = request.path.value_or(base::concat("step-", request.seq_id.value_or(0)));
  auto record = record_of(call, *run, CheckpointType::training, name, request.ttl_seconds);
  if (record.ok()) record->user_metadata = request.user_metadata;
  LiveRun::Operation operation = {.seq_id = request.seq_id,
                                  .type = "save_weights",
                                  .payload_hash = call.payload_hash,
                                  .source = call.source};
  auto submitting =
      submit_save(call, run, std::move(operation), std::move(record), &run_save, request.overwrite);
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
}

async::Task<UntypedApiFuture> save_for_sampler(Call call, SaveWeightsForSamplerRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  LiveRun::Operation operation = {.seq_id = request.seq_id,
                                  .type = "save_weights_for_sampler",
                                  .payload_hash = call.payload_hash,
                                  .source = call.source};
  if (request.path) {
    auto record =
        record_of(call, *run, CheckpointType::sampler, *request.path, request.ttl_seconds);
    if (record.ok()) record->user_metadata = request.user_metadata;
    auto submitting =
        submit_save(call, run, std::move(operation), std::move(record), &run_sampler_save, true);
    TINKER_CO_TRY(auto id, co_await std::move(submitting));
    co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
  }
  auto search = call.service->sessions.find_open(run->record.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  if (request.sampling_session_seq_id) {
    const UnnamedSave save = {.run_id = run->record.run_id,
                              .number = *request.sampling_session_seq_id,
                              .seq_id = request.seq_id};
    // A repeat has another number here, but is the same request (PROTOCOL 10, rule 2).
    auto same = request;
    same.sampling_session_seq_id.reset();
    TINKER_CO_TRY(operation.payload_hash, wire::encode_json(same));
    operation.work = [service = call.service, session, save, is_replay = call.source.is_replay](
                         std::shared_ptr<LiveRun> self) {
      return run_ephemeral_save(service, std::move(self), session, save, is_replay);
    };
  } else {
    operation.work = LiveRun::refusal(
        bad_request("save_weights_for_sampler: expected a path or a sampling_session_seq_id"));
  }
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
}

async::Task<UntypedApiFuture> save_external(Call call, SaveWeightsExternalRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  LiveRun::Operation operation = {.seq_id = request.seq_id,
                                  .type = "save_weights_external",
                                  .payload_hash = call.payload_hash,
                                  .source = call.source};
  auto record = record_of(call, *run, CheckpointType::external, request.path, request.ttl_seconds);
  const auto recipients = request.age_encryption_recipients.value_or(std::vector<std::string>());
  if (record.ok() && !recipients.empty()) {
    if (auto usable = AgeEncryptor::create(recipients); !usable.ok()) record = usable.error();
  }
  if (!record.ok()) {
    operation.work = LiveRun::refusal(record.error());
  } else {
    auto finding = find_place(call.service);
    TINKER_CO_TRY(auto place, co_await std::move(finding));
    operation.note = place.name;
    operation.is_final = true;
    operation.work = [service = call.service,
                      record = *std::move(record),
                      place = std::move(place),
                      recipients,
                      earlier = call.source.note](std::shared_ptr<LiveRun> self) {
      return run_external_save(
          service,
          std::move(self),
          {.record = record, .place = place, .recipients = recipients, .earlier = earlier});
    };
  }
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
}

namespace {

Error has_no_optimizer(std::string_view path) {
  return bad_request(
      base::concat(path, " holds no state of the optimizer; it can be loaded without"));
}

/// The checkpoint that a request loads, if the run can load it; the error is the operation's.
async::Task<CheckpointRecord> loadable_checkpoint(Call call,
                                                  std::shared_ptr<LiveRun> run,
                                                  LoadWeightsRequest request) {
  auto search = call.service->readable_checkpoint(
      request.path, call.caller.owner, request.weights_access_token.value_or(Secret()));
  TINKER_CO_TRY(auto record, co_await std::move(search));
  if (record.kind == CheckpointType::external) co_return is_export(request.path);
  if (request.optimizer && !record.has_optimizer_state) co_return has_no_optimizer(request.path);
  const auto& wanted = run->record.base_model;
  if (record.base_model != wanted) {
    co_return bad_request(
        base::concat(request.path, " is of ", record.base_model, ", the model is of ", wanted));
  }
  co_return record;
}

/// Gives the run's journal the files of the checkpoint: it may be replaced or deleted, and the load
/// must be possible again. Yields the name of their folder there.
async::Task<std::string> keep_loaded(std::shared_ptr<Service> service,
                                     std::shared_ptr<LiveRun> run,
                                     CheckpointRecord record) {
  std::string name = base::concat("loaded-", service->random_id());
  auto linking = service->disk.run([record, to = run->journal()->folder() / name](Store& store) {
    return link_files(store.folder_of(record), to);
  });
  auto wait = async::until(std::move(linking));
  if (const auto linked = co_await wait; !linked.ok()) co_return cannot_journal(linked.error());
  co_return name;
}

/// What an accepted load reads; `note` is what the journal says of it, if there is one.
Result<LoadSource> source_of(const Service& service,
                             const LiveRun& run,
                             const CheckpointRecord& record,
                             const std::string& note) {
  if (!run.journal())
    return LoadSource{.folder = service.disk.store().folder_of(record), .hold = record.hold};
  LoadSource out = {.folder = run.journal()->folder() / note};
  std::error_code ignored;
  if (std::filesystem::exists(out.folder, ignored)) return out;
  return Error{.code = ErrorCode::io_error,
               .message = base::concat(out.folder.string(), ", which the run loaded, is missing")};
}

/// Into a model that is there.
async::Task<UntypedApiFuture> load_into(Call call, LoadWeightsRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(*request.model_id, call.caller.owner));
  LiveRun::Operation operation = {.seq_id = request.seq_id,
                                  .type = "load_weights",
                                  .payload_hash = call.payload_hash,
                                  .source = call.source,
                                  .note = call.source.note};
  Result<CheckpointRecord> record = CheckpointRecord();
  const bool is_new = !call.source.is_replay;
  if (is_new || operation.note.empty()) {
    auto search = loadable_checkpoint(call, run, request);
    record = co_await std::move(search);
    // A load of an earlier life that has no files was refused.
    if (!is_new && record.ok()) record = no_such("checkpoint", request.path);
  }
  if (is_new && run->journal() && record.ok()) {
    auto keeping = keep_loaded(call.service, run, *record);
    TINKER_CO_TRY(operation.note, co_await std::move(keeping));
  }
  const std::string loaded = operation.note;
  if (record.ok()) {
    TINKER_CO_TRY(auto source, source_of(*call.service, *run, *record, loaded));
    operation.work = [source = std::move(source), request](std::shared_ptr<LiveRun> self) {
      return run_load(std::move(self), source, request);
    };
  } else {
    operation.work = LiveRun::refusal(record.error());
    operation.is_final = true;  // later there may be a checkpoint
  }
  auto submitting = run->submit(call.service, std::move(operation));
  auto id = co_await std::move(submitting);
  if (is_new && !loaded.empty()) run->journal()->drop_unused(loaded);  // a repeat needs no files
  if (!id.ok()) co_return id.error();
  co_return UntypedApiFuture{.request_id = *std::move(id), .model_id = request.model_id};
}

/// As a new model (PROTOCOL 9.15, create-via-load).
async::Task<UntypedApiFuture> load_as_new(Call call, LoadWeightsRequest request) {
  auto search = call.service->sessions.find_open(*request.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  const std::int64_t number = *request.model_seq_id;
  TINKER_CO_TRY(auto known,
                find_accepted(session->models, number, call.payload_hash, "model_seq_id"));
  if (known) {
    auto waiting = answer_when_recorded(call.service, call.caller.owner, *std::move(known));
    co_return co_await std::move(waiting);
  }
  auto finding = call.service->readable_checkpoint(
      request.path, call.caller.owner, request.weights_access_token.value_or(Secret()));
  auto found = co_await std::move(finding);
  // A repeat may have been faster meanwhile.
  TINKER_CO_TRY(known, find_accepted(session->models, number, call.payload_hash, "model_seq_id"));
  if (known) {
    auto waiting = answer_when_recorded(call.service, call.caller.owner, *std::move(known));
    co_return co_await std::move(waiting);
  }
  TINKER_CO_TRY(check_new_run(call, *session));
  RunOrigin origin = {.with_optimizer = request.optimizer};
  RunRecord record = {.run_id = base::concat(*request.session_id, ":train:", number),
                      .session_id = *request.session_id,
                      .owner = call.caller.owner,
                      .project_id = session->record.project_id,
                      .user_metadata = to_texts(request.user_metadata),
                      .created_at = call.service->now(),
                      .last_request_at = call.service->now()};
  if (found.ok()) {
    record.base_model = request.base_model.value_or(found->base_model);
    record.lora = found->lora;
    record.optimizer = request.optimizer ? found->optimizer
                                         : request.optimizer_config.value_or(AdamOptimizerConfig());
    if (request.optimizer && !found->has_optimizer_state) {
      origin.refusal = has_no_optimizer(request.path);
    } else if (found->kind == CheckpointType::external) {
      origin.refusal = is_export(request.path);
    } else if (auto refusal = refuse_optimizer(record.optimizer)) {
      origin.refusal = *std::move(refusal);
    } else if (auto facts = call.service->models->facts(record.base_model); !facts.ok()) {
      origin.refusal = facts.error();
    }
    origin.checkpoint = *std::move(found);
  } else {
    origin.refusal = found.error();
  }
  const std::string folder = origin.checkpoint ? origin.checkpoint->folder : std::string();
  if (call.source.run && !call.source.note.empty() && folder != call.source.note) {
    origin.refusal = bad_request(base::concat(
        request.path, ", which the run began with, is not what it was: the run cannot go on"));
  }
  add_journal(call, "load_weights", record, folder, origin);
  if (origin.restored && origin.restored->record) record = *origin.restored->record;
  auto answer = create_run(
      call.service, session, record, std::move(origin), [path = request.path, id = record.run_id] {
        return wire::encode_json(LoadWeightsResponse{.path = path, .model_id = id});
      });
  session->models[number] = {.payload_hash = call.payload_hash, .answer = answer};
  auto waiting = answer_when_recorded(call.service, call.caller.owner, answer);
  co_return co_await std::move(waiting);
}

}  // namespace

async::Task<UntypedApiFuture> load_weights(Call call, LoadWeightsRequest request) {
  if (request.model_id) {
    auto loading = load_into(std::move(call), std::move(request));
    co_return co_await std::move(loading);
  }
  if (request.session_id && request.model_seq_id) {
    auto loading = load_as_new(std::move(call), std::move(request));
    co_return co_await std::move(loading);
  }
  co_return bad_request("load_weights: expected model_id, or session_id and model_seq_id");
}

}  // namespace tinker::server
