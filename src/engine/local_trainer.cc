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
engine::Resumable<OptimStepResponse> take_step(std::shared_ptr<TrainerState> state, Params params) {
  auto& run = state->run;
  TINKER_CO_TRY(engine::check_room("a step", run.bytes_of_step(), engine::available_memory()));
  auto steps = run.step(params);
  while (steps.step()) co_yield steps.cut();
  co_return steps.take();
}

/// What a checkpoint is written from.
struct Saved {
  std::shared_ptr<const engine::Adapter> adapter = {};
  std::optional<engine::OptimizerState> optimizer = {};
};

engine::Resumable<Saved> to_save(std::shared_ptr<const engine::Adapter> adapter) {
  co_return Saved{.adapter = std::move(adapter)};
}

/// Copied, so that others may compute while it is written.
engine::Resumable<Saved> copy_to_save(std::shared_ptr<TrainerState> state, CheckpointParts parts) {
  const auto& run = state->run;
  Saved out = {.adapter = run.adapter()};
  if (parts == CheckpointParts::weights_and_optimizer) {
    TINKER_CO_TRY(engine::check_room("a copy of the optimizer's state, to be saved,",
                                     engine::bytes_of(run.optimizer()),
                                     engine::available_memory()));
    auto copying = engine::copy_of(run.optimizer(), run.threads());
    while (copying.step()) co_yield engine::Cut::between;
    TINKER_CO_TRY(out.optimizer, copying.take());
  }
  co_return std::move(out);
}

engine::Resumable<void> load_into(std::shared_ptr<TrainerState> state,
                                  std::shared_ptr<engine::Compute> compute,
                                  std::filesystem::path folder,
                                  engine::Resumable<engine::Checkpoint> reading) {
  while (reading.step()) co_yield reading.cut();
  TINKER_CO_TRY(auto saved, reading.take());
  auto& run = state->run;
  const auto same =
      engine::check_same_shape(saved.layout->config(), run.adapter()->layout().config());
  if (!same.ok()) co_return same.error().with_context(folder.string());
  auto packing = engine::adapter_of(*compute, saved);
  while (packing.step()) co_yield packing.cut();
  TINKER_CO_TRY(auto adapter, packing.take());
  auto restoring = run.restore(std::move(adapter), std::move(saved.optimizer));
  while (restoring.step()) co_yield engine::Cut::committed;
  co_return restoring.take();
}

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
  return core_->submit(pass("forward"),
                       state_->line,
                       pass_over(std::move(data), *std::move(made), Pass::forward, state_));
}

Future<Output> LocalTrainer::forward_async(std::vector<Datum> data, loss::Formula formula) const {
  return core_->submit(pass("forward"),
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
      pass("forward_backward"),
      state_->line,
      pass_over(std::move(data), *std::move(made), Pass::forward_backward, state_));
}

Future<Output> LocalTrainer::forward_backward_async(std::vector<Datum> data,
                                                    loss::Formula formula) const {
  return core_->submit(
      pass("forward_backward"),
      state_->line,
      pass_over(std::move(data), std::move(formula), Pass::forward_backward, state_));
}

// ---- steps ----

Result<OptimStepResponse> LocalTrainer::optim_step(const AdamParams& params) const {
  return wait_for([&] { return optim_step_async(params); });
}

Future<OptimStepResponse> LocalTrainer::optim_step_async(const AdamParams& params) const {
  return core_->submit<OptimStepResponse>(
      call("optim_step"), state_->line, [state = state_, params] {
        return take_step(state, params);
      });
}

Future<OptimStepResponse> LocalTrainer::muon_step(const MuonParams& params) const {
  return core_->submit<OptimStepResponse>(
      call("optim_step"), state_->line, [state = state_, params] {
        return take_step(state, params);
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
  return core_->submit<void>(call("discard_gradients"), state_->line, [state = state_] {
    return state->run.discard_gradients();
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
  return core_->submit_then<Saved>(
      call("save"),
      state_->line,
      [state = state_, parts] { return copy_to_save(state, parts); },
      [folder = std::move(folder), source = core_->source().string()](Saved saved) {
        const auto* const optimizer = saved.optimizer ? &*saved.optimizer : nullptr;
        return engine::save_checkpoint(folder, *saved.adapter, optimizer, source);
      });
}

Future<void> LocalTrainer::save_async(AdapterSnapshot from, std::filesystem::path folder) const {
  return core_->submit_then<Saved>(
      call("save"),
      state_->line,
      [adapter = std::move(from.adapter_)] { return to_save(adapter); },
      [folder = std::move(folder), source = core_->source().string()](Saved saved) {
        return engine::save_checkpoint(folder, *saved.adapter, nullptr, source);
      });
}

Result<void> LocalTrainer::load(const std::filesystem::path& folder, CheckpointParts parts) const {
  return wait_for([&] { return load_async(folder, parts); });
}

Future<void> LocalTrainer::load_async(std::filesystem::path folder, CheckpointParts parts) const {
  auto start = [state = state_,
                compute = core_->compute(),
                read = core_->reader_of(state_->line, folder, parts),
                folder]() mutable { return load_into(state, compute, folder, read()); };
  return core_->submit<void>(call("load"), state_->line, std::move(start));
}

engine::EngineCall LocalTrainer::call(const char* name) const {
  return {.name = name, .options = options_, .tenant = tenant_};
}

engine::EngineCall LocalTrainer::pass(const char* name) const {
  return {.name = name, .options = options_, .tenant = tenant_, .uses_passes = true};
}

}  // namespace tinker
