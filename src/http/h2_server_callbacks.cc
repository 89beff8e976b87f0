// The calls of nghttp2 into a server's session, and what they are given to. nghttp2 is C: no
// exception may pass through it, so each callback that may throw, for want of memory at least, is
// guarded and ends the session instead.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "http/h2_common.h"
#include "http/h2_server_session.h"
#include "tinker/check.h"

namespace tinker::http {

namespace {

constexpr std::int32_t kStreamWindow = 256 << 10;
constexpr std::int32_t kConnectionWindow = 16 << 20;

/// What `body` returns, or failure where it throws.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

}  // namespace

/// What nghttp2 calls.
struct H2ServerSession::Callbacks {
  static H2ServerSession& self(void* user_data) {
    return *static_cast<H2ServerSession*>(user_data);
  }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return guarded([&] {
      H2ServerSession& me = self(user_data);
      if (me.is_draining_) {
        me.reset(frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
      } else {
        me.add_stream(frame->hd.stream_id);
      }
      return 0;
    });
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
    return guarded([&] {
      H2ServerSession& me = self(user_data);
      if (Stream* const stream = me.find(frame->hd.stream_id)) {
        me.add_field(*stream, h2_text(name, name_size), h2_text(value, value_size));
      }
      return 0;
    });
  }

  static int on_data(nghttp2_session*,
                     std::uint8_t,
                     std::int32_t id,
                     const std::uint8_t* data,
                     std::size_t size,
                     void* user_data) {
    return guarded([&] {
      H2ServerSession& me = self(user_data);
      if (Stream* const stream = me.find(id)) {
        me.on_data(*stream, h2_text(data, size));
      } else {
        nghttp2_session_consume(me.session_.get(), id, size);
      }
      return 0;
    });
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    return guarded([&] { return take_frame(self(user_data), frame); });
  }
  static int take_frame(H2ServerSession& me, const nghttp2_frame* frame) {
    const bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    Stream* const stream = me.find(frame->hd.stream_id);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (stream != nullptr) me.on_head(*stream, is_end);
        return 0;
      case NGHTTP2_DATA:
        if (stream != nullptr && is_end) stream->exchange->end_body();
        return frame->hd.length > 0 || is_end || me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      case NGHTTP2_WINDOW_UPDATE: return 0;
      default: return me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  /// nghttp2 resets the stream of such a frame. A client that has its requests reset this way
  /// instead of doing it itself pays the same.
  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* user_data) {
    return guarded([&] {
      H2ServerSession& me = self(user_data);
      if (Stream* const stream = me.find(frame->hd.stream_id)) stream->is_reset = true;
      return me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    });
  }

  static int on_stream_close(nghttp2_session*,
                             std::int32_t id,
                             std::uint32_t code,
                             void* user_data) {
    return guarded([&] {
      self(user_data).on_closed(id, code);
      return 0;
    });
  }

  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    const bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!is_message || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    // The answer is complete: what is left of the request is of no use (RFC 9113, section 8.1).
    H2ServerSession& me = self(user_data);
    const Stream* const stream = me.find(frame->hd.stream_id);
    if (stream != nullptr && !stream->exchange->is_body_complete()) {
      me.reset(frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static ssize_t read_body(nghttp2_session*,
                           std::int32_t id,
                           std::uint8_t*,
                           std::size_t size,
                           std::uint32_t* flags,
                           nghttp2_data_source*,
                           void* user_data) {
    const Stream* const stream = self(user_data).find(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t left = stream->exchange->out().size() - stream->out_at;
    const bool is_complete = stream->exchange->answer() == ServerExchange::Answer::complete;
    if (left == 0 && !is_complete) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (is_complete && left <= size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(std::min(left, size));
  }

  static int send_body(nghttp2_session*,
                       nghttp2_frame* frame,
                       const std::uint8_t* head,
                       std::size_t size,
                       nghttp2_data_source*,
                       void* user_data) {
    H2ServerSession& me = self(user_data);
    Stream* const stream = me.find(frame->hd.stream_id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return guarded([&] {
      const std::string_view out = stream->exchange->out();
      me.out_.append(h2_text(head, kH2FrameHeadBytes)).append(out.substr(stream->out_at, size));
      return me.on_sent(*stream, size);
    });
  }
};

void H2ServerSession::Free::operator()(nghttp2_session* session) const noexcept {
  nghttp2_session_del(session);
}

void H2ServerSession::begin_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  TINKER_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, Callbacks::on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::on_frame);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks,
                                                               Callbacks::on_invalid_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_stream_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::on_sent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, Callbacks::send_body);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_max_send_header_block_length(option, std::size_t{1} << 20U);
  nghttp2_session* session = nullptr;
  const int made = nghttp2_session_server_new3(&session, callbacks, this, option, h2_memory());
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  TINKER_CHECK(made == 0);
  session_.reset(session);

  const std::array<nghttp2_settings_entry, 3> settings = {{
      {.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, .value = limits_.max_streams},
      {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = kStreamWindow},
      {.settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       .value = static_cast<std::uint32_t>(limits_.request.head.max_bytes)},
  }};
  TINKER_CHECK(nghttp2_submit_settings(session, 0, settings.data(), settings.size()) == 0);
  TINKER_CHECK(nghttp2_session_set_local_window_size(session, 0, 0, kConnectionWindow) == 0);
}

void H2ServerSession::submit(const ServerExchange& exchange, bool has_body) {
  const ServerResponse& response = exchange.response();
  const base::Piece status(response.status);
  std::optional<std::uint64_t> length = exchange.declared_length();
  if (exchange.answer() == ServerExchange::Answer::complete) length = response.body.size();
  const base::Piece length_text(length.value_or(0));
  std::vector<nghttp2_nv> head;
  head.reserve(response.headers.size() + 3);
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.push_back(h2_field(name, value, NGHTTP2_NV_FLAG_NONE));
  };
  add(":status", status.text());
  for (const auto& header : response.headers) {
    if (!is_codec_header(header.name)) add(header.name, header.value);
  }
  if (!response.headers.contains("date")) add("date", clock_.date());
  if (length && response.status != 204 && response.status != 304)
    add("content-length", length_text.text());
  const nghttp2_data_provider provider = {.source = {.ptr = nullptr},
                                          .read_callback = Callbacks::read_body};
  nghttp2_submit_response(
      session_.get(), exchange.stream_id, head.data(), head.size(), has_body ? &provider : nullptr);
}

}  // namespace tinker::http
