#include "engine/sampler.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <ranges>

#include "engine/counter_random.h"
#include "engine/resumable.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

// Rows whose logits of the whole vocabulary are there at a time.
constexpr std::size_t kHeadRows = 32;
// Streams of random numbers of one seed: those of samples are numbered from 0.
constexpr std::uint64_t kAlternativeStream = std::uint64_t{1} << 32U;

/// The cells of a dense matrix in the shape and layout of `asked`.
TensorData laid_out_as(const TensorData& asked, const std::vector<float>& cells) {
  const auto& shape = asked.shape();
  const auto* sparse = asked.indices();
  if (sparse == nullptr) return {TensorData::Values(Buffer<float>(cells)), shape};
  const auto columns = static_cast<std::size_t>((*shape)[1]);
  std::vector<float> listed;
  for (std::size_t row = 0; row + 1 < sparse->crow.size(); ++row) {
    for (auto i = sparse->crow[row]; i < sparse->crow[row + 1]; ++i) {
      listed.push_back(cells[row * columns +
                             static_cast<std::size_t>(sparse->col[static_cast<std::size_t>(i)])]);
    }
  }
  return {TensorData::Values(Buffer<float>(std::move(listed))), shape, *sparse};
}

}  // namespace

Sampler::Sampler(std::shared_ptr<const Model> model,
                 ThreadPool& threads,
                 const SamplerOptions& options)
    : model_(std::move(model)),
      threads_(threads),
      options_(options),
      layout_(model_->config(), model_->kernels(), model_->config().layers),
      pages_(layout_, std::max<std::size_t>(1, options.cache_bytes / layout_.page_bytes())),
      forward_(*model_, threads),
      head_(*model_, threads) {}

void Sampler::cancel(Id id) {
  const auto found =
      std::ranges::find_if(requests_, [&](const auto& request) { return request->id == id; });
  if (found == requests_.end()) return;
  for (const auto& sequence : (*found)->sequences) release(*sequence);
  requests_.erase(found);
}

void Sampler::release(Sequence& sequence) noexcept {
  // The last ones first: what has been free for longest is taken first, and a prompt without its
  // beginning is not found again.
  for (const auto page : sequence.pages | std::views::reverse) pages_.release(page);
  sequence.pages.clear();
  sequence.memory.clear();
  sequence.computed = 0;
}

bool Sampler::step(std::size_t prompt_rows) {
  plan_chunks(prompt_rows);
  if (!chunks_.empty()) compute_batch();
  finish_requests();
  return !requests_.empty();
}

void Sampler::compute_batch() {
  try {
    fill_batch();
    compute_layers();
    compute_heads();
  } catch (...) {  // no memory: computed again by the next step
    for (const auto& chunk : chunks_) {
      if (!chunk.sequence->is_over) chunk.sequence->computed = chunk.first;
    }
    throw;
  }
}

void Sampler::fill_batch() {
  rows_.clear();
  runs_.clear();
  row_pages_.clear();
  needed_.clear();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto& chunk = chunks_[c];
    const auto& request = *chunk.sequence->request;
    const auto* adapter = request.adapter.get();
    if (runs_.empty() || runs_.back().adapter != adapter) {
      runs_.push_back({.adapter = adapter, .first = rows_.size(), .count = 0});
    }
    runs_.back().count += chunk.count;
    row_pages_.emplace_back(chunk.sequence->memory);
    for (std::size_t i = chunk.first; i < chunk.first + chunk.count; ++i) {
      // A row has the logits of the token behind it.
      const bool is_last = i + 1 == chunk.sequence->tokens.size();
      const bool is_asked =
          !request.has_begun && (i + 1 >= request.first_scored || !request.targets.empty() ||
                                 !request.alternatives.empty());
      if (is_last || is_asked) {
        needed_.push_back({.row = rows_.size(), .sequence = chunk.sequence, .position = i});
      }
      rows_.push_back({.token = chunk.sequence->tokens[i],
                       .sequence = static_cast<std::uint32_t>(c),
                       .position = i});
    }
  }
}

void Sampler::compute_layers() {
  const auto& config = model_->config();
  std::size_t rank = shape_.padded_rank;
  for (const auto& run : runs_) {
    if (run.adapter != nullptr) rank = std::max(rank, run.adapter->padded_rank());
  }
  if (shape_.rows == 0 || rank > shape_.padded_rank) {
    const PassShape shape = {.rows = std::max(options_.batch_rows, kHeadRows), .padded_rank = rank};
    const ActivationPlan plan(*model_, shape);
    shape_ = {};  // until there is memory for it
    arena_ = {};
    const ActivationPlan head(*model_, {.rows = kHeadRows, .padded_rank = rank});
    arena_ = make_arena([&](Arena& arena) {
      x_ = plan.floats(arena, config.hidden_size);
      state_ = plan.layer(arena);
      state_.x = x_;
      state_.middle = x_;
      normed_ = head.elements(arena, config.hidden_size);
      low_ = head.low(arena, LoraGroup::head);
      logits_ = head.floats(arena, config.vocab_size);
    });
    shape_ = shape;
  }
  forward_.begin({.rows = rows_, .runs = runs_, .pages = row_pages_}, shape_);
  forward_.embed(x_);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    forward_.layer(
        {.index = layer, .state = state_, .kv = &layout_, .page_layer = layer, .output = x_});
  }

  for (const auto& chunk : chunks_) {
    auto& sequence = *chunk.sequence;
    sequence.computed = chunk.first + chunk.count;
    for (std::size_t page = chunk.first / kKeyBlock; (page + 1) * kKeyBlock <= sequence.computed;
         ++page) {
      pages_.remember(sequence.pages[page],
                      page == 0 ? std::nullopt : std::optional(sequence.pages[page - 1]),
                      sequence.request->adapter,
                      std::span(sequence.tokens).subspan(page * kKeyBlock, kKeyBlock));
    }
  }
}

void Sampler::compute_heads() {
  const auto& config = model_->config();
  const auto& kernels = model_->kernels();
  for (std::size_t begin = 0; begin < needed_.size(); begin += kHeadRows) {
    const std::size_t count = std::min(kHeadRows, needed_.size() - begin);
    std::vector<AdapterRun> runs;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& need = needed_[begin + i];
      const auto* adapter = need.sequence->request->adapter.get();
      if (runs.empty() || runs.back().adapter != adapter)
        runs.push_back({.adapter = adapter, .first = i, .count = 0});
      ++runs.back().count;
    }
    threads_.for_each(count, [&](std::size_t i) {
      kernels.rms_norm(x_.row(needed_[begin + i].row),
                       model_->final_norm().data(),
                       config.hidden_size,
                       config.rms_eps,
                       normed_.row(i));
    });
    const Head::Rows rows = {.runs = runs, .normed = normed_, .low = low_};
    head_.lower(rows);
    head_.all_logits(rows, logits_);
    std::vector<std::optional<Distribution>> distributions(count);
    threads_.run(count, [&](std::size_t i, std::size_t /*thread*/) {
      const auto& need = needed_[begin + i];
      const bool is_prompt = need.position + 1 != need.sequence->tokens.size();
      distributions[i].emplace(
          kernels,
          std::span<const float>(logits_.row(i), config.vocab_size),
          is_prompt ? 1.0 : need.sequence->request->asked.sampling_params.temperature);
    });
    for (std::size_t i = 0; i < count; ++i) {
      const auto& need = needed_[begin + i];
      try {
        use_row(need, *distributions[i]);
      } catch (...) {  // no memory for what this one asks for
        fail(*need.sequence->request, error_in_flight());
      }
    }
  }
}

void Sampler::fail(Request& request, Error why) noexcept {
  request.failure = std::move(why);
  request.has_begun = true;
  for (const auto& sequence : request.sequences) {
    release(*sequence);
    sequence->is_over = true;
  }
}

void Sampler::use_row(const Needed& need, const Distribution& distribution) {
  auto& sequence = *need.sequence;
  auto& request = *sequence.request;
  if (sequence.is_over) return;
  if (need.position + 1 < sequence.tokens.size()) {
    score(request, need.position + 1, distribution);
    return;
  }
  if (request.has_begun) {
    draw(sequence, distribution);
    return;
  }
  begin_samples(sequence);
  for (const auto& each : request.sequences) draw(*each, distribution);
}

void Sampler::score(Request& request, std::size_t position, const Distribution& plain) {
  const auto& asked = request.asked;
  auto& response = request.response;
  if (position >= request.first_scored) {
    if (!response.prompt_logprobs.empty()) {
      response.prompt_logprobs[position] = plain.logprob(request.prompt[position]);
    }
    if (response.topk_prompt_logprobs) {
      auto& top = *response.topk_prompt_logprobs;
      std::size_t at = position * top.k;
      for (const auto& [id, logprob] : plain.top(top.k)) {
        top.token_ids[at] = id;
        top.logprobs[at++] = logprob;
      }
    }
  }
  if (!request.targets.empty()) {
    const std::size_t k = request.targets.size() / (request.prompt.size() - 1);
    for (std::size_t i = (position - 1) * k; i < position * k; ++i) {
      if (request.targets[i] < 0) continue;
      request.target_logprobs[i] = plain.logprob(static_cast<std::int32_t>(request.targets[i]));
    }
  }
  if (!request.alternatives.empty()) {
    const Distribution tempered(
        model_->kernels(), plain.logits(), asked.sampling_params.temperature);
    const auto k = static_cast<std::size_t>(asked.prompt_alt_tokens_k);
    for (std::size_t i = 0; i < k; ++i) {
      const auto token =
          tempered.draw(uniform_double(request.seed, kAlternativeStream + i, position));
      request.alternatives[(position - 1) * k + i] = token;
      request.alternative_logprobs[(position - 1) * k + i] = tempered.logprob(token);
    }
  }
}

void Sampler::begin_samples(Sequence& first) {
  auto& request = *first.request;
  request.has_begun = true;
  const auto samples = static_cast<std::size_t>(request.asked.num_samples);
  const std::size_t full = request.prompt.size() / kKeyBlock;
  for (std::size_t i = 1; i < samples; ++i) {
    auto& other = *request.sequences.emplace_back(std::make_unique<Sequence>());
    other.request = &request;
    other.index = i;
    other.tokens = request.prompt;
    other.reserve(first.pages.size());
    for (std::size_t page = 0; page < full; ++page) {
      pages_.share(first.pages[page]);
      other.add(first.pages[page], first.memory[page]);
    }
    other.computed = full * kKeyBlock;
    // The rest of the prompt is copied, or computed again if there is no room now.
    if (full < first.pages.size()) {
      if (const auto page = pages_.take()) {
        std::memcpy(pages_.data(*page), first.memory[full], layout_.page_bytes());
        other.add(*page, pages_.data(*page));
        other.computed = request.prompt.size();
      }
    } else {
      other.computed = request.prompt.size();
    }
  }
}

void Sampler::draw(Sequence& sequence, const Distribution& distribution) {
  const auto& request = *sequence.request;
  const auto& params = request.asked.sampling_params;
  const double u = uniform_double(request.seed, sequence.index, sequence.tokens.size());
  const auto token = distribution.draw(u, params.top_k, params.top_p);
  sequence.tokens.push_back(token);
  auto& result = sequence.result;
  result.tokens.push_back(token);
  result.logprobs.push_back(distribution.logprob(token));
  if (const auto k = static_cast<std::size_t>(request.asked.topk_sample_logprobs); k > 0) {
    if (!result.topk_logprobs) result.topk_logprobs = {.k = static_cast<std::uint32_t>(k)};
    for (const auto& [id, logprob] : distribution.top(k)) {
      result.topk_logprobs->token_ids.push_back(id);
      result.topk_logprobs->logprobs.push_back(logprob);
    }
    ++result.topk_logprobs->length;
  }
  const bool is_stopped = stops(sequence, token);
  if (!is_stopped && result.tokens.size() < request.most_tokens) return;
  result.stop_reason = is_stopped ? StopReason::stop : StopReason::length;
  sequence.is_over = true;
  release(sequence);
}

bool Sampler::stops(Sequence& sequence, std::int32_t token) const {
  auto& request = *sequence.request;
  if (request.failure) return true;
  if (std::ranges::find(request.stop_ids, token) != request.stop_ids.end()) return true;
  if (request.stop_strings.empty()) return false;
  try {
    sequence.tail += options_.token_bytes(token);
  } catch (...) {
    request.failure =
        error_in_flight().with_context("token_bytes threw for token " + std::to_string(token));
    return true;
  }
  std::size_t longest = 0;
  for (const auto& text : request.stop_strings) {
    if (sequence.tail.find(text) != std::string::npos) return true;
    longest = std::max(longest, text.size());
  }
  if (sequence.tail.size() >= longest) sequence.tail.erase(0, sequence.tail.size() - (longest - 1));
  return false;
}

void Sampler::finish_requests() {
  const auto is_over = [](const std::unique_ptr<Request>& request) {
    return request->has_begun && std::ranges::all_of(request->sequences, [](const auto& sequence) {
             return sequence->is_over;
           });
  };
  // Found anew each time, as an answer may cancel or submit others.
  for (;;) {
    const auto found = std::ranges::find_if(requests_, is_over);
    if (found == requests_.end()) return;
    // Before it is taken out: an answer, or an error, for which there is no memory is made again by
    // the next step.
    auto answer = answer_of(**found);
    const auto request = std::move(*found);
    requests_.erase(found);
    request->done(std::move(answer));
  }
}

Result<SampleResponse> Sampler::answer_of(Request& request) {
  if (!request.failure) {
    try {
      return response_of(request);
    } catch (...) {
      request.failure = error_in_flight();
    }
  }
  return *request.failure;
}

SampleResponse Sampler::response_of(Request& request) {
  auto& response = request.response;
  for (const auto& sequence : request.sequences)
    response.sequences.push_back(std::move(sequence->result));
  if (request.asked.target_prompt_logprobs) {
    response.target_prompt_logprobs =
        laid_out_as(*request.asked.target_prompt_logprobs, request.target_logprobs);
  }
  if (request.asked.prompt_alt_tokens_k > 0) {
    const TensorData::Shape shape = {static_cast<std::int64_t>(request.prompt.size()) - 1,
                                     request.asked.prompt_alt_tokens_k};
    response.prompt_alt_tokens = {
        .tokens = TensorData(
            Buffer<std::int64_t>({request.alternatives.begin(), request.alternatives.end()}),
            shape),
        .logprobs = TensorData(Buffer<float>(std::move(request.alternative_logprobs)), shape)};
  }
  return std::move(response);
}

}  // namespace tinker::engine
