#include "http/message.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "http/ascii.h"
#include "http/url.h"

namespace tinker::http {

namespace {

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

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 425: return "Too Early";
    case 426: return "Upgrade Required";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "";
  }
}

bool is_token(std::string_view name) noexcept {
  return !name.empty() && std::ranges::all_of(name, is_token_char);
}

bool is_field_value(std::string_view value) noexcept {
  return std::ranges::none_of(value, [](char c) { return ascii::is_control(c) && c != '\t'; });
}

Result<void> check_headers(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_token(name)) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("\"", printable_url(name), "\" cannot name a header")};
    }
    if (!is_field_value(value)) {
      return Error{
          .code = ErrorCode::invalid_argument,
          .message = base::concat("the value of header ", name, " holds a control character")};
    }
  }
  return {};
}

}  // namespace tinker::http
