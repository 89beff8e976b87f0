#include "transport/exchange.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace tinker::http {

namespace {

// What a server merely announces may cost no more than this.
constexpr std::size_t kMaxReserve = std::size_t{16} << 20U;

Error too_long(std::size_t limit) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("the answer is longer than the limit of ", limit, " bytes")};
}

}  // namespace

Result<void> add_response_header(Exchange& exchange,
                                 std::string_view name,
                                 std::string_view value,
                                 const HeadLimits& limits) {
  exchange.response_head_bytes += name.size() + value.size();
  if (exchange.response_head_bytes > limits.max_bytes) {
    return Error{
        .code = ErrorCode::invalid_response,
        .message = base::concat(
            "the headers of the answer are longer than the limit of ", limits.max_bytes, " bytes")};
  }
  if (exchange.response.headers.size() >= limits.max_fields) {
    return Error{
        .code = ErrorCode::invalid_response,
        .message = base::concat("the answer has more than ", limits.max_fields, " headers")};
  }
  // Trailers count, but nobody reads them.
  if (exchange.is_head_complete) return {};
  Headers& headers = exchange.response.headers;
  if (headers.empty()) headers.reserve(8, 256);  // what most have
  headers.add(name, value);
  return {};
}

Result<void> add_response_body(Exchange& exchange, std::string_view piece) {
  exchange.body_bytes += piece.size();
  if (BodySink* const sink = exchange.request.sink.get()) {
    if (!std::exchange(exchange.has_sink_begun, true)) {
      TINKER_TRY(sink->begin(exchange.response));
    }
    return sink->write(piece);
  }
  const std::size_t limit = exchange.request.max_response_bytes;
  if (piece.size() > limit - exchange.response.body.size()) return too_long(limit);
  exchange.response.body.append(piece);
  return {};
}

Result<void> expect_response_body(Exchange& exchange, std::uint64_t length) {
  // An answer to HEAD states a length, too, and has no body.
  if (exchange.request.sink || exchange.request.method == Method::head) return {};
  const std::size_t limit = exchange.request.max_response_bytes;
  if (length > limit) return too_long(limit);
  exchange.response.body.reserve(std::min(static_cast<std::size_t>(length), kMaxReserve));
  return {};
}

}  // namespace tinker::http
