#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/metadata.h"
#include "server/run_creation.h"
#include "server/service.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::server {

namespace {

constexpr std::string_view kPass = "forward_backward";  // also of a forward pass that is accepted
constexpr std::string_view kForward = "forward";        // of one that is refused
// Results of at least so many values are encoded by a worker.
constexpr std::size_t kManyValues = 16'384;

std::size_t tokens_of(const std::vector<Datum>& data) {
  std::size_t out = 0;
  for (const auto& datum : data) {
    for (const auto& chunk : datum.model_input.chunks) {
      if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) out += text->tokens.size();
    }
  }
  return out;
}

template <typename T>
async::Task<EncodedResult> encode_large(std::shared_ptr<Service> service,
                                        T value,
                                        std::size_t values) {
  const auto encode = [](const T& output) -> Result<EncodedResult> {
    TINKER_TRY(std::string bytes, wire::encode_proto(output));
    return EncodedResult{.body = std::move(bytes), .is_protobuf = true};
  };
  if (values < kManyValues) co_return encode(value);
  auto encoded = service->work([encode, value = std::move(value)] { return encode(value); });
  auto wait = async::until(std::move(encoded));
  co_return co_await wait;
}

/// The loss a request asks for: one of the engine's, or a formula of the session.
struct Loss {
  LossFn fn = LossFn::cross_entropy;
  std::optional<loss::Formula> formula = {};
};

Result<Loss> find_loss(const Session& session, const ForwardBackwardRequest& request) {
  const auto known = request.loss_fn.known();
  if (!known) {
    return bad_request(base::concat("loss_fn '", request.loss_fn.text(), "' is not known here"));
  }
  if (*known != LossFn::custom) return Loss{.fn = *known};
  const auto config = request.loss_fn_config.find("loss_id");
  const auto* id =
      config != request.loss_fn_config.end() ? std::get_if<std::string>(&config->second) : nullptr;
  if (id == nullptr) {
    return bad_request("loss_fn 'custom': expected the text 'loss_id' in loss_fn_config");
  }
  const auto formula = session.formulas.find(*id);
  if (formula == session.formulas.end()) {
    return bad_request(base::concat("loss_id '", *id, "': this session has no such loss"));
  }
  return Loss{.fn = LossFn::custom, .formula = formula->second};
}

struct Pass {
  ForwardBackwardRequest request;
  Result<Loss> loss;
  bool is_replay = false;
  std::shared_ptr<const void> charge;
};

async::Task<EncodedResult> run_pass(std::shared_ptr<Service> service,
                                    std::shared_ptr<LiveRun> run,
                                    Pass pass) {
  auto& request = pass.request;
  TINKER_CO_TRY(auto wanted, std::move(pass.loss));
  const std::size_t tokens = tokens_of(request.data);
  const LocalTrainer& trainer = run->trainer();
  run->model()->engine.limit_training(service->models->training_room(run->record.base_model));
  auto& data = request.data;
  auto passing = wanted.formula
                     ? (request.forward_only
                            ? trainer.forward_async(std::move(data), *wanted.formula)
                            : trainer.forward_backward_async(std::move(data), *wanted.formula))
                     : (request.forward_only
                            ? trainer.forward_async(
                                  std::move(data), wanted.fn, std::move(request.loss_fn_config))
                            : trainer.forward_backward_async(
                                  std::move(data), wanted.fn, std::move(request.loss_fn_config)));
  const auto gradients = request.forward_only ? 0 : run->add_gradients();
  auto wait = async::until(std::move(passing));
  auto output = co_await wait;
  if (!output.ok()) {
    run->drop_gradients(gradients);
    co_return output.error();
  }
  // The earlier life has counted most replays. Those that it had only accepted, and what it had not
  // written when it was killed (10 s), are counted never: too little rather than twice.
  if (!pass.is_replay) {
    service->count(run->record, UsageRecord::Kind::training, static_cast<std::int64_t>(tokens));
  }
  auto encoding = encode_large(service, *std::move(output), tokens);
  co_return co_await std::move(encoding);
}

async::Task<EncodedResult> run_step(std::shared_ptr<LiveRun> run, OptimStepRequest request) {
  auto stepping = run->trainer().optim_step_async(request.optim_params);
  const auto clearing = run->begin_clearing();
  auto wait = async::until(std::move(stepping));
  const auto response = co_await wait;
  run->end_clearing(clearing, response.ok());
  if (!response.ok()) co_return response.error();
  TINKER_CO_TRY(std::string json, wire::encode_json(*response));
  co_return EncodedResult{.body = std::move(json)};
}

async::Task<EncodedResult> run_unload(std::shared_ptr<Service> service,
                                      std::shared_ptr<LiveRun> run) {
  const auto& id = run->record.run_id;
  run->close(is_over("model", id, "was unloaded"));
  service->remove_run(id);
  TINKER_LOG(service->options().logger, info, "run ", id, " is unloaded");
  TINKER_CO_TRY(std::string json, wire::encode_json(UnloadModelResponse{.model_id = id}));
  co_return EncodedResult{.body = std::move(json)};
}

/// A run that is in the catalogue only was unloaded, perhaps by a request whose repeat this is.
async::Task<UntypedApiFuture> answer_unloaded(std::shared_ptr<Service> service,
                                              std::string owner,
                                              std::string run_id) {
  auto finding = service->disk.run([run_id](Store& store) { return store.find_run(run_id); });
  auto wait = async::until(std::move(finding));
  TINKER_CO_TRY(const auto record, co_await wait);
  if (!record || record->owner != owner) co_return no_such("model", run_id);
  const std::string id = base::concat(run_id, ":x", service->random_id());
  TINKER_CO_TRY(std::string json, wire::encode_json(UnloadModelResponse{.model_id = run_id}));
  service->futures.open({.request_id = id, .owner = owner});
  service->futures.finish(id, EncodedResult{.body = std::move(json)});
  co_return UntypedApiFuture{.request_id = id, .model_id = run_id};
}

/// A run that shall survive the server needs a seed that is known: where the client gave none, it
/// is drawn here. Yields it as the journal's note.
std::string settle_seed(const Call& call, LoraConfig& lora) {
  const bool is_restored = call.source.run != nullptr;
  if (lora.seed || (!is_restored && !call.service->journals)) return {};
  if (!is_restored) {
    const std::uint64_t drawn = call.service->random_number();
    lora.seed = drawn;
    return std::to_string(drawn);
  }
  std::uint64_t seed = 0;
  const auto& note = call.source.note;
  std::from_chars(note.data(), note.data() + note.size(), seed);
  lora.seed = seed;
  return {};
}

JournalRecord record_of(const Call& call, const CreateCustomLossRequest& request) {
  return {.kind = JournalRecord::Kind::loss,
          .number = request.custom_loss_seq_id,
          .type = "create_custom_loss",
          .payload_hash = call.payload_hash,
          .content_type = call.source.content_type,
          .owner = call.caller.owner,
          .body = call.source.body};
}

/// The answer, when the losses of the session are in its journal, on the disk.
async::Task<UntypedApiFuture> answer_when_journalled(std::shared_ptr<JournalLog> log,
                                                     UntypedApiFuture answer) {
  if (!log) co_return answer;
  auto syncing = sync_now(std::move(log));
  TINKER_CO_TRY(co_await std::move(syncing));
  co_return answer;
}

}  // namespace

async::Task<UntypedApiFuture> create_model(Call call, CreateModelRequest request) {
  auto search = call.service->sessions.find_open(request.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  TINKER_CO_TRY(
      auto known,
      find_accepted(session->models, request.model_seq_id, call.payload_hash, "model_seq_id"));
  if (known) {
    auto waiting = answer_when_recorded(call.service, call.caller.owner, *std::move(known));
    co_return co_await std::move(waiting);
  }
  TINKER_CO_TRY(check_new_run(call, *session));
  TINKER_CO_TRY(call.service->models->facts(request.base_model));
  RunRecord record = {.run_id = base::concat(request.session_id, ":train:", request.model_seq_id),
                      .session_id = request.session_id,
                      .owner = call.caller.owner,
                      .project_id = session->record.project_id,
                      .base_model = request.base_model,
                      .lora = request.lora_config.value_or(LoraConfig()),
                      .optimizer = request.optimizer_config,
                      .user_metadata = to_texts(request.user_metadata),
                      .created_at = call.service->now(),
                      .last_request_at = call.service->now()};
  RunOrigin origin = {.refusal = refuse_optimizer(request.optimizer_config)};
  if (auto ranked = check_rank(record.lora); !ranked.ok()) origin.refusal = ranked.error();
  add_journal(call, "create_model", record, settle_seed(call, record.lora), origin);
  if (origin.restored && origin.restored->record) record = *origin.restored->record;
  auto answer = create_run(call.service, session, record, std::move(origin), [id = record.run_id] {
    return wire::encode_json(CreateModelResponse{.model_id = id});
  });
  session->models[request.model_seq_id] = {.payload_hash = call.payload_hash, .answer = answer};
  auto waiting = answer_when_recorded(call.service, call.caller.owner, answer);
  co_return co_await std::move(waiting);
}

async::Task<GetInfoResponse> get_info(Call call, GetInfoRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  TINKER_CO_TRY(const auto facts, call.service->models->facts(run->record.base_model));
  co_return GetInfoResponse{.model_data = {.arch = facts.arch,
                                           .model_name = facts.name,
                                           .tokenizer_id = facts.tokenizer_id.empty()
                                                               ? std::nullopt
                                                               : std::optional(facts.tokenizer_id)},
                            .model_id = request.model_id,
                            .optimizer_config = run->record.optimizer,
                            .is_lora = true,
                            .lora_rank = run->record.lora.rank,
                            .model_name = facts.name};
}

async::Task<UntypedApiFuture> unload_model(Call call, UnloadModelRequest request) {
  auto& unloaded = call.service->unloaded_models;
  const auto key = base::concat(call.caller.owner, "\n", request.model_id);
  if (const auto* id = unloaded.find(key)) {  // the request has no number to know its repeat by
    auto waiting = answer_when_recorded(
        call.service, call.caller.owner, {.request_id = *id, .model_id = request.model_id});
    co_return co_await std::move(waiting);
  }
  const auto found = call.service->find_run(request.model_id, call.caller.owner);
  if (!found.ok()) {
    auto repeating = answer_unloaded(call.service, call.caller.owner, request.model_id);
    auto answer = co_await std::move(repeating);
    if (!answer.ok()) co_return found.error();
    unloaded.put(key, answer->request_id);
    co_return answer;
  }
  const auto& run = *found;
  LiveRun::Operation operation = {
      .type = "unload_model", .source = call.source, .accepted = [&unloaded, key](const auto& id) {
        unloaded.put(key, id);
      }};
  operation.work = [service = call.service](std::shared_ptr<LiveRun> self) {
    return run_unload(service, std::move(self));
  };
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
}

async::Task<UntypedApiFuture> forward_backward(Call call, ForwardBackwardRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  auto search = call.service->sessions.find_open(run->record.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  const std::string model_id = request.model_id;
  LiveRun::Operation operation = {.kind = Sequencer::Kind::pass,
                                  .seq_id = request.seq_id,
                                  .type = std::string(kPass),
                                  .payload_hash = call.payload_hash,
                                  .source = call.source};
  auto loss = find_loss(*session, request);
  Pass pass = {.request = std::move(request),
               .loss = std::move(loss),
               .is_replay = call.source.is_replay,
               .charge = std::move(call.charge)};
  operation.work = [service = call.service,
                    pass = std::move(pass)](std::shared_ptr<LiveRun> self) mutable {
    return run_pass(service, std::move(self), std::move(pass));
  };
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = model_id};
}

async::Task<UntypedApiFuture> forward(Call call, ForwardBackwardRequest request) {
  if (!request.forward_only) {
    auto refusing = refuse_in_order(
        std::move(call),
        kForward,  // done again, it is refused again
        {.model_id = std::move(request.model_id), .seq_id = request.seq_id},
        bad_request("forward: expected a request for a forward pass, with forward_input"));
    co_return co_await std::move(refusing);
  }
  auto passing = forward_backward(std::move(call), std::move(request));
  co_return co_await std::move(passing);
}

async::Task<UntypedApiFuture> optim_step(Call call, OptimStepRequest request) {
  TINKER_CO_TRY(const auto run, call.service->find_run(request.model_id, call.caller.owner));
  LiveRun::Operation operation = {.seq_id = request.seq_id,
                                  .type = "optim_step",
                                  .payload_hash = call.payload_hash,
                                  .source = call.source};
  operation.work = [request](std::shared_ptr<LiveRun> self) {
    return run_step(std::move(self), request);
  };
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = request.model_id};
}

async::Task<UntypedApiFuture> refuse_in_order(Call call,
                                              std::string_view type,
                                              wire::RequestNumber number,
                                              Error why) {
  const auto found = call.service->find_run(number.model_id, call.caller.owner);
  if (!found.ok()) co_return why;  // there is no order to have a place in
  const auto& run = *found;
  const bool is_pass = type == kPass || type == kForward;
  LiveRun::Operation operation = {
      .kind = is_pass ? Sequencer::Kind::pass : Sequencer::Kind::barrier,
      .seq_id = number.seq_id,
      .type = std::string(type),
      .payload_hash = call.payload_hash,
      .work = LiveRun::refusal(std::move(why)),
      .source = call.source};
  auto submitting = run->submit(call.service, std::move(operation));
  TINKER_CO_TRY(auto id, co_await std::move(submitting));
  co_return UntypedApiFuture{.request_id = std::move(id), .model_id = std::move(number.model_id)};
}

async::Task<UntypedApiFuture> create_custom_loss(Call call, CreateCustomLossRequest request) {
  auto search = call.service->sessions.find_open(request.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  const std::int64_t number = request.custom_loss_seq_id;
  const auto log = call.service->journals && !call.source.is_replay
                       ? call.service->journals->session_log(request.session_id)
                       : nullptr;
  TINKER_CO_TRY(auto known,
                find_accepted(session->losses, number, call.payload_hash, "custom_loss_seq_id"));
  if (known) {
    auto waiting = answer_when_journalled(log, *std::move(known));
    co_return co_await std::move(waiting);
  }
  // A loss of an earlier life was within the limit of that life.
  const std::size_t most = call.service->options().limits.losses;
  if (session->losses.size() >= most && !call.source.is_replay) {
    co_return bad_request(base::concat("a session can have ", most, " custom losses"));
  }
  if (log) log->append(record_of(call, request));
  const std::string loss_id = base::concat(request.session_id, ":loss:", number);
  auto formula = loss::Formula::from_graph(
      std::move(request.name), std::move(request.inputs), std::move(request.graph));
  UntypedApiFuture answer = {.request_id = loss_id};
  call.service->futures.open({.request_id = loss_id, .owner = call.caller.owner});
  if (formula.ok()) {
    session->formulas.emplace(loss_id, *std::move(formula));
    TINKER_CO_TRY(std::string json,
                  wire::encode_json(CreateCustomLossResponse{.loss_id = loss_id}));
    call.service->futures.finish(loss_id, EncodedResult{.body = std::move(json)});
  } else {
    call.service->futures.finish(loss_id, std::move(formula).error());
  }
  session->losses[number] = {.payload_hash = call.payload_hash, .answer = answer};
  auto waiting = answer_when_journalled(log, answer);
  co_return co_await std::move(waiting);
}

}  // namespace tinker::server
