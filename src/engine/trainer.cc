#include "engine/trainer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/parts.h"

namespace tinker::engine {
namespace {

/// A copy of gradients, which are put back unless all went well.
class Restore {
 public:
  explicit Restore(std::span<float> gradients)
      : gradients_(gradients), before_(gradients.size(), Zeroed::on_use) {}
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore() {
    if (is_armed_) std::ranges::copy(before_.span(), gradients_.begin());
  }
  /// What one step takes. Before all is copied, nothing may be changed.
  void copy(ThreadPool& threads, std::size_t begin) const {
    for_parts(threads, begin, gradients_.size(), [&](std::size_t at, std::size_t count) {
      std::copy_n(gradients_.data() + at, count, before_.data() + at);
    });
  }
  void arm() noexcept { is_armed_ = true; }
  void done() noexcept { is_armed_ = false; }

 private:
  std::span<float> gradients_;
  Floats before_;
  bool is_armed_ = false;
};

PassShape largest_of(const PassShape& a, const PassShape& b) {
  return {.rows = std::max(a.rows, b.rows),
          .padded_rank = std::max(a.padded_rank, b.padded_rank),
          .pages = std::max(a.pages, b.pages),
          .longest = std::max(a.longest, b.longest),
          .piece = std::max(a.piece, b.piece)};
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
    if (sequence.tokens.empty()) return Error::invalid_argument(where + "it has no tokens");
    if (sequence.tokens.size() > config.context_length) {
      return Error::invalid_argument(where + std::to_string(sequence.tokens.size()) +
                                     " tokens; the model has a context of " +
                                     std::to_string(config.context_length));
    }
    for (const auto& [name, ids] :
         {std::pair("token ", &sequence.tokens), std::pair("target ", &sequence.targets)}) {
      for (const auto id : *ids) {
        if (id >= 0 && std::cmp_less(id, config.vocab_size)) continue;
        return Error::invalid_argument(where + name + std::to_string(id) + "; expected 0 to " +
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
                                std::span<const ScoredSequence> sequences,
                                bool may_keep_layers) const {
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
  out.keeps_layers = may_keep_layers && may_keep(out);
  return out;
}

/// Whether all layers of such a pass may be kept.
bool Trainer::may_keep(Plan plan) const {
  plan.keeps_layers = true;
  Trainer counted(model_, threads_, options_);
  Arena arena;
  counted.lay_out(plan, arena);
  return arena.used() <= options_.kept_bytes;
}

std::size_t Trainer::bytes_needed(std::size_t padded_rank,
                                  std::span<const ScoredSequence> sequences,
                                  bool may_keep_layers) const {
  return bytes_of(plan_for(padded_rank, sequences, may_keep_layers));
}

std::size_t Trainer::bytes_of(const Plan& plan) const {
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

/// Arrays that fit are used as they are. Passes that take turns would take memory again and again,
/// so new arrays suit the ones before, too, if there is room for that.
void Trainer::reserve(const Plan& plan, std::size_t most_bytes) {
  const bool keeps_enough = plan_.keeps_layers || !plan.keeps_layers;
  if (plan.shape.fits(plan_.shape) && keeps_enough) return;
  Plan chosen = {.shape = largest_of(plan.shape, plan_.shape), .keeps_layers = plan.keeps_layers};
  const bool is_too_much = chosen.keeps_layers && !may_keep(chosen);
  if (is_too_much || bytes_of(chosen) > most_bytes) chosen = plan;
  plan_ = {};  // until there is memory for it
  arena_ = {};
  forward_.release();
  backward_.release();
  arena_ = make_arena([&](Arena& arena) { lay_out(chosen, arena); });
  plan_ = chosen;
}

Resumable<void> Trainer::forward(const Adapter* adapter,
                                 std::span<const ScoredSequence> sequences,
                                 Loss loss,
                                 PassLimits limits) {
  return run(adapter, sequences, std::move(loss), {}, limits);
}

Resumable<void> Trainer::forward_backward(const Adapter& adapter,
                                          std::span<const ScoredSequence> sequences,
                                          Loss loss,
                                          std::span<float> gradients,
                                          PassLimits limits) {
  return run(&adapter, sequences, std::move(loss), gradients, limits);
}

Resumable<void> Trainer::run(const Adapter* adapter,
                             std::span<const ScoredSequence> sequences,
                             Loss loss,
                             std::span<float> gradients,
                             PassLimits limits) {
  TINKER_CO_TRY(check(sequences));
  const bool differentiates = !gradients.empty();
  Restore restore(gradients);
  for (std::size_t done = 0; done < gradients.size(); done += kNumbersOfStep) {
    restore.copy(threads_, done);
    co_yield Cut::between;
  }
  restore.arm();
  const Plan plan =
      plan_for(adapter == nullptr ? 0 : adapter->padded_rank(), sequences, limits.may_keep_layers);
  const auto batches = cut(sequences);
  for (const auto& batch : batches) {
    const auto mine = sequences.subspan(batch.first, batch.count);
    reserve(plan, limits.most_bytes);
    co_yield Cut::inside;
    begin(adapter, mine);
    forward_.embed(inputs_[0]);
    for (std::size_t layer = 0; layer < model_->config().layers; ++layer) {
      const auto pass = pass_of(layer, differentiates);
      for (std::size_t piece = 0; piece < forward_.pieces().size(); ++piece) {
        forward_.layer_piece(pass, piece);
        co_yield Cut::inside;
      }
    }
    forward_.norm(rows_.size(), inputs_.back(), model_->final_norm(), normed_, nullptr);
    const bool wants_means = differentiates && adapter->find(0, LoraGroup::head) == nullptr;
    scorer_.begin({.adapter = adapter,
                   .sequences = mine,
                   .rows = rows_,
                   .normed = normed_,
                   .wants_means = wants_means});
    co_yield Cut::inside;
    for (std::size_t i = 0; i < scorer_.steps(); ++i) {
      scorer_.step(i);
      co_yield Cut::inside;
    }
    TINKER_CO_TRY(evaluate(loss, batch, differentiates));
    if (differentiates) {
      backward_.begin(plan_.shape, *adapter, ranges_, gradients);
      head_backward_.begin(*adapter,
                           {.sequences = mine,
                            .rows = rows_,
                            .ranges = ranges_,
                            .d_logprobs = d_logprobs_,
                            .x = inputs_.back(),
                            .normed = normed_},
                           gradients,
                           d_x_);
      for (std::size_t i = 0; i < head_backward_.steps(); ++i) {
        head_backward_.step(i);
        co_yield Cut::inside;
      }
      for (std::size_t layer = model_->config().layers; layer-- > 0;) {
        auto pass = pass_of(layer, true);
        if (!plan_.keeps_layers) {
          pass.output = unused_;
          for (std::size_t piece = 0; piece < forward_.pieces().size(); ++piece) {
            forward_.layer_piece(pass, piece);
            co_yield Cut::inside;
          }
        }
        pass.output = d_x_;
        for (std::size_t i = 0; i < backward_.layer_steps(forward_); ++i) {
          backward_.layer_step(forward_, pass, i);
          co_yield Cut::inside;
        }
      }
    }
    co_yield Cut::between;
  }
  if (differentiates) {
    TINKER_CO_TRY(check_gradients(*adapter, gradients));
  }
  restore.done();
  co_return Result<void>();
}

/// Where a layer finds its arrays; those that no way back will read are all the same.
LayerPass Trainer::pass_of(std::size_t layer, bool keeps) const {
  const std::size_t kept = keeps && plan_.keeps_layers ? layer : 0;
  LayerPass out = {.index = layer,
                   .state = states_[kept],
                   .kv = &kv_,
                   .page_layer = kept,
                   .output = inputs_[layer + 1]};
  out.state.x = inputs_[layer];
  return out;
}

Result<void> Trainer::evaluate(const Loss& loss, const MicroBatch& batch, bool differentiates) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    const auto& logprobs = scorer_.logprobs()[i];
    auto& d = d_logprobs_[i];
    d.assign(differentiates ? logprobs.size() : 0, 0.0F);
    TINKER_TRY(loss(batch.first + i, logprobs, d));
  }
  return {};
}

/// One number that is not finite would make every later step fail.
Result<void> Trainer::check_gradients(const Adapter& adapter,
                                      std::span<const float> gradients) const {
  const auto& modules = adapter.layout().modules();
  std::vector<char> is_bad(modules.size());
  const auto is_finite = [&](std::size_t begin, std::size_t count) {
    return std::ranges::all_of(gradients.subspan(begin, count),
                               [](float value) { return std::isfinite(value); });
  };
  const std::size_t rank = adapter.layout().config().rank;
  threads_.run(modules.size(), [&](std::size_t i, std::size_t /*thread*/) {
    const auto& module = modules[i];
    is_bad[i] =
        is_finite(module.a, rank * module.in) && is_finite(module.b, rank * module.out) ? 0 : 1;
  });
  const auto bad = std::ranges::find(is_bad, 1);
  if (bad == is_bad.end()) return {};
  const auto& name = modules[static_cast<std::size_t>(bad - is_bad.begin())].name;
  return Error::invalid_argument(
      "the gradient of " + std::string(name) +
      " is not finite: the loss or its derivatives are too large; this call changed "
      "nothing");
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

}  // namespace tinker::engine
