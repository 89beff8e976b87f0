#pragma once

#include <chrono>
#include <optional>

#include "tinker/error.h"
#include "tinker/http.h"

namespace tinker::http {

/// How long the server asks to wait before the next attempt (R5.2.3): `retry-after-ms`, else
/// `retry-after` in seconds, else `retry-after` as a date. The first that can be read decides, and
/// counts only if it lies in (0, 60] seconds.
std::optional<std::chrono::nanoseconds> retry_after(const Headers& headers,
                                                    std::chrono::system_clock::time_point now);

/// Whether the HTTP layer tries again after this answer (R5.2.2).
bool should_retry(const Response& response) noexcept;

/// Whether an exchange failed without an answer: no connection, or no bytes in time.
bool is_transport_error(const Error& error) noexcept;

/// Whether the HTTP status of a failed call, or its lack, is worth another try by the outer loops
/// (R5.4.1, R12.3): 408, 409, 429, 5xx, connection errors and time-outs.
bool is_retryable(const Error& error) noexcept;

/// The wait when the server names none (R5.2.3): doubles from 0.5 s up to 10 s, less up to a
/// quarter by `u`, which is uniform in [0, 1). `retries_made` is 0 before the first retry.
std::chrono::nanoseconds backoff_delay(int retries_made, double u) noexcept;

}  // namespace tinker::http
