#include "tinker/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/environment.h"
#include "base/strings.h"
#include "engine/checkpoint.h"
#include "engine/machine_memory.h"
#include "engine/merged_model.h"
#include "engine/sampler.h"
#include "engine/training_run.h"
#include "tinker/check.h"
#include "tinker/rng.h"

namespace tinker {
namespace {

constexpr std::size_t kMostThreads = 1024;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}
Error failure_of(const std::exception& thrown) {
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  return {.code = ErrorCode::internal, .message = is_memory ? "out of memory" : thrown.what()};
}

/// Before memory is taken that the machine may not have: it would end the program, not the call.
Result<void> check_room(std::string_view what, std::size_t needed, std::size_t room) {
  if (needed <= room) return {};
  return invalid(base::concat(
      what, " needs ", (needed + kMiB - 1) / kMiB, " MiB, and ", room / kMiB, " MiB are left"));
}

}  // namespace

/// One thread computes at a time, in the order in which they came. Who wants samples leaves the
/// request here; one of those that wait takes the next step for all, and then lets others in.
struct Engine::State {
  /// A request that waits, or its answer. Both belong to the thread that computes, until the mutex
  /// says that it is answered.
  struct Asked {
    engine::SampleJob job = {};
    std::stop_token stop = {};
    std::optional<engine::Sampler::Id> id = {};
    std::optional<Result<SampleResponse>> answer = {};
    bool is_answered = false;
  };

  State(std::unique_ptr<engine::ThreadPool> pool,
        std::shared_ptr<const engine::Model> loaded,
        std::filesystem::path from,
        const EngineOptions& given)
      : options(given),
        source(std::move(from)),
        threads(std::move(pool)),
        model(std::move(loaded)),
        trainer(model, *threads, {}),
        sampler(
            model, *threads, {.cache_bytes = given.cache_bytes, .token_bytes = given.token_bytes}) {
  }

  /// Calls f, which gives a `Result`, while nobody else computes.
  template <typename F>
  auto compute(F f) -> decltype(f()) {
    std::unique_lock lock(mutex);
    const Turn turn(*this, lock);
    try {
      return f();
    } catch (const std::exception& thrown) {
      return failure_of(thrown);
    }
  }

  /// Returns when all are answered.
  void sample(std::span<const std::shared_ptr<Asked>> asked) {
    std::unique_lock lock(mutex);
    arrivals.insert(arrivals.end(), asked.begin(), asked.end());
    const auto is_done = [&] {
      return std::ranges::all_of(asked, [](const auto& one) { return one->is_answered; });
    };
    for (;;) {
      free.wait(lock, [&] { return !is_sampling || is_done(); });
      if (is_done()) return;
      const Lead lead(*this);
      const Turn turn(*this, lock);
      step();
    }
  }

  std::uint64_t next_seed() {
    const std::scoped_lock lock(mutex);
    return rng.next();
  }

  /// Whether there is memory for an adapter and its gradients.
  [[nodiscard]] Result<void> check_adapter(const engine::LoraLayout& layout) const {
    const std::size_t needed =
        engine::Adapter::bytes(model->kernels(), layout) + layout.parameters() * sizeof(float);
    return check_room(base::concat("an adapter of rank ", layout.config().rank),
                      needed,
                      engine::available_memory());
  }
  /// Requires that it is called by `compute`.
  std::shared_ptr<const engine::Adapter> adapter_of(engine::Checkpoint& saved) const {
    return engine::Adapter::with_values(*model, saved.layout, std::move(saved.values), *threads);
  }

  EngineOptions options;
  std::filesystem::path source;  // absolute
  std::unique_ptr<engine::ThreadPool> threads;
  std::shared_ptr<const engine::Model> model;
  engine::Trainer trainer;
  engine::Sampler sampler;

  std::mutex mutex;
  std::condition_variable free;
  std::uint64_t last_ticket = 0;
  std::uint64_t served = 0;  // the ticket whose owner computes, or may
  bool is_sampling = false;  // somebody takes the next step, or waits for its turn to do so
  std::vector<std::shared_ptr<Asked>> arrivals;
  Rng rng = Rng::from_entropy();
  // Of the thread that computes:
  std::vector<std::shared_ptr<Asked>> running;
  std::vector<std::shared_ptr<Asked>> answered;

 private:
  /// While it lives, this thread computes, without the lock; then the next one may, whatever
  /// happened.
  class Turn {
   public:
    Turn(State& state, std::unique_lock<std::mutex>& lock) : state_(state), lock_(lock) {
      const std::uint64_t ticket = state_.last_ticket++;
      state_.free.wait(lock_, [&] { return state_.served == ticket; });
      lock_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      lock_.lock();
      for (const auto& one : std::exchange(state_.answered, {})) one->is_answered = true;
      ++state_.served;
      state_.free.notify_all();
    }

   private:
    State& state_;
    std::unique_lock<std::mutex>& lock_;
  };

  /// While it lives, others leave the steps of the sampler to this thread. Requires the lock at its
  /// beginning and at its end.
  class Lead {
   public:
    explicit Lead(State& state) : state_(state) { state_.is_sampling = true; }
    Lead(const Lead&) = delete;
    Lead& operator=(const Lead&) = delete;
    ~Lead() { state_.is_sampling = false; }

   private:
    State& state_;
  };

  /// One step for all that is asked for. Nothing escapes: what cannot go on is answered.
  void step() {
    std::vector<std::shared_ptr<Asked>> arrived;
    {
      const std::scoped_lock lock(mutex);
      arrived.swap(arrivals);
    }
    for (const auto& one : arrived) submit(one);
    cancel_stopped();
    try {
      sampler.step();
    } catch (const std::exception& thrown) {
      cancel(failure_of(thrown), [](const Asked& /*one*/) { return true; });
    }
  }
  void submit(const std::shared_ptr<Asked>& one) {
    running.push_back(one);
    try {
      const auto id = sampler.submit(
          std::move(one->job),
          [this, one](Result<SampleResponse> answer) { end(one, std::move(answer)); });
      if (id.ok()) {
        one->id = *id;
      } else {
        end(one, id.error());
      }
    } catch (const std::exception& thrown) {
      end(one, failure_of(thrown));
    }
  }
  void end(const std::shared_ptr<Asked>& one, Result<SampleResponse> answer) {
    one->answer = std::move(answer);
    answered.push_back(one);
    std::erase(running, one);
  }
  template <typename F>
  void cancel(const Error& why, F applies) {
    for (const auto& one : std::vector(running)) {
      if (!applies(*one)) continue;
      sampler.cancel(*one->id);
      end(one, why);
    }
  }
  void cancel_stopped() {
    cancel({.code = ErrorCode::cancelled, .message = "asked to stop"},
           [](const Asked& one) { return one.stop.stop_requested(); });
  }
};

struct LocalTrainer::State {
  State(std::shared_ptr<Engine::State> from, std::shared_ptr<const engine::Adapter> adapter)
      : engine(std::move(from)),
        run(engine->trainer, engine->model, *engine->threads, std::move(adapter)) {}

  /// A call over these data, if there is memory for it.
  template <typename F>
  Result<ForwardBackwardOutput> compute(std::span<const Datum> data, F f) {
    return engine->compute([&]() -> Result<ForwardBackwardOutput> {
      TINKER_TRY(check_memory(data));
      return f();
    });
  }

  template <typename Params>
  Result<OptimStepResponse> step(const Params& params) {
    return engine->compute([&]() -> Result<OptimStepResponse> {
      TINKER_TRY(check_room("a step", run.bytes_of_step(), engine::available_memory()));
      return run.step(params);
    });
  }

  std::shared_ptr<Engine::State> engine;
  engine::TrainingRun run;

 private:
  /// Layers are computed again where keeping them would be too much.
  [[nodiscard]] Result<void> check_memory(std::span<const Datum> data) const {
    auto& trainer = engine->trainer;
    const std::size_t limit = engine->options.training_bytes != 0
                                  ? engine->options.training_bytes
                                  : engine::available_memory() + trainer.bytes_held();
    trainer.let_keep_layers(true);
    TINKER_TRY(std::size_t needed, run.bytes_needed(data));
    if (needed > limit) {
      trainer.let_keep_layers(false);
      TINKER_TRY(needed, run.bytes_needed(data));
    }
    return check_room("this batch, whose longest sequence decides,", needed, limit);
  }
};

Result<ForwardBackwardOutput> LocalTrainer::forward(std::span<const Datum> data,
                                                    LossFn loss,
                                                    const LossFnConfig& config) const {
  TINKER_TRY(const auto token_loss, engine::TokenLoss::create(loss, config));
  return state_->compute(data, [&] { return state_->run.run(data, token_loss, false); });
}

Result<ForwardBackwardOutput> LocalTrainer::forward(std::span<const Datum> data,
                                                    const loss::Formula& formula) const {
  return state_->compute(data, [&] { return state_->run.run(data, formula, false); });
}

Result<ForwardBackwardOutput> LocalTrainer::forward_backward(std::span<const Datum> data,
                                                             LossFn loss,
                                                             const LossFnConfig& config) const {
  TINKER_TRY(const auto token_loss, engine::TokenLoss::create(loss, config));
  return state_->compute(data, [&] { return state_->run.run(data, token_loss, true); });
}

Result<ForwardBackwardOutput> LocalTrainer::forward_backward(std::span<const Datum> data,
                                                             const loss::Formula& formula) const {
  return state_->compute(data, [&] { return state_->run.run(data, formula, true); });
}

Result<OptimStepResponse> LocalTrainer::optim_step(const AdamParams& params) const {
  return state_->step(params);
}

Result<std::size_t> LocalTrainer::memory_needed(std::span<const Datum> data) const {
  return state_->engine->compute([&] {
    state_->engine->trainer.let_keep_layers(true);
    return state_->run.bytes_needed(data);
  });
}

std::size_t LocalTrainer::memory_used() const {
  return *state_->engine->compute(
      [&]() -> Result<std::size_t> { return state_->engine->trainer.bytes_held(); });
}

Result<OptimStepResponse> LocalTrainer::muon_step(const MuonParams& params) const {
  return state_->step(params);
}

Result<OptimStepResponse> LocalTrainer::requested_step(const OptimParams& params) const {
  if (const auto* const adam = std::get_if<AdamParams>(&params)) return optim_step(*adam);
  const auto* const other = std::get_if<OtherOptimParams>(&params);
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(other == nullptr ? "dimuon" : other->type,
                                       ": not an optimizer whose definition is public; there are "
                                       "adamw (AdamParams) and muon (MuonParams)")};
}

AdapterSnapshot LocalTrainer::snapshot() const {
  return *state_->engine->compute(
      [&]() -> Result<AdapterSnapshot> { return AdapterSnapshot(state_->run.adapter()); });
}

Result<void> LocalTrainer::save(const std::filesystem::path& folder, CheckpointParts parts) const {
  // Copied, so that others may compute while it is written.
  std::shared_ptr<const engine::Adapter> adapter;
  std::optional<engine::OptimizerState> optimizer;
  TINKER_TRY(state_->engine->compute([&]() -> Result<void> {
    adapter = state_->run.adapter();
    if (parts == CheckpointParts::weights_and_optimizer)
      optimizer = engine::copy_of(state_->run.optimizer());
    return {};
  }));
  return engine::save_checkpoint(
      folder, *adapter, optimizer ? &*optimizer : nullptr, state_->engine->source.string());
}

Result<void> LocalTrainer::load(const std::filesystem::path& folder, CheckpointParts parts) const {
  const auto& model = *state_->engine->model;
  TINKER_TRY(auto saved, engine::load_checkpoint(folder, model.config(), parts));
  return state_->engine->compute([&]() -> Result<void> {
    const auto same =
        engine::check_same_shape(saved.layout->config(), state_->run.adapter()->layout().config());
    if (!same.ok()) return same.error().with_context(folder.string());
    state_->run.restore(state_->engine->adapter_of(saved), std::move(saved.optimizer));
    return {};
  });
}

Result<Engine> Engine::load(const std::filesystem::path& model, const EngineOptions& options) {
  auto name = options.cpu;
  if (!name) name = base::variable({}, "TINKER_CPU");
  TINKER_TRY(const auto path, engine::choose_cpu_path(name));
  const auto precision =
      options.precision == EnginePrecision::f32 ? engine::Precision::f32 : engine::Precision::bf16;
  const auto& kernels = engine::kernels_of(path, precision);
  if (options.threads > kMostThreads) {
    return invalid(
        base::concat("threads is ", options.threads, "; expected at most ", kMostThreads));
  }
  const std::size_t processors =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), std::size_t{1}, kMostThreads);
  TINKER_TRY(const auto files, engine::ModelFiles::open(model));
  TINKER_TRY(check_room(
      model.string(), engine::Model::bytes(files.config(), kernels), engine::available_memory()));
  std::error_code error;
  auto source = std::filesystem::absolute(model, error);
  if (error) source = model;
  try {
    auto threads =
        std::make_unique<engine::ThreadPool>(options.threads != 0 ? options.threads : processors);
    TINKER_TRY(auto loaded, engine::Model::load(files, kernels, *threads));
    return Engine(
        std::make_shared<State>(std::move(threads), std::move(loaded), std::move(source), options));
  } catch (const std::exception& thrown) {  // no memory, or no threads
    return failure_of(thrown).with_context(model.string());
  }
}

Result<LocalTrainer> Engine::create_adapter(const LoraConfig& config) const {
  if (config.rank < 1) {
    return invalid(base::concat("rank is ", config.rank, "; expected at least 1"));
  }
  TINKER_TRY(auto layout,
             engine::LoraLayout::create(state_->model->config(),
                                        {.rank = static_cast<std::size_t>(config.rank),
                                         .train_attn = config.train_attn,
                                         .train_mlp = config.train_mlp,
                                         .train_unembed = config.train_unembed}));
  return state_->compute([&]() -> Result<LocalTrainer> {
    TINKER_TRY(state_->check_adapter(*layout));
    const std::uint64_t seed = config.seed ? config.seed->bits() : state_->next_seed();
    auto adapter =
        engine::Adapter::create(*state_->model, std::move(layout), seed, *state_->threads);
    return LocalTrainer(std::make_shared<LocalTrainer::State>(state_, std::move(adapter)));
  });
}

Result<LocalTrainer> Engine::load_adapter(const std::filesystem::path& folder,
                                          CheckpointParts parts) const {
  TINKER_TRY(auto saved, engine::load_checkpoint(folder, state_->model->config(), parts));
  return state_->compute([&]() -> Result<LocalTrainer> {
    TINKER_TRY(state_->check_adapter(*saved.layout));
    auto trainer = std::make_shared<LocalTrainer::State>(state_, state_->adapter_of(saved));
    trainer->run.restore(trainer->run.adapter(), std::move(saved.optimizer));
    return LocalTrainer(std::move(trainer));
  });
}

Result<AdapterSnapshot> Engine::load_snapshot(const std::filesystem::path& folder) const {
  TINKER_TRY(auto saved,
             engine::load_checkpoint(folder, state_->model->config(), CheckpointParts::weights));
  return state_->compute(
      [&]() -> Result<AdapterSnapshot> { return AdapterSnapshot(state_->adapter_of(saved)); });
}

Result<void> Engine::export_merged(const AdapterSnapshot& from,
                                   const std::filesystem::path& folder,
                                   const ExportOptions& options) const {
  TINKER_TRY(const auto base, engine::ModelFiles::open(state_->source));
  if (base.config() != state_->model->config()) {
    return invalid(state_->source.string() + " is no longer the model that was loaded");
  }
  // Threads of its own, so that others may compute with those of the engine.
  engine::ThreadPool threads(state_->threads->size());
  return engine::write_merged_model(
      folder,
      {.base = base,
       .source = state_->source,
       .adapter = from.adapter_.get(),
       .precision = options.precision.value_or(state_->options.precision)},
      threads);
}

Result<SampleResponse> Engine::sample(const SampleRequest& request,
                                      const AdapterSnapshot& from,
                                      const std::stop_token& stop) const {
  return std::move(sample(std::span(&request, 1), from, stop)[0]);
}

std::vector<Result<SampleResponse>> Engine::sample(std::span<const SampleRequest> requests,
                                                   const AdapterSnapshot& from,
                                                   const std::stop_token& stop) const {
  return sample(requests, std::vector(requests.size(), from), stop);
}

std::vector<Result<SampleResponse>> Engine::sample(std::span<const SampleRequest> requests,
                                                   std::span<const AdapterSnapshot> from,
                                                   const std::stop_token& stop) const {
  TINKER_CHECK(requests.size() == from.size());
  std::vector<std::shared_ptr<State::Asked>> asked;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& seed = requests[i].sampling_params.seed;
    const std::uint64_t bits = seed ? seed->bits() : state_->next_seed();
    asked.push_back(std::make_shared<State::Asked>(State::Asked{
        .job = {.adapter = from[i].adapter_, .request = requests[i], .seed = bits}, .stop = stop}));
  }
  state_->sample(asked);
  std::vector<Result<SampleResponse>> out;
  out.reserve(asked.size());
  for (const auto& one : asked) out.push_back(*std::move(one->answer));
  return out;
}

}  // namespace tinker
