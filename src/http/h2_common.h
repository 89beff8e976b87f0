#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>

#include <nghttp2/nghttp2.h>

#include "http/h2_session.h"

/// What the HTTP/2 sessions of both roles share.
namespace tinker::http {

/// How a session begins.
struct H2Setup {
  decltype(&nghttp2_session_server_new3) make = nullptr;  ///< nghttp2's function for the role.
  void (*set_callbacks)(nghttp2_session_callbacks*) = nullptr;
  void (*set_options)(nghttp2_option*) = [](nghttp2_option*) {};
  std::span<const nghttp2_settings_entry> settings = {};
  std::int32_t connection_window = 0;  ///< In bytes.
};

/// A session that has its settings to send. Its callbacks get `user_data`.
H2SessionPtr begin_h2_session(const H2Setup& setup, void* user_data);

inline constexpr std::size_t kH2FrameHeadBytes = 9;

inline std::uint8_t* h2_bytes(std::string_view text) noexcept {
  // nghttp2 copies, but its struct is not const.
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

inline std::string_view h2_text(const std::uint8_t* data, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(data), size};
}

inline nghttp2_nv h2_field(std::string_view name,
                           std::string_view value,
                           std::uint8_t flags) noexcept {
  return {.name = h2_bytes(name),
          .value = h2_bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = flags};
}

/// The number that `text` is as a whole, or `otherwise`.
template <typename Number>
Number number_or(std::string_view text, Number otherwise) noexcept {
  Number number = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

}  // namespace tinker::http
