#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/service.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::server {

namespace {

// Clients number the requests of a clone from here on (PROTOCOL 7.11).
constexpr std::int64_t kClone = 1'000'000'000;
// The answer names each, before anything is known of the rest.
constexpr std::int64_t kMaxSamples = 16'384;
// Answers of so many tokens or more are encoded by a worker.
constexpr std::size_t kManyTokens = 8'192;

SampleOptions options_of(const SampleRequest& request) {
  return {.num_samples = request.num_samples,
          .include_prompt_logprobs = request.prompt_logprobs.value_or(false),
          .topk_prompt_logprobs = request.topk_prompt_logprobs,
          .topk_sample_logprobs = request.topk_sample_logprobs,
          .target_prompt_logprobs = request.target_prompt_logprobs,
          .prompt_alt_tokens_k = request.prompt_alt_tokens_k,
          .prompt_logprobs_last_n = request.prompt_logprobs_last_n};
}

void count(Service& service,
           const SamplerRecord& sampler,
           UsageRecord::Kind kind,
           std::size_t tokens) {
  service.usage.add({.hour = service.now(),
                     .owner = sampler.owner,
                     .session_id = sampler.session_id,
                     .base_model = sampler.base_model,
                     .kind = kind,
                     .count = static_cast<std::int64_t>(tokens)});
}

Result<EncodedResult> encode(const SampleResponse& response) {
  TINKER_TRY(std::string bytes, wire::encode_proto(response));
  return EncodedResult{.body = std::move(bytes), .is_protobuf = true};
}

/// The weights a sampling session draws from.
async::Task<AdapterSnapshot> weights_of(std::shared_ptr<Service> service,
                                        std::shared_ptr<Sampler> sampler,
                                        std::shared_ptr<LoadedModel> model) {
  if (sampler->ephemeral) co_return *sampler->ephemeral;
  if (!sampler->record.model_path) co_return AdapterSnapshot();
  auto search = service->readable_checkpoint(*sampler->record.model_path, sampler->record.owner);
  TINKER_CO_TRY(auto record, co_await std::move(search));
  auto loading = service->adapter_of(std::move(record), std::move(model));
  co_return co_await std::move(loading);
}

async::Task<EncodedResult> run_sample(std::shared_ptr<Service> service,
                                      std::shared_ptr<Sampler> sampler,
                                      SampleRequest request,
                                      std::string request_id) {
  if (request.record_stability_info.value_or(false)) {
    co_return bad_request(
        "record_stability_info: not served here; it is for the loss stable_reinforce, whose "
        "formula is not public");
  }
  service->futures.set_state(request_id,
                             QueueState::paused_capacity,
                             base::concat("loading ", sampler->record.base_model));
  auto loading = service->models->acquire(sampler->record.base_model);
  TINKER_CO_TRY(const auto model, co_await std::move(loading));
  auto finding = weights_of(service, sampler, model);
  TINKER_CO_TRY(auto weights, co_await std::move(finding));
  service->futures.set_state(request_id, QueueState::active, "");
  const auto options = options_of(request);
  const Engine engine = model->engine.for_tenant(sampler->record.owner);
  auto sampling = engine.sample_async(
      std::move(request.prompt), std::move(request.sampling_params), std::move(weights), options);
  auto wait = async::until(std::move(sampling));
  TINKER_CO_TRY(auto response, co_await wait);
  std::size_t drawn = 0;
  for (const auto& sequence : response.sequences) drawn += sequence.tokens.size();
  count(*service, sampler->record, UsageRecord::Kind::sampling_sample, drawn);
  if (drawn < kManyTokens && response.prompt_logprobs.size() < kManyTokens)
    co_return encode(response);
  auto encoded = service->work([response = std::move(response)] { return encode(response); });
  auto encoding = async::until(std::move(encoded));
  co_return co_await encoding;
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
    TINKER_CO_TRY(const auto record, co_await std::move(search));
    sampler->record.base_model = record.base_model;
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
  for (std::int64_t i = 0; i < count; ++i) out.push_back(base::concat(request_id, ":", i));
  return out;
}

/// What a sampling session is made of, checked against what there is.
async::Task<SamplerRecord> check_sampler(Call call, CreateSamplingSessionRequest request) {
  SamplerRecord out = {
      .sampler_id = base::concat(request.session_id, ":sample:", request.sampling_session_seq_id),
      .session_id = request.session_id,
      .owner = call.caller.owner,
      .model_path = request.model_path};
  if (request.model_path) {
    auto search = call.service->readable_checkpoint(*request.model_path, call.caller.owner);
    TINKER_CO_TRY(const auto record, co_await std::move(search));
    if (record.kind == CheckpointType::external) {
      co_return bad_request(
          base::concat(*request.model_path,
                       " is an export for other tools; sample from weights or sampler_weights"));
    }
    if (request.base_model && *request.base_model != record.base_model) {
      co_return bad_request(base::concat(
          *request.model_path, " is of ", record.base_model, ", not of ", *request.base_model));
    }
    out.base_model = record.base_model;
  } else if (request.base_model) {
    out.base_model = *request.base_model;
  } else {
    co_return bad_request("create_sampling_session: expected a base_model or a model_path");
  }
  TINKER_CO_TRY(call.service->models->facts(out.base_model));
  co_return out;
}

}  // namespace

async::Task<CreateSamplingSessionResponse> create_sampling_session(
    Call call, CreateSamplingSessionRequest request) {
  auto search = call.service->sessions.find_open(request.session_id, call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  const std::int64_t number = request.sampling_session_seq_id;
  if (const auto known = session->samplers.find(number); known != session->samplers.end()) {
    co_return CreateSamplingSessionResponse{.sampling_session_id = known->second};
  }
  auto checking = check_sampler(call, request);
  TINKER_CO_TRY(auto record, co_await std::move(checking));
  auto stored =
      call.service->disk.run([record](Store& store) { return store.add_sampler(record); });
  auto wait = async::until(std::move(stored));
  // A repeat may have been faster, or this one may have been accepted before the server was started
  // again.
  if (auto added = co_await wait; !added.ok() && added.error().code != ErrorCode::conflict) {
    co_return added.error();
  }
  session->samplers.emplace(number, record.sampler_id);
  if (!call.service->samplers.find(record.sampler_id)) {
    call.service->samplers.add(record, std::nullopt, session->scope);
  }
  co_return CreateSamplingSessionResponse{.sampling_session_id = record.sampler_id};
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
  if (request.num_samples < 1 || request.num_samples > kMaxSamples) {
    co_return bad_request(
        base::concat("num_samples: expected 1 to ", kMaxSamples, ", found ", request.num_samples));
  }
  auto search = sampler_of(call, request);
  TINKER_CO_TRY(const auto sampler, co_await std::move(search));
  const auto number = request.sampling_session_id ? request.seq_id : std::nullopt;
  if (number) {
    if (const auto* known = sampler->accepted.find(*number)) {
      if (known->payload_hash != call.payload_hash) {
        co_return bad_request(
            base::concat("seq_id ", *number, " was used before, for another request"));
      }
      co_return known->answer;
    }
  }
  const std::string request_id = number ? base::concat(sampler->record.sampler_id, ":", *number)
                                        : base::concat("sample:", call.service->random_id());
  UntypedApiFuture answer = {.request_id = request_id,
                             .sample_sequence_ids = sequence_ids(request_id, request.num_samples)};
  FutureStore::Spec spec = {.request_id = request_id, .owner = call.caller.owner};
  auto scope = std::make_shared<async::Scope>();
  scope->attach(sampler->scope);
  spec.cancel = [weak = std::weak_ptr(scope)] {
    if (const auto alive = weak.lock()) {
      alive->cancel({.code = ErrorCode::cancelled, .message = "cancelled by the client"});
    }
  };
  if (number) {
    spec.target = {.sampling_session_id = sampler->record.sampler_id,
                   .cloned_sampler_id = *number / kClone};
    sampler->accepted.put(*number, {.payload_hash = call.payload_hash, .answer = answer});
  }
  call.service->futures.open(std::move(spec));
  auto task = run_sample(call.service, sampler, std::move(request), request_id);
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
