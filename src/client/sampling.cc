#include "client/sampling.h"

#include <cmath>
#include <utility>

#include "base/block_pool.h"
#include "base/strings.h"
#include "client/report.h"
#include "client/requests.h"
#include "session/canceller.h"
#include "session/dispatch.h"
#include "session/retrieval.h"
#include "tinker/types/sampling_session.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr std::int64_t kIdsPerClone = 1'000'000'000;
constexpr std::int64_t kLargePrompt = 65'536;  // estimated bytes

/// A copy learns its clone id before its first sample (R10.15): from the server, where that counts
/// its clients, else by chance.
Task<> join(std::shared_ptr<SamplingCore> core) {
  if (core->clone_id) co_return Result<void>();
  auto turn = core->joining.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  if (core->clone_id) co_return Result<void>();
  const auto session = core->session();
  std::int64_t clone = 0;
  if (session->config.sample_join_sampling_session) {
    TINKER_CO_TRY(auto body,
                  session::json_body(JoinSamplingSessionRequest{core->sampling_session_id}));
    api::Call call = {.path = "/api/v1/join_sampling_session",
                      .body = std::move(body),
                      .pool = api::PoolKind::session};
    auto joining = call_with_retries<JoinSamplingSessionResponse>(
        session, "join_sampling_session", std::move(call));
    TINKER_CO_TRY(const auto answer, co_await std::move(joining));
    clone = answer.client_counter;
  } else {
    clone = 1 + static_cast<std::int64_t>(session->runtime->rng().uniform() * 1e9);
  }
  core->clone_id = clone;
  core->next_seq_id = clone * kIdsPerClone;
  co_return Result<void>();
}

/// Made with the first sample, when the clone id is known.
const std::shared_ptr<session::BatchPoller>& batch_poller(SamplingCore& core) {
  if (!core.batch && core.session()->config.sample_use_retrieve_futures) {
    core.batch = std::make_shared<session::BatchPoller>(
        core.session(), core.sampling_session_id, core.clone_id.value_or(0));
  }
  return core.batch;
}

Task<UntypedApiFuture> send_body(const SamplingCore& core,
                                 http::Body body,
                                 std::optional<TraceContext> trace,
                                 const std::shared_ptr<session::Watch>& watch) {
  api::Call call = {.path = "/api/v1/asample",
                    .body = std::move(body),
                    .pool = api::PoolKind::sample,
                    .max_retries = 0,
                    .trace = std::move(trace),
                    .observer = watch};
  call.headers.add("X-Tinker-Sampling-Backpressure", "1");
  return session::submit_cancellable(core.session(), core.holder->canceller(), std::move(call));
}

/// With a body that is to be written by the workers, or could not be written.
Task<UntypedApiFuture> send_later(std::shared_ptr<SamplingCore> core,
                                  Future<http::Body> encoding,
                                  std::optional<TraceContext> trace,
                                  std::shared_ptr<session::Watch> watch) {
  auto wait = async::until(std::move(encoding));
  TINKER_CO_TRY(auto body, co_await wait);
  auto sending = send_body(*core, std::move(body), std::move(trace), watch);
  co_return co_await std::move(sending);
}

/// Written when it is sent: a request that waits for its turn takes no room for its JSON.
Task<UntypedApiFuture> send(const std::shared_ptr<SamplingCore>& core,
                            const std::shared_ptr<const SampleRequest>& request,
                            std::optional<TraceContext> trace,
                            const std::shared_ptr<session::Watch>& watch) {
  if (session::estimate_bytes(request->prompt) > kLargePrompt) {
    auto encoding =
        core->session()->runtime->offload([request] { return session::json_body(*request); });
    return send_later(core, std::move(encoding), std::move(trace), watch);
  }
  auto body = session::json_body(*request);
  if (!body.ok()) {
    return send_later(core, Future<http::Body>::ready(std::move(body)), std::move(trace), watch);
  }
  return send_body(*core, *std::move(body), std::move(trace), watch);
}

Task<SampleResponse> retrieve(SamplingCore& core,
                              const UntypedApiFuture& accepted,
                              async::TimePoint started,
                              std::optional<TraceContext> trace,
                              std::shared_ptr<session::Watch> watch) {
  const auto& session = core.session();
  const std::chrono::duration<double> roundtrip = session->now() - started;
  return session::await_sample<SampleResponse>(
      session,
      {.batch = batch_poller(core), .canceller = core.holder->canceller()},
      {.request_id = accepted.request_id,
       .request_type = "Sample",
       .roundtrip_s = roundtrip.count(),
       .observer = core.observer,
       .trace = std::move(trace),
       .watch = std::move(watch)});
}

/// Gives the sequences the ids that came with the submission (R10.13). A server that sends none is
/// accepted: sequences without an id cannot be named later, that is all.
Result<void> name_sequences(SampleResponse& answer, const UntypedApiFuture& accepted) {
  if (!accepted.sample_sequence_ids) return {};
  const auto& ids = *accepted.sample_sequence_ids;
  if (ids.size() != answer.sequences.size()) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = base::concat("expected one sequence for each of ",
                                         ids.size(),
                                         " ids, found ",
                                         answer.sequences.size()),
                 .request_id = accepted.request_id};
  }
  for (std::size_t i = 0; i < ids.size(); ++i) answer.sequences[i].sequence_id = ids[i];
  return {};
}

/// One attempt: its own seq_id (R10.2), then submission and result.
Task<SampleResponse> attempt(std::shared_ptr<SamplingCore> core,
                             std::shared_ptr<SampleRequest> request,
                             std::optional<TraceContext> trace,
                             std::shared_ptr<session::Watch> watch) {
  if (!core->clone_id) {
    auto joining = join(core);
    TINKER_CO_TRY(co_await std::move(joining));
  }
  const auto started = core->session()->now();
  request->seq_id = core->next_seq_id++;
  auto submitting = session::submit_sample(
      core->session(),
      session::estimate_bytes(request->prompt),
      [&](const std::shared_ptr<session::Watch>& observer) {
        return send(core, request, trace, observer);
      },
      watch);
  TINKER_CO_TRY(const auto accepted, co_await std::move(submitting));
  auto retrieving = retrieve(*core, accepted, started, trace, watch);
  auto wait = std::move(retrieving).late();
  auto late = co_await wait;
  Result<SampleResponse>& answer = *late;
  if (answer.ok()) {
    TINKER_CO_TRY(name_sequences(*answer, accepted));
    TINKER_CO_TRY(check_answer(*request, *answer));
  }
  co_return std::move(late);
}

}  // namespace

Result<std::shared_ptr<SamplingCore>> make_sampling_core(
    const std::shared_ptr<session::Holder>& holder,
    std::string sampling_session_id,
    SamplingClientOptions options) {
  const auto& session = holder->core();
  TINKER_TRY(
      auto handler,
      session->retry_handlers->find_or_make(sampling_session_id, options.retry, session->config));
  auto observer = std::make_shared<session::QueueStateObserver>(
      session, session::QueuedWork::sampling, sampling_session_id);
  return on_loop(session->runtime,
                 SamplingCore{.holder = holder,
                              .sampling_session_id = std::move(sampling_session_id),
                              .options = std::move(options),
                              .retry_handler = std::move(handler),
                              .observer = std::move(observer)});
}

Result<void> check_sampler(const SamplingSource& source, const SamplingClientOptions& options) {
  if (!source.model_path && !source.base_model) {
    return Error::invalid_argument("nothing to sample from: expected model_path or base_model");
  }
  if (source.model_path && !source.model_path->starts_with("tinker://")) {
    return Error::invalid_argument(
        base::concat("model_path: expected \"tinker://…\", found \"", *source.model_path, "\""));
  }
  return session::validate(options.retry);
}

namespace {

Task<std::shared_ptr<SamplingCore>> create_sampler(std::shared_ptr<session::Holder> holder,
                                                   SamplingSource source,
                                                   SamplingClientOptions options) {
  const auto session = holder->core();
  TINKER_CO_TRY(auto body,
                session::json_body(CreateSamplingSessionRequest{
                    .session_id = session->session_id,
                    .sampling_session_seq_id = session->next_sampling_session_seq_id++,
                    .base_model = std::move(source.base_model),
                    .model_path = std::move(source.model_path)}));
  const auto watch =
      std::make_shared<session::Watch>(session->runtime, "create_sampling_session", "");
  api::Call call = {.path = "/api/v1/create_sampling_session",
                    .body = std::move(body),
                    .pool = api::PoolKind::session,
                    .observer = watch};
  auto creating = session::call_json<CreateSamplingSessionResponse>(session, std::move(call));
  TINKER_CO_TRY(const auto answer, co_await std::move(creating));
  co_return make_sampling_core(holder, answer.sampling_session_id, std::move(options));
}

}  // namespace

Task<std::shared_ptr<SamplingCore>> open_sampler(std::shared_ptr<session::Holder> holder,
                                                 SamplingSource source,
                                                 SamplingClientOptions options) {
  auto session = holder->core();
  auto creating = create_sampler(std::move(holder), std::move(source), std::move(options));
  return reported(std::move(session), "create_sampling_client", std::move(creating));
}

Result<void> check_sample(const SampleRequest& request) {
  if (const auto& targets = request.target_prompt_logprobs) {
    if (targets->dtype() != TensorDtype::int64) {
      return Error::invalid_argument("target_prompt_logprobs: expected int64, found float32");
    }
    if (!targets->shape() || targets->shape()->size() != 2) {
      return Error::invalid_argument(
          base::concat("target_prompt_logprobs: expected a 2-D shape, found rank ",
                       targets->shape() ? targets->shape()->size() : 1));
    }
    if (const auto valid = targets->validate(); !valid.ok()) {
      return Error(valid.error()).with_context("target_prompt_logprobs");
    }
  }
  if (request.prompt_alt_tokens_k < 0) {
    return Error::invalid_argument(base::concat("prompt_alt_tokens_k: expected 0 or more, found ",
                                                request.prompt_alt_tokens_k));
  }
  if (const auto last = request.prompt_logprobs_last_n) {
    if (*last < 1) {
      return Error::invalid_argument(
          base::concat("prompt_logprobs_last_n: expected 1 or more, found ", *last));
    }
    if (!request.prompt_logprobs.value_or(false)) {
      return Error::invalid_argument("prompt_logprobs_last_n needs include_prompt_logprobs");
    }
  }
  return {};
}

Result<void> check_answer(const SampleRequest& request, const SampleResponse& answer) {
  const auto bad = [](std::string message) {
    return Error{.code = ErrorCode::invalid_response, .message = std::move(message)};
  };
  if (request.prompt_alt_tokens_k > 0 && !answer.prompt_alt_tokens) {
    return bad("the server left out the alternative prompt tokens that were asked for");
  }
  if (const auto last = request.prompt_logprobs_last_n) {
    const auto& logprobs = answer.prompt_logprobs;
    for (std::size_t i = 0; i + static_cast<std::size_t>(*last) < logprobs.size(); ++i) {
      if (std::isnan(logprobs[i])) continue;
      return bad(base::concat("expected logprobs of the last ",
                              *last,
                              " prompt tokens only, found one at position ",
                              i,
                              " of ",
                              logprobs.size()));
    }
  }
  return {};
}

Task<SampleResponse> run_sample(std::shared_ptr<SamplingCore> core,
                                SampleRequest request,
                                std::shared_ptr<session::RetryHandler> retry_handler,
                                std::optional<TraceContext> trace) {
  auto wanted = std::allocate_shared<SampleRequest>(base::BlockAllocator<SampleRequest>(),
                                                    std::move(request));
  auto working =
      session::execute<SampleResponse>(core->session(),
                                       std::move(retry_handler),
                                       "sample",
                                       [core, wanted = std::move(wanted), trace = std::move(trace)](
                                           const std::shared_ptr<session::Watch>& watch) {
                                         return attempt(core, wanted, trace, watch);
                                       });
  return reported(core->session(), "sample", std::move(working));
}

}  // namespace tinker::client
