#include "conform/probe.h"

#include <utility>

#include "tinker/types/checkpoint.h"
#include "tinker/types/model.h"
#include "tinker/types/session.h"
#include "tinker/version.h"

namespace tinker::conform {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kHeartbeat{8};
constexpr std::chrono::seconds kPatience{180};  // for one operation

/// A JSON answer as a value, or nothing.
std::optional<Json> json_of(const Answer& answer) {
  if (answer.is_proto) return std::nullopt;
  auto value = wire::decode_json<Json>(answer.body);
  if (!value) return std::nullopt;
  return *std::move(value);
}

bool has_text(const Json& value, std::string_view name, std::string_view text) {
  const Json* member = value.find(name);
  const auto* found = member != nullptr ? member->get_if<std::string>() : nullptr;
  return found != nullptr && *found == text;
}

bool is_try_again(const Answer& answer) {
  const auto value = json_of(answer);
  return value && has_text(*value, "type", "try_again");
}

}  // namespace

Probe::Probe(ProbeOptions options)
    : options_(std::move(options)),
      endpoint_(options_.transport, options_.base_url, options_.api_key, options_.interrupted) {}

Result<std::unique_ptr<Probe>> Probe::open(ProbeOptions options) {
  std::unique_ptr<Probe> probe(new Probe(std::move(options)));
  probe->last_beat_ = Clock::now();
  const ClientConfigRequest ask = {.sdk_version = std::string(protocol_version())};
  // What cannot be read is a law of its own; until it is checked, the defaults serve.
  TINKER_TRY(const auto config, probe->post("/api/v1/client/config", ask));
  if (auto read = probe->read<ClientConfigResponse>(config)) probe->config_ = *std::move(read);
  TINKER_TRY(const auto dynamic, probe->post("/api/v1/client/dynamic_config", ask));
  if (auto read = probe->read<ClientDynamicConfigResponse>(dynamic)) {
    probe->dynamic_config_ = *std::move(read);
  }
  TINKER_TRY(probe->choose_model());
  const CreateSessionRequest session = {.tags = {"conform"},
                                        .sdk_version = std::string(protocol_version())};
  TINKER_TRY(const auto opened,
             probe->read<CreateSessionResponse>(probe->post("/api/v1/create_session", session)));
  probe->session_id_ = opened.session_id;
  return probe;
}

Result<void> Probe::choose_model() {
  if (!options_.model.empty()) return {};
  TINKER_TRY(const auto answer, get("/api/v1/get_server_capabilities"));
  TINKER_TRY(const auto capabilities, read<GetServerCapabilitiesResponse>(answer));
  for (const auto& model : capabilities.supported_models) {
    if (!model.model_name || !model.trainable.value_or(true)) continue;
    options_.model = *model.model_name;
    return {};
  }
  return broken(base::concat(answer.to_string(), ", which names no model to train"));
}

// ---- requests ---------------------------------------------------------------------------------

Result<void> Probe::keep_alive() {
  const auto now = Clock::now();
  if (session_id_.empty() || now - last_beat_ < kHeartbeat) return {};
  last_beat_ = now;
  TINKER_TRY(auto body, wire::encode_json(SessionHeartbeatRequest{.session_id = session_id_}));
  TINKER_TRY(endpoint_.send({.path = "/api/v1/session_heartbeat", .body = std::move(body)}));
  return {};
}

Result<Answer> Probe::send(Call call) {
  TINKER_TRY(keep_alive());
  return endpoint_.send(std::move(call));
}

Result<Answer> Probe::get(std::string path) {
  return send({.method = http::Method::get, .path = std::move(path)});
}

Result<Answer> Probe::post(std::string path, std::string json) {
  return send({.path = std::move(path), .body = std::move(json)});
}

Result<void> Probe::expect_ok(const Result<Answer>& answer) {
  if (!answer) return answer.error();
  if (!answer->ok()) return broken(base::concat(answer->to_string(), ", expected 200"));
  return {};
}

// ---- operations -------------------------------------------------------------------------------

Result<UntypedApiFuture> Probe::accepted(const Result<Answer>& submission) {
  return read<UntypedApiFuture>(submission);
}

Result<Answer> Probe::settle(const std::string& request_id, std::string_view accept) {
  const auto give_up = Clock::now() + kPatience;
  TINKER_TRY(auto body, wire::encode_json(FutureRetrieveRequest{.request_id = request_id}));
  while (true) {
    TINKER_TRY(auto answer,
               send({.path = "/api/v1/retrieve_future", .body = body, .accept = accept}));
    if (answer.status != 408 && !is_try_again(answer)) return answer;
    if (Clock::now() > give_up) {
      return broken(base::concat(answer.to_string(), ", still after ", kPatience.count(), " s"));
    }
  }
}

Result<Answer> Probe::settle_well(const std::string& request_id, std::string_view accept) {
  TINKER_TRY(auto answer, settle(request_id, accept));
  TINKER_TRY(expect_ok(answer));
  const auto value = json_of(answer);
  if (value && value->find("error") != nullptr) {
    return broken(base::concat(answer.to_string(), ", expected a result"));
  }
  return answer;
}

Evidence refused(const Result<Answer>& answer) {
  constexpr std::chrono::seconds kAtOnce{1};
  if (!answer) return answer.error();
  const int status = answer->status;
  const bool is_repeated = status == 408 || status == 409 || status == 429;
  if (status < 400 || status >= 500 || is_repeated) {
    return broken(base::concat(answer->to_string(),
                               ", expected a status from 400 to 499 that clients do not repeat "
                               "(not 408, 409, 429)"));
  }
  if (answer->body.empty()) return broken(answer->to_string() + ", expected a text that says why");
  if (answer->took > kAtOnce) {
    return broken(base::concat(
        answer->to_string(), " after ", answer->took.count(), " s, expected it within a second"));
  }
  return answer->to_string();
}

Evidence failed_as_users(Probe& probe, const Result<Answer>& submission) {
  TINKER_TRY(const auto handle, probe.accepted(submission));
  TINKER_TRY(const auto answer, probe.settle(handle.request_id));
  const auto value = json_of(answer);
  if (!answer.ok() || !value || value->find("error") == nullptr ||
      !has_text(*value, "category", "user")) {
    return broken(base::concat(submission->question,
                               ": ",
                               answer.to_string(),
                               R"(, expected 200 {"error":...,"category":"user"})"));
  }
  return answer.to_string();
}

Evidence refused_or_failed(Probe& probe, const Result<Answer>& submission) {
  if (submission.ok() && submission->ok()) return failed_as_users(probe, submission);
  return refused(submission);
}

// ---- the end ----------------------------------------------------------------------------------

std::vector<std::string> Probe::clean_up() {
  std::vector<std::string> left;
  endpoint_.set_interruptible(false);
  for (const auto& text : std::exchange(checkpoints_, {})) {
    const auto path = TinkerPath::parse(text);
    if (!path) {
      left.push_back(text);
      continue;
    }
    const auto answer = endpoint_.send({.method = http::Method::delete_,
                                        .path = base::concat("/api/v1/training_runs/",
                                                             path->training_run_id,
                                                             "/checkpoints/",
                                                             path->checkpoint_id())});
    if (!answer || (!answer->ok() && answer->status != 404)) left.push_back(text);
  }
  for (auto& model : std::exchange(models_, {})) {
    auto body = wire::encode_json(UnloadModelRequest{.model_id = model});
    // Servers that unload the models of a finished session need not know this call.
    if (body) (void)endpoint_.send({.path = "/api/v1/unload_model", .body = *std::move(body)});
  }
  endpoint_.set_interruptible(true);
  return left;
}

std::vector<std::string> Probe::close(std::string_view reason) {
  auto left = clean_up();
  endpoint_.set_interruptible(false);
  const auto known = enum_from_string<SessionFinishReason>(reason);
  auto body = wire::encode_json(
      FinishSessionRequest{.reason = known.value_or(SessionFinishReason::success)});
  const auto path = base::concat("/api/v1/sessions/", session_id_, "/finish");
  const auto answer = endpoint_.send({.path = path, .body = body ? *std::move(body) : "{}"});
  if (!answer || !answer->ok()) left.push_back("session " + session_id_);
  return left;
}

}  // namespace tinker::conform
