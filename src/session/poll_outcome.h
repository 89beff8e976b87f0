#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "api/api_client.h"
#include "tinker/error.h"
#include "tinker/types/json.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/promise.h"

namespace tinker::session {

/// Not ready: what the server said about its queue.
struct NotReady {
  /// Nothing when it said nothing, or nothing that makes sense.
  std::optional<OpenEnum<QueueState>> state = {};
  std::optional<std::string> reason = {};
};
struct MetadataOnly {
  std::int64_t payload_bytes = 0;
};
struct OperationFailed {
  Json error = {};  ///< Usually a text, but any value counts.
  RequestErrorCategory category = RequestErrorCategory::unknown;

  /// The server's text; null reads "None", as the official client prints it.
  [[nodiscard]] std::string text() const;
};
struct JsonPayload {};
struct ProtobufPayload {};

/// The forms of a 2xx answer to retrieve_future (PROTOCOL 9.19), in the order in which they are
/// looked for.
using PollOutcome =
    std::variant<ProtobufPayload, NotReady, MetadataOnly, OperationFailed, JsonPayload>;

/// Laxer than the models of these answers: only what decides is looked at. An error for a body that
/// is no JSON object.
Result<PollOutcome> classify_success(const http::Response& response);

/// The queue state in the body of a 408 (PROTOCOL 9.19); nothing when the body is no JSON.
std::optional<NotReady> read_not_ready(std::string_view body);

/// What to do about an answer that says no, or none at all (R6.2).
enum class PollErrorKind { retry, retry_with_backoff, retry_if_budget, retryable_exception, fatal };
/// As telemetry spells it.
std::string_view to_string(PollErrorKind kind) noexcept;
PollErrorKind kind_of_status(int status) noexcept;

}  // namespace tinker::session
