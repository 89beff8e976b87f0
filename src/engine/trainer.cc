#include "engine/trainer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tinker::engine {
namespace {

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace

Trainer::Trainer(std::shared_ptr<const Model> model,
                 ThreadPool& threads,
                 const TrainerOptions& options)
    : model_(std::move(model)),
      threads_(threads),
      options_(options),
      forward_(*model_, threads),
      backward_(*model_, threads),
      head_(*model_, threads),
      scorer_(*model_, threads, head_),
      head_backward_(*model_, threads, head_, scorer_, backward_),
      kv_(model_->config(), model_->kernels(), model_->config().layers) {}

Result<void> Trainer::check(std::span<const ScoredSequence> sequences) const {
  const auto& config = model_->config();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto& sequence = sequences[i];
    const std::string where = "datum " + std::to_string(i) + ": ";
    if (sequence.tokens.empty()) return invalid(where + "it has no tokens");
    if (sequence.tokens.size() > config.context_length) {
      return invalid(where + std::to_string(sequence.tokens.size()) +
                     " tokens; the model has a context of " +
                     std::to_string(config.context_length));
    }
    for (const auto& [name, ids] :
         {std::pair("token ", &sequence.tokens), std::pair("target ", &sequence.targets)}) {
      for (const auto id : *ids) {
        if (id >= 0 && std::cmp_less(id, config.vocab_size)) continue;
        return invalid(where + name + std::to_string(id) + "; expected 0 to " +
                       std::to_string(config.vocab_size - 1));
      }
    }
  }
  return {};
}

std::vector<Trainer::MicroBatch> Trainer::cut(std::span<const ScoredSequence> sequences) const {
  std::vector<MicroBatch> out;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::size_t more = pages_for(sequences[i].tokens.size()) * kKeyBlock;
    if (out.empty() || tokens + more > options_.micro_batch_tokens) {
      out.push_back({.first = i});
      tokens = 0;
    }
    ++out.back().count;
    tokens += more;
  }
  return out;
}

Trainer::Plan Trainer::plan_for(std::size_t padded_rank,
                                std::span<const ScoredSequence> sequences) const {
  Plan out;
  out.shape.padded_rank = padded_rank;
  out.shape.piece = options_.piece_tokens;
  for (const auto& batch : cut(sequences)) {
    std::size_t rows = 0;
    std::size_t pages = 0;
    for (const auto& sequence : sequences.subspan(batch.first, batch.count)) {
      rows += sequence.tokens.size();
      pages += pages_for(sequence.tokens.size());
      out.shape.longest = std::max(out.shape.longest, sequence.tokens.size());
    }
    out.shape.rows = std::max(out.shape.rows, rows);
    out.shape.pages = std::max(out.shape.pages, pages);
  }
  Trainer counted(model_, threads_, options_);
  Arena arena;
  counted.lay_out(out, arena);
  out.keeps_layers = may_keep_layers_ && arena.used() <= options_.kept_bytes;
  return out;
}

std::size_t Trainer::bytes_needed(std::size_t padded_rank,
                                  std::span<const ScoredSequence> sequences) const {
  const auto plan = plan_for(padded_rank, sequences);
  Trainer counted(model_, threads_, options_);
  Arena arena;
  counted.lay_out(plan, arena);
  return arena.used() + Forward::bytes(*model_, threads_, plan.shape) +
         Backward::bytes(*model_, threads_, plan.shape) + head_.bytes() +
         scorer_.bytes(plan.shape.rows);
}

std::size_t Trainer::bytes_held() const noexcept {
  return arena_.used() + forward_.bytes_held() + backward_.bytes_held() + head_.bytes_held() +
         scorer_.bytes(plan_.shape.rows);
}

void Trainer::lay_out(const Plan& plan, Arena& arena) {
  const auto& config = model_->config();
  const ActivationPlan rows(*model_, plan.shape);
  const std::size_t kept = plan.keeps_layers ? config.layers : 1;
  kv_ = KvLayout(config, model_->kernels(), kept);
  free_pages_.clear();
  for (std::size_t i = 0; i < plan.shape.pages; ++i)
    free_pages_.push_back(arena.bytes(kv_.page_bytes()));
  inputs_.clear();
  for (std::size_t i = 0; i <= config.layers; ++i)
    inputs_.push_back(rows.floats(arena, config.hidden_size));
  states_.clear();
  for (std::size_t i = 0; i < kept; ++i) {
    auto state = rows.layer(arena);
    state.middle = rows.floats(arena, config.hidden_size);
    if (config.has_qk_norm()) {  // whose way back needs them
      state.raw_q = rows.floats(arena, config.q_size());
      state.raw_k = rows.floats(arena, config.kv_size());
    }
    states_.push_back(state);
  }
  normed_ = rows.elements(arena, config.hidden_size);
  scorer_.lay_out(rows, arena);
  head_backward_.lay_out(rows, plan.shape.padded_rank, arena);
  unused_ = rows.floats(arena, config.hidden_size);
  d_x_ = rows.floats(arena, config.hidden_size);
}

void Trainer::reserve(const Plan& plan) {
  if (plan.shape.fits(plan_.shape) && plan.keeps_layers == plan_.keeps_layers) return;
  plan_ = {};  // until there is memory for it
  arena_ = {};
  forward_.release();
  backward_.release();
  arena_ = make_arena([&](Arena& arena) { lay_out(plan, arena); });
  plan_ = plan;
}

Result<void> Trainer::forward(const Adapter* adapter,
                              std::span<const ScoredSequence> sequences,
                              const Loss& loss) {
  return run(adapter, sequences, loss, {});
}

Result<void> Trainer::forward_backward(const Adapter& adapter,
                                       std::span<const ScoredSequence> sequences,
                                       const Loss& loss,
                                       std::span<float> gradients) {
  /// Puts back what was there, unless all went well.
  struct Restore {
    std::span<float> gradients;
    std::vector<float> before;
    bool is_done = false;
    ~Restore() {
      if (!is_done) std::ranges::copy(before, gradients.begin());
    }
  };
  Restore restore = {.gradients = gradients, .before = {gradients.begin(), gradients.end()}};
  auto done = run(&adapter, sequences, loss, gradients);
  restore.is_done = done.ok();
  return done;
}

Result<void> Trainer::run(const Adapter* adapter,
                          std::span<const ScoredSequence> sequences,
                          const Loss& loss,
                          std::span<float> gradients) {
  TINKER_TRY(check(sequences));
  const bool differentiates = !gradients.empty();
  reserve(plan_for(adapter == nullptr ? 0 : adapter->padded_rank(), sequences));
  for (const auto& batch : cut(sequences)) {
    const auto mine = sequences.subspan(batch.first, batch.count);
    begin(adapter, mine);
    run_layers(differentiates);
    forward_.norm(rows_.size(), inputs_.back(), model_->final_norm(), normed_, nullptr);
    const bool wants_means = differentiates && adapter->find(0, LoraGroup::head) == nullptr;
    scorer_.run(adapter, mine, rows_, normed_, wants_means);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto& logprobs = scorer_.logprobs()[i];
      auto& d = d_logprobs_[i];
      d.assign(differentiates ? logprobs.size() : 0, 0.0F);
      TINKER_TRY(loss(batch.first + i, logprobs, d));
    }
    if (!differentiates) continue;
    backward_.begin(plan_.shape, *adapter, ranges_, gradients);
    head_backward_.run(*adapter,
                       {.sequences = mine,
                        .rows = rows_,
                        .ranges = ranges_,
                        .d_logprobs = d_logprobs_,
                        .x = inputs_.back(),
                        .normed = normed_},
                       gradients,
                       d_x_);
    for (std::size_t layer = model_->config().layers; layer-- > 0;) {
      const std::size_t kept = plan_.keeps_layers ? layer : 0;
      auto& state = states_[kept];
      if (!plan_.keeps_layers) {
        state.x = inputs_[layer];
        forward_.layer(layer, state, kv_, 0, unused_);
      }
      backward_.layer(forward_, layer, state, kv_, kept, d_x_);
    }
  }
  return {};
}

void Trainer::begin(const Adapter* adapter, std::span<const ScoredSequence> sequences) {
  rows_.clear();
  ranges_.clear();
  pages_.clear();
  std::size_t page = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto& tokens = sequences[i].tokens;
    ranges_.push_back({.first = rows_.size(), .count = tokens.size()});
    for (std::size_t position = 0; position < tokens.size(); ++position) {
      rows_.push_back({.token = tokens[position],
                       .sequence = static_cast<std::uint32_t>(i),
                       .position = position});
    }
    pages_.emplace_back(free_pages_.data() + page, pages_for(tokens.size()));
    page += pages_.back().size();
  }
  runs_ = {{.adapter = adapter, .first = 0, .count = rows_.size()}};
  forward_.begin({.rows = rows_, .runs = runs_, .pages = pages_}, plan_.shape);
  d_logprobs_.resize(sequences.size());
}

void Trainer::run_layers(bool keep) {
  const std::size_t layers = model_->config().layers;
  forward_.embed(inputs_[0]);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t kept = keep && plan_.keeps_layers ? layer : 0;
    auto& state = states_[kept];
    state.x = inputs_[layer];
    forward_.layer(layer, state, kv_, kept, inputs_[layer + 1]);
  }
}

}  // namespace tinker::engine
