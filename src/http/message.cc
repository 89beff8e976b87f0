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
