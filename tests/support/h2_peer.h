#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

namespace tinker::testing {

/// The server's side of an HTTP/2 connection, without a socket: a test tells it what to answer.
class H2Peer {
 public:
  struct Stream {
    std::map<std::string, std::string> headers = {};
    std::string body = {};
    bool is_complete = false;
    std::uint32_t closed_with = 0xFFFF'FFFF;
    std::string to_send = {};
    std::size_t sent = 0;
    bool keeps_open = false;
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit H2Peer(std::vector<nghttp2_settings_entry> settings = {}) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  }
  H2Peer(const H2Peer&) = delete;
  H2Peer& operator=(const H2Peer&) = delete;
  ~H2Peer() { nghttp2_session_del(session_); }

  void receive(std::string_view bytes) {
    nghttp2_session_mem_recv(
        session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::string output() {
    std::string out;
    const std::uint8_t* data = nullptr;
    for (ssize_t n = 0; (n = nghttp2_session_mem_send(session_, &data)) > 0;) {
      out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(n));
    }
    return out;
  }

  /// With `keeps_open` the stream does not end with the body.
  void respond(std::int32_t id, const Headers& headers, std::string body, bool keeps_open = false) {
    Stream& stream = streams[id];
    stream.to_send = std::move(body);
    stream.keeps_open = keeps_open;
    nghttp2_data_provider provider = {.source = {.ptr = &stream}, .read_callback = read_body};
    const auto nv = name_values(headers);
    nghttp2_submit_response(session_, id, nv.data(), nv.size(), &provider);
  }
  void respond(std::int32_t id, std::string body) {
    respond(id, {{":status", "200"}}, std::move(body));
  }
  void interim(std::int32_t id, const Headers& headers) {
    const auto nv = name_values(headers);
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, id, nullptr, nv.data(), nv.size(), nullptr);
  }
  void reset(std::int32_t id, std::uint32_t code) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, code);
  }
  void go_away(std::int32_t last_stream) {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last_stream, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  void allow_streams(std::uint32_t count) {
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, count};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &entry, 1);
  }
  void ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

  std::map<std::int32_t, Stream> streams;
  int ping_answers = 0;

 private:
  static std::vector<nghttp2_nv> name_values(const Headers& headers) {
    std::vector<nghttp2_nv> out;
    for (const auto& [name, value] : headers) {
      out.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                     reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                     name.size(),
                     value.size(),
                     NGHTTP2_NV_FLAG_NONE});
    }
    return out;
  }
  static H2Peer& self(void* user_data) { return *static_cast<H2Peer*>(user_data); }
  static int on_header(nghttp2_session*,
                       const nghttp2_frame* frame,
                       const std::uint8_t* name,
                       std::size_t name_size,
                       const std::uint8_t* value,
                       std::size_t value_size,
                       std::uint8_t,
                       void* user_data) {
    self(user_data).streams[frame->hd.stream_id].headers.emplace(
        std::string(reinterpret_cast<const char*>(name), name_size),
        std::string(reinterpret_cast<const char*>(value), value_size));
    return 0;
  }
  static int on_data(nghttp2_session*,
                     std::uint8_t,
                     std::int32_t id,
                     const std::uint8_t* data,
                     std::size_t size,
                     void* user_data) {
    self(user_data).streams[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    H2Peer& me = self(user_data);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      ++me.ping_answers;
    }
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      me.streams[frame->hd.stream_id].is_complete = true;
    }
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user_data) {
    self(user_data).streams[id].closed_with = code;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*,
                           std::int32_t,
                           std::uint8_t* buffer,
                           std::size_t size,
                           std::uint32_t* flags,
                           nghttp2_data_source* source,
                           void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const std::size_t n = std::min(size, stream.to_send.size() - stream.sent);
    if (n == 0 && stream.keeps_open) return NGHTTP2_ERR_DEFERRED;
    std::memcpy(buffer, stream.to_send.data() + stream.sent, n);
    stream.sent += n;
    if (stream.sent == stream.to_send.size() && !stream.keeps_open) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(n);
  }

  nghttp2_session* session_ = nullptr;
};

}  // namespace tinker::testing
