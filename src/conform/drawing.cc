#include "conform/drawing.h"

#include <utility>

namespace tinker::conform {

ModelInput prompt_of(std::size_t tokens) {
  const Tokens& text = reference_text();
  return ModelInput::from_tokens(
      Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)));
}

SampleRequest drawn(std::int64_t num_samples, std::int64_t tokens, std::optional<Seed> seed) {
  return {.num_samples = num_samples,
          .prompt = ModelInput::from_tokens(reference_text()),
          .sampling_params = {.max_tokens = tokens, .seed = seed, .stop = kNoStop}};
}

Result<Trained> trained(Probe& probe) {
  constexpr int kMostSteps = 12;
  constexpr double kLearned = -2;  // the logprob of the fourth token
  TINKER_TRY(auto params, adam(probe));
  params.learning_rate *= 4;
  TINKER_TRY(auto model, Trainee::create(probe));
  for (int i = 0; i < kMostSteps; ++i) {
    TINKER_TRY(const auto output, model.run({.data = {weighted(1.0)}}));
    TINKER_TRY(const auto logprobs, output_of(output, 0));
    if (logprobs.size() > 2 && logprobs[2] > kLearned) break;
    TINKER_TRY(model.step(params));
  }
  TINKER_TRY(auto sampler, Sampler::of(model));
  return Trained{.model = std::move(model), .sampler = std::move(sampler)};
}

SampleRequest greedy(std::int64_t tokens) {
  return {.prompt = prompt_of(3),
          .sampling_params = {.max_tokens = tokens, .stop = kNoStop, .temperature = 0}};
}

std::vector<Tokens> tokens_of(const SampleResponse& response) {
  std::vector<Tokens> out;
  out.reserve(response.sequences.size());
  for (const auto& sequence : response.sequences) out.push_back(sequence.tokens);
  return out;
}

std::string text_of(const std::vector<Tokens>& sequences) {
  std::string out;
  for (const auto& tokens : sequences) out += (out.empty() ? "" : " ") + conform::text_of(tokens);
  return out;
}

Result<SampleResponse> optional_sample(Sampler& sampler, const SampleRequest& request) {
  const auto answer = sampler.post(request);
  TINKER_TRY(answer);
  if (!answer->ok()) {
    TINKER_TRY(auto evidence, refused(answer));
    return undecided("refused: " + evidence);
  }
  TINKER_TRY(const auto handle, sampler.probe().accepted(answer));
  TINKER_TRY(const auto end, sampler.probe().settle(handle.request_id, kProto));
  if (!end.is_proto) {
    TINKER_TRY(auto evidence, failed_as_users(sampler.probe(), answer));
    return undecided("refused: " + evidence);
  }
  return sampler.probe().proto_result<SampleResponse>(handle.request_id);
}

}  // namespace tinker::conform
