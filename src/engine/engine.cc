#include "tinker/engine.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stop_token>
#include <thread>
#include <type_traits>
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

/// One thread computes at a time. Who wants samples leaves the request here, and whoever finds
/// nobody computing takes the next step for all.
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

  /// Calls f while nobody else computes.
  template <typename F>
  auto compute(F f) {
    std::unique_lock lock(mutex);
    free.wait(lock, [&] { return !is_computing; });
    const Turn turn(*this, lock);
    using Out = decltype(f());
    if constexpr (std::is_constructible_v<Out, Error>) {
      try {
        return f();
      } catch (const std::bad_alloc&) {
        return Out(Error{.code = ErrorCode::internal, .message = "out of memory"});
      }
    } else {
      return f();
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
      free.wait(lock, [&] { return !is_computing || is_done(); });
      if (is_done()) return;
      const auto mine = std::exchange(arrivals, {});
      const Turn turn(*this, lock);
      for (const auto& one : mine) submit(one);
      cancel_stopped();
      sampler.step();
    }
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
  bool is_computing = false;
  std::vector<std::shared_ptr<Asked>> arrivals;
  // Of the thread that computes:
  std::vector<std::shared_ptr<Asked>> running;
  std::vector<std::shared_ptr<Asked>> answered;
  Rng rng = Rng::from_entropy();

 private:
  /// While it lives, this thread computes, without the lock; then others may, whatever happened.
  class Turn {
   public:
    Turn(State& state, std::unique_lock<std::mutex>& lock) : state_(state), lock_(lock) {
      state_.is_computing = true;
      lock_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      lock_.lock();
      for (const auto& one : std::exchange(state_.answered, {})) one->is_answered = true;
      state_.is_computing = false;
      state_.free.notify_all();
    }

   private:
    State& state_;
    std::unique_lock<std::mutex>& lock_;
  };

  void submit(const std::shared_ptr<Asked>& one) {
    const auto id = sampler.submit(std::move(one->job), [this, one](Result<SampleResponse> answer) {
      end(one, std::move(answer));
    });
    running.push_back(one);
    if (id.ok()) {
      one->id = *id;
    } else {
      end(one, id.error());
    }
  }
  void end(const std::shared_ptr<Asked>& one, Result<SampleResponse> answer) {
    one->answer = std::move(answer);
    answered.push_back(one);
    std::erase(running, one);
  }
  void cancel_stopped() {
    for (const auto& one : std::vector(running)) {
      if (!one->stop.stop_requested()) continue;
      sampler.cancel(*one->id);
      end(one, Error{.code = ErrorCode::cancelled, .message = "asked to stop"});
    }
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

  std::shared_ptr<Engine::State> engine;
  engine::TrainingRun run;

 private:
  [[nodiscard]] Result<void> check_memory(std::span<const Datum> data) const {
    constexpr std::size_t kMiB = std::size_t{1} << 20U;
    TINKER_TRY(const std::size_t needed, run.bytes_needed(data));
    const std::size_t held = engine->trainer.bytes_held();
    const std::size_t limit = engine->options.training_bytes != 0
                                  ? engine->options.training_bytes
                                  : engine::available_memory() + held;
    if (needed <= limit) return {};
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "this batch needs " + std::to_string((needed + kMiB - 1) / kMiB) +
                            " MiB, and " + std::to_string(limit / kMiB) +
                            " MiB are left; its longest sequence decides"};
  }
};

Result<ForwardBackwardOutput> LocalTrainer::forward(std::span<const Datum> data,
                                                    LossFn loss,
                                                    const LossFnConfig& config) const {
  TINKER_TRY(const auto token_loss, engine::TokenLoss::create(loss, config));
  return state_->compute(data, [&] { return state_->run.run(data, token_loss, false); });
}

Result<ForwardBackwardOutput> LocalTrainer::forward_backward(std::span<const Datum> data,
                                                             LossFn loss,
                                                             const LossFnConfig& config) const {
  TINKER_TRY(const auto token_loss, engine::TokenLoss::create(loss, config));
  return state_->compute(data, [&] { return state_->run.run(data, token_loss, true); });
}

Result<ForwardBackwardOutput> LocalTrainer::forward_backward(std::span<const Datum> data,
                                                             const loss::Formula& formula) const {
  return state_->compute(data, [&] { return state_->run.run(data, formula); });
}

Result<OptimStepResponse> LocalTrainer::optim_step(const AdamParams& params) const {
  return state_->engine->compute([&] { return state_->run.step(params); });
}

Result<std::size_t> LocalTrainer::memory_needed(std::span<const Datum> data) const {
  return state_->engine->compute([&] { return state_->run.bytes_needed(data); });
}

std::size_t LocalTrainer::memory_used() const {
  return state_->engine->compute([&] { return state_->engine->trainer.bytes_held(); });
}

Result<OptimStepResponse> LocalTrainer::muon_step(const MuonParams& params) const {
  return state_->engine->compute([&] { return state_->run.step(params); });
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
  return state_->engine->compute([&] { return AdapterSnapshot(state_->run.adapter()); });
}

Result<void> LocalTrainer::save(const std::filesystem::path& folder, CheckpointParts parts) const {
  // Copied, so that others may compute while it is written.
  std::shared_ptr<const engine::Adapter> adapter;
  std::optional<engine::OptimizerState> optimizer;
  state_->engine->compute([&] {
    adapter = state_->run.adapter();
    if (parts == CheckpointParts::weights_and_optimizer)
      optimizer = engine::copy_of(state_->run.optimizer());
    return true;
  });
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
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  auto threads =
      std::make_unique<engine::ThreadPool>(options.threads != 0 ? options.threads : processors);
  TINKER_TRY(const auto files, engine::ModelFiles::open(model));
  TINKER_TRY(auto loaded,
             engine::Model::load(files, engine::kernels_of(path, precision), *threads));
  std::error_code error;
  auto source = std::filesystem::absolute(model, error);
  if (error) source = model;
  return Engine(
      std::make_shared<State>(std::move(threads), std::move(loaded), std::move(source), options));
}

Result<LocalTrainer> Engine::create_adapter(const LoraConfig& config) const {
  if (config.rank < 1) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "rank is " + std::to_string(config.rank) + "; expected at least 1"};
  }
  TINKER_TRY(auto layout,
             engine::LoraLayout::create(state_->model->config(),
                                        {.rank = static_cast<std::size_t>(config.rank),
                                         .train_attn = config.train_attn,
                                         .train_mlp = config.train_mlp,
                                         .train_unembed = config.train_unembed}));
  return state_->compute([&]() -> Result<LocalTrainer> {
    const std::uint64_t seed = config.seed ? config.seed->bits() : state_->rng.next();
    auto adapter =
        engine::Adapter::create(*state_->model, std::move(layout), seed, *state_->threads);
    return LocalTrainer(std::make_shared<LocalTrainer::State>(state_, std::move(adapter)));
  });
}

Result<LocalTrainer> Engine::load_adapter(const std::filesystem::path& folder,
                                          CheckpointParts parts) const {
  TINKER_TRY(auto saved, engine::load_checkpoint(folder, state_->model->config(), parts));
  return state_->compute([&] {
    auto trainer = std::make_shared<LocalTrainer::State>(state_, state_->adapter_of(saved));
    trainer->run.restore(trainer->run.adapter(), std::move(saved.optimizer));
    return LocalTrainer(std::move(trainer));
  });
}

Result<AdapterSnapshot> Engine::load_snapshot(const std::filesystem::path& folder) const {
  TINKER_TRY(auto saved,
             engine::load_checkpoint(folder, state_->model->config(), CheckpointParts::weights));
  return state_->compute([&] { return AdapterSnapshot(state_->adapter_of(saved)); });
}

Result<void> Engine::export_merged(const AdapterSnapshot& from,
                                   const std::filesystem::path& folder,
                                   const ExportOptions& options) const {
  TINKER_TRY(const auto base, engine::ModelFiles::open(state_->source));
  if (base.config() != state_->model->config()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = state_->source.string() + " is no longer the model that was loaded"};
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
    const std::uint64_t bits =
        seed ? seed->bits() : state_->compute([&] { return state_->rng.next(); });
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
