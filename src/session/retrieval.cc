#include "session/retrieval.h"

#include "base/strings.h"
#include "session/watch.h"

namespace tinker::session {

using async::Task;

namespace {

Task<Completion> wait_for_completion(std::shared_ptr<SessionCore> session,
                                     std::shared_ptr<BatchPoller> batch,
                                     PollRequest request) {
  Watch watch(
      session->runtime, base::concat("the result of ", request.request_type), request.request_id);
  watch.set_state("waiting for the batched poll");
  auto waiting = batch->wait(request.request_id);
  co_return co_await std::move(waiting);
}

Task<PollResult> await_uncancelled(std::shared_ptr<SessionCore> session,
                                   std::shared_ptr<BatchPoller> batch,
                                   PollRequest request) {
  if (batch && session->config.sample_use_retrieve_futures) {
    auto waiting = wait_for_completion(session, batch, request);
    TINKER_CO_TRY(const auto completion, co_await std::move(waiting));
    request.payload_bytes = completion.payload_bytes;
  }
  auto polling = poll_future(session, std::move(request));
  co_return co_await std::move(polling);
}

}  // namespace

Task<PollResult> await_result(std::shared_ptr<SessionCore> session,
                              SampleRoute route,
                              PollRequest request) {
  auto waiting = await_uncancelled(session, route.batch, request);
  auto result = co_await std::move(waiting);
  auto ask = async::this_context();
  const auto context = co_await ask;
  if (!result.ok() && context.scope->is_cancelled() && route.canceller) {
    route.canceller->abandon(request.request_id);
  }
  co_return result;
}

}  // namespace tinker::session
