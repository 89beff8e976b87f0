#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "http/h2_common.h"

namespace tinker::http {

/// What is left to send of a message's body.
struct H2BodyLeft {
  std::size_t bytes = 0;
  bool is_complete = true;  ///< No more of it will come.
};

/// Runs `body`, which returns nothing or what nghttp2 is to be told. nghttp2 is C: no exception may
/// pass through it, so one that is thrown, for want of memory at least, ends the session instead.
template <typename Body>
int h2_guarded(Body body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return 0;
    } else {
      return body();
    }
  } catch (...) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

/// What nghttp2 calls, for both roles: passes each call on to the static function of `Calls` with
/// its name. The user data of the nghttp2 session is a `Session`.
template <typename Session, typename Calls>
struct H2Callbacks {
  static void set(nghttp2_session_callbacks* callbacks) {
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_body);
    if constexpr (requires { &Calls::on_begin_headers; }) {
      nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    }
    if constexpr (requires { &Calls::on_not_sent; }) {
      nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    }
  }
  /// For a message with a body.
  static nghttp2_data_provider body() {
    return {.source = {.ptr = nullptr}, .read_callback = read_body};
  }

 private:
  static Session& self(void* user_data) { return *static_cast<Session*>(user_data); }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    return h2_guarded([&] { return Calls::on_begin_headers(self(user_data), *frame); });
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static int on_header(nghttp2_session*,
                       const nghttp2_frame* frame,
                       const std::uint8_t* name,
                       std::size_t name_size,
                       const std::uint8_t* value,
                       std::size_t value_size,
                       std::uint8_t,
                       void* user_data) {
    return h2_guarded([&] {
      return Calls::on_header(self(user_data),
                              frame->hd.stream_id,
                              h2_text(name, name_size),
                              h2_text(value, value_size));
    });
  }
  static int on_data(nghttp2_session*,
                     std::uint8_t,
                     std::int32_t id,
                     const std::uint8_t* data,
                     std::size_t size,
                     void* user_data) {
    return h2_guarded([&] { return Calls::on_data(self(user_data), id, h2_text(data, size)); });
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    return h2_guarded([&] { return Calls::on_frame(self(user_data), *frame); });
  }
  static int on_invalid_frame(nghttp2_session*,
                              const nghttp2_frame* frame,
                              int error,
                              void* user_data) {
    return h2_guarded([&] { return Calls::on_invalid_frame(self(user_data), *frame, error); });
  }
  static int on_closed(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user_data) {
    return h2_guarded([&] { return Calls::on_closed(self(user_data), id, code); });
  }
  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    return h2_guarded([&] { return Calls::on_sent(self(user_data), *frame); });
  }
  static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user_data) {
    return h2_guarded([&] { return Calls::on_not_sent(self(user_data), *frame); });
  }

  /// Says how much of a body goes into a frame; `send_body` sends that much.
  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static ssize_t read_body(nghttp2_session*,
                           std::int32_t id,
                           std::uint8_t*,
                           std::size_t size,
                           std::uint32_t* flags,
                           nghttp2_data_source*,
                           void* user_data) noexcept {
    const std::optional<H2BodyLeft> left = Calls::body_left(self(user_data), id);
    if (!left) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (left->bytes == 0 && !left->is_complete) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left->is_complete && left->bytes <= size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(std::min(left->bytes, size));
  }
  static int send_body(nghttp2_session*,
                       nghttp2_frame* frame,
                       const std::uint8_t* head,
                       std::size_t size,
                       nghttp2_data_source*,
                       void* user_data) {
    return h2_guarded([&] {
      const std::string_view frame_head = h2_text(head, kH2FrameHeadBytes);
      return Calls::send_body(self(user_data), frame->hd.stream_id, frame_head, size);
    });
  }
};

}  // namespace tinker::http
