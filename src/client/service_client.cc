#include "tinker/service_client.h"

#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "client/connect.h"
#include "client/custom_loss.h"
#include "client/models.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/rest.h"
#include "client/sampling.h"
#include "client/state.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

using async::Task;
using client::ServiceState;

namespace {

using Weak = session::ServiceHandle::Weak;

Task<GetServerCapabilitiesResponse> read_capabilities(std::shared_ptr<session::Service> service,
                                                      std::optional<TraceContext> trace) {
  auto opening = service->rest_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  api::Call call = {.method = http::Method::get,
                    .path = "/api/v1/get_server_capabilities",
                    .trace = std::move(trace)};
  auto asking = client::call_with_retries<GetServerCapabilitiesResponse>(
      holder->core(), "get_server_capabilities", std::move(call));
  const auto reporter = service->open_session() ? service->open_session() : holder;
  auto running = client::reported(reporter->core(), "get_server_capabilities", std::move(asking));
  co_return co_await std::move(running);
}

Task<TrainingClient> finish_trainer(Weak service,
                                    Task<std::shared_ptr<client::TrainingCore>> making) {
  TINKER_CO_TRY(auto core, co_await std::move(making));
  co_return client::make_client<TrainingClient, client::TrainingState>(service, std::move(core));
}

Task<std::shared_ptr<client::TrainingCore>> make_trainer(std::shared_ptr<session::Service> service,
                                                         std::string base_model,
                                                         LoraTrainingOptions options,
                                                         std::optional<TraceContext> trace) {
  auto opening = service->session_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  auto creating =
      client::create_model(holder, std::move(base_model), std::move(options), std::move(trace));
  co_return co_await std::move(creating);
}

Task<SamplingClient> make_sampler(Weak weak,
                                  std::shared_ptr<session::Service> service,
                                  SamplingSource source,
                                  SamplingClientOptions options) {
  auto opening = service->session_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  auto creating = client::open_sampler(holder, std::move(source), std::move(options));
  TINKER_CO_TRY(auto core, co_await std::move(creating));
  co_return client::make_client<SamplingClient, client::SamplingState>(weak, std::move(core));
}

template <typename T>
Future<T> refused(std::string message) {
  return Future<T>::ready(
      Error{.code = ErrorCode::invalid_argument, .message = std::move(message)});
}

Future<TrainingClient> from_state(const ServiceState& state,
                                  const CallOptions& call_options,
                                  client::Resume resume) {
  if (const auto path = TinkerPath::parse(resume.path); !path) {
    return Future<TrainingClient>::ready(path.error());
  }
  auto making = client::resume_model(
      state.service.service(), state.options, std::move(resume), call_options.trace);
  return client::start(
      state.service, call_options, finish_trainer(state.service.weak(), std::move(making)));
}

}  // namespace

Result<ServiceClient> ServiceClient::connect() {
  return connect(ServiceOptions());
}

Result<ServiceClient> ServiceClient::connect(ServiceOptions options) {
  TINKER_TRY(auto state, client::connect(std::move(options), session::Environment()));
  return ServiceClient(std::move(state));
}

ServiceClient ServiceClient::with(CallOptions options) const {
  ServiceClient copy = *this;
  copy.options_ = std::move(options);
  return copy;
}

ServiceClient ServiceClient::with_new_session() const {
  session::ServiceHandle service(state_->service.runtime(), state_->options);
  const ServiceClient fresh(std::make_shared<const ServiceState>(
      ServiceState{.service = std::move(service), .options = state_->options}));
  return fresh.with(options_);
}

const Runtime& ServiceClient::runtime() const noexcept {
  return state_->service.runtime();
}

Future<GetServerCapabilitiesResponse> ServiceClient::get_server_capabilities() const {
  return client::start(
      state_->service, options_, read_capabilities(state_->service.service(), options_.trace));
}

Future<TrainingClient> ServiceClient::create_lora_training_client(std::string base_model) const {
  return create_lora_training_client(std::move(base_model), LoraTrainingOptions());
}

Future<TrainingClient> ServiceClient::create_lora_training_client(
    std::string base_model, LoraTrainingOptions options) const {
  if (!options.train_mlp && !options.train_attn && !options.train_unembed) {
    return refused<TrainingClient>(
        "nothing to train: expected train_mlp, train_attn or train_unembed");
  }
  auto making = make_trainer(
      state_->service.service(), std::move(base_model), std::move(options), options_.trace);
  return client::start(
      state_->service, options_, finish_trainer(state_->service.weak(), std::move(making)));
}

Future<TrainingClient> ServiceClient::create_training_client_from_state(std::string path) const {
  return create_training_client_from_state(std::move(path), FromStateOptions());
}

Future<TrainingClient> ServiceClient::create_training_client_from_state(
    std::string path, FromStateOptions options) const {
  return from_state(
      *state_,
      options_,
      {.path = std::move(path), .with_optimizer = false, .options = std::move(options)});
}

Future<TrainingClient> ServiceClient::create_training_client_from_state_with_optimizer(
    std::string path) const {
  return create_training_client_from_state_with_optimizer(std::move(path), FromStateOptions());
}

Future<TrainingClient> ServiceClient::create_training_client_from_state_with_optimizer(
    std::string path, FromStateOptions options) const {
  if (options.optimizer) {
    return refused<TrainingClient>(
        "optimizer: with the optimizer's state it is the one of the checkpoint");
  }
  return from_state(
      *state_,
      options_,
      {.path = std::move(path), .with_optimizer = true, .options = std::move(options)});
}

Future<SamplingClient> ServiceClient::create_sampling_client(SamplingSource source) const {
  return create_sampling_client(std::move(source), SamplingClientOptions());
}

Future<SamplingClient> ServiceClient::create_sampling_client(SamplingSource source,
                                                             SamplingClientOptions options) const {
  if (const auto valid = client::check_sampler(source, options); !valid.ok()) {
    return Future<SamplingClient>::ready(valid.error());
  }
  return client::start(state_->service,
                       options_,
                       make_sampler(state_->service.weak(),
                                    state_->service.service(),
                                    std::move(source),
                                    std::move(options)));
}

Future<LossHandle> ServiceClient::create_custom_loss(loss::Formula formula) const {
  return client::start(
      state_->service,
      options_,
      client::create_loss(state_->service.service(), std::move(formula), options_.trace));
}

Future<std::string> ServiceClient::copy_weights(std::string path) const {
  return copy_weights(std::move(path), CopyOptions());
}

Future<std::string> ServiceClient::copy_weights(std::string path, CopyOptions options) const {
  return create_rest_client().copy_weights(std::move(path), std::move(options));
}

Future<WhoamiResponse> ServiceClient::whoami() const {
  return create_rest_client().whoami();
}

RestClient ServiceClient::create_rest_client() const {
  const RestClient rest(std::make_shared<const client::RestState>(client::RestState{
      .runtime = state_->service.runtime(), .options = state_->options, .owner = state_->service}));
  return rest.with(options_);
}

Future<void> ServiceClient::close(SessionFinishReason status) const {
  const auto& service = state_->service.service();
  const auto& runtime = service->runtime();
  return runtime->spawn(runtime->scope(), service->close(status, std::nullopt));
}

Future<void> ServiceClient::close(SessionFinishReason status, std::string detail) const {
  const auto& service = state_->service.service();
  const auto& runtime = service->runtime();
  return runtime->spawn(runtime->scope(), service->close(status, std::move(detail)));
}

void ServiceClient::close_after(bool is_success) const {
  auto closing = close(is_success ? SessionFinishReason::success : SessionFinishReason::errored);
  const auto closed = closing.get();
  if (closed.ok()) return;
  TINKER_LOG(state_->service.runtime().core()->logger(),
             warn,
             "the session could not be closed: ",
             closed.error().to_string());
}

std::vector<CircuitBreakerStatus> ServiceClient::circuit_breakers() const {
  const auto& breakers = state_->options.breakers;
  return breakers ? breakers->status() : std::vector<CircuitBreakerStatus>();
}

void ServiceClient::reset_circuit_breakers() const {
  if (const auto& breakers = state_->options.breakers) breakers->reset();
}

void ServiceClient::reset_circuit_breakers(std::string_view endpoint) const {
  if (const auto& breakers = state_->options.breakers) breakers->reset(endpoint);
}

std::string ServiceClient::get_console_url() const {
  return state_->service.service()->console_url();
}

}  // namespace tinker
