#include "server/live_run.h"

#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/service.h"

namespace tinker::server {

LiveRun::LiveRun(const std::shared_ptr<Service>& service,
                 RunRecord r,
                 std::shared_ptr<async::Scope> parent)
    : record(std::move(r)), sequencer_(service->loop(), 1, service->options().chunk_hold) {
  scope_->attach(std::move(parent));
}

Result<std::string> LiveRun::submit(const std::shared_ptr<Service>& service, Operation operation) {
  if (operation.seq_id && *operation.seq_id < 1) {
    return bad_request(base::concat("seq_id: expected at least 1, found ", *operation.seq_id));
  }
  const std::string request_id = operation.seq_id
                                     ? base::concat(record.run_id, ":", *operation.seq_id)
                                     : base::concat(record.run_id, ":x", ++unnumbered_);
  // The start is posted, so that the future is open by then.
  auto start_it = [service,
                   self = shared_from_this(),
                   request_id,
                   work = std::move(operation.work)](std::optional<Error> refusal) mutable {
    service->loop()->post([service,
                           self,
                           request_id,
                           refusal = std::move(refusal),
                           work = std::move(work)]() mutable {
      if (refusal) return service->futures.finish(request_id, *std::move(refusal));
      self->start(service, request_id, std::move(work));
    });
  };
  TINKER_TRY(const auto admission,
             sequencer_.submit({.seq_id = operation.seq_id,
                                .kind = operation.kind,
                                .request_type = std::move(operation.type),
                                .payload_hash = std::move(operation.payload_hash),
                                .request_id = request_id,
                                .start = std::move(start_it)}));
  if (!admission.is_duplicate) {
    service->futures.open({.request_id = request_id, .owner = record.owner});
  }
  return admission.request_id;
}

void LiveRun::start(const std::shared_ptr<Service>& service,
                    const std::string& request_id,
                    Work work) {
  if (failure_) return service->futures.finish(request_id, *failure_);
  if (!trainer_) {
    waiting_.emplace_back(
        [service, self = shared_from_this(), request_id, work = std::move(work)]() mutable {
          self->start(service, request_id, std::move(work));
        });
    return;
  }
  auto task = work(shared_from_this());
  service->spawn(
      scope_, std::move(task), [service, request_id](detail::Late<EncodedResult> result) {
        service->futures.finish(request_id, *std::move(result));
      });
}

void LiveRun::open(std::shared_ptr<LoadedModel> model, LocalTrainer trainer) {
  model_ = std::move(model);
  trainer_.emplace(std::move(trainer));
  for (auto& begin : std::exchange(waiting_, {})) begin();
}

void LiveRun::fail(const Error& reason) {
  failure_ = reason;
  for (auto& begin : std::exchange(waiting_, {})) begin();
}

void LiveRun::close(const Error& reason) {
  sequencer_.close(reason);
  if (!trainer_) fail(reason);
}

}  // namespace tinker::server
