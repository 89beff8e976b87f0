#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/api_client.h"
#include "async/runtime_core.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "tinker/error.h"
#include "tinker/types/json.h"
#include "tinker/types/telemetry.h"

namespace tinker::telemetry {

struct ReporterOptions {
  bool is_enabled = true;
  /// Empty: session-less, with an id of its own (R14.6).
  std::string session_id = {};
};

/// Whether `TINKER_TELEMETRY` (null when unset) allows reports (R14.1).
[[nodiscard]] bool is_enabled_by(const char* value) noexcept;

/// Whether an error is the user's doing (R14.11): category `user`, or a status 400..499 but 408.
[[nodiscard]] bool is_user_error(const Error& error) noexcept;

/// Sends what happens in a session to the server that runs it, in batches, in the background. Its
/// failures never fail a call, its memory is bounded, and no call waits for it. Loop thread only.
class Reporter {
 public:
  Reporter(std::shared_ptr<async::RuntimeCore> core,
           std::shared_ptr<api::ApiClient> api,
           std::shared_ptr<api::TokenProvider> tokens,
           ReporterOptions options);

  /// Begins to send, below `scope`. With a session the first event is SESSION_START.
  void start(std::shared_ptr<async::Scope> scope);

  /// False when switched off or stopped: then an event need not be made.
  [[nodiscard]] bool is_enabled() const noexcept;
  /// A named event with its data (R14.4's catalogue).
  void generic(std::string_view name, Severity severity, JsonObject data);
  /// An error that reached the caller of `operation`: user_error or UNHANDLED_EXCEPTION (R14.11,
  /// R14.12), then SESSION_END unless session-less, and a flush (R14.9) for which nobody waits.
  void fatal(const Error& error, std::string_view operation);
  /// The same without SESSION_END (R1.13, R9.13).
  void exception(const Error& error, std::string_view operation);

  /// Sends what is queued and stops: for `close` (R14.14). Ends after `limit` at the latest, with a
  /// warning; later events are dropped.
  async::Task<> drain(std::chrono::nanoseconds limit);

  [[nodiscard]] std::size_t queued() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tinker::telemetry
