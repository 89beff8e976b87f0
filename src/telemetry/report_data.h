#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tinker/error.h"
#include "tinker/http.h"
#include "tinker/types/json.h"

namespace tinker::telemetry {

/// The class by which the official client names the same failure, for `error_type` and
/// `exception_type`; where it has none, a name of the same form:
///
/// | code | name | code | name |
/// |---|---|---|---|
/// | invalid_argument | ValueError | bad_request | BadRequestError |
/// | cancelled | CancelledError | unauthenticated | AuthenticationError |
/// | deadline_exceeded | TimeoutError | billing | BillingError |
/// | predecessor_failed | PredecessorFailedError | permission_denied | PermissionDeniedError |
/// | closed | RuntimeError | not_found | NotFoundError |
/// | stuck | APIConnectionError | conflict | ConflictError |
/// | io_error | OSError | expired | RetryableException |
/// | internal | InternalError | unprocessable | UnprocessableEntityError |
/// | connection_failed | APIConnectionError | rate_limited | RateLimitError |
/// | timed_out | APITimeoutError | server_error | InternalServerError |
/// | invalid_response | APIResponseValidationError | unexpected_status | APIStatusError |
/// | request_failed | RequestFailedError | circuit_open | CircuitOpenError |
[[nodiscard]] std::string_view error_type(ErrorCode code) noexcept;
/// The same of an error: a 410 is that name only where it says that a result is gone, which can be
/// asked for anew.
[[nodiscard]] std::string_view error_type(const Error& error) noexcept;

/// The status of an answer, if the official client's error would carry one (R14.4): an expired
/// promise has none of its own.
[[nodiscard]] Json status_of(const Error& error);

/// What the server answered, as far as the message of a status error tells: JSON, or the text
/// itself. Null when there was nothing.
[[nodiscard]] Json body_of(const Error& error);

/// A time difference as Python prints one: "0:00:12.500000", "1 day, 2:03:04".
[[nodiscard]] std::string python_duration(std::chrono::microseconds duration);

/// Those headers that may be reported, names in lower case. Credentials and cookies are not among
/// them: it is a list of what may go, not of what may not (R14.13).
[[nodiscard]] JsonObject reportable_headers(const http::Headers& headers);

/// Makes data fit to be sent: secrets gone, long texts cut, every text UTF-8, every number one that
/// JSON can carry, and of `request_headers` and `response_headers` only what may be reported.
class DataCleaner {
 public:
  static constexpr std::size_t kMaxText = std::size_t{16} * 1024;

  /// `redact` takes the credentials out of a text.
  explicit DataCleaner(std::function<std::string(std::string)> redact)
      : redact_(std::move(redact)) {}

  [[nodiscard]] std::string text(std::string text) const;
  [[nodiscard]] JsonObject object(JsonObject data) const;

 private:
  [[nodiscard]] Json value(const Json& value) const;

  std::function<std::string(std::string)> redact_;
};

/// About how much memory it takes.
[[nodiscard]] std::size_t bytes_of(const Json& value) noexcept;

}  // namespace tinker::telemetry
