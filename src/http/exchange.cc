#include "http/exchange.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::http {

namespace {

// What a server merely announces may cost no more than this.
constexpr std::size_t kMaxReserve = std::size_t{16} << 20U;

Error too_long(std::size_t limit) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("the answer is longer than the limit of ", limit, " bytes")};
}

/// Which characters a header's name may have (RFC 9110, section 5.6.2).
constexpr auto kTokenChars = [] {
  std::array<bool, 256> is_one = {};
  for (int c = 0; c < 128; ++c) {
    is_one[static_cast<std::size_t>(c)] =
        ascii::is_alnum(static_cast<char>(c)) ||
        std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  }
  return is_one;
}();

constexpr bool is_token_char(char c) noexcept {
  return kTokenChars[static_cast<unsigned char>(c)];
}

}  // namespace

bool is_codec_header(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 12> kNames = {"host",
                                                       "content-length",
                                                       "connection",
                                                       "keep-alive",
                                                       "proxy-connection",
                                                       "te",
                                                       "trailer",
                                                       "upgrade",
                                                       "expect",
                                                       "transfer-encoding",
                                                       "proxy-authorization",
                                                       "http2-settings"};
  return std::ranges::any_of(
      kNames, [name](std::string_view n) { return n.size() == name.size() && same_name(n, name); });
}

Result<void> check_headers(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name.empty() || !std::ranges::all_of(name, is_token_char)) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("\"", printable_url(name), "\" cannot name a header")};
    }
    const auto is_bad = [](char c) { return ascii::is_control(c) && c != '\t'; };
    if (std::ranges::any_of(value, is_bad)) {
      return Error{
          .code = ErrorCode::invalid_argument,
          .message = base::concat("the value of header ", name, " holds a control character")};
    }
  }
  return {};
}

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
  if (exchange.request.sink) return {};
  const std::size_t limit = exchange.request.max_response_bytes;
  if (length > limit) return too_long(limit);
  exchange.response.body.reserve(std::min(static_cast<std::size_t>(length), kMaxReserve));
  return {};
}

}  // namespace tinker::http
