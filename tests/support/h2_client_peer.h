#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/h2_peer_base.h"

namespace tinker::testing {

/// The client's side of an HTTP/2 connection, without a socket: a test tells it what to ask.
class H2ClientPeer : public H2PeerBase {
 public:
  /// With `is_lax`, sends what the protocol forbids.
  explicit H2ClientPeer(const std::vector<nghttp2_settings_entry>& settings = {},
                        bool is_lax = false)
      : H2PeerBase(nghttp2_session_client_new2, make_option(is_lax).get(), settings) {}

  static Headers get(const std::string& path) {
    return {{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}};
  }
  static Headers post(const std::string& path) {
    return {{":method", "POST"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}};
  }
  std::int32_t ask(const Headers& headers) {
    const auto nv = name_values(headers);
    return nghttp2_submit_request(session(), nullptr, nv.data(), nv.size(), nullptr, nullptr);
  }
  std::int32_t ask(const Headers& headers, std::string body, bool keeps_open = false) {
    const auto nv = name_values(headers);
    const nghttp2_data_provider provider = body_provider();
    const std::int32_t id =
        nghttp2_submit_request(session(), nullptr, nv.data(), nv.size(), &provider, nullptr);
    streams[id].to_send = std::move(body);
    streams[id].keeps_open = keeps_open;
    return id;
  }
  void send_more(std::int32_t id, std::string_view bytes, bool keeps_open) {
    streams[id].to_send.append(bytes);
    streams[id].keeps_open = keeps_open;
    nghttp2_session_resume_data(session(), id);
  }
  void settings() { nghttp2_submit_settings(session(), NGHTTP2_FLAG_NONE, nullptr, 0); }
  /// Lets the server send that much more on a stream, and on the connection.
  void consume(std::int32_t id, std::size_t bytes) {
    nghttp2_session_consume(session(), id, bytes);
  }
  [[nodiscard]] std::uint32_t remote_setting(nghttp2_settings_id id) const {
    return nghttp2_session_get_remote_settings(session(), id);
  }

 private:
  using Option = std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)>;

  static Option make_option(bool is_lax) {
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_http_messaging(option, is_lax ? 1 : 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    return {option, nghttp2_option_del};
  }
};

}  // namespace tinker::testing
