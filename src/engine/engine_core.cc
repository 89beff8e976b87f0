#include "engine/engine_core.h"

#include "base/strings.h"
#include "engine/machine_memory.h"

namespace tinker::engine {
namespace {

/// A sampler that keeps alive what it computes with.
std::shared_ptr<Sampler> make_sampler(std::shared_ptr<Compute> compute,
                                      const EngineOptions& options) {
  struct Holder {
    Holder(std::shared_ptr<Compute> of, const SamplerOptions& with)
        : compute(std::move(of)), sampler(compute->model, *compute->threads, with) {}
    std::shared_ptr<Compute> compute;
    Sampler sampler;
  };
  const auto holder = std::make_shared<Holder>(
      std::move(compute),
      SamplerOptions{.cache_bytes = options.cache_bytes, .token_bytes = options.token_bytes});
  return {holder, &holder->sampler};
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<Compute> compute,
                       std::filesystem::path source,
                       const EngineOptions& options)
    : options_(options),
      source_(std::move(source)),
      compute_(std::move(compute)),
      callbacks_(options.callbacks ? options.callbacks
                                   : std::make_shared<async::ThreadPool>("tinker-callback", 1U)),
      scheduler_(make_sampler(compute_, options),
                 {.policy = {.training_weight = options.training_weight,
                             .sampling_weight = options.sampling_weight}}),
      own_line_(scheduler_.new_line()) {}

std::shared_ptr<const Adapter> adapter_of(const Compute& compute, Checkpoint& saved) {
  return Adapter::with_values(
      *compute.model, saved.layout, std::move(saved.values), *compute.threads);
}

Future<SampleResponse> EngineCore::sample(EngineCall call, SampleJob job) {
  Promise<SampleResponse> promise(callbacks_);
  auto future = promise.future();
  job.tenant = call.tenant;
  auto options = work_options(std::move(call), promise);
  scheduler_.sample(std::move(job), std::move(options), setter(std::move(promise)));
  return future;
}

std::uint64_t EngineCore::next_seed() {
  const detail::MutexLock lock(mutex_);
  return rng_.next();
}

Result<void> EngineCore::check_adapter(const LoraLayout& layout) const {
  const std::size_t needed =
      Adapter::bytes(model().kernels(), layout) + layout.parameters() * sizeof(float);
  return check_room(
      base::concat("an adapter of rank ", layout.config().rank), needed, available_memory());
}

}  // namespace tinker::engine
