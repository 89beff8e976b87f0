#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"
#include "tinker/http.h"

namespace tinker::http {

/// Why a server refuses a request by itself: a status and a text for people.
struct Refusal {
  int status = 400;
  std::string_view why = {};
};

/// Limits on the head of a request.
struct RequestLimits {
  HeadLimits head = {.max_bytes = std::size_t{64} << 10U, .max_fields = 200};
  std::size_t max_target_bytes = std::size_t{8} << 10U;
};

/// The head of a request, and what it says about the message it belongs to.
struct RequestHead {
  Method method = Method::get;
  std::string target = {};  ///< Path and query, or "*".
  Headers headers = {};     ///< `Host` is there whatever the form of the target.
  std::optional<std::uint64_t> content_length = {};
  bool is_chunked = false;
  bool expects_continue = false;
  bool is_kept_alive = true;
  bool is_http10 = false;
  bool is_http2 = false;
};

/// Finds the end of a head in bytes that come piece by piece.
///
/// A request is refused where lenient readers could disagree about it, because a proxy in front may
/// be one of them: lines end with CRLF alone, no line is folded, lengths are stated once.
class HeadScanner {
 public:
  /// Looks at what was not seen before of `bytes`, which begin with the head each time. Returns the
  /// size of the head with its empty line, 0 when that has not come yet.
  std::size_t scan(std::string_view bytes, const RequestLimits& limits);
  /// Set when these bytes cannot become a request.
  [[nodiscard]] const std::optional<Refusal>& refusal() const noexcept { return refusal_; }

 private:
  std::size_t line_ = 0;  // where the line begins whose end has not come
  std::optional<Refusal> refusal_ = {};
};

/// Reads a complete head, as `HeadScanner` found it, into `head`, which is new.
std::optional<Refusal> parse_request_head(std::string_view bytes,
                                          const RequestLimits& limits,
                                          RequestHead& head);

/// Whether a request with that method can have `target`: a path with its query, or "*".
std::optional<Refusal> check_target(Method method, std::string_view target);

/// Whether `value` can name a host and its port: `Host`, `:authority`, or the part of an absolute
/// target. Empty is possible.
std::optional<Refusal> check_authority(std::string_view value);

/// The method of that name; nothing for those that this server does not know.
std::optional<Method> parse_method(std::string_view name) noexcept;

/// Whether a list such as that of `Connection` holds `token`, which is lower case.
bool has_list_token(std::string_view list, std::string_view token) noexcept;

}  // namespace tinker::http
