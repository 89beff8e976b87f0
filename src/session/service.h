#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "async/semaphore.h"
#include "session/holder.h"
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

  /// The holder, made by the first who asks; others wait for that one. When it fails, the next who
  /// asks tries again.
  async::Task<std::shared_ptr<Holder>> session_holder();
  async::Task<std::shared_ptr<Holder>> rest_holder();

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
  /// Where the console shows this session, or all of them (R1.18).
  [[nodiscard]] std::string console_url() const;

 private:
  struct Slot {
    std::shared_ptr<Holder> holder = {};
    async::Semaphore making = async::Semaphore::counting(1);
  };
  async::Task<std::shared_ptr<Holder>> get(Slot* slot, Holder::Kind kind);

  std::shared_ptr<async::RuntimeCore> runtime_;
  HolderOptions options_;
  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  Slot session_;
  Slot rest_;
  bool is_closed_ = false;
};

/// What clients hold: as long as a copy lives, so does the service; with the last one it is
/// abandoned, without blocking. Thread-safe.
class ServiceHandle {
 public:
  ServiceHandle(Runtime runtime, HolderOptions options);

  [[nodiscard]] const std::shared_ptr<Service>& service() const noexcept;
  [[nodiscard]] const Runtime& runtime() const noexcept;

 private:
  struct Guard;
  std::shared_ptr<Guard> guard_;
};

}  // namespace tinker::session
