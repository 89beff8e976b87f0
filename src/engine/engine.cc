#include "tinker/engine.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "base/strings.h"
#include "engine/checkpoint.h"
#include "engine/engine_core.h"
#include "engine/machine_memory.h"
#include "engine/merged_model.h"

namespace tinker {
namespace {

Result<void> check_weight(std::string_view name, double weight) {
  if (weight > 0 && std::isfinite(weight)) return {};
  return Error::invalid_argument(
      base::concat(name, " is ", weight, "; expected a positive number"));
}

SampleRequest request_of(ModelInput prompt, SamplingParams params, SampleOptions options) {
  SampleRequest out = {.num_samples = options.num_samples,
                       .prompt = std::move(prompt),
                       .sampling_params = std::move(params),
                       .topk_prompt_logprobs = options.topk_prompt_logprobs,
                       .topk_sample_logprobs = options.topk_sample_logprobs,
                       .target_prompt_logprobs = std::move(options.target_prompt_logprobs),
                       .prompt_alt_tokens_k = options.prompt_alt_tokens_k,
                       .prompt_logprobs_last_n = options.prompt_logprobs_last_n};
  if (options.include_prompt_logprobs) out.prompt_logprobs = true;
  return out;
}

using StatePtr = std::shared_ptr<engine::TrainerState>;

/// What a new trainer is made of. The engine may go while this is under way.
engine::Resumable<StatePtr> make_state(std::weak_ptr<engine::EngineCore> weak,
                                       std::shared_ptr<const engine::LoraLayout> layout,
                                       std::uint64_t seed) {
  auto core = weak.lock();
  if (!core) co_return engine::engine_went_away();
  TINKER_CO_TRY(core->check_adapter(*layout));
  const auto compute = core->compute();
  core.reset();
  auto packing = engine::Adapter::begin_create(*compute->model, layout, seed, *compute->threads);
  while (packing.step()) co_yield packing.cut();
  TINKER_CO_TRY(auto adapter, packing.take());
  core = weak.lock();
  if (!core) co_return engine::engine_went_away();
  co_return std::make_shared<engine::TrainerState>(*core, std::move(adapter));
}

/// The same from a checkpoint.
engine::Resumable<StatePtr> restore_state(std::weak_ptr<engine::EngineCore> weak,
                                          engine::Resumable<engine::Checkpoint> reading) {
  while (reading.step()) co_yield reading.cut();
  TINKER_CO_TRY(auto saved, reading.take());
  auto core = weak.lock();
  if (!core) co_return engine::engine_went_away();
  TINKER_CO_TRY(core->check_adapter(*saved.layout));
  const auto compute = core->compute();
  core.reset();
  auto packing = engine::adapter_of(*compute, saved);
  while (packing.step()) co_yield packing.cut();
  TINKER_CO_TRY(auto adapter, packing.take());
  core = weak.lock();
  if (!core) co_return engine::engine_went_away();
  co_return std::make_shared<engine::TrainerState>(
      *core, std::move(adapter), std::move(saved.optimizer));
}

engine::Resumable<std::shared_ptr<const engine::Adapter>> restore_adapter(
    std::shared_ptr<engine::Compute> compute, engine::Resumable<engine::Checkpoint> reading) {
  while (reading.step()) co_yield reading.cut();
  TINKER_CO_TRY(auto saved, reading.take());
  auto packing = engine::adapter_of(*compute, saved);
  while (packing.step()) co_yield packing.cut();
  co_return packing.take();
}

}  // namespace

Result<Engine> Engine::load(const std::filesystem::path& model, const EngineOptions& options) {
  auto name = options.cpu;
  if (!name) name = base::variable({}, "TINKER_CPU");
  TINKER_TRY(const auto path, engine::choose_cpu_path(name));
  const auto precision =
      options.precision == EnginePrecision::f32 ? engine::Precision::f32 : engine::Precision::bf16;
  const auto& kernels = engine::kernels_of(path, precision);
  if (options.threads > engine::kMostThreads) {
    return Error::invalid_argument(
        base::concat("threads is ", options.threads, "; expected at most ", engine::kMostThreads));
  }
  TINKER_TRY(check_weight("training_weight", options.training_weight));
  TINKER_TRY(check_weight("sampling_weight", options.sampling_weight));
  TINKER_TRY(const auto files, engine::ModelFiles::open(model));
  TINKER_TRY(engine::check_room(
      model.string(), engine::Model::bytes(files.config(), kernels), engine::available_memory()));
  std::error_code error;
  auto source = std::filesystem::absolute(model, error);
  if (error) source = model;
  try {
    auto threads = std::make_unique<engine::ThreadPool>(engine::thread_count(options.threads));
    TINKER_TRY(auto loaded, engine::Model::load(files, kernels, *threads));
    auto compute = std::make_shared<engine::Compute>(std::move(threads), std::move(loaded));
    return Engine(
        std::make_shared<engine::EngineCore>(std::move(compute), std::move(source), options));
  } catch (const std::exception&) {  // no memory, or no threads
    return engine::error_in_flight().with_context(model.string());
  }
}

Engine Engine::with(CallOptions options) const {
  auto out = *this;
  out.options_ = std::move(options);
  return out;
}

Engine Engine::for_tenant(std::string tenant) const {
  auto out = *this;
  out.tenant_ = std::move(tenant);
  return out;
}

Result<LocalTrainer> Engine::create_trainer(const LoraConfig& config) const {
  return engine::wait_for([&] { return create_trainer_async(config); });
}

Future<LocalTrainer> Engine::create_trainer_async() const {
  return create_trainer_async(LoraConfig());
}

Future<LocalTrainer> Engine::create_trainer_async(LoraConfig config) const {
  using Made = Future<LocalTrainer>;
  if (config.rank < 1)
    return Made::ready(
        Error::invalid_argument(base::concat("rank is ", config.rank, "; expected at least 1")));
  auto layout = engine::LoraLayout::create(core_->model().config(),
                                           {.rank = static_cast<std::size_t>(config.rank),
                                            .train_attn = config.train_attn,
                                            .train_mlp = config.train_mlp,
                                            .train_unembed = config.train_unembed});
  if (!layout.ok()) return Made::ready(std::move(layout).error());
  const std::uint64_t seed = config.seed ? config.seed->bits() : core_->next_seed();
  auto start = [weak = std::weak_ptr(core_), layout = *std::move(layout), seed, tenant = tenant_] {
    return engine::and_then<LocalTrainer>(
        make_state(weak, layout, seed),
        [weak, tenant](StatePtr state) { return trainer_of(weak, std::move(state), tenant); });
  };
  return core_->submit<LocalTrainer>(call("create_trainer"), core_->new_line(), std::move(start));
}

Result<LocalTrainer> Engine::load_trainer(const std::filesystem::path& folder,
                                          CheckpointParts parts) const {
  return engine::wait_for([&] { return load_trainer_async(folder, parts); });
}

Future<LocalTrainer> Engine::load_trainer_async(std::filesystem::path folder,
                                                CheckpointParts parts) const {
  const auto line = core_->new_line();
  auto start = [weak = std::weak_ptr(core_),
                read = core_->reader_of(line, std::move(folder), parts),
                tenant = tenant_]() mutable {
    return engine::and_then<LocalTrainer>(
        restore_state(weak, read()),
        [weak, tenant](StatePtr state) { return trainer_of(weak, std::move(state), tenant); });
  };
  return core_->submit<LocalTrainer>(call("load_trainer"), line, std::move(start));
}

Result<AdapterSnapshot> Engine::load_snapshot(const std::filesystem::path& folder) const {
  return engine::wait_for([&] { return load_snapshot_async(folder); });
}

Future<AdapterSnapshot> Engine::load_snapshot_async(std::filesystem::path folder) const {
  const auto line = core_->new_line();
  auto start = [compute = core_->compute(),
                read =
                    core_->reader_of(line, std::move(folder), CheckpointParts::weights)]() mutable {
    return engine::and_then<AdapterSnapshot>(
        restore_adapter(compute, read()),
        [](std::shared_ptr<const engine::Adapter> adapter) -> Result<AdapterSnapshot> {
          return AdapterSnapshot(std::move(adapter));
        });
  };
  return core_->submit<AdapterSnapshot>(call("load_snapshot"), line, std::move(start));
}

Result<void> Engine::export_merged(const AdapterSnapshot& from,
                                   const std::filesystem::path& folder,
                                   const ExportOptions& options) const {
  return engine::wait_for([&] { return export_merged_async(from, folder, options); });
}

Future<void> Engine::export_merged_async(AdapterSnapshot from, std::filesystem::path folder) const {
  return export_merged_async(std::move(from), std::move(folder), ExportOptions());
}

Future<void> Engine::export_merged_async(AdapterSnapshot from,
                                         std::filesystem::path folder,
                                         ExportOptions options) const {
  auto write = [compute = core_->compute(),
                source = core_->source(),
                precision = options.precision.value_or(core_->options().precision),
                from = std::move(from),
                folder = std::move(folder)]() -> Result<void> {
    TINKER_TRY(const auto base, engine::ModelFiles::open(source));
    if (base.config() != compute->model->config())
      return Error::invalid_argument(source.string() + " is no longer the model that was loaded");
    // Threads of its own, so that others may compute with those of the engine.
    engine::ThreadPool threads(compute->threads->size());
    return engine::write_merged_model(
        folder,
        {.base = base, .source = source, .adapter = from.adapter_.get(), .precision = precision},
        threads);
  };
  return core_->submit_file_work(call("export_merged"), std::move(write));
}

Result<SampleResponse> Engine::sample(const ModelInput& prompt,
                                      const SamplingParams& params,
                                      const AdapterSnapshot& from,
                                      const SampleOptions& options) const {
  return engine::wait_for([&] { return sample_async(prompt, params, from, options); });
}

Future<SampleResponse> Engine::sample_async(ModelInput prompt, SamplingParams params) const {
  return sample_async(std::move(prompt), std::move(params), AdapterSnapshot(), SampleOptions());
}

Future<SampleResponse> Engine::sample_async(ModelInput prompt,
                                            SamplingParams params,
                                            AdapterSnapshot from) const {
  return sample_async(std::move(prompt), std::move(params), std::move(from), SampleOptions());
}

Future<SampleResponse> Engine::sample_async(ModelInput prompt,
                                            SamplingParams params,
                                            AdapterSnapshot from,
                                            SampleOptions options) const {
  return sample_async(
      std::move(prompt), std::move(params), std::move(from), std::move(options), nullptr);
}

std::size_t AdapterSnapshot::bytes() const noexcept {
  return adapter_ ? adapter_->bytes() : 0;
}

EngineQueue Engine::queue() const noexcept {
  return core_->queue();
}

void Engine::limit_training(std::size_t bytes) const noexcept {
  core_->compute()->training_limit = bytes;
}

Future<SampleResponse> Engine::sample_async(ModelInput prompt,
                                            SamplingParams params,
                                            AdapterSnapshot from,
                                            SampleOptions options,
                                            std::shared_ptr<SampleProgress> progress) const {
  const std::uint64_t seed = params.seed ? params.seed->bits() : core_->next_seed();
  return core_->sample(
      call("sample"),
      {.adapter = std::move(from.adapter_),
       .request = request_of(std::move(prompt), std::move(params), std::move(options)),
       .seed = seed,
       .progress = std::move(progress)});
}

Result<LocalTrainer> Engine::trainer_of(const std::weak_ptr<engine::EngineCore>& weak,
                                        StatePtr state,
                                        const std::string& tenant) {
  auto core = weak.lock();
  if (!core) return engine::engine_went_away();
  return LocalTrainer(std::move(core), std::move(state)).for_tenant(tenant);
}

engine::EngineCall Engine::call(const char* name) const {
  return {.name = name, .options = options_, .tenant = tenant_};
}

}  // namespace tinker
