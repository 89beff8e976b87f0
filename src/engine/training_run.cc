#include "engine/training_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/strings.h"
#include "engine/machine_memory.h"
#include "engine/muon.h"
#include "engine/parts.h"

namespace tinker::engine {
namespace {

std::string name_of_datum(std::size_t index) {
  return "data[" + std::to_string(index) + "]";
}

/// Targets and inputs of all data, as a loss reads them.
struct Batch {
  std::vector<TokenLoss::Inputs> inputs = {};
  std::vector<ScoredSequence> sequences = {};
};

Result<Batch> read(std::span<const Datum> data, const TokenLoss& loss) {
  Batch out;
  TINKER_TRY(out.inputs, loss.read(data));
  for (const auto& inputs : out.inputs) out.sequences.push_back(inputs.sequence);
  return out;
}

/// The formula reads its inputs itself; only the targets are looked at here.
Result<Batch> read_targets(std::span<const Datum> data, const loss::Formula& formula) {
  TINKER_TRY(const auto targets_only, TokenLoss::create(LossFn::cross_entropy, {}));
  std::vector<Datum> scored;
  for (const auto& datum : data) {
    const auto targets = datum.loss_fn_inputs.find("target_tokens");
    if (targets == datum.loss_fn_inputs.end()) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("loss '",
                                           formula.name(),
                                           "' needs loss_fn_inputs.target_tokens, the tokens "
                                           "that it has logprobs of")}
          .with_context(name_of_datum(scored.size()));
    }
    scored.push_back({.model_input = datum.model_input, .loss_fn_inputs = {*targets}});
  }
  return read(scored, targets_only);
}

/// How many numbers a tensor has when all are written out.
std::size_t cells_of(const TensorData& tensor) {
  constexpr std::size_t kMost = std::size_t{1} << 32U;  // more than will be read
  if (!tensor.is_sparse() || !tensor.shape()) return tensor.size();
  std::size_t out = 1;
  for (const auto size : *tensor.shape())
    out *= std::min(kMost / out, static_cast<std::size_t>(std::max<std::int64_t>(1, size)));
  return out;
}

std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

}  // namespace

Compute::Compute(std::unique_ptr<ThreadPool> pool, std::shared_ptr<const Model> loaded)
    : threads(std::move(pool)), model(std::move(loaded)), trainer(model, *threads, {}) {}

Resumable<ForwardBackwardOutput> TrainingRun::run(std::span<const Datum> data,
                                                  TokenLoss loss,
                                                  bool differentiates) {
  TINKER_CO_TRY(const auto limits, limits_for(data));
  TINKER_CO_TRY(const auto batch, read(data, loss));
  ForwardBackwardOutput out;
  out.loss_fn_output_type = "scalar";
  double& sum_of_loss = out.metrics["loss:sum"];  // now, as nothing may fail behind the passes
  double sum = 0;
  const Trainer::Loss evaluate = [&](std::size_t i,
                                     std::span<const float> logprobs,
                                     std::span<float> derivatives) -> Result<void> {
    const auto& inputs = batch.inputs[i];
    std::vector<float> elementwise(inputs.sequence.tokens.size());
    sum += loss.evaluate(inputs, logprobs, elementwise, derivatives);
    out.loss_fn_outputs.push_back({{"logprobs", shaped_like(inputs.targets, copy(logprobs))},
                                   {"elementwise_loss", TensorData(std::move(elementwise))}});
    return {};
  };
  auto passes = score(batch.sequences, evaluate, differentiates, limits);
  while (passes.step()) co_yield passes.cut();
  compute_->training_bytes = compute_->trainer.bytes_held();
  TINKER_CO_TRY(passes.take());
  sum_of_loss = sum;
  co_return std::move(out);
}

Resumable<void> TrainingRun::score(std::span<const ScoredSequence> sequences,
                                   Trainer::Loss loss,
                                   bool differentiates,
                                   PassLimits limits) {
  auto& trainer = compute_->trainer;
  if (!differentiates) return trainer.forward(adapter_.get(), sequences, std::move(loss), limits);
  return trainer.forward_backward(*adapter_, sequences, std::move(loss), gradients_.span(), limits);
}

Resumable<ForwardBackwardOutput> TrainingRun::run(std::span<const Datum> data,
                                                  loss::Formula formula,
                                                  bool differentiates) {
  TINKER_CO_TRY(const auto limits, limits_for(data));
  TINKER_CO_TRY(const auto batch, read_targets(data, formula));
  ForwardBackwardOutput out;
  out.loss_fn_output_type = "scalar";
  double& sum_of_loss = out.metrics["loss:sum"];  // now, as nothing may fail behind the passes
  double sum = 0;
  const Trainer::Loss evaluate = [&](std::size_t i,
                                     std::span<const float> logprobs,
                                     std::span<float> derivatives) -> Result<void> {
    auto tensor = shaped_like(batch.inputs[i].targets, copy(logprobs));
    auto result = formula.evaluate(tensor, data[i].loss_fn_inputs);
    if (!result.ok()) return std::move(result).error().with_context(name_of_datum(i));
    sum += result->loss;
    if (differentiates) std::ranges::copy(result->gradient, derivatives.begin());
    for (const auto& [name, value] : result->metrics) out.metrics[name] += value;
    out.loss_fn_outputs.push_back({{"logprobs", std::move(tensor)}});
    return {};
  };
  auto passes = score(batch.sequences, evaluate, differentiates, limits);
  while (passes.step()) co_yield passes.cut();
  compute_->training_bytes = compute_->trainer.bytes_held();
  TINKER_CO_TRY(passes.take());
  for (auto& [name, value] : out.metrics) {
    if (name.ends_with(":mean")) value /= static_cast<double>(data.size());
  }
  sum_of_loss = sum;
  co_return std::move(out);
}

/// Layers are computed again where keeping them would be too much.
Result<PassLimits> TrainingRun::limits_for(std::span<const Datum> data) const {
  const std::size_t held = compute_->trainer.bytes_held();
  std::size_t limit = compute_->training_limit;
  if (limit == 0) limit = training_bytes_;
  if (limit == 0) limit = available_memory() + held;
  TINKER_TRY(std::size_t needed, bytes_needed(data));
  const bool may_keep_layers = needed <= limit;
  if (!may_keep_layers) {
    TINKER_TRY(needed, bytes_needed(data, false));
  }
  TINKER_TRY(check_room("this batch, whose longest sequence decides,", needed, limit));
  return PassLimits{.may_keep_layers = may_keep_layers,
                    .most_bytes = limit - gradients_.size() * sizeof(float)};
}

Result<std::size_t> TrainingRun::bytes_needed(std::span<const Datum> data,
                                              bool may_keep_layers) const {
  // Of a target: its id and where it lies, twice, three inputs, and what is answered.
  constexpr std::size_t kBytesOfTarget = 64;
  std::vector<ScoredSequence> sequences;
  std::size_t targets = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto tokens = data[i].model_input.to_tokens();
    if (!tokens.ok()) return std::move(tokens).error().with_context(name_of_datum(i));
    const auto given = data[i].loss_fn_inputs.find("target_tokens");
    targets += given == data[i].loss_fn_inputs.end() ? tokens->size() : cells_of(given->second);
    sequences.push_back({.tokens = *std::move(tokens)});
  }
  // The gradients are copied, lest a call that fails change them.
  return compute_->trainer.bytes_needed(adapter_->padded_rank(), sequences, may_keep_layers) +
         gradients_.size() * sizeof(float) + targets * kBytesOfTarget;
}

std::size_t TrainingRun::bytes_of_step() const {
  const std::size_t moments =
      steps_of(state_) == 0 ? 2 * gradients_.size() * sizeof(float) : std::size_t{0};
  return Adapter::bytes(compute_->model->kernels(), adapter_->layout()) + moments;
}

/// A state of this family, if the run has one, or no steps yet.
template <typename State>
Result<State*> TrainingRun::state_of() {
  if (auto* const state = std::get_if<State>(&state_)) return state;
  if (steps_of(state_) == 0) return &state_.emplace<State>();
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(family_of(State()),
                                       " cannot go on after ",
                                       steps_of(state_),
                                       " steps of ",
                                       family_of(state_),
                                       "; load the weights without the optimizer's state first")};
}

template <typename State, typename Params, typename Step>
Resumable<OptimStepResponse> TrainingRun::step_by(Params params, Step take) {
  TINKER_CO_TRY(auto* const state, state_of<State>());
  OptimStepResponse out;  // made before, because nothing may fail once the state has changed
  double& norm = out.metrics.emplace()["unclipped_grad_l2:mean"];
  auto forgetting = discard_gradients();
  auto steps =
      take(*compute_->model, *compute_->threads, *adapter_, gradients_.span(), params, *state);
  while (steps.step()) co_yield steps.cut();
  TINKER_CO_TRY(auto report, steps.take());
  adapter_ = std::move(report.adapter);
  norm = report.gradient_norm;
  while (forgetting.step()) co_yield Cut::committed;
  co_return std::move(out);
}

Resumable<OptimStepResponse> TrainingRun::step(AdamParams params) {
  return step_by<AdamState>(params, adam_step);
}

Resumable<OptimStepResponse> TrainingRun::step(MuonParams params) {
  return step_by<MuonState>(params, muon_step);
}

Resumable<void> TrainingRun::restore(std::shared_ptr<const Adapter> adapter, OptimizerState state) {
  auto forgetting = discard_gradients();  // takes memory, so before anything changes
  adapter_ = std::move(adapter);
  state_ = std::move(state);
  return forgetting;
}

Resumable<void> TrainingRun::discard_gradients() {
  for (std::size_t done = 0; done < gradients_.size(); done += kNumbersOfStep) {
    for_parts(*compute_->threads, done, gradients_.size(), [&](std::size_t at, std::size_t count) {
      std::fill_n(gradients_.data() + at, count, 0.0F);
    });
    co_yield Cut::committed;
  }
  co_return Result<void>();
}

}  // namespace tinker::engine
