#include "http/net_context.h"

namespace tinker::http {

namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10U;
constexpr std::size_t kPlainBytes = std::size_t{64} << 10U;

}  // namespace

Result<std::shared_ptr<TlsContext>> NetContext::tls() {
  if (!tls_) {
    tls_ = TlsContext::create({.verify = options_.verify_tls,
                               .ca_file = options_.ca_file,
                               .ca_path = options_.ca_path,
                               .pinned_keys = options_.pinned_keys});
  }
  return *tls_;
}

std::span<char> NetContext::read_buffer() {
  if (read_buffer_.empty()) read_buffer_.resize(kReadBytes);
  return read_buffer_;
}

std::span<char> NetContext::plain_buffer(std::size_t layer) {
  auto& buffer = plain_buffers_.at(layer);
  if (buffer.empty()) buffer.resize(kPlainBytes);
  return buffer;
}

}  // namespace tinker::http
