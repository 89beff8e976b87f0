#pragma once

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tinker {

/// Why an operation failed. Callers branch on it; people read `Error::message`.
enum class ErrorCode {
  // Raised on this side, before or instead of an answer.
  invalid_argument,    ///< A value that cannot be sent or used; the message names it.
  cancelled,           ///< The caller cancelled, or the client went away.
  deadline_exceeded,   ///< The deadline the caller set has passed.
  predecessor_failed,  ///< An earlier request of the same training run failed for good.
  closed,              ///< The client was closed before the call.
  stuck,               ///< No progress for too long although requests are in flight.
  circuit_open,        ///< Not sent: a `CircuitBreaker` is open; `retry.after` says for how long.
  io_error,            ///< A file or folder could not be read or written.
  internal,            ///< A bug in this library, or an exception from a user's callback.
  // No usable answer from the server.
  connection_failed,  ///< No connection, or it broke before the answer was complete.
  timed_out,          ///< The server did not answer within the time-out of one HTTP request.
  invalid_response,   ///< A 2xx answer that does not fit the protocol.
  // An answer that says no, by HTTP status.
  bad_request,        ///< 400
  unauthenticated,    ///< 401
  billing,            ///< 402
  permission_denied,  ///< 403
  not_found,          ///< 404
  conflict,           ///< 409
  expired,            ///< 410: the promise behind a future expired, or the session is finished.
  unprocessable,      ///< 422
  rate_limited,       ///< 429
  server_error,       ///< 500 and above
  unexpected_status,  ///< Any other status that is not a success.
  // The request was accepted, then failed; see `Error::category`.
  request_failed,
};

/// The enumerator's own name, e.g. "rate_limited".
std::string_view to_string(ErrorCode code) noexcept;

/// Whose fault a failed request was, as the server says. Values it may add later read as `unknown`.
enum class RequestErrorCategory { unknown, server, user };

/// The code for an HTTP status that is not a success (R15; PROTOCOL 6.2).
ErrorCode error_code_for_status(int http_status) noexcept;

/// What a caller may do about an error.
struct RetryHint {
  bool retryable = false;                               ///< The same call may succeed later.
  std::optional<std::chrono::milliseconds> after = {};  ///< What the server asked to wait.
  friend bool operator==(const RetryHint&, const RetryHint&) = default;
};

/// A failure, with what the caller needs to act on it.
///
/// Thread-compatible.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message = {};     ///< Starts lower case, names the offending value, holds no secret.
  int http_status = 0;          ///< 0 when there was no response.
  std::string request_id = {};  ///< Quote it in bug reports; empty when there is none.
  std::optional<RequestErrorCategory> category = {};  ///< Only with `ErrorCode::request_failed`.
  RetryHint retry = {};
  std::vector<std::string> context = {};  ///< What was being done, innermost first.
  /// With `predecessor_failed`: how that one failed, if it was sent; `category` is its own, too.
  std::optional<ErrorCode> cause = {};

  /// An error with `ErrorCode::invalid_argument`: the caller's value cannot be used.
  [[nodiscard]] static Error invalid_argument(std::string message);

  /// A copy with one more piece of context around it: "load config: no such file".
  [[nodiscard]] Error with_context(std::string_view what) const&;
  [[nodiscard]] Error with_context(std::string_view what) &&;

  /// Context, message, and in brackets the status and the request id: all a log line needs.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Error&, const Error&) = default;
  /// Writes `to_string()`.
  friend std::ostream& operator<<(std::ostream& out, const Error& error);
};

}  // namespace tinker
