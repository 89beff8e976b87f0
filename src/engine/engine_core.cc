#include "engine/engine_core.h"

#include <atomic>

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

/// What is read on the thread for files, while the work that `wake` wakes waits for it.
Resumable<Checkpoint> read_checkpoint(std::shared_ptr<Executor> files,
                                      UniqueFunction<void()> wake,
                                      std::shared_ptr<const Model> model,
                                      std::filesystem::path folder,
                                      CheckpointParts parts) {
  struct Reading {
    std::atomic<bool> is_over = false;
    Result<Checkpoint> result = Error{};
  };
  const auto reading = std::make_shared<Reading>();
  files->post([reading, wake = std::move(wake), model, folder, parts]() mutable {
    try {
      reading->result = load_checkpoint(folder, model->config(), parts);
    } catch (...) {
      reading->result = error_in_flight();
    }
    reading->is_over.store(true, std::memory_order_release);
    wake();
  });
  while (!reading->is_over.load(std::memory_order_acquire)) co_yield Cut::waiting;
  co_return std::move(reading->result);
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
                             .sampling_weight = options.sampling_weight}}) {}

Resumable<std::shared_ptr<const Adapter>> adapter_of(const Compute& compute, Checkpoint& saved) {
  return Adapter::begin_with_values(
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

std::optional<Error> EngineCore::end_of(const WorkOptions& ticket) {
  const bool is_stopped = ticket.stop.stop_requested();
  if (!is_stopped && !(ticket.deadline && *ticket.deadline <= Clock::system().now()))
    return std::nullopt;
  return Error{.code = is_stopped ? ErrorCode::cancelled : ErrorCode::deadline_exceeded,
               .message = base::concat(ticket.name,
                                       is_stopped ? " was asked to stop" : " passed its deadline",
                                       " while it waited for the disk; nothing was written")};
}

Future<void> EngineCore::submit_file_work(EngineCall call, UniqueFunction<Result<void>()> work) {
  Promise<void> promise(callbacks_);
  auto future = promise.future();
  auto ticket = work_options(std::move(call), promise);
  files_->post([promise = std::move(promise),
                ticket = std::move(ticket),
                work = std::move(work)]() mutable { write(promise, ticket, work); });
  return future;
}

UniqueFunction<Resumable<Checkpoint>()> EngineCore::reader_of(LineId line,
                                                              std::filesystem::path folder,
                                                              CheckpointParts parts) const {
  return [files = files_,
          wake = scheduler_.waker_of(line),
          model = compute_->model,
          folder = std::move(folder),
          parts]() mutable {
    return read_checkpoint(files, std::move(wake), model, std::move(folder), parts);
  };
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
