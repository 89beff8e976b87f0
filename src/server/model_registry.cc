// Each name points to a slot, a model that may be in memory. A slot is empty, wanted (it has
// waiters, and is in the queue or being loaded), or resident. Loads take turns, so that the memory
// that one needs is counted when the one before has taken its own. Adapters hold their memory
// before they are made.
//
// Users of a resident model share a lease. When the last of them drops it, the model is idle: it
// stays until another load needs its memory.
#include "server/model_registry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "base/logging.h"
#include "base/relative_path.h"
#include "engine/machine_memory.h"
#include "server/engine_facts.h"
#include "server/memory_plan.h"
#include "server/model_loader.h"
#include "server/model_source.h"

namespace tinker::server {

using async::Task;
using LoadedPtr = std::shared_ptr<LoadedModel>;
using ResidentPtr = std::shared_ptr<ResidentModel>;

namespace {

/// Orders the moments at which models became idle; leases may outlive the registry.
using IdleClock = std::atomic<std::uint64_t>;

struct Slot {
  std::string name = {};  ///< The first of those that point here.
  ModelSource source = {};
  MemoryNeed need = {};
  std::optional<std::size_t> cache_bytes = {};  ///< Of a model that is, or is being, loaded.
  ResidentPtr resident = {};
  std::weak_ptr<LoadedModel> lease = {};
  std::vector<Promise<LoadedPtr>> waiters = {};
};

/// What clients call a slot.
struct Offer {
  ModelFacts facts = {};
  std::size_t slot = 0;
};

LoadedPtr make_lease(ResidentPtr resident, std::shared_ptr<IdleClock> clock) {
  auto* const model = &resident->model;
  // The registry's weak pointer keeps this function, so it lets the model go by itself.
  return {model, [resident = std::move(resident), clock = std::move(clock)](LoadedModel*) mutable {
            resident->idle_since = ++*clock;
            resident.reset();
          }};
}

Result<const engine::Kernels*> choose_kernels(EnginePrecision precision) {
  TINKER_TRY(const auto path, kernel_path());
  return &engine::kernels_of(
      path, precision == EnginePrecision::f32 ? engine::Precision::f32 : engine::Precision::bf16);
}

/// Where something that is asked for fits: what is free once these models have left.
struct Room {
  std::size_t bytes = 0;
  std::vector<IdleModel> leaving = {};
};

/// What a model takes, with the memory that its training calls keep.
std::size_t bytes_of(const ResidentModel& model) {
  return model.bytes() + model.model.engine.queue().training_bytes;
}

}  // namespace

struct ModelRegistry::Impl : std::enable_shared_from_this<Impl> {
  Impl(std::shared_ptr<async::EventLoop> on, std::shared_ptr<Executor> with, RegistryOptions given)
      : loop(std::move(on)), workers(std::move(with)), options(std::move(given)) {}

  Result<void> add_models();
  Result<void> add(const ServedModel& model, SourceFinder& finder);
  [[nodiscard]] Result<const Offer*> find(std::string_view name) const;

  [[nodiscard]] LoadedPtr lease(Slot& slot) const;
  Future<LoadedPtr> want(std::size_t index);
  void load_next();
  Result<void> begin(std::size_t index);
  void end(std::size_t index, Result<ResidentPtr> loaded);
  [[nodiscard]] std::int64_t context_of(const Slot& slot) const;
  static void answer(Slot& slot, const Result<LoadedPtr>& result);

  [[nodiscard]] std::size_t room() const;
  [[nodiscard]] std::vector<IdleModel> idle() const;
  [[nodiscard]] Result<Room> find_room(std::string_view what, std::size_t needed) const;
  [[nodiscard]] std::vector<ResidentPtr> leave(const std::vector<IdleModel>& models);

  std::shared_ptr<async::EventLoop> loop;
  std::shared_ptr<Executor> workers;
  RegistryOptions options;
  std::shared_ptr<IdleClock> idle_clock = std::make_shared<IdleClock>(0);
  const engine::Kernels* kernels = nullptr;
  std::vector<Offer> offers = {};
  std::vector<Slot> slots = {};
  std::deque<std::size_t> queue = {};
  bool is_loading = false;
  std::size_t loading_bytes = 0;  // of the model that is being loaded
  std::shared_ptr<std::atomic<std::size_t>> held = std::make_shared<std::atomic<std::size_t>>(0);
  std::function<bool()> give_back = {};
};

Result<void> ModelRegistry::Impl::add_models() {
  TINKER_TRY(kernels, choose_kernels(options.precision));
  SourceFinder finder(options.hub_cache);
  for (const auto& model : options.models) {
    TINKER_TRY(add(model, finder));
  }
  return {};
}

Result<void> ModelRegistry::Impl::add(const ServedModel& model, SourceFinder& finder) {
  if (find(model.name).ok()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("two models are named ", base::quoted(model.name))};
  }
  TINKER_TRY(auto source, finder.find(model));
  const auto& config = source.config;
  Offer offer = {.facts = {.name = model.name,
                           .arch = std::string(to_string(config.architecture)),
                           .tokenizer_id = source.tokenizer_id}};
  const auto same =
      std::ranges::find(slots, source.key(), [](const Slot& slot) { return slot.source.key(); });
  offer.slot = static_cast<std::size_t>(same - slots.begin());
  if (same == slots.end()) {
    const auto need = memory_need(config, *kernels);
    slots.push_back({.name = model.name, .source = std::move(source), .need = need});
  }
  offers.push_back(std::move(offer));
  return {};
}

Result<const Offer*> ModelRegistry::Impl::find(std::string_view name) const {
  std::string names;
  for (const auto& offer : offers) {
    if (offer.facts.name == name) return &offer;
    names += names.empty() ? "" : ", ";
    names += offer.facts.name;
  }
  return Error{.code = ErrorCode::not_found,
               .message = base::concat("there is no base model ",
                                       base::quoted(name),
                                       "; this server has ",
                                       names.empty() ? "none" : names)};
}

LoadedPtr ModelRegistry::Impl::lease(Slot& slot) const {
  auto out = slot.lease.lock();
  if (!out) slot.lease = out = make_lease(slot.resident, idle_clock);
  return out;
}

Future<LoadedPtr> ModelRegistry::Impl::want(std::size_t index) {
  auto& slot = slots[index];
  if (slot.resident) return Future<LoadedPtr>::ready(lease(slot));
  Promise<LoadedPtr> promise(loop);
  auto out = promise.future();
  slot.waiters.push_back(std::move(promise));
  if (slot.waiters.size() == 1) queue.push_back(index);
  load_next();
  return out;
}

void ModelRegistry::Impl::load_next() {
  while (!is_loading && !queue.empty()) {
    const std::size_t index = queue.front();
    queue.pop_front();
    if (const auto begun = begin(index); !begun.ok()) answer(slots[index], begun.error());
  }
}

/// Fails, with nothing changed, if there will be no memory for it.
Result<void> ModelRegistry::Impl::begin(std::size_t index) {
  auto& slot = slots[index];
  TINKER_TRY(const auto found, find_room(slot.name, slot.need.least()));
  const std::size_t available = found.bytes;
  const std::size_t cache = cache_share(slot.need, available);
  LoadJob job = {
      .name = slot.name,
      .source = slot.source,
      .engine = {.precision = options.precision, .threads = options.threads, .cache_bytes = cache},
      .weight_bytes = slot.need.weights,
      .logger = options.logger};
  if (options.memory_bytes != 0) {
    job.engine.training_bytes = std::max<std::size_t>(1, available - slot.need.weights - cache);
  }
  job.leaving = leave(found.leaving);
  is_loading = true;
  slot.cache_bytes = cache;
  loading_bytes = slot.need.weights + cache;
  Promise<ResidentPtr> promise(loop);
  // Nobody waits for what `then` gives: `end` answers.
  [[maybe_unused]] const auto ended =
      promise.future().then([weak = weak_from_this(), index](Result<ResidentPtr> loaded) {
        if (const auto self = weak.lock()) self->end(index, std::move(loaded));
      });
  workers->post([job = std::move(job), promise = std::move(promise)]() mutable {
    promise.set(load_model(std::move(job)));
  });
  return {};
}

void ModelRegistry::Impl::end(std::size_t index, Result<ResidentPtr> loaded) {
  is_loading = false;
  loading_bytes = 0;
  auto& slot = slots[index];
  if (loaded.ok()) {
    slot.resident = *std::move(loaded);
    TINKER_LOG(options.logger, info, slot.name, " is loaded");
    answer(slot, lease(slot));
  } else {
    slot.cache_bytes.reset();
    TINKER_LOG(options.logger, warn, loaded.error().to_string());
    answer(slot, loaded.error());
  }
  load_next();
}

std::int64_t ModelRegistry::Impl::context_of(const Slot& slot) const {
  std::size_t free = room();
  for (const auto& model : choose_leaving(slot.need.least(), free, idle())) free += model.bytes;
  const std::size_t planned = cache_share(slot.need, std::max(free, slot.need.least()));
  const std::size_t cache = slot.cache_bytes.value_or(planned);
  return static_cast<std::int64_t>(context_within(slot.source.config, *kernels, cache));
}

void ModelRegistry::Impl::answer(Slot& slot, const Result<LoadedPtr>& result) {
  for (auto& waiter : std::exchange(slot.waiters, {})) waiter.set(result);
}

/// Bytes that are free. Caches take theirs little by little, so they count in full from the
/// beginning.
std::size_t ModelRegistry::Impl::room() const {
  std::size_t taken = loading_bytes + *held;
  std::size_t caches = loading_bytes;
  for (const auto& slot : slots) {
    taken += slot.resident ? bytes_of(*slot.resident) : 0;
    caches += slot.resident ? slot.resident->cache_bytes : 0;
  }
  const std::size_t machine = engine::available_memory();
  const std::size_t left = machine - std::min(machine, caches);
  if (options.memory_bytes == 0) return left;
  return std::min(left, options.memory_bytes - std::min(options.memory_bytes, taken));
}

std::vector<IdleModel> ModelRegistry::Impl::idle() const {
  std::vector<IdleModel> out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& resident = slots[i].resident;
    if (!resident || !slots[i].lease.expired()) continue;
    out.push_back({.index = i, .bytes = bytes_of(*resident), .idle_since = resident->idle_since});
  }
  return out;
}

/// Where `needed` bytes fit. What is kept for speed alone goes first; nothing else has changed when
/// this ends.
Result<Room> ModelRegistry::Impl::find_room(std::string_view what, std::size_t needed) const {
  Room out = {.bytes = room()};
  while (out.bytes < needed && give_back && give_back()) out.bytes = room();
  out.leaving = choose_leaving(needed, out.bytes, idle());
  for (const auto& model : out.leaving) out.bytes += model.bytes;
  const auto checked = engine::check_room(what, needed, out.bytes);
  if (checked.ok()) return out;
  Error error = checked.error();
  if (options.memory_bytes != 0) {
    error.message += base::concat(" of the ", options.memory_bytes >> 20U, " MiB for models");
  }
  return error;
}

std::vector<ResidentPtr> ModelRegistry::Impl::leave(const std::vector<IdleModel>& models) {
  std::vector<ResidentPtr> out;
  for (const auto& model : models) {
    TINKER_LOG(options.logger, info, slots[model.index].name, " leaves to make room");
    slots[model.index].cache_bytes.reset();
    out.push_back(std::exchange(slots[model.index].resident, {}));
  }
  return out;
}

ModelRegistry::ModelRegistry(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelRegistry::~ModelRegistry() = default;

Result<std::unique_ptr<ModelRegistry>> ModelRegistry::create(std::shared_ptr<async::EventLoop> loop,
                                                             std::shared_ptr<Executor> workers,
                                                             RegistryOptions options) {
  auto impl = std::make_shared<Impl>(std::move(loop), std::move(workers), std::move(options));
  TINKER_TRY(impl->add_models());
  return std::unique_ptr<ModelRegistry>(new ModelRegistry(std::move(impl)));
}

std::vector<SupportedModel> ModelRegistry::capabilities() const {
  std::vector<SupportedModel> out;
  for (const auto& [facts, slot] : impl_->offers) {
    out.push_back({.model_name = facts.name,
                   .max_context_length = impl_->context_of(impl_->slots[slot]),
                   .trainable = true,
                   .sampleable = true});
  }
  return out;
}

Result<ModelFacts> ModelRegistry::facts(std::string_view name) const {
  TINKER_TRY(const auto* const offer, impl_->find(name));
  return offer->facts;
}

Result<const engine::ModelConfig*> ModelRegistry::config(std::string_view name) const {
  TINKER_TRY(const auto* const offer, impl_->find(name));
  return &impl_->slots[offer->slot].source.config;
}

Result<AdapterNeed> ModelRegistry::adapter_need(std::string_view name,
                                                const LoraConfig& lora) const {
  TINKER_TRY(const auto* const shape, config(name));
  return server::adapter_need(*shape, *impl_->kernels, lora);
}

Result<MemoryHold> ModelRegistry::hold(std::string_view what, std::size_t bytes) {
  TINKER_TRY(const auto found, impl_->find_room(what, bytes));
  // Unloading takes too long for the loop.
  if (!found.leaving.empty()) impl_->workers->post([leaving = impl_->leave(found.leaving)] {});
  *impl_->held += bytes;
  const auto& held = impl_->held;
  return MemoryHold(held.get(), [held, bytes](const void*) { *held -= bytes; });
}

void ModelRegistry::on_shortage(std::function<bool()> give_back) {
  impl_->give_back = std::move(give_back);
}

std::size_t ModelRegistry::training_room(std::string_view name) const {
  const std::size_t all = impl_->options.memory_bytes;
  const auto offer = impl_->find(name);
  if (all == 0 || !offer.ok()) return 0;
  std::size_t taken = impl_->loading_bytes + *impl_->held;
  for (std::size_t i = 0; i < impl_->slots.size(); ++i) {
    const auto& resident = impl_->slots[i].resident;
    if (resident) taken += i == (*offer)->slot ? resident->bytes() : bytes_of(*resident);
  }
  return std::max<std::size_t>(1, all - std::min(all, taken));
}

Task<LoadedPtr> ModelRegistry::acquire(std::string name) {
  TINKER_CO_TRY(const auto* const offer, impl_->find(name));
  auto loaded = async::until(impl_->want(offer->slot));
  co_return co_await loaded;  // the registry may be gone then
}

std::size_t ModelRegistry::loaded_bytes() const noexcept {
  std::size_t out = 0;
  for (const auto& slot : impl_->slots) out += slot.resident ? slot.resident->bytes() : 0;
  return out;
}

std::optional<EngineQueue> ModelRegistry::queue(std::string_view name) const {
  const auto offer = impl_->find(name);
  if (!offer.ok()) return std::nullopt;
  const auto& resident = impl_->slots[(*offer)->slot].resident;
  return resident ? std::optional(resident->model.engine.queue()) : std::nullopt;
}

std::vector<std::string> ModelRegistry::loaded() const {
  std::vector<std::string> out;
  for (const auto& [facts, slot] : impl_->offers) {
    if (impl_->slots[slot].resident) out.push_back(facts.name);
  }
  return out;
}

}  // namespace tinker::server
