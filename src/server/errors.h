#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "tinker/error.h"

namespace tinker::server {

/// Something that a request names and that is not there, or not the caller's: the two look alike.
inline Error no_such(std::string_view what, std::string_view id) {
  return {.code = ErrorCode::not_found,
          .message = base::concat("there is no ", what, " '", id, "'")};
}

inline Error bad_request(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

/// The session, or what belonged to it, is over for good (PROTOCOL 9.42).
inline Error is_over(std::string_view what, std::string_view id, std::string_view why) {
  return {.code = ErrorCode::expired, .message = base::concat(what, " '", id, "' ", why)};
}

/// A checkpoint of kind `external` is not for this server.
inline Error is_export(std::string_view path) {
  return bad_request(
      base::concat(path, " is an export for other tools; expected weights or sampler_weights"));
}

/// Whether `error` is the fault of what the user asked for, as results of operations say it.
inline RequestErrorCategory category_of(const Error& error) noexcept {
  if (error.category) return *error.category;
  switch (error.code) {
    case ErrorCode::internal:
    case ErrorCode::io_error:
    case ErrorCode::server_error:
    case ErrorCode::cancelled:
    case ErrorCode::closed:
    case ErrorCode::deadline_exceeded: return RequestErrorCategory::server;
    default: return RequestErrorCategory::user;
  }
}

}  // namespace tinker::server
