#include "client/models.h"

#include <utility>

#include "base/strings.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/rest.h"
#include "client/sequenced.h"
#include "tinker/types/tinker_path.h"

namespace tinker::client {

using async::Task;
using session::Holder;
using session::QueuedWork;
using session::QueueStateObserver;

namespace {

std::optional<JsonObject> to_json(const std::optional<StringMap>& map) {
  if (!map) return std::nullopt;
  JsonObject out;
  for (const auto& [name, value] : *map) out.emplace_back(name, value);
  return out;
}

std::shared_ptr<TrainingCore> make_core(const std::shared_ptr<Holder>& holder,
                                        std::string model_id) {
  const auto& session = holder->core();
  auto observer = std::make_shared<QueueStateObserver>(session, QueuedWork::training, model_id);
  return on_loop(session->runtime,
                 TrainingCore{.holder = holder,
                              .model_id = std::move(model_id),
                              .sequencer = std::make_shared<Sequencer>(session->runtime),
                              .observer = std::move(observer)});
}

/// With another credential, through a service of its own that ends with the answer (R11.10).
Task<WeightsInfoResponse> ask_weights_info(std::shared_ptr<session::Service> service,
                                           std::string path,
                                           std::optional<TraceContext> trace) {
  TINKER_CO_TRY(auto body, session::json_body(WeightsInfoRequest{.tinker_path = std::move(path)}));
  RestCall rest = {
      .method = "get_weights_info_by_tinker_path",
      .call = {.path = "/api/v1/weights_info", .body = std::move(body), .trace = std::move(trace)}};
  auto opening = service->rest_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  auto asking = call_rest<WeightsInfoResponse>(holder->core(), std::move(rest));
  co_return co_await std::move(asking);
}

Task<WeightsInfoResponse> weights_info(std::shared_ptr<session::Service> service,
                                       session::HolderOptions options,
                                       Resume resume,
                                       std::optional<TraceContext> trace) {
  const auto& token = resume.options.weights_access_token;
  if (!token) {
    auto asking = ask_weights_info(service, resume.path, std::move(trace));
    co_return co_await std::move(asking);
  }
  options.api_key = *token;
  auto foreign = std::make_shared<session::Service>(service->runtime(), std::move(options));
  foreign->scope()->attach(service->scope());
  auto asking = ask_weights_info(foreign, resume.path, std::move(trace));
  auto info = co_await std::move(asking);
  foreign->abandon();
  foreign->scope()->detach();
  co_return info;
}

/// One request makes the model and loads it (R11.9).
Task<std::shared_ptr<TrainingCore>> create_via_load(std::shared_ptr<Holder> holder,
                                                    Resume resume,
                                                    std::optional<TraceContext> trace) {
  const auto session = holder->core();
  const std::int64_t number = session->next_model_seq_id++;
  LoadWeightsRequest request = {.session_id = session->session_id,
                                .model_seq_id = number,
                                .base_model = resume.options.base_model,
                                .user_metadata = to_json(resume.options.user_metadata),
                                .path = resume.path,
                                .optimizer = resume.with_optimizer,
                                .weights_access_token = resume.options.weights_access_token};
  if (!resume.with_optimizer) request.optimizer_config = resume.options.optimizer;
  TINKER_CO_TRY(auto body, session::json_body(request));
  Submission submission = {
      .name = "create_training_client_from_state",
      .request_type = "LoadWeights",
      .call = {.path = "/api/v1/load_weights",
               .body = std::move(body),
               .trace = std::move(trace),
               .secret = resume.options.weights_access_token.value_or(Secret())},
      .observer = std::make_shared<QueueStateObserver>(
          session, QueuedWork::model_creation, resume.options.base_model.value_or(resume.path))};
  auto loading = submit_and_poll<LoadWeightsResponse>(session, std::move(submission));
  TINKER_CO_TRY(co_await std::move(loading));
  co_return make_core(holder, base::concat(session->session_id, ":train:", number));
}

Result<LoraTrainingOptions> options_from(const WeightsInfoResponse& info, const Resume& resume) {
  if (!info.is_lora || !info.lora_rank) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(resume.path,
                                         ": expected a LoRA checkpoint with a rank, found ",
                                         info.is_lora ? "one without a rank" : "full weights")};
  }
  LoraTrainingOptions options = {.rank = *info.lora_rank,
                                 .train_mlp = info.train_mlp.value_or(true),
                                 .train_attn = info.train_attn.value_or(true),
                                 .train_unembed = info.train_unembed.value_or(true),
                                 .user_metadata = resume.options.user_metadata};
  options.optimizer = resume.with_optimizer
                          ? info.optimizer_config
                          : resume.options.optimizer.value_or(AdamOptimizerConfig());
  return options;
}

/// The first request of the new model.
Task<LoadWeightsResponse> load(std::shared_ptr<TrainingCore> core,
                               Resume resume,
                               std::optional<TraceContext> trace) {
  LoadWeightsRequest request = {.path = resume.path,
                                .optimizer = resume.with_optimizer,
                                .weights_access_token = resume.options.weights_access_token};
  TINKER_CO_TRY(
      auto work,
      sequence(core,
               trace,
               {.name = "load_state",
                .request_type = "LoadWeights",
                .call = {.path = "/api/v1/load_weights",
                         .secret = resume.options.weights_access_token.value_or(Secret())}},
               std::move(request)));
  auto loading = run_in_turn<LoadWeightsResponse>(core, std::move(work));
  co_return co_await std::move(loading);
}

Task<std::shared_ptr<TrainingCore>> submit_model(std::shared_ptr<Holder> holder,
                                                 std::string base_model,
                                                 LoraTrainingOptions options,
                                                 std::optional<TraceContext> trace) {
  const auto session = holder->core();
  const CreateModelRequest request = {
      .session_id = session->session_id,
      .model_seq_id = session->next_model_seq_id++,
      .base_model = base_model,
      .user_metadata = to_json(options.user_metadata),
      .lora_config = LoraConfig{.rank = options.rank,
                                .seed = options.seed,
                                .train_unembed = options.train_unembed,
                                .train_mlp = options.train_mlp,
                                .train_attn = options.train_attn},
      .optimizer_config = options.optimizer};
  TINKER_CO_TRY(auto body, session::json_body(request));
  const auto watch = std::make_shared<session::Watch>(session->runtime, "create_model", "");
  const api::Call call = {
      .path = "/api/v1/create_model", .body = std::move(body), .trace = trace, .observer = watch};
  const auto started = session->now();
  auto creating = session::call_json<UntypedApiFuture>(session, call);  // no outer retries (R5.6)
  TINKER_CO_TRY(const auto accepted, co_await std::move(creating));
  const Submission submission = {.request_type = "CreateModel",
                                 .call = {.trace = trace},
                                 .observer = std::make_shared<QueueStateObserver>(
                                     session, QueuedWork::model_creation, base_model)};
  auto polling = session::poll<CreateModelResponse>(
      session, poll_request(*session, submission, accepted, started));
  TINKER_CO_TRY(auto created, co_await std::move(polling));
  co_return make_core(holder, std::move(created.model_id));
}

}  // namespace

Task<std::shared_ptr<TrainingCore>> create_model(std::shared_ptr<Holder> holder,
                                                 std::string base_model,
                                                 LoraTrainingOptions options,
                                                 std::optional<TraceContext> trace) {
  auto session = holder->core();
  auto creating =
      submit_model(std::move(holder), std::move(base_model), std::move(options), std::move(trace));
  return reported(std::move(session), "create_lora_training_client", std::move(creating));
}

Task<std::shared_ptr<TrainingCore>> resume_model(std::shared_ptr<session::Service> service,
                                                 session::HolderOptions service_options,
                                                 Resume resume,
                                                 std::optional<TraceContext> trace) {
  auto opening = service->session_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  if (holder->core()->config.create_model_via_load_weights) {
    auto creating = create_via_load(holder, std::move(resume), std::move(trace));
    auto running =
        reported(holder->core(), "create_training_client_from_state", std::move(creating));
    co_return co_await std::move(running);
  }
  auto asking = weights_info(service, std::move(service_options), resume, trace);
  TINKER_CO_TRY(const auto info, co_await std::move(asking));
  TINKER_CO_TRY(auto options, options_from(info, resume));
  auto creating = create_model(
      holder, resume.options.base_model.value_or(info.base_model), std::move(options), trace);
  TINKER_CO_TRY(auto core, co_await std::move(creating));
  auto loading = load(core, std::move(resume), std::move(trace));
  TINKER_CO_TRY(co_await std::move(loading));
  co_return core;
}

}  // namespace tinker::client
