#include "server/run_creation.h"

#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/service.h"

namespace tinker::server {

namespace {

/// Loads the model and makes the trainer.
async::Task<> build(std::shared_ptr<Service> service,
                    std::shared_ptr<LiveRun> run,
                    RunOrigin origin,
                    std::string request_id) {
  if (origin.refusal) co_return *std::move(origin.refusal);
  service->futures.set_state(
      request_id, QueueState::paused_capacity, base::concat("loading ", run->record.base_model));
  auto loading = service->models->acquire(run->record.base_model);
  TINKER_CO_TRY(auto model, co_await std::move(loading));
  service->futures.set_state(request_id, QueueState::active, "");
  const Engine engine = model->engine.for_tenant(run->record.owner);
  const auto parts =
      origin.with_optimizer ? CheckpointParts::weights_and_optimizer : CheckpointParts::weights;
  auto making = origin.checkpoint ? engine.load_trainer_async(
                                        service->disk.store().folder_of(*origin.checkpoint), parts)
                                  : engine.create_trainer_async(run->record.lora);
  auto wait = async::until(std::move(making));
  TINKER_CO_TRY(auto trainer, co_await wait);
  auto stored =
      service->disk.run([record = run->record](Store& store) { return store.add_run(record); });
  auto writing = async::until(std::move(stored));
  TINKER_CO_TRY(co_await writing);
  run->open(std::move(model), std::move(trainer));
  co_return Result<void>();
}

}  // namespace

std::optional<Error> refuse_optimizer(const OptimizerConfig& config) {
  if (std::holds_alternative<AdamOptimizerConfig>(config)) return std::nullopt;
  const auto* other = std::get_if<OtherOptimizerConfig>(&config);
  return bad_request(base::concat("optimizer '",
                                  other != nullptr ? other->type : "dimuon",
                                  "' is not served here, only 'adamw'"));
}

Result<std::optional<UntypedApiFuture>> find_accepted(
    const std::map<std::int64_t, Accepted>& accepted,
    std::int64_t number,
    const std::string& payload_hash,
    std::string_view what) {
  const auto found = accepted.find(number);
  if (found == accepted.end()) return std::optional<UntypedApiFuture>();
  if (found->second.payload_hash != payload_hash) {
    return bad_request(base::concat(what, " ", number, " was used before, for another request"));
  }
  return std::optional(found->second.answer);
}

UntypedApiFuture create_run(const std::shared_ptr<Service>& service,
                            const std::shared_ptr<Session>& session,
                            RunRecord record,
                            RunOrigin origin,
                            UniqueFunction<Result<std::string>()> encode) {
  const std::string run_id = record.run_id;
  const std::string request_id = run_id + ":0";
  service->futures.open({.request_id = request_id, .owner = record.owner});
  auto run = std::make_shared<LiveRun>(service, std::move(record), session->scope);
  service->add_run(run);
  auto task = build(service, run, std::move(origin), request_id);
  service->spawn(
      run->scope(),
      std::move(task),
      [service, run, request_id, encode = std::move(encode)](detail::Late<void> late) mutable {
        const Result<void> built = *std::move(late);
        if (!built.ok()) {
          run->fail(built.error());
          return service->futures.finish(request_id, built.error());
        }
        auto json = encode();
        if (!json.ok()) return service->futures.finish(request_id, std::move(json).error());
        service->futures.finish(request_id, EncodedResult{.body = *std::move(json)});
      });
  return {.request_id = request_id, .model_id = run_id};
}

}  // namespace tinker::server
