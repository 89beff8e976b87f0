#include <array>

#include "conform/lab.h"
#include "tinker/types/model.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session.h"
#include "tinker/types/weights.h"

// Mistakes get a 4xx at once, or a failed future: never a 5xx, a 409 or a 429, which clients repeat
// for minutes (PROTOCOL 6.2, 10.17).

namespace tinker::conform {

namespace {

constexpr std::string_view kNobody = "no-such-session:train:0";

Evidence unknown_model(Probe& probe) {
  Trainee nobody(probe, std::string(kNobody), 1);
  TINKER_TRY(refused(nobody.post({.data = {weighted(1.0)}})));
  TINKER_TRY(refused(nobody.post(OptimStepRequest{})));
  TINKER_TRY(refused(probe.post(
      "/api/v1/save_weights",
      SaveWeightsRequest{.model_id = nobody.id(), .path = "a", .seq_id = nobody.take_seq()})));
  return refused(probe.post("/api/v1/get_info", GetInfoRequest{.model_id = nobody.id()}));
}

Evidence unknown_session(Probe& probe) {
  TINKER_TRY(refused(probe.post("/api/v1/session_heartbeat",
                                SessionHeartbeatRequest{.session_id = "no-such-session"})));
  TINKER_TRY(refused(probe.get("/api/v1/sessions/no-such-session?access_scope=owned")));
  return refused(probe.post("/api/v1/create_model",
                            CreateModelRequest{.session_id = "no-such-session",
                                               .base_model = probe.base_model(),
                                               .lora_config = LoraConfig()}));
}

Evidence unknown_sampler(Probe& probe) {
  Sampler nobody(probe, "no-such-session:sample:0");
  TINKER_TRY(refused(nobody.post({.prompt = ModelInput::from_tokens(reference_text()),
                                  .sampling_params = {.max_tokens = 1}})));
  return refused(probe.get("/api/v1/samplers/no-such-session:sample:0"));
}

Evidence unknown_base_model(Probe& probe) {
  const CreateModelRequest model = {.session_id = probe.session_id(),
                                    .model_seq_id = probe.next_model(),
                                    .base_model = "no-such/model",
                                    .lora_config = LoraConfig()};
  TINKER_TRY(refused_or_failed(probe, probe.post("/api/v1/create_model", model)));
  const CreateSamplingSessionRequest sampler = {.session_id = probe.session_id(),
                                                .sampling_session_seq_id = probe.next_sampler(),
                                                .base_model = "no-such/model"};
  return refused(probe.post("/api/v1/create_sampling_session", sampler));
}

Evidence unknown_checkpoint(Probe& probe) {
  const std::string path = base::concat("tinker://", kNobody, "/weights/none");
  TINKER_TRY(refused(probe.post("/api/v1/weights_info", WeightsInfoRequest{.tinker_path = path})));
  const auto url = base::concat("/api/v1/training_runs/", kNobody, "/checkpoints/weights/none");
  TINKER_TRY(refused(probe.send({.method = http::Method::delete_, .path = url})));
  return refused(probe.send({.path = url + "/publish"}));
}

Evidence garbage_json(Probe& probe) {
  for (const char* path : {"/api/v1/create_session",
                           "/api/v1/create_model",
                           "/api/v1/optim_step",
                           "/api/v1/asample",
                           "/api/v1/retrieve_future"}) {
    for (const char* body : {"{\"session_id\":", "[]", "{}", "\xff\xfe"}) {
      // An empty object is a session without tags to some servers.
      if (std::string_view(path) == "/api/v1/create_session" && std::string_view(body) == "{}")
        continue;
      TINKER_TRY(refused(probe.post(path, std::string(body))));
    }
  }
  return held();
}

Evidence garbage_proto(Probe& probe) {
  const auto post = [&](std::string body, http::Headers headers) {
    return probe.send({.path = "/api/v1/forward_backward",
                       .body = std::move(body),
                       .content_type = kProto,
                       .headers = std::move(headers)});
  };
  TINKER_TRY(refused(post("\x0a\xff\xff\xff\x0fgarbage", {})));
  return refused(post("no zstd frame", {{.name = "Content-Encoding", .value = "zstd"}}));
}

Evidence unknown_type(Probe& probe) {
  return refused(probe.send({.path = "/api/v1/forward_backward",
                             .body = "model_id=1",
                             .content_type = "application/x-www-form-urlencoded"}));
}

Evidence unknown_endpoint(Probe& probe) {
  TINKER_TRY(refused(probe.get("/api/v1/no_such_endpoint")));
  return refused(probe.get("/api/v1/optim_step"));
}

Evidence unknown_loss(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = {.data = {weighted(1.0)}};
  request.loss_fn = OpenEnum<LossFn>::parse("no_such_loss");
  return failed_as_users(probe, model.post(request));
}

Evidence missing_inputs(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(failed_as_users(
      probe, model.post({.data = {weighted(1.0)}, .loss_fn = LossFn::importance_sampling})));
  ForwardBackwardRequest request = {.data = {weighted(1.0)}};
  request.data[0].loss_fn_inputs.erase("target_tokens");
  return failed_as_users(probe, model.post(request));
}

Evidence wrong_lengths(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = {.data = {weighted(Numbers(3, 1.0))}};
  TINKER_TRY(failed_as_users(probe, model.post(request)));
  request.data = {weighted(1.0)};
  request.data[0].model_input = ModelInput::from_tokens({72, 101});
  return failed_as_users(probe, model.post(request));
}

Evidence unknown_tokens(Probe& probe) {
  constexpr std::int32_t kBeyond = 2'000'000'000;
  TINKER_TRY(auto model, Trainee::create(probe));
  Tokens text = reference_text();
  text[3] = kBeyond;
  TINKER_TRY(failed_as_users(probe, model.post({.data = {Datum::next_token(text)}})));
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  return refused_or_failed(probe,
                           sampler.post({.prompt = ModelInput::from_tokens(text),
                                         .sampling_params = {.max_tokens = 1}}));
}

Evidence wrong_optimizer(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  return refused_or_failed(
      probe, model.post(OptimStepRequest{.optim_params = DimuonParams{.learning_rate = 1e-3}}));
}

Evidence wrong_sampling(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  SampleRequest request = {.prompt = ModelInput::from_tokens(reference_text()),
                           .sampling_params = {.max_tokens = 1}};
  request.num_samples = 0;
  TINKER_TRY(refused_or_failed(probe, sampler.post(request)));
  request.num_samples = 1;
  request.sampling_params.temperature = -1;
  TINKER_TRY(refused_or_failed(probe, sampler.post(request)));
  request.sampling_params = {.max_tokens = -5};
  return refused_or_failed(probe, sampler.post(request));
}

Evidence too_long(Probe& probe) {
  constexpr std::int64_t kMost = 200'000;  // tokens that one law sends
  TINKER_TRY(
      const auto capabilities,
      probe.read<GetServerCapabilitiesResponse>(probe.get("/api/v1/get_server_capabilities")));
  std::int64_t context = 0;
  for (const auto& model : capabilities.supported_models) {
    if (model.model_name == probe.base_model()) context = model.max_context_length.value_or(0);
  }
  if (context == 0) return undecided("the server names no max_context_length");
  if (context > kMost)
    return undecided(base::concat("a context of ", context, " is too long to try"));
  Tokens text(static_cast<std::size_t>(context) + 8, 65);
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  return refused_or_failed(probe,
                           sampler.post({.prompt = ModelInput::from_tokens(std::move(text)),
                                         .sampling_params = {.max_tokens = 1}}));
}

Evidence still_works(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest wrong = {.data = {weighted(1.0)}};
  wrong.loss_fn = OpenEnum<LossFn>::parse("no_such_loss");
  TINKER_TRY(failed_as_users(probe, model.post(wrong)));
  TINKER_TRY(const auto after, model.logprobs(reference_text()));
  TINKER_TRY(const auto fresh, fresh_logprobs(probe));
  TINKER_TRY(expect_same(probe, "logprobs of a model after a refused request", after, fresh));
  return held();
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "refusals.unknown_model",
     .sentence = "An unknown model is refused by every training call",
     .check = unknown_model},
    {.id = "refusals.unknown_session",
     .sentence = "An unknown session is refused",
     .check = unknown_session},
    {.id = "refusals.unknown_sampler",
     .sentence = "An unknown sampling session is refused",
     .check = unknown_sampler},
    {.id = "refusals.unknown_base_model",
     .sentence = "An unknown base model is refused",
     .check = unknown_base_model},
    {.id = "refusals.unknown_checkpoint",
     .sentence = "An unknown checkpoint is refused",
     .check = unknown_checkpoint},
    {.id = "refusals.garbage_json",
     .sentence = "Bodies that are no JSON, or lack what is required, are refused",
     .check = garbage_json},
    {.id = "refusals.garbage_proto",
     .sentence = "Bodies that are no protobuf or no zstd are refused",
     .check = garbage_proto},
    {.id = "refusals.unknown_type",
     .sentence = "Bodies of an unknown content type are refused",
     .check = unknown_type},
    {.id = "refusals.unknown_endpoint",
     .sentence = "Unknown paths and methods are refused",
     .check = unknown_endpoint},
    {.id = "refusals.unknown_loss",
     .sentence = "An unknown loss is refused through the future",
     .check = unknown_loss},
    {.id = "refusals.missing_inputs",
     .sentence = "A datum without what its loss needs is refused through the future",
     .check = missing_inputs},
    {.id = "refusals.wrong_lengths",
     .sentence = "Inputs of another length than the datum are refused through the "
                 "future",
     .check = wrong_lengths},
    {.id = "refusals.unknown_tokens",
     .sentence = "Tokens beyond the vocabulary are refused",
     .check = unknown_tokens},
    {.id = "refusals.wrong_optimizer",
     .sentence = "Parameters of another optimizer than the model's are refused",
     .check = wrong_optimizer},
    {.id = "refusals.wrong_sampling",
     .sentence = "num_samples 0, negative temperatures and lengths are refused",
     .check = wrong_sampling},
    {.id = "refusals.too_long",
     .sentence = "A prompt longer than the context is refused",
     .check = too_long},
    {.id = "refusals.still_works",
     .sentence = "A refused request leaves its model as it was",
     .check = still_works},
});

}  // namespace

std::span<const Law> refusals_laws() {
  return kLaws;
}

}  // namespace tinker::conform
