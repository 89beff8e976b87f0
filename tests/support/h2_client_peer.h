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

/// The client's side of an HTTP/2 connection, without a socket: a test tells it what to ask.
class H2ClientPeer {
 public:
  struct Stream {
    std::map<std::string, std::string> headers = {};
    std::vector<std::string> statuses = {};
    std::string body = {};
    std::string to_send = {};
    std::size_t sent = 0;
    bool keeps_open = false;  ///< More of the body may follow.
    bool is_complete = false;
    bool is_closed = false;
    std::uint32_t closed_with = 0;
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// With `is_lax`, sends what the protocol forbids.
  explicit H2ClientPeer(std::vector<nghttp2_settings_entry> settings = {}, bool is_lax = false) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_http_messaging(option, is_lax ? 1 : 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  }
  H2ClientPeer(const H2ClientPeer&) = delete;
  H2ClientPeer& operator=(const H2ClientPeer&) = delete;
  ~H2ClientPeer() { nghttp2_session_del(session_); }

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

  static Headers get(const std::string& path) {
    return {{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}};
  }
  static Headers post(const std::string& path) {
    return {{":method", "POST"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}};
  }
  std::int32_t ask(const Headers& headers) {
    const auto nv = name_values(headers);
    return nghttp2_submit_request(session_, nullptr, nv.data(), nv.size(), nullptr, nullptr);
  }
  std::int32_t ask(const Headers& headers, std::string body, bool keeps_open = false) {
    const auto nv = name_values(headers);
    nghttp2_data_provider provider = {.source = {.ptr = nullptr}, .read_callback = read_body};
    const std::int32_t id =
        nghttp2_submit_request(session_, nullptr, nv.data(), nv.size(), &provider, nullptr);
    streams[id].to_send = std::move(body);
    streams[id].keeps_open = keeps_open;
    return id;
  }
  void send_more(std::int32_t id, std::string_view bytes, bool keeps_open) {
    streams[id].to_send.append(bytes);
    streams[id].keeps_open = keeps_open;
    nghttp2_session_resume_data(session_, id);
  }
  void reset(std::int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  }
  void ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }
  void settings() { nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0); }
  /// Lets the server send that much more on a stream, and on the connection.
  void consume(std::int32_t id, std::size_t bytes) { nghttp2_session_consume(session_, id, bytes); }
  [[nodiscard]] std::uint32_t remote_setting(nghttp2_settings_id id) const {
    return nghttp2_session_get_remote_settings(session_, id);
  }

  std::map<std::int32_t, Stream> streams;
  int go_aways = 0;
  std::uint32_t go_away_code = 0;
  std::int32_t go_away_last = 0;

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
  static H2ClientPeer& self(void* user_data) { return *static_cast<H2ClientPeer*>(user_data); }
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
    H2ClientPeer& me = self(user_data);
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
