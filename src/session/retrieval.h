#pragma once

#include <memory>
#include <utility>

#include "async/task.h"
#include "session/batch_poller.h"
#include "session/canceller.h"
#include "session/future_poller.h"

namespace tinker::session {

/// How results of samples are awaited beyond plain polling.
struct SampleRoute {
  std::shared_ptr<BatchPoller> batch = {};    ///< Used with `sample_use_retrieve_futures` only.
  std::shared_ptr<Canceller> canceller = {};  ///< Hears of results nobody waits for any more.
};

/// The result of a sample: waits for its turn in the batched poll where the server wants that
/// (R6.18), then fetches it. When the scope is cancelled the request is abandoned (R6.25).
async::Task<PollResult> await_result(std::shared_ptr<SessionCore> session,
                                     SampleRoute route,
                                     PollRequest request);

/// `await_result`, decoded; tells the batched poll when the server may drop the result (R6.21).
template <typename T>
async::Task<T> await_sample(std::shared_ptr<SessionCore> session,
                            SampleRoute route,
                            PollRequest request) {
  request.is_protobuf = ProtobufResult<T>;
  auto waiting = await_result(session, route, request);
  auto raw = co_await std::move(waiting);
  const bool is_batched = route.batch && session->config.sample_use_retrieve_futures;
  if (!raw.ok()) {
    if (is_batched && raw.error().code == ErrorCode::request_failed) {
      route.batch->retrieved(request.request_id);
    }
    co_return std::move(raw).error();
  }
  tinker::detail::Late<T> value;
  if (raw->body_bytes <= kLargeResult) {
    value.emplace(decode_here<T>(*session, request, *std::move(raw)));
  } else {
    auto decoding = decode_elsewhere<T>(session, request, *std::move(raw));
    auto wait = std::move(decoding).late();
    value = co_await wait;
  }
  if (is_batched && (*value).ok()) route.batch->retrieved(request.request_id);
  co_return std::move(value);
}

}  // namespace tinker::session
