// What nghttp2's calls mean for a server's session, and what they are given to.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "http/h2_callbacks.h"
#include "http/h2_common.h"
#include "http/h2_server_session.h"

namespace tinker::http {

namespace {

constexpr std::int32_t kStreamWindow = 256 << 10;
constexpr std::int32_t kConnectionWindow = 16 << 20;

}  // namespace

struct H2ServerSession::Calls {
  static void on_begin_headers(H2ServerSession& me, const nghttp2_frame& frame) {
    if (frame.hd.type != NGHTTP2_HEADERS || frame.headers.cat != NGHTTP2_HCAT_REQUEST) return;
    if (me.is_draining_) {
      me.reset(frame.hd.stream_id, NGHTTP2_REFUSED_STREAM);
    } else {
      me.add_stream(frame.hd.stream_id);
    }
  }

  static void on_header(H2ServerSession& me,
                        std::int32_t id,
                        std::string_view name,
                        std::string_view value) {
    if (Stream* const stream = me.find(id)) me.add_field(*stream, name, value);
  }

  static void on_data(H2ServerSession& me, std::int32_t id, std::string_view bytes) {
    if (Stream* const stream = me.find(id)) {
      me.on_data(*stream, bytes);
    } else {
      nghttp2_session_consume(me.session_.get(), id, bytes.size());
    }
  }

  static int on_frame(H2ServerSession& me, const nghttp2_frame& frame) {
    const bool is_end = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    Stream* const stream = me.find(frame.hd.stream_id);
    switch (frame.hd.type) {
      case NGHTTP2_HEADERS:
        if (stream != nullptr) me.on_head(*stream, is_end);
        return 0;
      case NGHTTP2_DATA:
        if (stream != nullptr && is_end) stream->exchange->end_body();
        return frame.hd.length > 0 || is_end ? 0 : spend(me);
      case NGHTTP2_WINDOW_UPDATE: return 0;
      default: return spend(me);
    }
  }
  static int spend(H2ServerSession& me) { return me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE; }

  /// nghttp2 resets the stream of such a frame. A client that has its requests reset this way
  /// instead of doing it itself pays the same.
  static int on_invalid_frame(H2ServerSession& me, const nghttp2_frame& frame, int) {
    if (Stream* const stream = me.find(frame.hd.stream_id)) stream->is_reset = true;
    return spend(me);
  }

  static void on_closed(H2ServerSession& me, std::int32_t id, std::uint32_t code) {
    me.on_closed(id, code);
  }

  static void on_sent(H2ServerSession& me, const nghttp2_frame& frame) {
    const bool is_message = frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
    if (!is_message || (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
    // The answer is complete: what is left of the request is of no use (RFC 9113, section 8.1).
    const Stream* const stream = me.find(frame.hd.stream_id);
    if (stream != nullptr && !stream->exchange->is_body_complete()) {
      me.reset(frame.hd.stream_id, NGHTTP2_NO_ERROR);
    }
  }

  static std::optional<H2BodyLeft> body_left(const H2ServerSession& me, std::int32_t id) {
    const Stream* const stream = me.find(id);
    if (stream == nullptr) return std::nullopt;
    return H2BodyLeft{
        .bytes = stream->exchange->out().size() - stream->out_at,
        .is_complete = stream->exchange->answer() == ServerExchange::Answer::complete};
  }

  static int send_body(H2ServerSession& me,
                       std::int32_t id,
                       std::string_view head,
                       std::size_t size) {
    Stream* const stream = me.find(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::string_view out = stream->exchange->out();
    const int verdict = me.out_.add_data(head, out.substr(stream->out_at, size));
    me.on_sent(*stream, size);
    return verdict;
  }
};

void H2ServerSession::begin_session() {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, .value = limits_.max_streams},
      {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = kStreamWindow},
      {.settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       .value = static_cast<std::uint32_t>(std::min<std::size_t>(
           limits_.request.head.max_bytes, std::numeric_limits<std::uint32_t>::max()))},
  }};
  const auto set_options = [](nghttp2_option* option) {
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, std::size_t{1} << 20U);
  };
  session_ = begin_h2_session({.make = nghttp2_session_server_new3,
                               .set_callbacks = H2Callbacks<H2ServerSession, Calls>::set,
                               .set_options = set_options,
                               .settings = settings,
                               .connection_window = kConnectionWindow},
                              this);
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
  const nghttp2_data_provider provider = H2Callbacks<H2ServerSession, Calls>::body();
  nghttp2_submit_response(
      session_.get(), exchange.stream_id, head.data(), head.size(), has_body ? &provider : nullptr);
}

}  // namespace tinker::http
