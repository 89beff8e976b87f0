#include "tinker/error.h"

#include <memory>
#include <ostream>
#include <ranges>
#include <utility>

#include "base/strings.h"
#include "tinker/result.h"

namespace tinker {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::deadline_exceeded: return "deadline_exceeded";
    case ErrorCode::predecessor_failed: return "predecessor_failed";
    case ErrorCode::closed: return "closed";
    case ErrorCode::stuck: return "stuck";
    case ErrorCode::circuit_open: return "circuit_open";
    case ErrorCode::io_error: return "io_error";
    case ErrorCode::internal: return "internal";
    case ErrorCode::connection_failed: return "connection_failed";
    case ErrorCode::timed_out: return "timed_out";
    case ErrorCode::invalid_response: return "invalid_response";
    case ErrorCode::bad_request: return "bad_request";
    case ErrorCode::unauthenticated: return "unauthenticated";
    case ErrorCode::billing: return "billing";
    case ErrorCode::permission_denied: return "permission_denied";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::expired: return "expired";
    case ErrorCode::unprocessable: return "unprocessable";
    case ErrorCode::rate_limited: return "rate_limited";
    case ErrorCode::server_error: return "server_error";
    case ErrorCode::unexpected_status: return "unexpected_status";
    case ErrorCode::request_failed: return "request_failed";
  }
  return "unknown";
}

ErrorCode error_code_for_status(int http_status) noexcept {
  switch (http_status) {
    case 400: return ErrorCode::bad_request;
    case 401: return ErrorCode::unauthenticated;
    case 402: return ErrorCode::billing;
    case 403: return ErrorCode::permission_denied;
    case 404: return ErrorCode::not_found;
    case 409: return ErrorCode::conflict;
    case 410: return ErrorCode::expired;
    case 422: return ErrorCode::unprocessable;
    case 429: return ErrorCode::rate_limited;
    default: return http_status >= 500 ? ErrorCode::server_error : ErrorCode::unexpected_status;
  }
}

Error Error::invalid_argument(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

Error Error::with_context(std::string_view what) const& {
  return Error(*this).with_context(what);
}

Error Error::with_context(std::string_view what) && {
  context.emplace_back(what);
  return std::move(*this);
}

std::ostream& operator<<(std::ostream& out, const Error& error) {
  return out << error.to_string();
}

std::string Error::to_string() const {
  std::string out;
  for (const auto& what : std::views::reverse(context)) out += what + ": ";
  out += message;
  if (http_status != 0 && !request_id.empty()) {
    out += base::concat(" (status ", http_status, ", request ", request_id, ")");
  } else if (http_status != 0) {
    out += base::concat(" (status ", http_status, ")");
  } else if (!request_id.empty()) {
    out += base::concat(" (request ", request_id, ")");
  }
  return out;
}

namespace detail {

ErrorBox::Pointer ErrorBox::make(Error error) {
  return Pointer(std::make_unique<Error>(std::move(error)).release());
}

void ErrorBox::Delete::operator()(Error* error) const noexcept {
  const std::unique_ptr<Error> owned(error);
}

}  // namespace detail

}  // namespace tinker
