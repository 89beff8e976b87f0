#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tinker/http.h"
#include "tinker/result.h"

/// What both roles say about messages: limits, names of headers, errors.
namespace tinker::http {

/// Limits on the head of a message.
struct HeadLimits {
  std::size_t max_bytes = std::size_t{256} << 10U;
  std::size_t max_fields = 1000;
};

/// The peer, or the network on the way to it, failed; another attempt may succeed.
inline Error connection_error(std::string message) {
  return {.code = ErrorCode::connection_failed,
          .message = std::move(message),
          .retry = {.retryable = true}};
}

/// Whether a header belongs to the connection, or is written by the codecs themselves, so that the
/// caller's is not sent.
bool is_codec_header(std::string_view name) noexcept;

/// "OK" for 200; empty for a status that has no phrase.
std::string_view reason_phrase(int status) noexcept;

/// Whether `name` can name a header (RFC 9110, section 5.6.2: token).
bool is_token(std::string_view name) noexcept;
/// Whether `value` can be a header's value: no control characters but the tab.
bool is_field_value(std::string_view value) noexcept;

/// Refuses headers that could end a head early or start another message.
Result<void> check_headers(const Headers& headers);

}  // namespace tinker::http
