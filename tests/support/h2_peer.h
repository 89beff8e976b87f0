#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/h2_peer_base.h"

namespace tinker::testing {

/// The server's side of an HTTP/2 connection, without a socket: a test tells it what to answer.
class H2Peer : public H2PeerBase {
 public:
  explicit H2Peer(const std::vector<nghttp2_settings_entry>& settings = {})
      : H2PeerBase(nghttp2_session_server_new2, nullptr, settings) {}

  /// With `keeps_open` the stream does not end with the body.
  void respond(std::int32_t id, const Headers& headers, std::string body, bool keeps_open = false) {
    streams[id].to_send = std::move(body);
    streams[id].keeps_open = keeps_open;
    const nghttp2_data_provider provider = body_provider();
    const auto nv = name_values(headers);
    nghttp2_submit_response(session(), id, nv.data(), nv.size(), &provider);
  }
  void respond(std::int32_t id, std::string body) {
    respond(id, {{":status", "200"}}, std::move(body));
  }
  void interim(std::int32_t id, const Headers& headers) {
    const auto nv = name_values(headers);
    nghttp2_submit_headers(
        session(), NGHTTP2_FLAG_NONE, id, nullptr, nv.data(), nv.size(), nullptr);
  }
  void go_away(std::int32_t last_stream) {
    nghttp2_submit_goaway(session(), NGHTTP2_FLAG_NONE, last_stream, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  void allow_streams(std::uint32_t count) {
    const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, count};
    nghttp2_submit_settings(session(), NGHTTP2_FLAG_NONE, &entry, 1);
  }
};

}  // namespace tinker::testing
