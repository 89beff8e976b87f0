#include <cmath>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "engine/sampler.h"

// What requests may ask for.
namespace tinker::engine {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

}  // namespace

Result<Sampler::Id> Sampler::submit(SampleJob job, Done done) {
  const auto& config = model_->config();
  auto request = std::make_unique<Request>();
  request->asked = std::move(job.request);
  const auto& asked = request->asked;
  const auto& params = asked.sampling_params;
  if (job.adapter != nullptr && !job.adapter->fits(*model_))
    return Error::invalid_argument(
        "the adapter is that of another model, precision or kind of kernels");
  if (asked.num_samples < 1)
    return Error::invalid_argument(
        base::concat("num_samples is ", asked.num_samples, "; expected at least 1"));
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature))
    return Error::invalid_argument(
        base::concat("temperature is ", params.temperature, "; expected at least 0"));
  if (params.top_k < -1)
    return Error::invalid_argument(
        base::concat("top_k is ", params.top_k, "; expected -1 or more"));
  const bool is_share = params.top_p >= 0 && params.top_p <= 1;  // not a number is none
  if (!is_share)
    return Error::invalid_argument(
        base::concat("top_p is ", params.top_p, "; expected 0 <= top_p <= 1"));
  if (params.max_tokens && *params.max_tokens < 1)
    return Error::invalid_argument(
        base::concat("max_tokens is ", *params.max_tokens, "; expected at least 1"));
  TINKER_TRY(request->prompt, asked.prompt.to_tokens());
  const auto& prompt = request->prompt;
  if (prompt.empty()) return Error::invalid_argument("the prompt has no tokens");
  for (const auto token : prompt) {
    if (token < 0 || std::cmp_greater_equal(token, config.vocab_size)) {
      return Error::invalid_argument(
          base::concat("the prompt has token ", token, "; expected 0 to ", config.vocab_size - 1));
    }
  }
  TINKER_TRY(read_length(*request));
  TINKER_TRY(read_stops(*request));
  TINKER_TRY(check_answer(*request));
  TINKER_TRY(read_scores(*request));
  request->id = next_id_++;
  request->adapter = std::move(job.adapter);
  request->tenant = std::move(job.tenant);
  request->seed = job.seed;
  request->progress = std::move(job.progress);
  request->done = std::move(done);
  request->sequences.push_back(std::make_unique<Sequence>());
  request->sequences[0]->request = request.get();
  request->sequences[0]->tokens = prompt;
  requests_.push_back(std::move(request));
  return next_id_ - 1;
}

/// As many tokens as are asked for, or as there is room for.
Result<void> Sampler::read_length(Request& request) const {
  const auto& config = model_->config();
  const std::size_t prompt = request.prompt.size();
  const std::size_t cached = pages_.limit() * kKeyBlock;
  if (prompt >= config.context_length) {
    return Error::invalid_argument(base::concat(
        "the prompt has ", prompt, " tokens; the model has a context of ", config.context_length));
  }
  if (prompt >= cached) {
    return Error::invalid_argument(base::concat(
        "the prompt has ", prompt, " tokens; the cache of this engine holds ", cached));
  }
  const std::size_t room = config.context_length - prompt;
  const auto& most = request.asked.sampling_params.max_tokens;
  if (!most) {
    request.most_tokens = std::min(room, cached - prompt);
    return {};
  }
  request.most_tokens = std::min(room, static_cast<std::size_t>(*most));
  if (prompt + request.most_tokens > cached) {
    return Error::invalid_argument(base::concat("prompt and max_tokens are ",
                                                prompt + request.most_tokens,
                                                " tokens; the cache of this engine holds ",
                                                cached));
  }
  return {};
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
  for (std::size_t i = 0; i < request.stop_strings.size(); ++i) {
    if (request.stop_strings[i].empty())
      return Error::invalid_argument(base::concat("stop string ", i, " is empty"));
    if (!options_.token_bytes)
      return Error::invalid_argument(
          "stop strings need a tokenizer, and this engine was given none");
  }
  return {};
}

/// The size is computed in floating point, since a request may name any number.
Result<void> Sampler::check_answer(const Request& request) const {
  constexpr double kCell = sizeof(std::int32_t) + sizeof(float);
  const auto& asked = request.asked;
  for (const auto& [name, k] : {std::pair("topk_prompt_logprobs", asked.topk_prompt_logprobs),
                                std::pair("topk_sample_logprobs", asked.topk_sample_logprobs),
                                std::pair("prompt_alt_tokens_k", asked.prompt_alt_tokens_k)}) {
    if (k >= 0 && std::cmp_less_equal(k, model_->config().vocab_size)) continue;
    return Error::invalid_argument(
        base::concat(name, " is ", k, "; expected 0 to ", model_->config().vocab_size));
  }
  const auto prompt = static_cast<double>(request.prompt.size());
  const auto drawn = static_cast<double>(request.most_tokens);
  const double sample = sizeof(Sequence) + prompt * sizeof(std::int32_t) +
                        drawn * (sizeof(std::int32_t) +
                                 kCell * (1 + static_cast<double>(asked.topk_sample_logprobs)));
  const double scores = static_cast<double>(asked.topk_prompt_logprobs) +
                        2 * static_cast<double>(asked.prompt_alt_tokens_k);
  const double needed =
      static_cast<double>(asked.num_samples) * sample + prompt * kCell * (1 + scores);
  const auto limit = static_cast<double>(options_.answer_bytes);
  if (needed <= limit) return {};
  constexpr double kMiB = 1 << 20U;
  return Error::invalid_argument(
      base::concat("num_samples ",
                   asked.num_samples,
                   ", max_tokens and numbers of logprobs allow for an answer of ",
                   std::ceil(needed / kMiB),
                   " MiB; expected at most ",
                   std::floor(limit / kMiB)));
}

Result<void> Sampler::read_scores(Request& request) const {
  const auto& asked = request.asked;
  const std::size_t n = request.prompt.size();
  const bool scores = asked.prompt_logprobs.value_or(false) || asked.topk_prompt_logprobs > 0;
  request.first_scored = scores ? 1 : n;
  if (asked.prompt_logprobs_last_n) {
    const auto last = *asked.prompt_logprobs_last_n;
    if (last < 1)
      return Error::invalid_argument(
          base::concat("prompt_logprobs_last_n is ", last, "; expected at least 1"));
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
    TINKER_TRY(read_targets(request, *asked.target_prompt_logprobs));
  }
  const auto alternatives = static_cast<std::size_t>(asked.prompt_alt_tokens_k) * (n - 1);
  request.alternatives.resize(alternatives);
  request.alternative_logprobs.resize(alternatives);
  return {};
}

Result<void> Sampler::read_targets(Request& request, const TensorData& targets) const {
  const auto rows = static_cast<std::int64_t>(request.prompt.size()) - 1;
  const auto vocabulary = static_cast<std::int64_t>(model_->config().vocab_size);
  const auto& shape = targets.shape();
  if (targets.dtype() != TensorDtype::int64 || !shape || shape->size() != 2 ||
      (*shape)[0] != rows) {
    return Error::invalid_argument(base::concat("target_prompt_logprobs must be int64 of shape [",
                                                rows,
                                                ", K], a row for each prompt token but the first"));
  }
  // Before it is written out: a few numbers may stand for many cells.
  const std::int64_t columns = (*shape)[1];
  const auto most = static_cast<std::int64_t>(options_.answer_bytes / sizeof(std::int64_t));
  if (columns > vocabulary || columns * rows > most) {
    return Error::invalid_argument(base::concat("target_prompt_logprobs has shape [",
                                                rows,
                                                ", ",
                                                columns,
                                                "]; expected at most ",
                                                vocabulary,
                                                " columns and ",
                                                most,
                                                " cells"));
  }
  TINKER_TRY(const auto dense, targets.to_dense(-1));
  for (const auto id : dense.ints()) {
    if (id < -1 || id >= vocabulary) {
      return Error::invalid_argument(
          base::concat("target_prompt_logprobs has ", id, "; expected -1 or a token of the model"));
    }
    request.targets.push_back(id);
  }
  request.target_logprobs.assign(request.targets.size(), 0.0F);
  return {};
}

}  // namespace tinker::engine
