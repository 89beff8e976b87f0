#include "conform/sampler.h"

#include "tinker/types/sampling_session.h"
#include "tinker/types/weights.h"

namespace tinker::conform {

namespace {

Result<Sampler> open(Probe& probe, CreateSamplingSessionRequest request) {
  request.session_id = probe.session_id();
  request.sampling_session_seq_id = probe.next_sampler();
  TINKER_TRY(auto made,
             probe.read<CreateSamplingSessionResponse>(
                 probe.post("/api/v1/create_sampling_session", request)));
  return Sampler(probe, std::move(made.sampling_session_id));
}

}  // namespace

Result<Sampler> Sampler::of_base_model(Probe& probe) {
  return open(probe, {.base_model = probe.base_model()});
}

Result<Sampler> Sampler::of_path(Probe& probe, const std::string& tinker_path) {
  return open(probe, {.model_path = tinker_path});
}

Result<Sampler> Sampler::of(Trainee& trainee) {
  Probe& probe = trainee.probe();
  const SaveWeightsForSamplerRequest request = {.model_id = trainee.id(),
                                                .sampling_session_seq_id = probe.next_sampler(),
                                                .seq_id = trainee.take_seq()};
  TINKER_TRY(const auto handle, probe.submit("/api/v1/save_weights_for_sampler", request));
  TINKER_TRY(auto saved,
             probe.json_result<SaveWeightsForSamplerResponseInternal>(handle.request_id));
  if (!saved.sampling_session_id) {
    return broken("save_weights_for_sampler without a name gave no sampling_session_id");
  }
  return Sampler(probe, *std::move(saved.sampling_session_id));
}

SampleRequest Sampler::complete(SampleRequest request) {
  if (!request.sampling_session_id) request.sampling_session_id = id_;
  if (!request.seq_id) request.seq_id = next_seq_++;
  if (!request.prompt_logprobs) request.prompt_logprobs = false;
  probe_->spent().sampled_tokens +=
      request.prompt.length().value_or(0) +
      request.num_samples * request.sampling_params.max_tokens.value_or(0);
  return request;
}

Result<Answer> Sampler::post(SampleRequest request) {
  return probe_->post("/api/v1/asample", complete(std::move(request)));
}

Result<UntypedApiFuture> Sampler::submit(SampleRequest request) {
  return probe_->accepted(post(std::move(request)));
}

Result<SampleResponse> Sampler::sample(SampleRequest request) {
  TINKER_TRY(const auto handle, submit(std::move(request)));
  return probe_->proto_result<SampleResponse>(handle.request_id);
}

Result<Numbers> Sampler::prompt_logprobs(const Tokens& text) {
  TINKER_TRY(const auto response,
             sample({.prompt = ModelInput::from_tokens(text),
                     .sampling_params = {.max_tokens = 1},
                     .prompt_logprobs = true}));
  if (response.prompt_logprobs.size() != text.size()) {
    return broken(base::concat("prompt_logprobs of a prompt of ",
                               text.size(),
                               " tokens has ",
                               response.prompt_logprobs.size(),
                               " entries"));
  }
  return Numbers(response.prompt_logprobs.begin() + 1, response.prompt_logprobs.end());
}

}  // namespace tinker::conform
