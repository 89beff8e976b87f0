#include "tinker/sampling_client.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "client/connect.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/sampling.h"
#include "client/state.h"
#include "client/tokenizers.h"
#include "http/url.h"
#include "session/sampler_handle.h"
#include "tinker/chat_client.h"
#include "tinker/types/sampling_session.h"

namespace tinker {

using async::Task;
using client::SamplingCore;

namespace {

SampleRequest make_request(const SamplingCore& core,
                           ModelInput prompt,
                           SamplingParams params,
                           SampleOptions options) {
  return {.num_samples = options.num_samples,
          .prompt = std::move(prompt),
          .sampling_params = std::move(params),
          .sampling_session_id = core.sampling_session_id,
          .seq_id = 0,
          .prompt_logprobs = options.include_prompt_logprobs,
          .topk_prompt_logprobs = options.topk_prompt_logprobs,
          .topk_sample_logprobs = options.topk_sample_logprobs,
          .target_prompt_logprobs = std::move(options.target_prompt_logprobs),
          .prompt_alt_tokens_k = options.prompt_alt_tokens_k,
          .prompt_logprobs_last_n = options.prompt_logprobs_last_n,
          .record_stability_info = core.options.record_stability_info};
}

/// Checks a request and makes ready to send it.
Result<Task<SampleResponse>> sampling_of(const std::shared_ptr<SamplingCore>& core,
                                         const CallOptions& options,
                                         SampleRequest request) {
  TINKER_TRY(client::check_sample(request));
  auto handler = core->session()->config.sample_no_retries ? nullptr : core->retry_handler;
  return client::run_sample(core, std::move(request), std::move(handler), options.trace);
}

Task<ChatReply> read_reply(Task<SampleResponse> sampling, Renderer renderer) {
  TINKER_CO_TRY(auto answer, co_await std::move(sampling));
  if (answer.sequences.empty()) {
    co_return Error{.code = ErrorCode::invalid_response, .message = "the answer has no sequence"};
  }
  auto& sequence = answer.sequences.front();
  TINKER_CO_TRY(auto response, renderer.parse_response(sequence.tokens));
  co_return ChatReply{.response = std::move(response), .sequence = std::move(sequence)};
}

Task<std::vector<std::optional<float>>> prompt_logprobs(Task<SampleResponse> sampling) {
  TINKER_CO_TRY(const auto answer, co_await std::move(sampling));
  std::vector<std::optional<float>> out;
  out.reserve(answer.prompt_logprobs.size());
  for (std::size_t i = 0; i < answer.prompt_logprobs.size(); ++i) {
    out.push_back(answer.prompt_logprob(i));
  }
  co_return out;
}

Future<std::vector<std::optional<float>>> logprobs(const client::SamplingState& state,
                                                   const CallOptions& options,
                                                   ModelInput prompt,
                                                   std::optional<std::int64_t> last_n) {
  auto request = make_request(*state.core,
                              std::move(prompt),
                              {.max_tokens = 1},
                              {.include_prompt_logprobs = true, .prompt_logprobs_last_n = last_n});
  if (auto checked = client::check_sample(request); !checked.ok()) {
    return Future<std::vector<std::optional<float>>>::ready(checked.error());
  }
  // Repeated also where the server wants no repetition of samples (R10.8).
  auto sampling =
      client::run_sample(state.core, std::move(request), state.core->retry_handler, options.trace);
  return client::start(state.service, options, prompt_logprobs(std::move(sampling)));
}

Task<std::string> read_base_model(std::shared_ptr<SamplingCore> core,
                                  std::optional<TraceContext> trace) {
  api::Call call = {.method = http::Method::get,
                    .path = base::concat("/api/v1/samplers/",
                                         http::encode_path_segment(core->sampling_session_id)),
                    .endpoint = "/api/v1/samplers/{id}",
                    .trace = std::move(trace)};
  auto asking = client::call_with_retries<GetSamplerResponse>(
      core->session(), "get_sampler", std::move(call));
  auto running = client::reported(core->session(), "get_base_model", std::move(asking));
  TINKER_CO_TRY(auto sampler, co_await std::move(running));
  co_return std::move(sampler.base_model);
}

Task<Tokenizer> read_tokenizer(std::shared_ptr<SamplingCore> core,
                               std::optional<TraceContext> trace,
                               std::optional<Hub> hub) {
  auto asking = read_base_model(core, std::move(trace));
  TINKER_CO_TRY(auto model, co_await std::move(asking));
  auto loading = client::load_tokenizer(
      core->session()->runtime, std::move(hub), std::move(model), std::nullopt);
  co_return co_await std::move(loading);
}

/// On the loop, where the configuration is refreshed.
Task<std::string> make_handle(std::shared_ptr<SamplingCore> core) {
  const auto& session = core->session();
  co_return session::encode_sampler_handle(
      {.session_id = session->session_id,
       .sampling_session_id = core->sampling_session_id,
       .base_url = session->api->base_url(),
       .config = session->config,
       .dynamic_config = session->dynamic_config,
       .record_stability_info = core->options.record_stability_info});
}

}  // namespace

Future<SamplingClient> SamplingClient::from_sampler_handle(std::string handle) {
  return from_sampler_handle(std::move(handle), SamplerHandleOptions());
}

Future<SamplingClient> SamplingClient::from_sampler_handle(std::string handle,
                                                           SamplerHandleOptions options) {
  return client::restore_sampler(handle, std::move(options), session::Environment());
}

SamplingClient SamplingClient::with(CallOptions options) const {
  SamplingClient copy = *this;
  copy.options_ = std::move(options);
  return copy;
}

Future<SampleResponse> SamplingClient::sample(ModelInput prompt, SamplingParams params) const {
  return sample(std::move(prompt), std::move(params), SampleOptions());
}

Future<SampleResponse> SamplingClient::sample(ModelInput prompt,
                                              SamplingParams params,
                                              SampleOptions options) const {
  const auto& core = state_->core;
  auto request = make_request(*core, std::move(prompt), std::move(params), std::move(options));
  auto sampling = sampling_of(core, options_, std::move(request));
  if (!sampling.ok()) return Future<SampleResponse>::ready(sampling.error());
  return client::start(state_->service, options_, *std::move(sampling));
}

Future<ChatReply> SamplingClient::chat(Renderer renderer,
                                       std::vector<Message> messages,
                                       SamplingParams params) const {
  const auto& core = state_->core;
  auto prompt = renderer.build_generation_prompt(std::move(messages));
  if (!prompt.ok()) return Future<ChatReply>::ready(prompt.error());
  if (!params.stop) params.stop = renderer.stop();
  auto request = make_request(*core, *std::move(prompt), std::move(params), {});
  auto sampling = sampling_of(core, options_, std::move(request));
  if (!sampling.ok()) return Future<ChatReply>::ready(sampling.error());
  return client::start(
      state_->service, options_, read_reply(*std::move(sampling), std::move(renderer)));
}

Future<std::vector<std::optional<float>>> SamplingClient::compute_logprobs(
    ModelInput prompt) const {
  return logprobs(*state_, options_, std::move(prompt), std::nullopt);
}

Future<std::vector<std::optional<float>>> SamplingClient::compute_logprobs(
    ModelInput prompt, std::int64_t last_n) const {
  return logprobs(*state_, options_, std::move(prompt), last_n);
}

Future<std::string> SamplingClient::get_base_model() const {
  return client::start(state_->service, options_, read_base_model(state_->core, options_.trace));
}

Future<Tokenizer> SamplingClient::get_tokenizer() const {
  return client::start(
      state_->service, options_, read_tokenizer(state_->core, options_.trace, std::nullopt));
}

Future<Tokenizer> SamplingClient::get_tokenizer(Hub hub) const {
  return client::start(
      state_->service, options_, read_tokenizer(state_->core, options_.trace, std::move(hub)));
}

Future<std::string> SamplingClient::get_sampler_handle() const {
  return client::start(state_->service, options_, make_handle(state_->core));
}

const std::string& SamplingClient::sampling_session_id() const noexcept {
  return state_->core->sampling_session_id;
}

}  // namespace tinker
