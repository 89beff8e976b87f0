#include "tinker/training_client.h"

#include <algorithm>
#include <utility>

#include "base/console_urls.h"
#include "base/strings.h"
#include "client/batch.h"
#include "client/custom_loss.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/sampling.h"
#include "client/sequenced.h"
#include "client/state.h"
#include "client/tokenizers.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

using async::Task;
using client::Batch;
using client::BatchSpec;
using client::run_in_turn;
using client::SaveAttempts;
using client::sequence;
using client::Sequenced;
using client::Sequencer;
using client::Submission;
using client::take_turn;
using client::TrainingCore;

namespace {

std::string named(const std::string& name) {
  return name;
}
std::string named(const std::optional<std::string>& name) {
  return name.value_or("");
}

struct Prepared {
  std::shared_ptr<Batch> batch;
  std::shared_ptr<Sequencer::Turn> turn;
  std::vector<client::Chunk> chunks;
};

Result<Prepared> prepare(const std::shared_ptr<TrainingCore>& core,
                         std::vector<Datum> data,
                         const BatchSpec& spec) {
  TINKER_TRY(client::check_batch(data));
  auto chunks = client::plan_chunks(data, core->session()->config);
  auto turn =
      take_turn(core, std::ssize(chunks), spec.forward_only ? "forward" : "forward_backward");
  auto batch = std::make_shared<Batch>(core, std::move(data), chunks, turn->range(), spec);
  return Prepared{.batch = std::move(batch), .turn = std::move(turn), .chunks = std::move(chunks)};
}

Future<ForwardBackwardOutput> run(const client::TrainingState& state,
                                  const CallOptions& options,
                                  std::vector<Datum> data,
                                  BatchSpec spec) {
  spec.trace = options.trace;
  auto prepared = prepare(state.core, std::move(data), spec);
  if (!prepared) return Future<ForwardBackwardOutput>::ready(std::move(prepared).error());
  return client::start(
      state.service, options, client::run_batch(prepared->batch, std::move(prepared->turn)));
}

template <typename Answer>
Future<Answer> run_sequenced(const client::TrainingState& state,
                             const CallOptions& options,
                             Result<Sequenced> work) {
  if (!work) return Future<Answer>::ready(std::move(work).error());
  return client::start(state.service, options, run_in_turn<Answer>(state.core, *std::move(work)));
}

template <typename Answer, typename Request>
Future<Answer> run_request(const client::TrainingState& state,
                           const CallOptions& options,
                           Submission submission,
                           Request request) {
  return run_sequenced<Answer>(
      state,
      options,
      sequence(state.core, options.trace, std::move(submission), std::move(request)));
}

Result<Sequenced> sequence_optim_step(const std::shared_ptr<TrainingCore>& core,
                                      const CallOptions& options,
                                      OptimParams params) {
  return sequence(
      core,
      options.trace,
      {.name = "optim_step", .request_type = "OptimStep", .call = {.path = "/api/v1/optim_step"}},
      OptimStepRequest{.optim_params = std::move(params)});
}

/// A save under a name, which the server may have carried out without telling us.
template <typename Request>
Result<Sequenced> sequence_save(const std::shared_ptr<TrainingCore>& core,
                                const CallOptions& options,
                                Submission submission,
                                Request request,
                                CheckpointType kind) {
  const TinkerPath path = {
      .training_run_id = core->model_id, .kind = kind, .name = named(request.path)};
  submission.call.max_retries = 0;
  submission.call.is_repeatable = false;  // that an answer was lost must be known
  TINKER_TRY(auto work, sequence(core, options.trace, std::move(submission), std::move(request)));
  work.save = std::make_shared<SaveAttempts>(
      SaveAttempts{.model_id = core->model_id, .checkpoint_id = path.checkpoint_id()});
  return work;
}

/// What a save must give back.
template <typename Answer, typename Internal>
Task<Answer> with_path(Task<Internal> saving) {
  TINKER_CO_TRY(const auto internal, co_await std::move(saving));
  if (!internal.path) {
    co_return Error{.code = ErrorCode::invalid_response,
                    .message = "the answer to a save has no path"};
  }
  co_return Answer{.path = *internal.path, .has_type = internal.has_type};
}

Future<LoadWeightsResponse> load(const client::TrainingState& state,
                                 const CallOptions& call_options,
                                 std::string path,
                                 LoadOptions options,
                                 bool with_optimizer) {
  Secret secret = options.weights_access_token.value_or(Secret());
  LoadWeightsRequest request = {.path = std::move(path),
                                .optimizer = with_optimizer,
                                .weights_access_token = std::move(options.weights_access_token)};
  return run_request<LoadWeightsResponse>(
      state,
      call_options,
      {.name = "load_state",
       .request_type = "LoadWeights",
       .call = {.path = "/api/v1/load_weights", .secret = std::move(secret)}},
      std::move(request));
}

/// Saves the weights for a sampler alone, and makes that. The number of the sampling session is
/// taken once, whatever the number of attempts (R7.9).
Task<SamplingClient> sample_current(session::ServiceHandle::Weak service,
                                    std::shared_ptr<TrainingCore> core,
                                    std::shared_ptr<Sequencer::Turn> turn,
                                    SamplingClientOptions options,
                                    std::optional<TraceContext> trace) {
  const auto session = core->session();
  TINKER_CO_TRY(auto body,
                session::json_body(SaveWeightsForSamplerRequest{
                    .model_id = core->model_id,
                    .sampling_session_seq_id = session->next_sampling_session_seq_id++,
                    .seq_id = turn->range().first + 1}));
  Submission submission = {.name = "save_weights_and_get_sampling_client",
                           .request_type = "SaveWeightsForSampler",
                           .call = {.path = "/api/v1/save_weights_for_sampler",
                                    .body = std::move(body),
                                    .max_retries = 0,
                                    .trace = std::move(trace)},
                           .observer = core->observer};
  auto saving = run_in_turn<SaveWeightsForSamplerResponseInternal>(
      core, Sequenced{.turn = std::move(turn), .submission = std::move(submission)});
  TINKER_CO_TRY(const auto saved, co_await std::move(saving));
  if (!saved.sampling_session_id) {
    co_return Error{.code = ErrorCode::invalid_response,
                    .message = "the answer to a save for a sampler names no sampling session"};
  }
  TINKER_CO_TRY(
      auto sampler,
      client::make_sampling_core(core->holder, *saved.sampling_session_id, std::move(options)));
  co_return client::make_client<SamplingClient, client::SamplingState>(service, std::move(sampler));
}

Task<SamplingClient> sample_saved(session::ServiceHandle::Weak service,
                                  std::shared_ptr<session::Holder> holder,
                                  SamplingSource source,
                                  SamplingClientOptions options) {
  auto opening = client::open_sampler(holder, std::move(source), std::move(options));
  TINKER_CO_TRY(auto sampler, co_await std::move(opening));
  co_return client::make_client<SamplingClient, client::SamplingState>(service, std::move(sampler));
}

/// Takes no id and no turn (7.4).
Task<GetInfoResponse> read_info(std::shared_ptr<TrainingCore> core,
                                std::optional<TraceContext> trace) {
  TINKER_CO_TRY(auto body, session::json_body(GetInfoRequest{.model_id = core->model_id}));
  api::Call call = {.path = "/api/v1/get_info", .body = std::move(body), .trace = std::move(trace)};
  auto asking =
      client::call_with_retries<GetInfoResponse>(core->session(), "get_info", std::move(call));
  auto running = client::reported(core->session(), "get_info", std::move(asking));
  co_return co_await std::move(running);
}

Task<Tokenizer> read_tokenizer(std::shared_ptr<TrainingCore> core,
                               std::optional<TraceContext> trace,
                               std::optional<Hub> hub) {
  auto asking = read_info(core, std::move(trace));
  TINKER_CO_TRY(auto info, co_await std::move(asking));
  auto loading = client::load_tokenizer(core->session()->runtime,
                                        std::move(hub),
                                        std::move(info.model_data.model_name),
                                        std::move(info.model_data.tokenizer_id));
  co_return co_await std::move(loading);
}

}  // namespace

TrainingClient TrainingClient::with(CallOptions options) const {
  TrainingClient copy = *this;
  copy.options_ = std::move(options);
  return copy;
}

Future<ForwardBackwardOutput> TrainingClient::forward(std::vector<Datum> data,
                                                      OpenEnum<LossFn> loss_fn) const {
  return forward(std::move(data), std::move(loss_fn), LossFnConfig());
}

Future<ForwardBackwardOutput> TrainingClient::forward(std::vector<Datum> data,
                                                      OpenEnum<LossFn> loss_fn,
                                                      LossFnConfig config) const {
  return run(*state_,
             options_,
             std::move(data),
             {.loss_fn = std::move(loss_fn), .config = std::move(config), .forward_only = true});
}

Future<ForwardBackwardOutput> TrainingClient::forward_backward(std::vector<Datum> data,
                                                               OpenEnum<LossFn> loss_fn) const {
  return forward_backward(std::move(data), std::move(loss_fn), LossFnConfig());
}

Future<ForwardBackwardOutput> TrainingClient::forward_backward(std::vector<Datum> data,
                                                               OpenEnum<LossFn> loss_fn,
                                                               LossFnConfig config) const {
  return run(*state_,
             options_,
             std::move(data),
             {.loss_fn = std::move(loss_fn), .config = std::move(config)});
}

Result<std::vector<BatchPart>> TrainingClient::forward_backward_parts(std::vector<Datum> data,
                                                                      OpenEnum<LossFn> loss_fn,
                                                                      LossFnConfig config) const {
  const BatchSpec spec = {
      .loss_fn = std::move(loss_fn), .config = std::move(config), .trace = options_.trace};
  TINKER_TRY(auto prepared, prepare(state_->core, std::move(data), spec));
  auto futures = prepared.batch->futures();
  (void)client::start(
      state_->service, options_, Batch::drive(prepared.batch, std::move(prepared.turn)));
  std::vector<BatchPart> parts;
  parts.reserve(futures.size());
  for (std::size_t i = 0; i < futures.size(); ++i) {
    parts.push_back({.first = prepared.chunks[i].first,
                     .count = prepared.chunks[i].count,
                     .output = std::move(futures[i])});
  }
  return parts;
}

Future<ForwardBackwardOutput> TrainingClient::forward_backward_custom(
    std::vector<Datum> data, loss::BatchFunction function) const {
  auto batch = client::prepare_custom(state_->core, std::move(data), std::move(function));
  if (!batch) return Future<ForwardBackwardOutput>::ready(std::move(batch).error());
  batch->trace = options_.trace;
  return client::start(
      state_->service, options_, client::run_custom(state_->core, *std::move(batch)));
}

Future<ForwardBackwardOutput> TrainingClient::forward_backward_custom(
    std::vector<Datum> data, const loss::Formula& formula) const {
  if (auto checked = client::check_inputs(data, formula); !checked.ok()) {
    return Future<ForwardBackwardOutput>::ready(checked.error());
  }
  return forward_backward_custom(std::move(data), loss::batch(formula));
}

Future<ForwardBackwardOutput> TrainingClient::forward_backward_custom(
    std::vector<Datum> data, const LossHandle& handle) const {
  const auto& session_id = state_->core->session()->session_id;
  if (handle.session_id() != session_id) {
    return Future<ForwardBackwardOutput>::ready(
        Error{.code = ErrorCode::invalid_argument,
              .message = base::concat("the loss \"",
                                      handle.formula().name(),
                                      "\" belongs to session ",
                                      handle.session_id(),
                                      ", not to ",
                                      session_id)});
  }
  if (!handle.loss_id()) return forward_backward_custom(std::move(data), handle.formula());
  if (auto checked = client::check_inputs(data, handle.formula()); !checked.ok()) {
    return Future<ForwardBackwardOutput>::ready(checked.error());
  }
  return forward_backward(std::move(data), LossFn::custom, {{"loss_id", *handle.loss_id()}});
}

Future<OptimStepResponse> TrainingClient::optim_step(AdamParams params) const {
  return optim_step(OptimParams(params));
}

Future<OptimStepResponse> TrainingClient::optim_step(OptimParams params) const {
  return run_sequenced<OptimStepResponse>(
      *state_, options_, sequence_optim_step(state_->core, options_, std::move(params)));
}

TrainStep TrainingClient::train_step(std::vector<Datum> data,
                                     OpenEnum<LossFn> loss_fn,
                                     AdamParams params) const {
  return train_step(std::move(data), std::move(loss_fn), LossFnConfig(), OptimParams(params));
}

TrainStep TrainingClient::train_step(std::vector<Datum> data,
                                     OpenEnum<LossFn> loss_fn,
                                     LossFnConfig config,
                                     OptimParams params) const {
  const BatchSpec spec = {
      .loss_fn = std::move(loss_fn), .config = std::move(config), .trace = options_.trace};
  auto prepared = prepare(state_->core, std::move(data), spec);
  if (!prepared) {
    // Without its batch the step would use whatever gradients there are.
    return {.forward_backward = Future<ForwardBackwardOutput>::ready(std::move(prepared).error()),
            .optim_step = Future<OptimStepResponse>::ready(
                Error{.code = ErrorCode::predecessor_failed,
                      .message = "not sent, because the batch of this step was refused"})};
  }
  // It takes its turn before the batch is under way, so that it hears of a failure however soon.
  auto update = sequence_optim_step(state_->core, options_, std::move(params));
  return {
      .forward_backward = client::start(
          state_->service, options_, client::run_batch(prepared->batch, std::move(prepared->turn))),
      .optim_step = run_sequenced<OptimStepResponse>(*state_, options_, std::move(update))};
}

Future<SaveWeightsResponse> TrainingClient::save_state(std::string name) const {
  return save_state(std::move(name), SaveOptions());
}

Future<SaveWeightsResponse> TrainingClient::save_state(std::string name,
                                                       SaveOptions options) const {
  SaveWeightsRequest request = {.path = std::move(name),
                                .ttl_seconds = options.ttl_seconds,
                                .overwrite = options.overwrite,
                                .user_metadata = std::move(options.user_metadata)};
  auto work = sequence_save(state_->core,
                            options_,
                            {.name = "save_state",
                             .request_type = "SaveWeights",
                             .call = {.path = "/api/v1/save_weights"}},
                            std::move(request),
                            CheckpointType::training);
  if (!work) return Future<SaveWeightsResponse>::ready(std::move(work).error());
  return client::start(
      state_->service, options_, run_in_turn<SaveWeightsResponse>(state_->core, *std::move(work)));
}

Future<LoadWeightsResponse> TrainingClient::load_state(std::string path) const {
  return load_state(std::move(path), LoadOptions());
}

Future<LoadWeightsResponse> TrainingClient::load_state(std::string path,
                                                       LoadOptions options) const {
  return load(*state_, options_, std::move(path), std::move(options), false);
}

Future<LoadWeightsResponse> TrainingClient::load_state_with_optimizer(std::string path) const {
  return load_state_with_optimizer(std::move(path), LoadOptions());
}

Future<LoadWeightsResponse> TrainingClient::load_state_with_optimizer(std::string path,
                                                                      LoadOptions options) const {
  return load(*state_, options_, std::move(path), std::move(options), true);
}

Future<SaveWeightsForSamplerResponse> TrainingClient::save_weights_for_sampler(
    std::string name) const {
  return save_weights_for_sampler(std::move(name), SaveOptions());
}

Future<SaveWeightsForSamplerResponse> TrainingClient::save_weights_for_sampler(
    std::string name, SaveOptions options) const {
  using Answer = SaveWeightsForSamplerResponse;
  if (options.overwrite) {
    return Future<Answer>::ready(Error{
        .code = ErrorCode::invalid_argument,
        .message = "save_weights_for_sampler has no overwrite: a name is replaced or refused as "
                   "the server decides"});
  }
  SaveWeightsForSamplerRequest request = {.path = std::move(name),
                                          .ttl_seconds = options.ttl_seconds,
                                          .user_metadata = std::move(options.user_metadata)};
  auto work = sequence_save(state_->core,
                            options_,
                            {.name = "save_weights_for_sampler",
                             .request_type = "SaveWeightsForSampler",
                             .call = {.path = "/api/v1/save_weights_for_sampler"}},
                            std::move(request),
                            CheckpointType::sampler);
  if (!work) return Future<Answer>::ready(std::move(work).error());
  auto saving = run_in_turn<SaveWeightsForSamplerResponseInternal>(state_->core, *std::move(work));
  return client::start(state_->service, options_, with_path<Answer>(std::move(saving)));
}

Future<SaveWeightsExternalResponse> TrainingClient::save_weights_external(std::string name) const {
  return save_weights_external(std::move(name), ExternalSaveOptions());
}

Future<SaveWeightsExternalResponse> TrainingClient::save_weights_external(
    std::string name, ExternalSaveOptions options) const {
  using Answer = SaveWeightsExternalResponse;
  SaveWeightsExternalRequest request = {
      .path = std::move(name),
      .ttl_seconds = options.ttl_seconds,
      .age_encryption_recipients = std::move(options.age_encryption_recipients)};
  auto work = sequence_save(state_->core,
                            options_,
                            {.name = "save_weights_external",
                             .request_type = "SaveWeightsExternal",
                             .call = {.path = "/api/v1/save_weights_external"}},
                            std::move(request),
                            CheckpointType::external);
  if (!work) return Future<Answer>::ready(std::move(work).error());
  auto saving = run_in_turn<SaveWeightsExternalResponseInternal>(state_->core, *std::move(work));
  return client::start(state_->service, options_, with_path<Answer>(std::move(saving)));
}

Future<SamplingClient> TrainingClient::save_weights_and_get_sampling_client() const {
  return save_weights_and_get_sampling_client(SamplingClientOptions());
}

Future<SamplingClient> TrainingClient::save_weights_and_get_sampling_client(
    SamplingClientOptions options) const {
  if (const auto valid = session::validate(options.retry); !valid.ok()) {
    return Future<SamplingClient>::ready(valid.error());
  }
  auto turn = take_turn(state_->core, 1, "save_weights_for_sampler");
  return client::start(state_->service,
                       options_,
                       sample_current(state_->service.weak(),
                                      state_->core,
                                      std::move(turn),
                                      std::move(options),
                                      options_.trace));
}

Future<SamplingClient> TrainingClient::create_sampling_client(std::string model_path) const {
  return create_sampling_client(std::move(model_path), SamplingClientOptions());
}

Future<SamplingClient> TrainingClient::create_sampling_client(std::string model_path,
                                                              SamplingClientOptions options) const {
  SamplingSource source = {.model_path = std::move(model_path)};
  if (const auto valid = client::check_sampler(source, options); !valid.ok()) {
    return Future<SamplingClient>::ready(valid.error());
  }
  return client::start(
      state_->service,
      options_,
      sample_saved(
          state_->service.weak(), state_->core->holder, std::move(source), std::move(options)));
}

Future<GetInfoResponse> TrainingClient::get_info() const {
  return client::start(state_->service, options_, read_info(state_->core, options_.trace));
}

Future<Tokenizer> TrainingClient::get_tokenizer() const {
  return client::start(
      state_->service, options_, read_tokenizer(state_->core, options_.trace, std::nullopt));
}

Future<Tokenizer> TrainingClient::get_tokenizer(Hub hub) const {
  return client::start(
      state_->service, options_, read_tokenizer(state_->core, options_.trace, std::move(hub)));
}

const std::string& TrainingClient::model_id() const noexcept {
  return state_->core->model_id;
}

std::string TrainingClient::get_console_url() const {
  return base::console_training_run_url(state_->core->model_id);
}

}  // namespace tinker
