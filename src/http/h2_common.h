#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include <nghttp2/nghttp2.h>

/// What the HTTP/2 sessions of both roles share.
namespace tinker::http {

/// Where nghttp2 keeps what it knows of each stream and frame: in blocks that are used again.
nghttp2_mem* h2_memory() noexcept;

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
