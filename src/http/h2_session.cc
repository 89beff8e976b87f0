#include "http/h2_session.h"

#include <cstdint>
#include <utility>

#include "http/h2_common.h"

namespace tinker::http {

namespace {

// How much is made ready for sending at a time.
constexpr std::size_t kOutputBytes = std::size_t{64} << 10U;

}  // namespace

void H2SessionFree::operator()(nghttp2_session* session) const noexcept {
  nghttp2_session_del(session);
}

int H2Output::fill(nghttp2_session& session) {
  bytes_.clear();
  sent_ = 0;
  while (bytes_.size() < kOutputBytes) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(&session, &data);
    if (size < 0) return static_cast<int>(size);
    if (size == 0) break;
    bytes_.append(h2_text(data, static_cast<std::size_t>(size)));
  }
  return 0;
}

int H2Output::add_data(std::string_view head, std::string_view body) {
  bytes_.append(head).append(body);
  return bytes_.size() < kOutputBytes ? 0 : NGHTTP2_ERR_PAUSE;
}

void H2Output::set(std::string bytes) {
  bytes_ = std::move(bytes);
  sent_ = 0;
}

void H2Output::trim(std::size_t kept_bytes) {
  if (bytes_.empty() && bytes_.capacity() > kept_bytes) bytes_ = std::string();
}

}  // namespace tinker::http
