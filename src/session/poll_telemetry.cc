#include "session/poll_telemetry.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "telemetry/report_data.h"
#include "wire/json.h"

namespace tinker::session {

namespace {

constexpr std::string_view kEndpoint = "/api/v1/retrieve_future";
constexpr std::size_t kMaxBodyBytes = 4096;

bool is_reported(const SessionCore& session) {
  return session.telemetry && session.telemetry->is_enabled();
}

/// JSON where it is some, else the text; the beginning of a long one.
Json shown_body(const SessionCore& session, std::string_view body) {
  // Redacted first: a cut could leave a part of a secret that is no longer recognised.
  std::string text = session.api->redact(body, kMaxBodyBytes);
  if (auto json = wire::decode_json<Json>(text); json.ok()) return *std::move(json);
  return text;
}

double elapsed_s(const SessionCore& session, async::TimePoint since) {
  return std::chrono::duration<double>(session.now() - since).count();
}

JsonObject begin(const PollRequest& request) {
  return {{"request_id", request.request_id}, {"request_type", request.request_type}};
}

void append(JsonObject& data, std::initializer_list<Json::Member> members) {
  data.insert(data.end(), members.begin(), members.end());
}

bool has_context(PollErrorKind kind) {
  return kind == PollErrorKind::fatal || kind == PollErrorKind::retry_if_budget;
}

/// As the official member names, not as on the wire.
std::string_view category_name(RequestErrorCategory category) noexcept {
  switch (category) {
    case RequestErrorCategory::unknown: return "Unknown";
    case RequestErrorCategory::server: return "Server";
    case RequestErrorCategory::user: return "User";
  }
  return "Unknown";
}

}  // namespace

void report_poll_failure(const SessionCore& session,
                         const PollRequest& request,
                         const PollProgress& progress,
                         const PollFailure& failure) {
  const Error& error = failure.error;
  const int status = failure.response != nullptr ? failure.response->status : 0;
  session.runtime->events().publish({.name = "poll.error",
                                     .level = LogLevel::info,
                                     .message = error.message,
                                     .endpoint = kEndpoint,
                                     .session_id = session.session_id,
                                     .request_id = request.request_id,
                                     .http_status = status,
                                     .error = error.code,
                                     .attempt = progress.iteration,
                                     .elapsed = session.now() - progress.started});
  if (!is_reported(session)) return;
  JsonObject data = begin(request);
  append(data,
         {{"status_code", status},
          {"detail", error.message},
          {"kind", to_string(failure.kind)},
          {"should_retry", failure.kind != PollErrorKind::fatal},
          {"is_user_error", status >= 400 && status < 500 && status != 408},
          {"exception", error.to_string()},
          {"exception_type", telemetry::error_type(error)},
          {"iteration", progress.iteration},
          {"elapsed_time", elapsed_s(session, progress.started)},
          {"bad_request_retries", progress.bad_request_retries},
          {"connection_error_retries", progress.connection_error_retries}});
  if (failure.response != nullptr && has_context(failure.kind)) {
    append(data,
           {{"response_headers", telemetry::reportable_headers(failure.response->headers)},
            {"request_headers", telemetry::reportable_headers(*failure.request_headers)},
            {"response_body", shown_body(session, failure.response->body)}});
  }
  session.telemetry->generic(status == 0 ? "APIFuture.result_async.connection_error"
                                         : "APIFuture.result_async.api_status_error",
                             has_context(failure.kind) ? Severity::error : Severity::warning,
                             std::move(data));
}

void report_operation_failed(const SessionCore& session,
                             const PollRequest& request,
                             const PollProgress& progress,
                             const OperationFailed& outcome) {
  if (!is_reported(session)) return;
  const bool is_user = outcome.category == RequestErrorCategory::user;
  JsonObject data = begin(request);
  append(data,
         {{"error", outcome.text()},
          {"error_category", category_name(outcome.category)},
          {"is_user_error", is_user},
          {"iteration", progress.iteration},
          {"elapsed_time", elapsed_s(session, progress.started)}});
  session.telemetry->generic("APIFuture.result_async.application_error",
                             is_user ? Severity::warning : Severity::error,
                             std::move(data));
}

void report_unreadable_result(const SessionCore& session,
                              const PollRequest& request,
                              const PollResult& result,
                              const Error& why) {
  if (!is_reported(session)) return;
  JsonObject data = begin(request);
  append(data, {{"exception", why.to_string()}, {"exception_type", telemetry::error_type(why)}});
  if (result.is_protobuf) {
    append(data, {{"proto_bytes_len", result.body_bytes}});
  } else {
    append(data, {{"exception_stack", ""}});
  }
  append(data,
         {{"model_cls", request.request_type},
          {"iteration", result.iteration},
          {"elapsed_time", elapsed_s(session, result.started)}});
  session.telemetry->generic(result.is_protobuf
                                 ? "APIFuture.result_async.proto_deserialization_error"
                                 : "APIFuture.result_async.validation_error",
                             Severity::error,
                             std::move(data));
}

void publish_poll_done(const SessionCore& session,
                       const PollRequest& request,
                       const PollProgress& progress,
                       const Error* error) {
  const auto& events = session.runtime->events();
  if (!events.is_observed()) return;
  const std::array<EventField, 1> fields = {
      EventField{.name = "request_type", .value = request.request_type}};
  events.publish({.name = "poll.done",
                  .endpoint = kEndpoint,
                  .session_id = session.session_id,
                  .request_id = request.request_id,
                  .http_status = error != nullptr ? error->http_status : 0,
                  .error = error != nullptr ? std::optional(error->code) : std::nullopt,
                  .attempt = progress.iteration,
                  .elapsed = session.now() - progress.started,
                  .fields = fields});
}

}  // namespace tinker::session
