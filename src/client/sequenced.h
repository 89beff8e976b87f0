#pragma once

#include <memory>
#include <string>
#include <utility>

#include "async/task.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/saves.h"
#include "client/state.h"
#include "tinker/call_options.h"

namespace tinker::client {

inline std::shared_ptr<Sequencer::Turn> take_turn(const std::shared_ptr<TrainingCore>& core,
                                                  std::int64_t count,
                                                  std::string name) {
  const IdRange range = core->sequencer->take(count);
  return std::make_shared<Sequencer::Turn>(core->sequencer, range, std::move(name));
}

/// What leaves in its turn: a request, and for a save what is known of its attempts.
struct Sequenced {
  std::shared_ptr<Sequencer::Turn> turn;
  Submission submission;
  std::shared_ptr<SaveAttempts> save = {};
};

inline async::Task<UntypedApiFuture> submit(std::shared_ptr<session::SessionCore> session,
                                            Sequenced work) {
  auto rounds = session::execute_with_retries<UntypedApiFuture>(
      session,
      work.submission.name,
      [session, call = work.submission.call, save = work.save](
          const std::shared_ptr<session::Watch>& watch) {
        auto watched = session::watched(call, watch);
        if (save) return save_round(session, std::move(watched), save);
        return session::call_json<UntypedApiFuture>(session, std::move(watched));
      });
  co_return co_await std::move(rounds);
}

template <typename Answer>
async::Task<Answer> run_sequenced(std::shared_ptr<TrainingCore> core, Sequenced work) {
  const auto session = core->session();
  const auto started = session->now();
  auto entering = work.turn->enter();
  if (const auto entered = co_await std::move(entering); !entered.ok()) {
    // A call that is cancelled while it waits is as if it had never been made.
    if (entered.error().code == ErrorCode::deadline_exceeded) work.turn->fail(entered.error());
    co_return entered.error();
  }
  auto submitting = submit(session, work);
  const auto accepted = co_await std::move(submitting);
  if (!accepted.ok()) {
    const Error error = Error(accepted.error()).with_context(work.submission.name);
    work.turn->fail(error);
    co_return error;
  }
  work.turn->leave();
  if constexpr (requires(Answer made) { made.path; }) {
    if (work.save && work.save->saved_as) {
      Answer saved;
      saved.path = *work.save->saved_as;
      co_return saved;
    }
  }
  auto polling =
      session::poll<Answer>(session, poll_request(*session, work.submission, *accepted, started));
  auto answer = co_await std::move(polling);
  auto ask = async::this_context();
  const auto context = co_await ask;
  if (!answer.ok() && !context.scope->is_cancelled()) work.turn->fail(answer.error());
  co_return answer;
}

/// Submits in its turn, then waits for the result (R7.9).
template <typename Answer>
async::Task<Answer> run_in_turn(std::shared_ptr<TrainingCore> core, Sequenced work) {
  std::string name = work.submission.name;
  return reported(core->session(), std::move(name), run_sequenced<Answer>(core, std::move(work)));
}

/// Takes an id for `request` and makes what leaves in its turn. A body that cannot be written takes
/// none.
template <typename Request>
Result<Sequenced> sequence(const std::shared_ptr<TrainingCore>& core,
                           const std::optional<TraceContext>& trace,
                           Submission submission,
                           Request request) {
  request.model_id = core->model_id;
  TINKER_TRY(session::json_body(request));
  auto turn = take_turn(core, 1, submission.name);
  request.seq_id = turn->range().first + 1;
  TINKER_TRY(submission.call.body, session::json_body(request));
  submission.call.trace = trace;
  submission.observer = core->observer;
  return Sequenced{.turn = std::move(turn), .submission = std::move(submission)};
}

}  // namespace tinker::client
