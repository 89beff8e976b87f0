#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "async/semaphore.h"
#include "session/holder.h"
#include "tinker/detail/mutex.h"
#include "tinker/runtime.h"

namespace tinker::session {

/// How long `close` may take.
struct CloseLimits {
  std::chrono::nanoseconds finish = std::chrono::seconds(30);
  std::chrono::nanoseconds telemetry = std::chrono::seconds(30);
};

/// What a service client is inside: up to two holders, one with a session and one without, each
/// made when it is first needed (R1.2). Loop thread only.
class Service : public std::enable_shared_from_this<Service> {
 public:
  /// No request, no look at a credential (R1.1).
  Service(std::shared_ptr<async::RuntimeCore> runtime, HolderOptions options);

  /// The holder, made by the first who asks; others wait for that one and share its failure. Who
  /// asks after that tries again.
  async::Task<std::shared_ptr<Holder>> session_holder();
  async::Task<std::shared_ptr<Holder>> rest_holder();

  /// The holder with the session, if that has begun. Loop thread.
  [[nodiscard]] const std::shared_ptr<Holder>& open_session() const noexcept {
    return session_.holder;
  }

  /// Finishes the session, if there is one, with `reason`, then ends everything: what is in flight
  /// fails with `closed` (R1.12 to R1.15). The error of the finish request comes out at the end. A
  /// second call does nothing. Run it below the runtime's scope, not below this one's.
  async::Task<> close(SessionFinishReason reason, std::optional<std::string> detail);
  async::Task<> close(SessionFinishReason reason,
                      std::optional<std::string> detail,
                      CloseLimits limits);
  /// The last handle went away: ends everything with `cancelled`, sends nothing (R1.16).
  void abandon();

  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }
  /// Operations of the clients run below it.
  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }
  [[nodiscard]] const std::shared_ptr<async::RuntimeCore>& runtime() const noexcept {
    return runtime_;
  }
  /// Makes `holder` the one with the session: it was begun by another process.
  void adopt(std::shared_ptr<Holder> holder);
  /// Where the console shows this session, or all of them (R1.18). Any thread.
  [[nodiscard]] std::string console_url() const;

 private:
  struct Slot {
    std::shared_ptr<Holder> holder = {};
    async::Semaphore making = async::Semaphore::counting(1);
    int failures = 0;  // of starts
    Error failure = {};
  };
  async::Task<std::shared_ptr<Holder>> get(Slot* slot, Holder::Kind kind);
  void set_holder(Slot& slot, std::shared_ptr<Holder> holder);

  std::shared_ptr<async::RuntimeCore> runtime_;
  HolderOptions options_;
  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  Slot session_;
  Slot rest_;
  bool is_closed_ = false;
  mutable ::tinker::detail::Mutex mutex_;
  std::string session_id_ TINKER_GUARDED_BY(mutex_);
};

/// What clients hold: as long as a copy lives, so does the service; with the last one it is
/// abandoned, without blocking. Thread-safe.
class ServiceHandle {
 public:
  ServiceHandle(Runtime runtime, HolderOptions options);

  [[nodiscard]] const std::shared_ptr<Service>& service() const noexcept;
  [[nodiscard]] const Runtime& runtime() const noexcept;

  /// For work that must not keep the service alive; `lock` gives nothing once it was abandoned.
  class Weak;
  [[nodiscard]] Weak weak() const;

 private:
  struct Guard;
  explicit ServiceHandle(std::shared_ptr<Guard> guard) : guard_(std::move(guard)) {}
  std::shared_ptr<Guard> guard_;
};

class ServiceHandle::Weak {
 public:
  [[nodiscard]] std::optional<ServiceHandle> lock() const;

 private:
  friend class ServiceHandle;
  explicit Weak(std::weak_ptr<Guard> guard) : guard_(std::move(guard)) {}
  std::weak_ptr<Guard> guard_;
};

}  // namespace tinker::session
