#include <cmath>
#include <limits>
#include <utility>

#include "engine/sampler.h"

// What requests may ask for.
namespace tinker::engine {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace

Result<Sampler::Id> Sampler::submit(SampleJob job, Done done) {
  const auto& config = model_->config();
  auto request = std::make_unique<Request>();
  request->asked = std::move(job.request);
  const auto& asked = request->asked;
  const auto& params = asked.sampling_params;
  if (asked.num_samples < 1) {
    return invalid("num_samples is " + std::to_string(asked.num_samples) + "; expected at least 1");
  }
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    return invalid("temperature is " + std::to_string(params.temperature) +
                   "; expected at least 0");
  }
  if (params.top_k < -1)
    return invalid("top_k is " + std::to_string(params.top_k) + "; expected -1 or more");
  const bool is_share = params.top_p > 0 && params.top_p <= 1;  // not a number is none
  if (!is_share) {
    return invalid("top_p is " + std::to_string(params.top_p) + "; expected 0 < top_p <= 1");
  }
  if (params.max_tokens && *params.max_tokens < 1) {
    return invalid("max_tokens is " + std::to_string(*params.max_tokens) + "; expected at least 1");
  }
  TINKER_TRY(request->prompt, asked.prompt.to_tokens());
  const auto& prompt = request->prompt;
  if (prompt.empty()) return invalid("the prompt has no tokens");
  if (prompt.size() >= config.context_length) {
    return invalid("the prompt has " + std::to_string(prompt.size()) +
                   " tokens; the model has a context of " + std::to_string(config.context_length));
  }
  for (const auto token : prompt) {
    if (token < 0 || std::cmp_greater_equal(token, config.vocab_size)) {
      return invalid("the prompt has token " + std::to_string(token) + "; expected 0 to " +
                     std::to_string(config.vocab_size - 1));
    }
  }
  const std::size_t room = config.context_length - prompt.size();
  request->most_tokens =
      params.max_tokens ? std::min(room, static_cast<std::size_t>(*params.max_tokens)) : room;
  if (pages_for(prompt.size() + request->most_tokens) > pages_.limit()) {
    return invalid(
        "prompt and max_tokens are " + std::to_string(prompt.size() + request->most_tokens) +
        " tokens; the cache of this engine holds " + std::to_string(pages_.limit() * kKeyBlock));
  }
  TINKER_TRY(read_stops(*request));
  TINKER_TRY(read_scores(*request));
  request->id = next_id_++;
  request->adapter = std::move(job.adapter);
  request->seed = job.seed;
  request->done = std::move(done);
  request->sequences.push_back(std::make_unique<Sequence>());
  request->sequences[0]->request = request.get();
  request->sequences[0]->tokens = prompt;
  requests_.push_back(std::move(request));
  return next_id_ - 1;
}

Result<void> Sampler::read_stops(Request& request) const {
  const auto& stop = request.asked.sampling_params.stop;
  request.stop_ids = model_->config().eos_ids;
  if (!stop) return {};
  if (const auto* one = std::get_if<std::string>(&*stop)) {
    request.stop_strings = {*one};
  } else if (const auto* many = std::get_if<std::vector<std::string>>(&*stop)) {
    request.stop_strings = *many;
    if (many->empty()) request.stop_ids.clear();
  } else {
    const auto& ids = std::get<std::vector<std::int32_t>>(*stop);
    if (ids.empty()) request.stop_ids.clear();
    request.stop_ids.insert(request.stop_ids.end(), ids.begin(), ids.end());
  }
  for (const auto& text : request.stop_strings) {
    if (text.empty()) return invalid("a stop string is empty");
    if (!options_.token_bytes)
      return invalid("stop strings need a tokenizer, and this engine was given none");
  }
  return {};
}

Result<void> Sampler::read_scores(Request& request) const {
  const auto& asked = request.asked;
  const std::size_t n = request.prompt.size();
  for (const auto& [name, k] : {std::pair("topk_prompt_logprobs", asked.topk_prompt_logprobs),
                                std::pair("topk_sample_logprobs", asked.topk_sample_logprobs),
                                std::pair("prompt_alt_tokens_k", asked.prompt_alt_tokens_k)}) {
    if (k >= 0 && std::cmp_less_equal(k, model_->config().vocab_size)) continue;
    return invalid(std::string(name) + " is " + std::to_string(k) + "; expected 0 to " +
                   std::to_string(model_->config().vocab_size));
  }
  const bool scores = asked.prompt_logprobs.value_or(false) || asked.topk_prompt_logprobs > 0;
  request.first_scored = scores ? 1 : n;
  if (asked.prompt_logprobs_last_n) {
    const auto last = *asked.prompt_logprobs_last_n;
    if (last < 1)
      return invalid("prompt_logprobs_last_n is " + std::to_string(last) + "; expected at least 1");
    if (std::cmp_less(last, n))
      request.first_scored = std::max(request.first_scored, n - static_cast<std::size_t>(last));
  }
  auto& response = request.response;
  if (asked.prompt_logprobs.value_or(false)) response.prompt_logprobs.assign(n, kNone);
  if (asked.topk_prompt_logprobs > 0) {
    const auto k = static_cast<std::size_t>(asked.topk_prompt_logprobs);
    response.topk_prompt_logprobs = {
        .token_ids = std::vector<std::int32_t>(n * k),
        .logprobs = std::vector<float>(n * k, TopkLogprobs::kMaskLogprob),
        .k = static_cast<std::uint32_t>(k),
        .length = static_cast<std::uint32_t>(n)};
  }
  if (asked.target_prompt_logprobs) {
    TINKER_TRY(const auto dense, asked.target_prompt_logprobs->to_dense(-1));
    const auto& shape = dense.shape();
    if (dense.dtype() != TensorDtype::int64 || !shape || shape->size() != 2 ||
        (*shape)[0] != static_cast<std::int64_t>(n) - 1) {
      return invalid("target_prompt_logprobs must be int64 of shape [" + std::to_string(n - 1) +
                     ", K], a row for each prompt token but the first");
    }
    for (const auto id : dense.ints()) {
      if (id < -1 || std::cmp_greater_equal(id, model_->config().vocab_size)) {
        return invalid("target_prompt_logprobs has " + std::to_string(id) +
                       "; expected -1 or a token of the model");
      }
      request.targets.push_back(id);
    }
    request.target_logprobs.assign(request.targets.size(), 0.0F);
  }
  const auto alternatives = static_cast<std::size_t>(asked.prompt_alt_tokens_k) * (n - 1);
  request.alternatives.resize(alternatives);
  request.alternative_logprobs.resize(alternatives);
  return {};
}

}  // namespace tinker::engine
