#include <limits>
#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/queue_reasons.h"
#include "server/service.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::server {

namespace {

// The end of its block is a number, too.
constexpr std::int64_t kMaxNumber =
    std::numeric_limits<std::int64_t>::max() - SampleNumbers::kBlock;
// Answers of so many values or more are encoded by a worker.
constexpr std::size_t kManyValues = 16'384;

SampleOptions options_of(const SampleRequest& request) {
  return {.num_samples = request.num_samples,
          .include_prompt_logprobs = request.prompt_logprobs.value_or(false),
          .topk_prompt_logprobs = request.topk_prompt_logprobs,
          .topk_sample_logprobs = request.topk_sample_logprobs,
          .target_prompt_logprobs = request.target_prompt_logprobs,
          .prompt_alt_tokens_k = request.prompt_alt_tokens_k,
          .prompt_logprobs_last_n = request.prompt_logprobs_last_n};
}

/// Counts the prompt once, however many samples share it, and what was drawn.
void count(Service& service,
           const Sampler& sampler,
           const SampleResponse& response,
           std::int64_t prompt_tokens) {
  using Kind = UsageRecord::Kind;
  const auto& record = sampler.record;
  const std::string project = sampler.session ? sampler.session->record.project_id : std::string();
  const auto add = [&](Kind kind, std::int64_t tokens) {
    service.usage.add({.hour = service.now(),
                       .owner = record.owner,
                       .session_id = record.session_id,
                       .project_id = project,
                       .base_model = record.base_model,
                       .kind = kind,
                       .count = tokens});
  };
  std::int64_t drawn = 0;
  for (const auto& sequence : response.sequences) drawn += std::ssize(sequence.tokens);
  add(Kind::sampling_prefill, prompt_tokens - response.prompt_cache_hit_tokens);
  add(Kind::sampling_prefill_cached, response.prompt_cache_hit_tokens);
  add(Kind::sampling_sample, drawn);
}

/// How much there is to encode.
std::size_t values_of(const SampleResponse& response) {
  std::size_t out = response.prompt_logprobs.size();
  for (const auto& sequence : response.sequences) {
    out += 2 * sequence.tokens.size();
    if (sequence.topk_logprobs) out += 2 * sequence.topk_logprobs->logprobs.size();
  }
  if (response.topk_prompt_logprobs) out += 2 * response.topk_prompt_logprobs->logprobs.size();
  if (response.target_prompt_logprobs) out += response.target_prompt_logprobs->size();
  if (response.prompt_alt_tokens) out += 2 * response.prompt_alt_tokens->tokens.size();
  return out;
}

Result<EncodedResult> encode(const SampleResponse& response) {
  TINKER_TRY(std::string bytes, wire::encode_proto(response));
  return EncodedResult{.body = std::move(bytes), .is_protobuf = true, .is_sample = true};
}

/// The weights a sampling session draws from.
async::Task<AdapterSnapshot> weights_of(std::shared_ptr<Service> service,
                                        std::shared_ptr<Sampler> sampler,
                                        std::shared_ptr<LoadedModel> model) {
  if (sampler->is_dropped) {
    co_return is_over("sampling session",
                      sampler->record.sampler_id,
                      "held weights that had no name, and newer ones took their place");
  }
  if (sampler->ephemeral) co_return *sampler->ephemeral;
  if (!sampler->record.model_path) co_return AdapterSnapshot();
  if (!sampler->checkpoint) {
    auto search = service->readable_checkpoint(*sampler->record.model_path, sampler->record.owner);
    TINKER_CO_TRY(auto found, co_await std::move(search));
    if (!sampler->checkpoint) service->set_checkpoint(sampler, std::move(found));
  }
  const CheckpointRecord checkpoint = *sampler->checkpoint;
  auto loading = service->adapter_of(checkpoint, std::move(model));
  auto weights = co_await std::move(loading);
  if (weights.ok() || checkpoint.hold.token) co_return weights;
  auto search = service->readable_checkpoint(*sampler->record.model_path, sampler->record.owner);
  const auto found = co_await std::move(search);
  if (found.ok() && found->folder == checkpoint.folder) co_return weights;
  co_return is_over("sampling session",
                    sampler->record.sampler_id,
                    "is of a checkpoint that was replaced or deleted, and newer ones took the "
                    "place of its weights");
}

async::Task<EncodedResult> run_sample(std::shared_ptr<Service> service,
                                      std::shared_ptr<Sampler> sampler,
                                      SampleRequest request,
                                      std::shared_ptr<SampleProgress> progress) {
  if (request.record_stability_info.value_or(false)) {
    co_return bad_request(
        "record_stability_info: not served here; it is for the loss stable_reinforce, whose "
        "formula is not public");
  }
  auto loading = service->models->acquire(sampler->record.base_model);
  TINKER_CO_TRY(const auto model, co_await std::move(loading));
  auto finding = weights_of(service, sampler, model);
  TINKER_CO_TRY(auto weights, co_await std::move(finding));
  const auto options = options_of(request);
  const std::int64_t prompt_tokens = request.prompt.length().value_or(0);
  const Engine engine = model->engine.for_tenant(sampler->record.owner);
  auto sampling = engine.sample_async(std::move(request.prompt),
                                      std::move(request.sampling_params),
                                      std::move(weights),
                                      options,
                                      std::move(progress));
  auto wait = async::until(std::move(sampling));
  TINKER_CO_TRY(auto response, co_await wait);
  count(*service, *sampler, response, prompt_tokens);
  if (values_of(response) < kManyValues) co_return encode(response);
  auto encoded = service->work([response = std::move(response)] { return encode(response); });
  auto encoding = async::until(std::move(encoded));
  co_return co_await encoding;
}

Result<void> check_not_external(const CheckpointRecord& record) {
  if (record.kind != CheckpointType::external) return {};
  return is_export(record.path().to_string());
}

/// The session that a request names, or a place of its own for one that names a model.
async::Task<std::shared_ptr<Sampler>> sampler_of(Call call, SampleRequest request) {
  if (request.sampling_session_id) {
    auto search = call.service->find_sampler(*request.sampling_session_id, call.caller.owner);
    co_return co_await std::move(search);
  }
  auto sampler = std::make_shared<Sampler>();
  sampler->scope->attach(call.service->scope());
  sampler->record = {.owner = call.caller.owner, .model_path = request.model_path};
  if (request.model_path) {
    auto search = call.service->readable_checkpoint(*request.model_path, call.caller.owner);
    TINKER_CO_TRY(auto record, co_await std::move(search));
    TINKER_CO_TRY(check_not_external(record));
    sampler->record.base_model = record.base_model;
    sampler->checkpoint = std::move(record);
  } else if (request.base_model) {
    sampler->record.base_model = *request.base_model;
  } else {
    co_return bad_request("asample: expected sampling_session_id, model_path or base_model");
  }
  TINKER_CO_TRY(call.service->models->facts(sampler->record.base_model));
  co_return sampler;
}

std::vector<std::string> sequence_ids(const std::string& request_id, std::int64_t count) {
  std::vector<std::string> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) out.push_back(base::concat(request_id, ":", i));
  return out;
}

/// Samples do not survive the server, but clients that wait for them must be told: so the journal
/// says which numbers there may be.
async::Task<> journal_number(std::shared_ptr<Service> service,
                             std::shared_ptr<Sampler> sampler,
                             std::int64_t number) {
  if (!service->journals || sampler->is_dropped) co_return Result<void>();
  const auto& id = sampler->record.sampler_id;
  const auto range = service->journals->sample_numbers.enter(
      {.sampler_id = id, .clone = number / kClone}, number, [&](std::int64_t other) {
        return service->futures.is_awaited(base::concat(id, ":", other));
      });
  const auto log = service->journals->session_log(sampler->record.session_id);
  if (range) {
    log->append({.kind = JournalRecord::Kind::samples,
                 .number = range->end,
                 .request_id = id,
                 .owner = sampler->record.owner,
                 .note = std::to_string(range->first)});
  }
  auto syncing = sync_now(log);
  co_return co_await std::move(syncing);
}

/// What a sampling session is made of.
struct SamplerParts {
  SamplerRecord record = {};
  std::optional<CheckpointRecord> checkpoint = {};
};

/// Checked against what there is.
async::Task<SamplerParts> check_sampler(Call call, CreateSamplingSessionRequest request) {
  SamplerParts out;
  out.record = {
      .sampler_id = base::concat(request.session_id, ":sample:", request.sampling_session_seq_id),
      .session_id = request.session_id,
      .owner = call.caller.owner,
      .model_path = request.model_path};
  if (request.model_path) {
    auto search = call.service->readable_checkpoint(*request.model_path, call.caller.owner);
    TINKER_CO_TRY(auto record, co_await std::move(search));
    TINKER_CO_TRY(check_not_external(record));
    if (request.base_model && *request.base_model != record.base_model) {
      co_return bad_request(base::concat(
          *request.model_path, " is of ", record.base_model, ", not of ", *request.base_model));
    }
    out.record.base_model = record.base_model;
    out.checkpoint = std::move(record);
  } else if (request.base_model) {
    out.record.base_model = *request.base_model;
  } else {
    co_return bad_request("create_sampling_session: expected a base_model or a model_path");
  }
  TINKER_CO_TRY(call.service->models->facts(out.record.base_model));
  co_return out;
}

}  // namespace

async::Task<CreateSamplingSessionResponse> create_sampling_session(
    Call call, CreateSamplingSessionRequest request) {
  auto search = call.service->sessions.find_open(request.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  const std::int64_t number = request.sampling_session_seq_id;
  auto checking = check_sampler(call, request);
  TINKER_CO_TRY(auto parts, co_await std::move(checking));
  const auto& id = parts.record.sampler_id;
  auto finding = call.service->find_sampler(id, call.caller.owner);
  if (const auto known = co_await std::move(finding); known.ok()) {  // a repeat
    const auto& there = (*known)->record;
    if ((*known)->ephemeral || there.model_path != parts.record.model_path ||
        there.base_model != parts.record.base_model) {
      co_return bad_request(
          base::concat("sampling_session_seq_id ", number, " was used before, for other weights"));
    }
    co_return CreateSamplingSessionResponse{.sampling_session_id = id};
  }
  auto stored = call.service->disk.run(
      [record = parts.record](Store& store) { return store.add_sampler(record); });
  auto wait = async::until(std::move(stored));
  // A repeat may have been faster.
  if (const auto added = co_await wait; !added.ok() && added.error().code != ErrorCode::conflict) {
    co_return added.error();
  }
  if (!call.service->samplers.find(id)) {
    const auto sampler = call.service->samplers.add(parts.record, session);
    if (parts.checkpoint) call.service->set_checkpoint(sampler, *std::move(parts.checkpoint));
  }
  session->samplers.emplace(number, id);
  co_return CreateSamplingSessionResponse{.sampling_session_id = id};
}

async::Task<JoinSamplingSessionResponse> join_sampling_session(Call call,
                                                               JoinSamplingSessionRequest request) {
  auto search = call.service->find_sampler(request.sampling_session_id, call.caller.owner);
  TINKER_CO_TRY(const auto sampler, co_await std::move(search));
  co_return JoinSamplingSessionResponse{.client_counter = ++sampler->clones};
}

async::Task<GetSamplerResponse> get_sampler(Call call) {
  auto search = call.service->find_sampler(call.args[0], call.caller.owner);
  TINKER_CO_TRY(const auto sampler, co_await std::move(search));
  co_return GetSamplerResponse{.sampler_id = sampler->record.sampler_id,
                               .base_model = sampler->record.base_model,
                               .model_path = sampler->record.model_path};
}

async::Task<UntypedApiFuture> sample(Call call, SampleRequest request) {
  const auto most = static_cast<std::int64_t>(call.service->options().limits.samples);
  if (request.num_samples < 1 || request.num_samples > most) {
    co_return bad_request(
        base::concat("num_samples: expected 1 to ", most, ", found ", request.num_samples));
  }
  const auto number = request.sampling_session_id ? request.seq_id : std::nullopt;
  if (number && (*number < 0 || *number > kMaxNumber)) {
    co_return bad_request(base::concat("seq_id: expected 0 to ", kMaxNumber, ", found ", *number));
  }
  auto search = sampler_of(call, request);
  TINKER_CO_TRY(const auto sampler, co_await std::move(search));
  const std::string request_id = number ? base::concat(sampler->record.sampler_id, ":", *number)
                                        : base::concat("sample:", call.service->random_id());
  if (number) {
    auto journalling = journal_number(call.service, sampler, *number);
    TINKER_CO_TRY(co_await std::move(journalling));
    if (const auto* known = sampler->session->samples.find(request_id)) {
      if (known->payload_hash != call.payload_hash) {
        co_return bad_request(
            base::concat("seq_id ", *number, " was used before, for another request"));
      }
      co_return UntypedApiFuture{
          .request_id = request_id,
          .sample_sequence_ids = sequence_ids(request_id, known->num_samples)};
    }
  }
  // Clients that fetch nothing, or ask for far more than is computed, wait and try again.
  TINKER_CO_TRY(call.service->futures.check_room(call.caller.owner));
  UntypedApiFuture answer = {.request_id = request_id,
                             .sample_sequence_ids = sequence_ids(request_id, request.num_samples)};
  if (number && !request.sampling_params.seed) {
    TINKER_CO_TRY(request.sampling_params.seed,
                  call.service->seed_of(request_id, call.payload_hash));
  }
  FutureStore::Spec spec = {.request_id = request_id,
                            .owner = call.caller.owner,
                            .has_session = request.sampling_session_id.has_value()};
  auto scope = std::make_shared<async::Scope>();
  // By itself, because the engine's thread may be the last to let go of it.
  const auto progress = std::make_shared<SampleProgress>();
  scope->attach(sampler->scope);
  spec.why = [progress, sampler, &models = *call.service->models](std::string_view) {
    return why_sample_waits(progress->stage(), models, sampler->record.base_model);
  };
  spec.cancel = [weak = std::weak_ptr(scope)] {
    if (const auto alive = weak.lock()) {
      alive->cancel({.code = ErrorCode::cancelled, .message = "cancelled by the client"});
    }
  };
  if (number) {
    spec.target = {.sampling_session_id = sampler->record.sampler_id,
                   .cloned_sampler_id = *number / kClone};
    sampler->session->samples.put(
        request_id, {.payload_hash = call.payload_hash, .num_samples = request.num_samples});
  }
  const bool is_new = call.service->futures.open(std::move(spec));
  if (!is_new) co_return answer;  // a repeat that the sampling session has forgotten
  auto task = run_sample(call.service, sampler, std::move(request), progress);
  async::run_detached(
      call.service->loop(),
      scope,
      std::move(task),
      [service = call.service, scope, request_id](detail::Late<EncodedResult> result) {
        service->futures.finish(request_id, *std::move(result));
      });
  co_return answer;
}

}  // namespace tinker::server
