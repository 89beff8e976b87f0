#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/api_client.h"
#include "async/task.h"
#include "session/future_poller.h"
#include "session/json_call.h"
#include "session/retries.h"
#include "tinker/trace_context.h"
#include "tinker/types/promise.h"

namespace tinker::client {

/// An operation that the server answers at once with a handle and later with a result.
struct Submission {
  std::string name = {};          ///< For errors and telemetry: "optim_step".
  std::string request_type = {};  ///< For polls: "OptimStep".
  api::Call call = {};
  std::shared_ptr<session::QueueStateObserver> observer = {};
};

/// Makes a call until it is answered or has failed for good (R5.4).
template <typename Answer>
async::Task<Answer> call_with_retries(std::shared_ptr<session::SessionCore> session,
                                      std::string name,
                                      api::Call call) {
  auto rounds = session::execute_with_retries<Answer>(
      session, std::move(name), [session, call](const std::shared_ptr<session::Watch>& watch) {
        return session::call_json<Answer>(session, session::watched(call, watch));
      });
  co_return co_await std::move(rounds);
}

/// How to ask for the result of what was submitted at `started` and accepted now.
inline session::PollRequest poll_request(const session::SessionCore& session,
                                         const Submission& submission,
                                         const UntypedApiFuture& accepted,
                                         async::TimePoint started) {
  const std::chrono::duration<double> roundtrip = session.now() - started;
  return {.request_id = accepted.request_id,
          .request_type = submission.request_type,
          .roundtrip_s = roundtrip.count(),
          .observer = submission.observer,
          .trace = submission.call.trace};
}

/// Submits and waits for the result, outside any order.
template <typename Answer>
async::Task<Answer> submit_and_poll(std::shared_ptr<session::SessionCore> session,
                                    Submission submission) {
  const auto started = session->now();
  auto submitting = call_with_retries<UntypedApiFuture>(session, submission.name, submission.call);
  TINKER_CO_TRY(const auto accepted, co_await std::move(submitting));
  auto polling =
      session::poll<Answer>(session, poll_request(*session, submission, accepted, started));
  co_return co_await std::move(polling);
}

}  // namespace tinker::client
