#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "engine/checkpoint.h"
#include "engine/engine_core.h"
#include "engine/machine_memory.h"
#include "tinker/engine.h"

namespace tinker {
namespace {

using engine::TrainerState;
using engine::wait_for;
using Output = ForwardBackwardOutput;

enum class Pass { forward, forward_backward };

/// A pass over data that it owns. `Loss` is a `TokenLoss` or a `Formula`.
template <typename Loss>
UniqueFunction<engine::Resumable<Output>()> pass_over(std::vector<Datum> data,
                                                      Loss loss,
                                                      Pass pass,
                                                      std::shared_ptr<TrainerState> state) {
  return [data = std::move(data), loss = std::move(loss), pass, state = std::move(state)] {
    return state->run.run(data, loss, pass == Pass::forward_backward);
  };
}

/// A step of `AdamParams` or `MuonParams`, if there is memory for it.
template <typename Params>
Result<OptimStepResponse> take_step(engine::TrainingRun& run, const Params& params) {
  TINKER_TRY(engine::check_room("a step", run.bytes_of_step(), engine::available_memory()));
  return run.step(params);
}

/// What a checkpoint is written from.
struct Saved {
  std::shared_ptr<const engine::Adapter> adapter = {};
  std::optional<engine::OptimizerState> optimizer = {};
};

}  // namespace

LocalTrainer LocalTrainer::with(CallOptions options) const {
  auto out = *this;
  out.options_ = std::move(options);
  return out;
}

LocalTrainer LocalTrainer::for_tenant(std::string tenant) const {
  auto out = *this;
  out.tenant_ = std::move(tenant);
  return out;
}

// ---- passes ----

Result<Output> LocalTrainer::forward(std::span<const Datum> data,
                                     LossFn loss,
                                     const LossFnConfig& config) const {
  return wait_for([&] { return forward_async({data.begin(), data.end()}, loss, config); });
}

Result<Output> LocalTrainer::forward(std::span<const Datum> data,
                                     const loss::Formula& formula) const {
  return wait_for([&] { return forward_async({data.begin(), data.end()}, formula); });
}

Future<Output> LocalTrainer::forward_async(std::vector<Datum> data, LossFn loss) const {
  return forward_async(std::move(data), loss, LossFnConfig());
}

Future<Output> LocalTrainer::forward_async(std::vector<Datum> data,
                                           LossFn loss,
                                           LossFnConfig config) const {
  auto made = engine::TokenLoss::create(loss, config);
  if (!made.ok()) return Future<Output>::ready(std::move(made).error());
  return core_->submit(call("forward"),
                       state_->line,
                       pass_over(std::move(data), *std::move(made), Pass::forward, state_));
}

Future<Output> LocalTrainer::forward_async(std::vector<Datum> data, loss::Formula formula) const {
  return core_->submit(call("forward"),
                       state_->line,
                       pass_over(std::move(data), std::move(formula), Pass::forward, state_));
}

Result<Output> LocalTrainer::forward_backward(std::span<const Datum> data,
                                              LossFn loss,
                                              const LossFnConfig& config) const {
  return wait_for([&] { return forward_backward_async({data.begin(), data.end()}, loss, config); });
}

Result<Output> LocalTrainer::forward_backward(std::span<const Datum> data,
                                              const loss::Formula& formula) const {
  return wait_for([&] { return forward_backward_async({data.begin(), data.end()}, formula); });
}

Future<Output> LocalTrainer::forward_backward_async(std::vector<Datum> data, LossFn loss) const {
  return forward_backward_async(std::move(data), loss, LossFnConfig());
}

Future<Output> LocalTrainer::forward_backward_async(std::vector<Datum> data,
                                                    LossFn loss,
                                                    LossFnConfig config) const {
  auto made = engine::TokenLoss::create(loss, config);
  if (!made.ok()) return Future<Output>::ready(std::move(made).error());
  return core_->submit(
      call("forward_backward"),
      state_->line,
      pass_over(std::move(data), *std::move(made), Pass::forward_backward, state_));
}

Future<Output> LocalTrainer::forward_backward_async(std::vector<Datum> data,
                                                    loss::Formula formula) const {
  return core_->submit(
      call("forward_backward"),
      state_->line,
      pass_over(std::move(data), std::move(formula), Pass::forward_backward, state_));
}

// ---- steps ----

Result<OptimStepResponse> LocalTrainer::optim_step(const AdamParams& params) const {
  return wait_for([&] { return optim_step_async(params); });
}

Future<OptimStepResponse> LocalTrainer::optim_step_async(const AdamParams& params) const {
  return core_->submit_once<OptimStepResponse>(
      call("optim_step"), state_->line, [state = state_, params] {
        return take_step(state->run, params);
      });
}

Future<OptimStepResponse> LocalTrainer::muon_step(const MuonParams& params) const {
  return core_->submit_once<OptimStepResponse>(
      call("optim_step"), state_->line, [state = state_, params] {
        return take_step(state->run, params);
      });
}

Result<OptimStepResponse> LocalTrainer::wait_for_muon_step(const MuonParams& params) const {
  return wait_for([&] { return muon_step(params); });
}

Result<OptimStepResponse> LocalTrainer::wait_for_requested_step(const OptimParams& params) const {
  return wait_for([&] { return requested_step(params); });
}

Future<OptimStepResponse> LocalTrainer::requested_step(const OptimParams& params) const {
  if (const auto* const adam = std::get_if<AdamParams>(&params)) return optim_step_async(*adam);
  const auto* const other = std::get_if<OtherOptimParams>(&params);
  return Future<OptimStepResponse>::ready(
      Error{.code = ErrorCode::invalid_argument,
            .message = base::concat(other == nullptr ? "dimuon" : other->type,
                                    ": not an optimizer whose definition is public; there are "
                                    "adamw (AdamParams) and muon (MuonParams)")});
}

Result<void> LocalTrainer::discard_gradients() const {
  return wait_for([&] { return discard_gradients_async(); });
}

Future<void> LocalTrainer::discard_gradients_async() const {
  return core_->submit_once<void>(
      call("discard_gradients"), state_->line, [state = state_]() -> Result<void> {
        state->run.discard_gradients();
        return {};
      });
}

// ---- what it takes, and what it is ----

Result<std::size_t> LocalTrainer::memory_needed(std::span<const Datum> data) const {
  return wait_for([&] {
    return core_->submit_once<std::size_t>(
        call("memory_needed"),
        state_->line,
        [state = state_, mine = std::vector(data.begin(), data.end())] {
          return state->run.bytes_needed(mine);
        });
  });
}

Result<std::size_t> LocalTrainer::memory_used() const {
  return wait_for([&] {
    return core_->submit_once<std::size_t>(
        call("memory_used"), state_->line, [compute = core_->compute()]() -> Result<std::size_t> {
          return compute->trainer.bytes_held();
        });
  });
}

Result<AdapterSnapshot> LocalTrainer::snapshot() const {
  return wait_for([&] { return snapshot_async(); });
}

Future<AdapterSnapshot> LocalTrainer::snapshot_async() const {
  return core_->submit_once<AdapterSnapshot>(
      call("snapshot"), state_->line, [state = state_]() -> Result<AdapterSnapshot> {
        return AdapterSnapshot(state->run.adapter());
      });
}

// ---- checkpoints ----

Result<void> LocalTrainer::save(const std::filesystem::path& folder, CheckpointParts parts) const {
  return wait_for([&] { return save_async(folder, parts); });
}

Future<void> LocalTrainer::save_async(std::filesystem::path folder, CheckpointParts parts) const {
  // Copied, so that others may compute while it is written.
  const bool has_optimizer = parts == CheckpointParts::weights_and_optimizer;
  return core_->submit_then<Saved>(
      call("save"),
      state_->line,
      [state = state_, has_optimizer]() -> Result<Saved> {
        Saved out = {.adapter = state->run.adapter()};
        if (has_optimizer) out.optimizer = engine::copy_of(state->run.optimizer());
        return out;
      },
      [folder = std::move(folder), source = core_->source().string()](Saved saved) {
        const auto* const optimizer = saved.optimizer ? &*saved.optimizer : nullptr;
        return engine::save_checkpoint(folder, *saved.adapter, optimizer, source);
      });
}

Result<void> LocalTrainer::load(const std::filesystem::path& folder, CheckpointParts parts) const {
  TINKER_TRY(auto saved, engine::load_checkpoint(folder, core_->model().config(), parts));
  auto restore = [state = state_,
                  core = core_->compute(),
                  folder,
                  saved = std::move(saved)]() mutable -> Result<void> {
    auto& run = state->run;
    const auto same =
        engine::check_same_shape(saved.layout->config(), run.adapter()->layout().config());
    if (!same.ok()) return same.error().with_context(folder.string());
    run.restore(engine::adapter_of(*core, saved), std::move(saved.optimizer));
    return {};
  };
  return wait_for(
      [&] { return core_->submit_once<void>(call("load"), state_->line, std::move(restore)); });
}

engine::EngineCall LocalTrainer::call(const char* name) const {
  return {.name = name, .options = options_, .tenant = tenant_};
}

}  // namespace tinker
