#include "telemetry/report_data.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "wire/json.h"
#include "wire/utf8.h"

namespace tinker::telemetry {

namespace {

// Sorted.
constexpr std::array<std::string_view, 20> kReportableHeaders = {
    "accept",
    "accept-encoding",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "retry-after",
    "retry-after-ms",
    "server",
    "user-agent",
    "via",
    "x-idempotency-key",
    "x-request-id",
    "x-should-retry",
    "x-stainless-package-version",
    "x-stainless-read-timeout",
    "x-stainless-retry-count",
    "x-tinker-create-promise-roundtrip-time",
    "x-tinker-request-iteration",
    "x-tinker-request-type",
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

static_assert(std::ranges::is_sorted(kReportableHeaders));

bool is_reportable(std::string_view lower_case_name) noexcept {
  return std::ranges::binary_search(kReportableHeaders, lower_case_name);
}

/// Requires UTF-8; does not cut a character in two.
std::string cut(std::string text) {
  if (text.size() <= DataCleaner::kMaxText) return text;
  std::size_t end = DataCleaner::kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  const std::string mark = base::concat(" [cut, ", text.size(), " bytes]");
  text.resize(end);
  return text + mark;
}

std::string two_digits(std::int64_t number) {
  return base::concat(number < 10 ? "0" : "", number);
}

}  // namespace

std::string_view error_type(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "ValueError";
    case ErrorCode::cancelled: return "CancelledError";
    case ErrorCode::deadline_exceeded: return "TimeoutError";
    case ErrorCode::predecessor_failed: return "PredecessorFailedError";
    case ErrorCode::closed: return "RuntimeError";
    case ErrorCode::circuit_open: return "CircuitOpenError";
    case ErrorCode::io_error: return "OSError";
    case ErrorCode::internal: return "InternalError";
    case ErrorCode::stuck:
    case ErrorCode::connection_failed: return "APIConnectionError";
    case ErrorCode::timed_out: return "APITimeoutError";
    case ErrorCode::invalid_response: return "APIResponseValidationError";
    case ErrorCode::bad_request: return "BadRequestError";
    case ErrorCode::unauthenticated: return "AuthenticationError";
    case ErrorCode::billing: return "BillingError";
    case ErrorCode::permission_denied: return "PermissionDeniedError";
    case ErrorCode::not_found: return "NotFoundError";
    case ErrorCode::conflict: return "ConflictError";
    case ErrorCode::expired: return "RetryableException";
    case ErrorCode::unprocessable: return "UnprocessableEntityError";
    case ErrorCode::rate_limited: return "RateLimitError";
    case ErrorCode::server_error: return "InternalServerError";
    case ErrorCode::unexpected_status: return "APIStatusError";
    case ErrorCode::request_failed: return "RequestFailedError";
  }
  return "TinkerError";
}

namespace {

bool is_expired_promise(const Error& error) noexcept {
  return error.code == ErrorCode::expired && error.retry.retryable;
}

}  // namespace

std::string_view error_type(const Error& error) noexcept {
  if (error.code == ErrorCode::expired && !is_expired_promise(error)) return "APIStatusError";
  return error_type(error.code);
}

Json status_of(const Error& error) {
  if (error.http_status == 0 || is_expired_promise(error)) return nullptr;
  return error.http_status;
}

Json body_of(const Error& error) {
  const std::string prefix = base::concat("error code: ", error.http_status, " - ");
  if (error.http_status == 0 || !error.message.starts_with(prefix)) return nullptr;
  std::string text = error.message.substr(prefix.size());
  auto json = wire::decode_json<Json>(text);
  if (json) return *std::move(json);
  return text;
}

std::string python_duration(std::chrono::microseconds duration) {
  using std::chrono::days;
  // Python counts whole days downwards, and the rest is never negative.
  const auto whole_days = std::chrono::floor<days>(duration);
  const std::chrono::hh_mm_ss time(duration - whole_days);
  const auto day_count = whole_days.count();
  std::string out;
  if (day_count != 0) {
    out = base::concat(day_count, day_count == 1 || day_count == -1 ? " day, " : " days, ");
  }
  out += base::concat(time.hours().count(),
                      ":",
                      two_digits(time.minutes().count()),
                      ":",
                      two_digits(time.seconds().count()));
  if (time.subseconds().count() != 0) {
    const std::string digits = base::concat(time.subseconds().count());
    out += base::concat(".", std::string(6 - digits.size(), '0'), digits);
  }
  return out;
}

JsonObject reportable_headers(const http::Headers& headers) {
  JsonObject out;
  for (const auto& header : headers) {
    std::string name = lower_case(header.name);
    if (is_reportable(name)) out.emplace_back(std::move(name), header.value);
  }
  return out;
}

std::string DataCleaner::text(std::string text) const {
  // Cutting first could leave the beginning of a secret that is no longer recognised.
  return cut(wire::as_utf8(redact_(std::move(text))));
}

Json DataCleaner::value(const Json& value) const {
  if (const auto* string = value.get_if<std::string>()) return text(*string);
  if (const auto* members = value.get_if<Json::Object>()) return object(*members);
  if (const auto* number = value.get_if<double>()) {
    return std::isfinite(*number) ? value : Json(nullptr);
  }
  if (const auto* elements = value.get_if<Json::Array>()) {
    Json::Array out;
    out.reserve(elements->size());
    for (const auto& element : *elements) out.push_back(this->value(element));
    return out;
  }
  return value;
}

JsonObject DataCleaner::object(JsonObject data) const {
  for (auto& [name, member] : data) {
    const auto* headers = member.get_if<Json::Object>();
    if (headers != nullptr && (name == "request_headers" || name == "response_headers")) {
      JsonObject shown = *headers;
      std::erase_if(shown,
                    [](const Json::Member& m) { return !is_reportable(lower_case(m.first)); });
      member = std::move(shown);
    }
    name = text(std::move(name));
    member = value(member);
  }
  return data;
}

std::size_t bytes_of(const Json& value) noexcept {
  std::size_t bytes = sizeof(Json);
  if (const auto* string = value.get_if<std::string>()) bytes += string->capacity();
  if (const auto* elements = value.get_if<Json::Array>()) {
    for (const auto& element : *elements) bytes += bytes_of(element);
  }
  if (const auto* members = value.get_if<Json::Object>()) {
    for (const auto& [name, member] : *members) {
      bytes += sizeof(std::string) + name.capacity() + bytes_of(member);
    }
  }
  return bytes;
}

}  // namespace tinker::telemetry
