#include "session/retrieval.h"

#include "session/watch.h"

namespace tinker::session {

using async::Task;

namespace {

Task<Completion> wait_for_completion(std::shared_ptr<SessionCore> session,
                                     std::shared_ptr<BatchPoller> batch,
                                     PollRequest request) {
  auto watch = request.watch;
  if (!watch) watch = std::make_shared<Watch>(session->runtime, "", "");
  watch->set_subject("the result of ", request.request_id, request.request_type);
  watch->set_state("waiting for the batched poll");
  auto waiting = batch->wait(request.request_id);
  auto completion = co_await std::move(waiting);
  watch->reset_subject();
  co_return completion;
}

Task<PollResult> await_completed(std::shared_ptr<SessionCore> session,
                                 std::shared_ptr<BatchPoller> batch,
                                 PollRequest request) {
  auto waiting = wait_for_completion(session, batch, request);
  TINKER_CO_TRY(const auto completion, co_await std::move(waiting));
  request.payload_bytes = completion.payload_bytes;
  auto polling = poll_future(session, std::move(request));
  co_return co_await std::move(polling);
}

}  // namespace

Task<PollResult> await_result(std::shared_ptr<SessionCore> session,
                              SampleRoute route,
                              PollRequest request) {
  const std::string request_id = request.request_id;
  const bool is_batched = route.batch && session->config.sample_use_retrieve_futures;
  auto waiting = is_batched ? await_completed(session, std::move(route.batch), std::move(request))
                            : poll_future(session, std::move(request));
  auto result = co_await std::move(waiting);
  auto ask = async::this_context();
  const auto context = co_await ask;
  if (!result.ok() && context.scope->is_cancelled() && route.canceller) {
    route.canceller->abandon(request_id);
  }
  co_return result;
}

}  // namespace tinker::session
