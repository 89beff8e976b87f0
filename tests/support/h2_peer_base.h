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

/// Either side of an HTTP/2 connection, without a socket. It shares no code with the sessions that
/// it tests.
class H2PeerBase {
 public:
  struct Stream {
    std::map<std::string, std::string> headers = {};
    std::vector<std::string> statuses = {};
    std::string body = {};
    std::string to_send = {};
    std::size_t sent = 0;
    bool keeps_open = false;  ///< More of `to_send` may follow.
    bool is_complete = false;
    bool is_closed = false;
    std::uint32_t closed_with = 0;
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  H2PeerBase(const H2PeerBase&) = delete;
  H2PeerBase& operator=(const H2PeerBase&) = delete;

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
  void reset(std::int32_t id, std::uint32_t code = NGHTTP2_CANCEL) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, code);
  }
  void ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

  std::map<std::int32_t, Stream> streams;
  int ping_answers = 0;
  int go_aways = 0;
  std::uint32_t go_away_code = 0;
  std::int32_t go_away_last = 0;

 protected:
  /// `make` is nghttp2's function for the role.
  H2PeerBase(decltype(&nghttp2_session_server_new2) make,
             const nghttp2_option* option,
             const std::vector<nghttp2_settings_entry>& settings) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    make(&session_, callbacks, this, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  }
  ~H2PeerBase() { nghttp2_session_del(session_); }

  [[nodiscard]] nghttp2_session* session() const { return session_; }
  /// Refers to `headers`.
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
  /// Sends what `Stream::to_send` holds.
  static nghttp2_data_provider body_provider() {
    return {.source = {.ptr = nullptr}, .read_callback = read_body};
  }

 private:
  static H2PeerBase& self(void* user_data) { return *static_cast<H2PeerBase*>(user_data); }
  static int on_header(nghttp2_session*,
                       const nghttp2_frame* frame,
                       const std::uint8_t* name,
                       std::size_t name_size,
                       const std::uint8_t* value,
                       std::size_t value_size,
                       std::uint8_t,
                       void* user_data) {
    Stream& stream = self(user_data).streams[frame->hd.stream_id];
    const std::string key(reinterpret_cast<const char*>(name), name_size);
    std::string text(reinterpret_cast<const char*>(value), value_size);
    if (key == ":status") stream.statuses.push_back(text);
    stream.headers[key] = std::move(text);
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
    H2PeerBase& me = self(user_data);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      ++me.ping_answers;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      ++me.go_aways;
      me.go_away_code = frame->goaway.error_code;
      me.go_away_last = frame->goaway.last_stream_id;
    }
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      me.streams[frame->hd.stream_id].is_complete = true;
    }
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user_data) {
    Stream& stream = self(user_data).streams[id];
    stream.is_closed = true;
    stream.closed_with = code;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*,
                           std::int32_t id,
                           std::uint8_t* buffer,
                           std::size_t size,
                           std::uint32_t* flags,
                           nghttp2_data_source*,
                           void* user_data) {
    Stream& stream = self(user_data).streams[id];
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
