#include "session/poll_outcome.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "wire/json.h"
#include "wire/json_reader.h"

namespace tinker::session {

namespace {

using wire::JsonDocument;
using wire::JsonView;
using Kind = JsonView::Kind;

// More than any answer may have; keeps sums of several within 64 bits.
constexpr std::int64_t kMaxPayloadBytes = std::int64_t{1} << 40;

bool is_protobuf(const http::Headers& headers) {
  constexpr std::string_view kType = "application/x-protobuf";
  const auto type = headers.find("content-type");
  if (!type) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [lower](char a, char b) { return lower(a) == b; };
  return std::search(type->begin(), type->end(), kType.begin(), kType.end(), same) != type->end();
}

bool is_text(const std::optional<JsonView>& value, std::string_view text) {
  return value && value->kind() == Kind::string && value->string() == text;
}

NotReady not_ready(JsonView object) {
  NotReady out;
  if (const auto state = object.member("queue_state"); state && state->kind() != Kind::null) {
    const auto text = state->kind() == Kind::string ? state->string() : std::string_view("unknown");
    if (!text.empty()) out.state = OpenEnum<QueueState>::parse(text);
  }
  if (const auto reason = object.member("queue_state_reason");
      reason && reason->kind() == Kind::string) {
    out.reason = std::string(reason->string());
  }
  return out;
}

MetadataOnly metadata_only(JsonView object) {
  const auto size = object.member("response_payload_size");
  if (!size || !size->is_number()) return {};
  return {.payload_bytes =
              std::clamp<std::int64_t>(size->as_integer().value_or(0), 0, kMaxPayloadBytes)};
}

OperationFailed operation_failed(JsonView object, std::string_view body) {
  OperationFailed out;
  const auto all = wire::decode_json<Json>(body);
  if (const Json* error = all.ok() ? all->find("error") : nullptr) out.error = *error;
  if (const auto category = object.member("category");
      category && category->kind() == Kind::string) {
    out.category = enum_from_string<RequestErrorCategory>(category->string())
                       .value_or(RequestErrorCategory::unknown);
  }
  return out;
}

}  // namespace

std::string OperationFailed::text() const {
  if (error.is_null()) return "None";
  if (const auto* words = error.get_if<std::string>()) return *words;
  const auto json = wire::encode_json(error);
  return json.ok() ? *json : std::string("an error that is no text");
}

Result<PollOutcome> classify_success(const http::Response& response) {
  if (is_protobuf(response.headers)) return PollOutcome(ProtobufPayload());
  auto document = JsonDocument::parse(response.body);
  if (!document.ok()) {
    Error error = std::move(document).error();
    error.code = ErrorCode::invalid_response;
    return std::move(error).with_context("the answer is not JSON");
  }
  const JsonView root = document->root();
  if (root.kind() != Kind::object) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = base::concat("expected a JSON object, found ", root.kind_name())};
  }
  if (is_text(root.member("type"), "try_again")) return PollOutcome(not_ready(root));
  if (is_text(root.member("status"), "complete_metadata")) return PollOutcome(metadata_only(root));
  if (root.member("error")) return PollOutcome(operation_failed(root, response.body));
  return PollOutcome(JsonPayload());
}

std::optional<NotReady> read_not_ready(std::string_view body) {
  const auto document = JsonDocument::parse(body);
  if (!document.ok()) return std::nullopt;
  const JsonView root = document->root();
  return root.kind() == Kind::object ? not_ready(root) : NotReady();
}

std::string_view to_string(PollErrorKind kind) noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {
      "retry", "retry_with_backoff", "retry_if_budget", "retryable_exception", "fatal"};
  return kNames[static_cast<std::size_t>(kind)];
}

PollErrorKind kind_of_status(int status) noexcept {
  if (status == 408 || (status >= 500 && status < 600)) return PollErrorKind::retry;
  if (status == 410) return PollErrorKind::retryable_exception;
  if (status == 429) return PollErrorKind::retry_with_backoff;
  if (status == 400) return PollErrorKind::retry_if_budget;
  return PollErrorKind::fatal;
}

}  // namespace tinker::session
