#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/semaphore.h"
#include "async/task.h"
#include "session/queue_observer.h"
#include "session/session_core.h"
#include "session/watch.h"
#include "tinker/trace_context.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/sample.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::session {

/// Which result to ask for, and how.
struct PollRequest {
  std::string request_id = {};
  std::string request_type = {};  ///< X-Tinker-Request-Type, e.g. "ForwardBackward".
  bool is_protobuf = false;       ///< The result's encoding, fixed by its type (PROTOCOL 9.19).
  /// Seconds from the start of the operation to the arrival of its future handle.
  std::optional<double> roundtrip_s = {};
  std::shared_ptr<QueueStateObserver> observer = {};
  /// The size of the result when it is known to be there (R6.18): that much of the in-flight budget
  /// is reserved first, and no answer without the payload is asked for.
  std::int64_t payload_bytes = 0;
  std::optional<TraceContext> trace = {};  ///< The caller's own.
  std::shared_ptr<Watch> watch = {};       ///< Tells of the wait. Null: one for this poll alone.
};

/// A result as it came. To be let go of on the loop thread.
struct PollResult {
  std::string body = {};
  bool is_protobuf = false;
  std::size_t body_bytes = 0;              ///< Of `body`, also when that was handed on.
  async::Semaphore::Permit reserved = {};  ///< Its part of the in-flight bytes (R6.3).
  std::int64_t iteration = 0;              ///< The poll that brought it, 0 first.
  async::TimePoint started = {};           ///< When polling began.
};

/// Asks for a result until it is there or has failed for good (R6.2–R6.7), and checks that it has
/// the encoding of its type. Never gives up on a server that may recover: pauses after connection
/// errors and 429, waits a 402 out while R5.5 allows. Ends at once when its scope is cancelled.
///
/// `request_failed`: the operation failed; `category` tells whose fault it was. `expired`: the
/// promise is gone, submitting again may help. `invalid_response`: an answer that fits no form of
/// PROTOCOL 9.19. Otherwise the code of the fatal status. Messages name the request.
async::Task<PollResult> poll_future(std::shared_ptr<SessionCore> session, PollRequest request);

/// The error of a result that arrived but cannot be read; reports it by telemetry.
Error unreadable_result(const SessionCore& session,
                        const PollRequest& request,
                        const PollResult& result,
                        Error why);

template <typename T>
concept ProtobufResult = std::same_as<T, SampleResponse> || std::same_as<T, ForwardBackwardOutput>;

/// Results longer than this are read by the workers.
inline constexpr std::size_t kLargeResult = 65'536;

template <typename T>
Result<T> read_result(std::string body) {
  if constexpr (ProtobufResult<T>) {
    return wire::decode_proto<T>(std::move(body));
  } else {
    return wire::decode_json<T>(body);
  }
}

/// Reads the result of a poll here and now.
template <typename T>
Result<T> decode_here(const SessionCore& session, const PollRequest& request, PollResult result) {
  auto value = read_result<T>(std::move(result.body));
  if (!value.ok()) return unreadable_result(session, request, result, value.error());
  return value;
}

/// Reads the result of a poll on the workers.
template <typename T>
async::Task<T> decode_elsewhere(std::shared_ptr<SessionCore> session,
                                PollRequest request,
                                PollResult result) {
  auto work = session->runtime->offload(
      [body = std::move(result.body)]() mutable { return read_result<T>(std::move(body)); });
  auto wait = async::until(std::move(work));
  auto value = co_await wait;
  if (value.ok()) co_return value;
  auto ask = async::this_context();
  const auto context = co_await ask;
  if (context.scope->is_cancelled()) co_return value;
  co_return unreadable_result(*session, request, result, value.error());
}

/// `poll_future`, and the reading of what it brings. The encoding follows from `T`.
template <typename T>
async::Task<T> poll(std::shared_ptr<SessionCore> session, PollRequest request) {
  request.is_protobuf = ProtobufResult<T>;
  auto polling = poll_future(session, request);
  auto result = co_await std::move(polling);
  if (!result.ok()) co_return std::move(result).error();
  if (result->body_bytes <= kLargeResult) {
    co_return decode_here<T>(*session, request, *std::move(result));
  }
  auto decoding = decode_elsewhere<T>(session, std::move(request), *std::move(result));
  co_return co_await std::move(decoding);
}

}  // namespace tinker::session
