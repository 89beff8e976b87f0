#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "async/runtime_core.h"
#include "async/task.h"
#include "session/environment.h"
#include "session/sampler_handle.h"
#include "session/session_core.h"
#include "tinker/http.h"
#include "tinker/secret.h"
#include "tinker/types/json.h"
#include "tinker/types/session.h"

namespace tinker::session {

class Canceller;
class JwtProvider;
class Watch;
struct CredentialOptions;

struct HolderOptions {
  std::string base_url = {};            ///< Empty: `TINKER_BASE_URL`, then the official service.
  std::optional<Secret> api_key = {};   ///< Absent: the sources of R3.4.
  http::Headers header_overrides = {};  ///< Over the environment's; never logged.
  JsonObject user_metadata = {};        ///< Of the session.
  std::optional<std::string> project_id = {};  ///< Absent: `TINKER_PROJECT_ID`.
  std::optional<std::string> display_name = {};
  Environment environment = {};
  std::shared_ptr<http::Transport> transport = {};
  std::shared_ptr<api::EndpointBreakers> breakers = {};  ///< Null: none.
  bool is_single_attempt = false;  ///< Nothing is repeated, and no 402 waited out.
  /// How long start-up goes on while the server answers nothing at all. Nothing: as long as the
  /// official client's retries do.
  std::optional<std::chrono::nanoseconds> start_timeout = std::chrono::seconds(15);
};

/// Owns the connection to one server: configuration, credential, telemetry and, if it has one, the
/// session with its heartbeat. Loop thread only.
///
/// Its tasks end when its scope is cancelled; `end` does that, and whoever holds the last handle to
/// it calls `end`.
class Holder : public std::enable_shared_from_this<Holder> {
 public:
  enum class Kind { with_session, session_less };

  /// Start-up in the order of R1.3 and R1.4: config, dynamic config, session, background tasks.
  static async::Task<std::shared_ptr<Holder>> open(std::shared_ptr<async::RuntimeCore> runtime,
                                                   HolderOptions options,
                                                   Kind kind);
  /// One for a session that another process began (section 17): no request until first use.
  static Result<std::shared_ptr<Holder>> shadow(std::shared_ptr<async::RuntimeCore> runtime,
                                                HolderOptions options,
                                                const SamplerHandle& handle);

  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder();

  [[nodiscard]] const std::shared_ptr<SessionCore>& core() const noexcept { return core_; }
  /// Of abandoned samples (R6.25); null in a session-less holder.
  [[nodiscard]] const std::shared_ptr<Canceller>& canceller() const noexcept { return canceller_; }
  /// The exchanged token, or the JWT given as a key: what `whoami` reads (R3.12).
  [[nodiscard]] async::Task<Secret> identity_token();

  /// Tells the server that the session is over (R1.12). Ends within `limit`, whatever happens.
  async::Task<> finish(SessionFinishReason reason,
                       std::optional<std::string> detail,
                       std::chrono::nanoseconds limit);
  /// Ends all tasks with `reason`, sends what telemetry has, for at most `drain_limit`, and closes
  /// the connections (R1.8).
  async::Task<> close(Error reason, std::chrono::nanoseconds drain_limit);
  /// As `close`, but waits for nothing and sends nothing: the last handle went away.
  void end(Error reason);

 private:
  Holder() = default;

  /// `start_up`, ended when nothing was answered within `start_timeout`.
  async::Task<> start_up_in_time(HolderOptions options, Kind kind);
  async::Task<> start_up(HolderOptions options, Kind kind, std::shared_ptr<Watch> watch);
  /// Steps 1 and 2 of R1.3: the configuration with the raw credential, then the one for the rest.
  async::Task<> choose_tokens(HolderOptions options, std::shared_ptr<Watch> watch);
  Result<void> use_config(const CredentialOptions& credentials);
  void start_background(const Environment& environment);

  std::shared_ptr<SessionCore> core_ = std::make_shared<SessionCore>();
  std::shared_ptr<async::Scope> telemetry_scope_ = std::make_shared<async::Scope>();
  std::shared_ptr<api::TokenProvider> raw_tokens_;
  std::shared_ptr<JwtProvider> jwt_;
  std::shared_ptr<Canceller> canceller_;
  bool is_closed_ = false;
};

}  // namespace tinker::session
