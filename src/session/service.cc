#include "session/service.h"

#include "base/console_urls.h"
#include "session/retries.h"

namespace tinker::session {

using async::Task;

namespace {

Error closed_error() {
  return {.code = ErrorCode::closed, .message = "the client is closed"};
}

}  // namespace

Service::Service(std::shared_ptr<async::RuntimeCore> runtime, HolderOptions options)
    : runtime_(std::move(runtime)), options_(std::move(options)) {}

Task<std::shared_ptr<Holder>> Service::session_holder() {
  return get(&session_, Holder::Kind::with_session);
}

Task<std::shared_ptr<Holder>> Service::rest_holder() {
  return get(&rest_, Holder::Kind::session_less);
}

Task<std::shared_ptr<Holder>> Service::get(Slot* slot, Holder::Kind kind) {
  const auto self = shared_from_this();
  if (is_closed_) co_return closed_error();
  if (slot->holder) co_return slot->holder;
  const int failures = slot->failures;
  auto turn = slot->making.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  if (slot->holder) co_return slot->holder;
  if (slot->failures != failures) co_return slot->failure;
  auto opening = Holder::open(runtime_, options_, kind);
  auto opened = co_await std::move(opening);
  if (!opened.ok()) {
    // One who gave up does not speak for the others.
    if (!is_end_of_operation(opened.error())) {
      ++slot->failures;
      slot->failure = opened.error();
    }
    co_return opened;
  }
  auto holder = *std::move(opened);
  if (is_closed_) {  // closed at the very moment it was ready
    holder->end(closed_error());
    co_return closed_error();
  }
  set_holder(*slot, holder);
  co_return holder;
}

void Service::set_holder(Slot& slot, std::shared_ptr<Holder> holder) {
  slot.holder = std::move(holder);
  if (&slot != &session_) return;
  const ::tinker::detail::MutexLock lock(mutex_);
  session_id_ = slot.holder->core()->session_id;
}

void Service::adopt(std::shared_ptr<Holder> holder) {
  set_holder(session_, std::move(holder));
}

Task<> Service::close(SessionFinishReason reason, std::optional<std::string> detail) {
  return close(reason, std::move(detail), CloseLimits());
}

Task<> Service::close(SessionFinishReason reason,
                      std::optional<std::string> detail,
                      CloseLimits limits) {
  const auto self = shared_from_this();
  if (is_closed_) co_return Result<void>();
  is_closed_ = true;

  Result<void> finished;
  if (session_.holder) {
    auto finish = session_.holder->finish(reason, std::move(detail), limits.finish);
    finished = co_await std::move(finish);
    if (!finished.ok()) session_.holder->core()->telemetry->exception(finished.error(), "close");
  }
  scope_->cancel(closed_error());
  for (auto* slot : {&session_, &rest_}) {
    if (!slot->holder) continue;
    auto closing = slot->holder->close(closed_error(), limits.telemetry);
    const auto closed = co_await std::move(closing);
    if (!closed.ok() && finished.ok()) finished = closed;
  }
  co_return finished;
}

void Service::abandon() {
  is_closed_ = true;
  const Error gone = {.code = ErrorCode::cancelled, .message = "the client went away"};
  scope_->cancel(gone);
  for (auto* slot : {&session_, &rest_}) {
    if (slot->holder) slot->holder->end(gone);
  }
}

std::string Service::console_url() const {
  const ::tinker::detail::MutexLock lock(mutex_);
  return session_id_.empty() ? base::console_sessions_url()
                             : base::console_session_url(session_id_);
}

struct ServiceHandle::Guard {
  Guard(Runtime r, HolderOptions options)
      : runtime(std::move(r)),
        service(std::make_shared<Service>(runtime.core(), std::move(options))) {
    runtime.core()->loop()->post(
        [service = service] { service->scope()->attach(service->runtime()->scope()); });
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    runtime.core()->loop()->post([service = service] { service->abandon(); });
  }

  Runtime runtime;
  std::shared_ptr<Service> service;
};

ServiceHandle::ServiceHandle(Runtime runtime, HolderOptions options)
    : guard_(std::make_shared<Guard>(std::move(runtime), std::move(options))) {}

ServiceHandle::Weak ServiceHandle::weak() const {
  return Weak(guard_);
}

std::optional<ServiceHandle> ServiceHandle::Weak::lock() const {
  auto guard = guard_.lock();
  if (!guard) return std::nullopt;
  return ServiceHandle(std::move(guard));
}

const std::shared_ptr<Service>& ServiceHandle::service() const noexcept {
  return guard_->service;
}
const Runtime& ServiceHandle::runtime() const noexcept {
  return guard_->runtime;
}

}  // namespace tinker::session
