#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct nghttp2_session;

/// What the HTTP/2 sessions of both roles hold. It does not show nghttp2.
namespace tinker::http {

struct H2SessionFree {
  void operator()(nghttp2_session* session) const noexcept;
};
using H2SessionPtr = std::unique_ptr<nghttp2_session, H2SessionFree>;

/// Bytes of a session that wait to be sent, made ready some at a time.
class H2Output {
 public:
  [[nodiscard]] std::string_view left() const noexcept {
    return std::string_view(bytes_).substr(sent_);
  }
  void wrote(std::size_t bytes) noexcept { sent_ += bytes; }

  /// Takes what nghttp2 has to send, in place of what was sent. Returns 0 or nghttp2's error.
  int fill(nghttp2_session& session);
  /// Adds a frame DATA, inside of `fill`. Returns what nghttp2 is to be told.
  int add_data(std::string_view head, std::string_view body);
  /// Replaces all bytes.
  void set(std::string bytes);
  /// Gives memory back beyond `kept_bytes` where nothing is left to send.
  void trim(std::size_t kept_bytes);

 private:
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace tinker::http
