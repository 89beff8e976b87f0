#include "support/load_server/connection.h"

namespace tinker::load_server {

namespace {
// Beyond this much unsent output a connection makes no more until the client reads.
constexpr std::size_t kEnoughOutput = std::size_t{256} << 10U;
}  // namespace

Connection::Connection(Host& host, std::uint64_t id, Socket socket)
    : host_(&host), id_(id), socket_(std::move(socket)) {
  if (!socket_.is_tls()) protocol_ = make_h1(*this);
}

void Connection::on_io(std::span<char> scratch) {
  while (!is_closed_) {
    const auto [status, bytes] = socket_.read(scratch);
    if (status == Socket::Status::closed) {
      is_closed_ = true;
      return;
    }
    if (status == Socket::Status::blocked) break;
    if (!protocol_) protocol_ = socket_.is_h2() ? make_h2(*this) : make_h1(*this);
    if (!is_finishing_) protocol_->receive({scratch.data(), bytes});
    // Plain TCP gives all it has at once; TLS hands out a record at a time.
    if (!socket_.is_tls() && bytes < scratch.size()) break;
  }
  flush();
}

void Connection::on_timer(std::uint32_t tag) {
  if (is_finishing_) return;
  protocol_->on_timer(tag);
  flush();
}

void Connection::reset() {
  socket_.reset_on_close();
  out_.clear();
  is_closed_ = true;
}

void Connection::flush() {
  while (!is_closed_) {
    if (protocol_ && !is_finishing_ && out_.size() < kEnoughOutput) protocol_->produce();
    if (is_closed_ || sent_ == out_.size()) break;
    const auto [status, bytes] = socket_.write(std::string_view(out_).substr(sent_));
    if (status == Socket::Status::closed) is_closed_ = true;
    if (status != Socket::Status::ok) return;
    sent_ += bytes;
    if (sent_ < out_.size()) continue;
    out_.clear();
    sent_ = 0;
  }
  if (is_finishing_ && !is_closed_) {
    if (is_polite_) socket_.say_goodbye();
    is_closed_ = true;
  }
}

}  // namespace tinker::load_server
