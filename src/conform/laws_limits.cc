#include <array>
#include <chrono>

#include "conform/lab.h"
#include "tinker/types/session.h"
#include "tinker/version.h"

// How long, how many, how large (SERVER 0.2, PROTOCOL 2.1).

namespace tinker::conform {

namespace {

constexpr std::chrono::seconds kPollTimeout{45};  // of clients

Evidence long_poll(Probe& probe) {
  // A gradient above a number that is still to come may wait for it, the poll may not.
  TINKER_TRY(auto model, Trainee::create(probe));
  (void)model.take_seq();
  TINKER_TRY(const auto id, model.submit({.data = {weighted(1.0)}}));
  TINKER_TRY(auto body, wire::encode_json(FutureRetrieveRequest{.request_id = id}));
  TINKER_TRY(const auto answer,
             probe.send({.path = "/api/v1/retrieve_future",
                         .body = std::move(body),
                         .accept = kProto,
                         .timeout = kPollTimeout}));
  if (answer.ok() || answer.status == 408)
    return base::concat("answered after ", answer.took.count(), " s");
  return broken(answer.to_string() + ", expected a result or 408");
}

Evidence many_samples(Probe& probe) {
  constexpr int kMany = 64;
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  std::vector<Call> calls;
  for (int i = 0; i < kMany; ++i) {
    const auto request = sampler.complete({.prompt = ModelInput::from_tokens(reference_text()),
                                           .sampling_params = {.max_tokens = 2}});
    TINKER_TRY(auto body, wire::encode_json(request));
    calls.push_back({.path = "/api/v1/asample", .body = std::move(body)});
  }
  for (const auto& answer : probe.endpoint().send_all(std::move(calls))) {
    TINKER_TRY(const auto handle, probe.accepted(answer));
    TINKER_TRY(probe.proto_result<SampleResponse>(handle.request_id));
  }
  return base::concat(kMany, " samples, none lost");
}

Evidence heartbeat_under_load(Probe& probe) {
  constexpr int kMany = 64;
  constexpr std::chrono::seconds kSoon{10};  // what clients wait for one
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  std::vector<Call> calls;
  for (int i = 0; i < kMany; ++i) {
    const auto request = sampler.complete({.prompt = ModelInput::from_tokens(reference_text()),
                                           .sampling_params = {.max_tokens = 32}});
    TINKER_TRY(auto body, wire::encode_json(request));
    calls.push_back({.path = "/api/v1/asample", .body = std::move(body)});
  }
  TINKER_TRY(auto beat,
             wire::encode_json(SessionHeartbeatRequest{.session_id = probe.session_id()}));
  calls.push_back({.path = "/api/v1/session_heartbeat", .body = std::move(beat), .timeout = kSoon});
  const auto answers = probe.endpoint().send_all(std::move(calls));
  TINKER_TRY(const auto handle, probe.accepted(answers.front()));
  TINKER_TRY(probe.read<SessionHeartbeatResponse>(answers.back()));
  return held();
}

Evidence whole_chunk(Probe& probe) {
  const auto count = static_cast<std::size_t>(probe.config().fwdbwd_max_chunk_len);
  TINKER_TRY(auto model, Trainee::create(probe));
  const std::vector<Datum> data(count, Datum::next_token({72, 101, 108}));
  TINKER_TRY(const auto output, model.run({.data = data, .forward_only = true}));
  if (output.loss_fn_outputs.size() == count) return base::concat(count, " data");
  return broken(base::concat(count,
                             " data, as many as fwdbwd_max_chunk_len allows, gave ",
                             output.loss_fn_outputs.size(),
                             " outputs"));
}

Evidence finished_session(Probe& probe) {
  const CreateSessionRequest create = {.tags = {"conform"},
                                       .sdk_version = std::string(protocol_version())};
  TINKER_TRY(const auto session,
             probe.read<CreateSessionResponse>(probe.post("/api/v1/create_session", create)));
  const auto finish = base::concat("/api/v1/sessions/", session.session_id, "/finish");
  TINKER_TRY(const auto answer, probe.post(finish, FinishSessionRequest()));
  if (!answer.ok()) return broken(answer.to_string() + ", expected 200");
  TINKER_TRY(const auto beat,
             probe.post("/api/v1/session_heartbeat",
                        SessionHeartbeatRequest{.session_id = session.session_id}));
  if (beat.status == 410) return beat.to_string();
  return broken(beat.to_string() + " after the session was finished, expected 410");
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "limits.finished_session",
     .sentence = "A heartbeat of a finished session answers 410",
     .check = finished_session},
    {.id = "limits.many_samples",
     .sentence = "64 samples at once are all answered",
     .check = many_samples,
     .cost = Cost::slow},
    {.id = "limits.heartbeat_under_load",
     .sentence = "A heartbeat is answered within 10 s beside 64 samples",
     .check = heartbeat_under_load,
     .cost = Cost::slow},
    {.id = "limits.whole_chunk",
     .sentence = "A request of as many data as clients send is answered",
     .check = whole_chunk,
     .cost = Cost::slow},
    {.id = "limits.long_poll",
     .sentence = "A poll for what is not ready answers within 45 s",
     .check = long_poll,
     .cost = Cost::slow},
});

}  // namespace

std::span<const Law> limits_laws() {
  return kLaws;
}

}  // namespace tinker::conform
