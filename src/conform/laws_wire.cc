#include <array>
#include <cmath>

#include "conform/lab.h"
#include "http/content_coding.h"
#include "tinker/types/model.h"
#include "tinker/types/session.h"
#include "tinker/version.h"

// What answers look like: forms that the official client insists on.

namespace tinker::conform {

namespace {

Evidence health(Probe& probe) {
  TINKER_TRY(const auto answer, probe.get("/api/v1/healthz"));
  TINKER_TRY(probe.read<HealthResponse>(answer));
  return answer.to_string();
}

Evidence capabilities(Probe& probe) {
  TINKER_TRY(const auto answer, probe.get("/api/v1/get_server_capabilities"));
  TINKER_TRY(const auto read, probe.read<GetServerCapabilitiesResponse>(answer));
  for (const auto& model : read.supported_models) {
    if (model.model_name == probe.base_model()) return answer.to_string();
  }
  return broken(
      base::concat(answer.to_string(), ", expected the model '", probe.base_model(), "'"));
}

Evidence config(Probe& probe) {
  const ClientConfigRequest ask = {.sdk_version = std::string(protocol_version())};
  TINKER_TRY(const auto answer, probe.post("/api/v1/client/config", ask));
  TINKER_TRY(probe.read<ClientConfigResponse>(answer));
  TINKER_TRY(const auto dynamic, probe.post("/api/v1/client/dynamic_config", ask));
  if (dynamic.status != 404) {
    TINKER_TRY(probe.read<ClientDynamicConfigResponse>(dynamic));
  }
  return answer.to_string();
}

Evidence telemetry(Probe& probe) {
  const auto body = base::concat(R"({"events":[],"platform":"Linux","sdk_version":")",
                                 protocol_version(),
                                 R"(","session_id":")",
                                 probe.session_id(),
                                 R"(","process_uuid":"conform"})");
  TINKER_TRY(const auto answer, probe.post("/api/v1/telemetry", body));
  TINKER_TRY(const auto read, probe.read<Json>(answer));
  const Json* status = read.find("status");
  if (status == nullptr || *status != Json("accepted")) {
    return broken(answer.to_string() + R"(, expected {"status":"accepted"})");
  }
  return held();
}

/// A request with one member more than any client sends.
template <typename T>
Result<std::string> with_unknown_member(const T& request) {
  TINKER_TRY(auto body, wire::encode_json(request));
  body.insert(body.size() - 1, R"(,"a_member_of_tomorrow":null)");
  return body;
}

Evidence unknown_members(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  const SampleRequest sample = {.prompt = ModelInput::from_tokens(reference_text()),
                                .sampling_params = {.max_tokens = 1}};
  TINKER_TRY(auto body, with_unknown_member(sampler.complete(sample)));
  TINKER_TRY(const auto handle, probe.accepted(probe.post("/api/v1/asample", std::move(body))));
  TINKER_TRY(probe.proto_result<SampleResponse>(handle.request_id));
  TINKER_TRY(body,
             with_unknown_member(CreateModelRequest{.session_id = probe.session_id(),
                                                    .model_seq_id = probe.next_model(),
                                                    .base_model = probe.base_model(),
                                                    .lora_config = LoraConfig{.rank = 8}}));
  TINKER_TRY(const auto model, probe.accepted(probe.post("/api/v1/create_model", std::move(body))));
  TINKER_TRY(const auto made, probe.json_result<CreateModelResponse>(model.request_id));
  probe.remember_model(made.model_id);
  return held();
}

Evidence json_spelling(Probe& probe) {
  const auto body = base::concat(R"({ "session_id" : ")",
                                 probe.session_id(),
                                 "\" ,\n\t",
                                 R"("type" : "session\u005fheartbeat" })",
                                 "\n");
  TINKER_TRY(probe.read<SessionHeartbeatResponse>(probe.post("/api/v1/session_heartbeat", body)));
  return held();
}

Evidence sequence_ids(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto answer,
             sampler.post({.num_samples = 3,
                           .prompt = ModelInput::from_tokens(reference_text()),
                           .sampling_params = {.max_tokens = 1}}));
  TINKER_TRY(const auto handle, probe.accepted(answer));
  TINKER_TRY(probe.proto_result<SampleResponse>(handle.request_id));
  const auto ids = handle.sample_sequence_ids.value_or(std::vector<std::string>{});
  if (ids.size() != 3 || ids[0] == ids[1] || ids[1] == ids[2] || ids[0] == ids[2]) {
    return broken(answer.to_string() + ", expected sample_sequence_ids with 3 different texts");
  }
  return answer.to_string();
}

/// The raw answer with the result of one forward pass.
Result<Answer> forward_answer(Probe& probe, std::string_view accept) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto id, model.submit({.data = {weighted(1.0)}, .forward_only = true}));
  return probe.settle(id, accept);
}

Evidence protobuf_results(Probe& probe) {
  TINKER_TRY(auto answer, forward_answer(probe, "application/x-protobuf"));
  if (!answer.ok() || !answer.is_proto) {
    return broken(answer.to_string() + ", expected a result as application/x-protobuf");
  }
  TINKER_TRY(const auto output, wire::decode_proto<ForwardBackwardOutput>(std::move(answer.body)));
  if (output.loss_fn_outputs.size() != 1) {
    return broken(base::concat("one datum gave ", output.loss_fn_outputs.size(), " outputs"));
  }
  return held();
}

Evidence metric_names(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto output, model.run({.data = {weighted(1.0)}}));
  std::string names;
  for (const auto& [name, value] : output.metrics) {
    names += base::concat(names.empty() ? "" : ", ", name, "=", value);
    const auto colon = name.find(':');
    if (colon == std::string::npos || name.find(':', colon + 1) != std::string::npos) {
      return broken(base::concat("metric '", name, "', expected a name with exactly one ':'"));
    }
    if (!std::isfinite(value)) return broken(base::concat("metric '", name, "' is ", value));
  }
  if (!output.metrics.contains("loss:sum")) {
    return broken(base::concat("metrics {", names, "}, expected loss:sum among them"));
  }
  return names;
}

Evidence output_shapes(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  const Tokens longer = {72, 101, 108, 112};
  TINKER_TRY(const auto output,
             model.run({.data = {weighted(0.0), Datum::next_token(longer)}, .forward_only = true}));
  TINKER_TRY(const auto first, output_of(output, 0));
  TINKER_TRY(const auto second, output_of(output, 1));
  if (first.size() != reference_positions() || second.size() != longer.size() - 1) {
    return broken(base::concat("data of ",
                               reference_positions(),
                               " and ",
                               longer.size() - 1,
                               " positions gave ",
                               first.size(),
                               " and ",
                               second.size(),
                               " logprobs"));
  }
  return held();
}

Evidence zstd_bodies(Probe& probe) {
  if (!probe.config().proto_compress_fwdbwd) return undecided("flag proto_compress_fwdbwd is off");
  TINKER_TRY(auto model, Trainee::create(probe));
  const ForwardBackwardRequest request = {.model_id = model.id(),
                                          .seq_id = model.take_seq(),
                                          .data = {weighted(1.0)},
                                          .forward_only = true};
  TINKER_TRY(const auto plain, wire::encode_proto(request));
  TINKER_TRY(auto body, http::zstd_compress(plain, 3));
  const auto answer = probe.send({.path = "/api/v1/forward_backward",
                                  .body = std::move(body),
                                  .content_type = kProto,
                                  .headers = {{.name = "Content-Encoding", .value = "zstd"}}});
  TINKER_TRY(const auto handle, probe.accepted(answer));
  TINKER_TRY(const auto output, probe.proto_result<ForwardBackwardOutput>(handle.request_id));
  TINKER_TRY(const auto logprobs, output_of(output, 0));
  TINKER_TRY(const auto expected, fresh_logprobs(probe));
  TINKER_TRY(expect_same(probe, "logprobs of a compressed request", logprobs, expected));
  return held();
}

Evidence get_info(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto answer,
             probe.post("/api/v1/get_info", GetInfoRequest{.model_id = model.id()}));
  TINKER_TRY(const auto info, probe.read<GetInfoResponse>(answer));
  if (info.model_id != model.id() || !info.is_lora.value_or(true) ||
      info.lora_rank.value_or(8) != 8) {
    return broken(base::concat(
        answer.to_string(), ", expected model_id '", model.id(), "', a LoRA model of rank 8"));
  }
  return answer.to_string();
}

Evidence model_ids(Probe& probe) {
  const auto number = probe.next_model();
  const CreateModelRequest request = {.session_id = probe.session_id(),
                                      .model_seq_id = number,
                                      .base_model = probe.base_model(),
                                      .lora_config = LoraConfig{.rank = 8}};
  TINKER_TRY(const auto handle, probe.submit("/api/v1/create_model", request));
  TINKER_TRY(const auto made, probe.json_result<CreateModelResponse>(handle.request_id));
  probe.remember_model(made.model_id);
  if (!probe.config().create_model_via_load_weights) {
    return made.model_id.empty() ? broken("create_model gave an empty model_id") : held();
  }
  const auto expected = base::concat(probe.session_id(), ":train:", number);
  if (made.model_id != expected) {
    return broken(
        base::concat("create_model gave '",
                     made.model_id,
                     "', expected '",
                     expected,
                     "', which clients compute when create_model_via_load_weights is on"));
  }
  return made.model_id;
}

Evidence session_members(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(
      const auto answer,
      probe.get(base::concat("/api/v1/sessions/", probe.session_id(), "?access_scope=owned")));
  TINKER_TRY(const auto session, probe.read<GetSessionResponse>(answer));
  const auto has = [](const auto& list, const std::string& id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  if (!has(session.training_run_ids, model.id()) || !has(session.sampler_ids, sampler.id())) {
    return broken(base::concat(answer.to_string(),
                               ", expected the training run '",
                               model.id(),
                               "' and the sampler '",
                               sampler.id(),
                               "'"));
  }
  return held();
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "wire.health", .sentence = R"(GET healthz answers {"status":"ok"})", .check = health},
    {.id = "wire.config",
     .sentence = "client/config is an object whose flags have their types; client/dynamic_config "
                 "is one, too, or 404",
     .check = config},
    {.id = "wire.capabilities",
     .sentence = "get_server_capabilities names the model that is asked for",
     .check = capabilities},
    {.id = "wire.telemetry", .sentence = "Telemetry is accepted", .check = telemetry},
    {.id = "wire.unknown_members",
     .sentence = "Members that only newer clients send are passed over",
     .check = unknown_members},
    {.id = "wire.json_spelling",
     .sentence = "JSON may have spaces and escapes",
     .check = json_spelling},
    {.id = "wire.model_ids",
     .sentence = "create_model names the model as clients expect it",
     .check = model_ids},
    {.id = "wire.get_info", .sentence = "get_info knows the model and its rank", .check = get_info},
    {.id = "wire.session_members",
     .sentence = "GET sessions/ID lists the session's training runs and samplers",
     .check = session_members},
    {.id = "wire.sequence_ids",
     .sentence = "asample answers with one different id for each sample",
     .check = sequence_ids},
    {.id = "wire.protobuf_results",
     .sentence = "A forward pass answers protobuf where Accept asks for it",
     .check = protobuf_results},
    {.id = "wire.metric_names",
     .sentence = "Metrics of forward_backward are finite, their names have exactly one "
                 "colon, and loss:sum is among them",
     .check = metric_names},
    {.id = "wire.output_shapes",
     .sentence = "Each datum has as many logprobs as positions, whatever its weights",
     .check = output_shapes},
    {.id = "wire.zstd_bodies",
     .sentence = "Bodies in zstd are read when proto_compress_fwdbwd is on",
     .check = zstd_bodies},
});

}  // namespace

std::span<const Law> wire_laws() {
  return kLaws;
}

}  // namespace tinker::conform
