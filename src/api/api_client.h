#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/channel_pool.h"
#include "api/endpoint_breakers.h"
#include "api/redactor.h"
#include "api/token_provider.h"
#include "async/runtime_core.h"
#include "async/task.h"
#include "tinker/http.h"
#include "tinker/trace_context.h"

namespace tinker::api {

/// Longest answer of a control endpoint: all but the results of training and sampling.
inline constexpr std::size_t kMaxControlBytes = std::size_t{16} << 20;
/// Longest result.
inline constexpr std::size_t kMaxResultBytes = std::size_t{1} << 30;

/// An attempt of a call that failed and is worth another.
struct FailedAttempt {
  std::shared_ptr<const async::Failure> failure;
  int attempts_left = 0;                          ///< That the HTTP layer will still make.
  bool is_slow_down = false;                      ///< The server asked to wait, which is no fault.
  bool was_answered = false;                      ///< Whether the server ever answered anything.
  std::optional<async::TimePoint> deadline = {};  ///< Of the operation, if it has one.
};

/// Hears of the failed attempts of a call. Loop thread only.
class AttemptObserver {
 public:
  AttemptObserver() = default;
  AttemptObserver(const AttemptObserver&) = delete;
  AttemptObserver& operator=(const AttemptObserver&) = delete;
  virtual ~AttemptObserver() = default;
  virtual void attempt_failed(const FailedAttempt& attempt) = 0;
};

/// One call of the API, before it becomes HTTP requests.
struct Call {
  http::Method method = http::Method::post;
  std::string path = {};      ///< Under the base URL, ids already encoded: "/api/v1/sessions/s1".
  std::string endpoint = {};  ///< The same without ids, for events. Empty: `path`.
  std::string query = {};     ///< Encoded, without "?".
  http::Body body = {};
  http::Headers headers = {};  ///< Beyond, or instead of, those of PROTOCOL 3 that every call has.
  PoolKind pool = PoolKind::train;
  /// Replaces all four time-outs (PROTOCOL 2.1).
  std::optional<std::chrono::milliseconds> timeout = {};
  /// How the time-out is told to the server, where the official client prints a fraction.
  std::string_view timeout_text = {};
  int max_retries = 10;
  /// Empty: a new one for this call (R5.1.1).
  std::string idempotency_key = {};
  /// What of the body may be logged at debug level.
  std::string loggable = {};
  /// The caller's own trace.
  std::optional<TraceContext> trace = {};
  /// What else of this call no error and no log line may show.
  Secret secret = {};
  /// Off: an answer that redirects is the answer.
  bool follow_redirects = true;
  /// `Request::is_repeatable`.
  bool is_repeatable = true;
  /// Off: no circuit breaker holds it up or learns from it. For what keeps a session alive, what
  /// tells of its end, and what brings results of work that was accepted.
  bool is_guarded = true;
  /// A longer answer, counted after decompression, is refused.
  std::size_t max_response_bytes = kMaxControlBytes;
  /// Who hears of failed attempts, while it lives. Default: nobody.
  std::weak_ptr<AttemptObserver> observer = {};
};

struct ApiClientOptions {
  std::string base_url = {};  ///< Normalised.
  /// User headers, over those of the environment; sent with every request, never logged.
  http::Headers default_headers = {};
  /// No call is repeated, whatever it asks for.
  bool is_single_attempt = false;
  /// Null: endpoints that fail are called all the same.
  std::shared_ptr<EndpointBreakers> breakers = {};
};

/// Makes calls: headers of PROTOCOL 3, the credential, retries of R5.2, redirects, the empty-400
/// rule, deprecation notices, circuit breakers, events and log lines without secrets. One per
/// holder: its pools are its own. Loop thread only.
class ApiClient : public std::enable_shared_from_this<ApiClient> {
 public:
  ApiClient(std::shared_ptr<async::RuntimeCore> core,
            std::shared_ptr<http::Transport> transport,
            ApiClientOptions options);

  /// The answer to `call` after the HTTP layer's retries, whatever its status; an error when there
  /// is none, when the credential could not be had, or when a circuit breaker stays open for longer
  /// than the retries or the deadline of the call last.
  async::Task<http::Response> fetch(Call call, std::shared_ptr<TokenProvider> tokens);
  /// As `fetch`, but every status that is not a success is an error (PROTOCOL 6.2).
  async::Task<http::Response> call(Call call, std::shared_ptr<TokenProvider> tokens);

  /// Closes what is idle of all pools; later calls open new connections.
  void close();
  /// `text` without the credentials of this client: those that are in flight, those that `protect`
  /// named and user headers always, earlier ones as `Redactor` says.
  [[nodiscard]] std::string redact(std::string_view text,
                                   std::size_t limit = std::string_view::npos) const {
    return redactor_.redact(text, limit);
  }
  /// Redacts `secret` from now on, for as long as this client lives.
  void protect(const Secret& secret) { redactor_.keep(secret.expose()); }
  /// The error of an answer that says no.
  [[nodiscard]] Error status_error(const http::Response& response) const;

  /// Where the credential came from, e.g. "TINKER_API_KEY": a 401 names it.
  void set_credential_source(std::string_view name) { credential_source_ = name; }
  /// The session that events of its calls belong to, once there is one.
  void set_session_id(std::string id) { session_id_ = std::move(id); }
  [[nodiscard]] const std::string& base_url() const noexcept { return options_.base_url; }
  [[nodiscard]] const std::shared_ptr<async::RuntimeCore>& core() const noexcept { return core_; }
  [[nodiscard]] ChannelPool& pool(PoolKind kind);
  /// Whether the server ever answered anything, whatever its status.
  [[nodiscard]] bool was_answered() const noexcept { return was_answered_; }
  /// When the first request was sent, if one was.
  [[nodiscard]] const std::optional<async::TimePoint>& first_sent() const noexcept {
    return first_sent_;
  }

 private:
  /// One call under way: what its attempts share.
  struct Attempt;
  enum class Accepts { any_status, success };
  enum class Next { redirect, retry, done };
  static async::Task<http::Response> perform(std::shared_ptr<ApiClient> self,
                                             std::shared_ptr<Attempt> state,
                                             Accepts accepts);
  /// Until the circuit breaker of the endpoint lets the next attempt go. Its waits are retries of
  /// the call, though nothing was sent, and none is longer than what a server may ask for (R5.2.3).
  static async::Task<> pass_breaker(std::shared_ptr<ApiClient> self,
                                    std::shared_ptr<Attempt> state);
  static void tell_breaker(Attempt& state, const Result<http::Response>& result);
  Result<void> begin(Attempt& state);
  void begin_attempt(Attempt& state);
  Future<http::Response> send(const Attempt& state) const;
  [[nodiscard]] http::Request make_request(const Attempt& state) const;
  /// Tells the operation and the observer of the call how an attempt went.
  void tell_outcome(const Attempt& state, const Result<http::Response>& result) const;
  /// What to do about the answer to a request.
  Next settle(Attempt& state, Result<http::Response>& result);
  /// How long to wait before the next attempt; nothing when there is to be none.
  std::optional<std::chrono::nanoseconds> retry_delay(Attempt& state,
                                                      const Result<http::Response>& result);
  Result<http::Response> finish(Attempt& state, Result<http::Response>&& result) const;
  /// "error code: 400 - …", with at most `limit` characters of the body.
  [[nodiscard]] std::string status_text(const http::Response& response, std::size_t limit) const;
  [[nodiscard]] Error transport_error(const Attempt& state, Error error) const;
  static Result<std::string> redirect_target(const Attempt& state, const http::Response& response);
  void log_attempt(const Attempt& attempt, const Result<http::Response>& result) const;
  void log_deprecation(const http::Response& response) const;

  std::shared_ptr<async::RuntimeCore> core_;
  std::shared_ptr<http::Transport> transport_;
  ApiClientOptions options_;
  std::string session_id_;
  std::string credential_source_;
  bool was_answered_ = false;
  std::optional<async::TimePoint> first_sent_ = {};
  http::Headers get_headers_;
  http::Headers post_headers_;
  Redactor redactor_;
  std::array<std::shared_ptr<ChannelPool>, kPoolKinds> pools_;
};

}  // namespace tinker::api
