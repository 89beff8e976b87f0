// Reading: a turn takes at most `kReadsPerTurn` buffers from the socket, hands them up through the
// layers of TLS to `on_bytes`, then waits for the socket again. Writing: `flush` first sends what
// TLS made (`wire_`), then asks the protocol for more, until the socket takes no more or nothing is
// left. Every call into the derived class may close the stream, so each is followed by a look at
// `is_closed_`; whoever enters from the loop holds a share of the stream.
#include "http/byte_stream.h"

#include "base/strings.h"
#include "http/message.h"

namespace tinker::http {

namespace {

// A fast peer may not keep the loop from everybody else.
constexpr int kReadsPerTurn = 4;
// Encrypted at a time, so that little waits outside the protocol.
constexpr std::size_t kEncryptBytes = std::size_t{64} << 10U;
// What a connection keeps of its output buffer when all is sent.
constexpr std::size_t kKeptBytes = 4096;

}  // namespace

void ByteStream::attach(std::unique_ptr<Socket> socket) {
  socket_ = std::move(socket);
  listen();
}

Result<void> ByteStream::add_tls(std::unique_ptr<TlsSession> session) {
  std::string hello;
  TINKER_TRY(session->start(hello));
  tls_.push_back(std::move(session));
  return send_below(tls_.size() - 1, hello);
}

void ByteStream::shut() {
  is_closed_ = true;
  if (socket_ && !is_write_broken_ && !is_waiting_to_write_) {
    // Best effort: an alert that explains a failed handshake, or the goodbye of TLS. Behind data
    // that is still waiting it would make no sense.
    if (tls_.size() == 1) tls_.front()->close(wire_);
    if (wire_sent_ < wire_.size()) socket_->write(std::string_view(wire_).substr(wire_sent_));
  }
  socket_.reset();
  tls_.clear();
}

void ByteStream::finish_sending() {
  if (!socket_ || is_write_broken_) return;
  if (tls_.size() == 1) tls_.front()->close(wire_);
  if (send_wire()) socket_->shutdown_write();
}

Error ByteStream::broken(int error) const {
  return connection_error(
      base::concat("the connection to ", peer_name(), " broke: ", error_text(error)));
}

// ---- input ------------------------------------------------------------------------------------

void ByteStream::listen() {
  if (!has_room()) return on_paused();
  socket_->wait_readable([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_readable();
  });
}

void ByteStream::on_readable() {
  if (is_closed_) return;
  read_some();
  if (is_closed_) return;
  listen();
  on_turn();
}

void ByteStream::read_some() {
  for (int i = 0; i < kReadsPerTurn && !is_closed_; ++i) {
    const std::span<char> buffer = buffers_.wire();
    const Socket::Progress got = socket_->read(buffer);
    switch (got.status) {
      case Socket::Status::ok:
        receive(0, {buffer.data(), got.bytes});
        if (got.bytes < buffer.size() || is_closed_ || !has_room()) return;
        break;
      case Socket::Status::would_block: return;
      case Socket::Status::ended: return end();
      case Socket::Status::failed: return on_broken(broken(got.error));
    }
  }
}

void ByteStream::receive(std::size_t layer, std::string_view bytes) {
  if (layer == tls_.size()) return on_bytes(bytes);
  TlsSession& tls = *tls_[layer];
  tls.put(bytes);
  while (!is_closed_) {
    const bool was_established = tls.is_established();
    std::string inner;
    std::string& out = layer == 0 ? wire_ : inner;
    const auto plain = tls.read(buffers_.plain(layer), out);
    if (!inner.empty()) {
      if (const auto sent = send_below(layer, inner); !sent.ok()) return on_broken(sent.error());
    }
    if (!plain.ok()) return on_broken(plain.error());
    if (!was_established && tls.is_established()) on_secure();
    if (plain->empty()) break;
    if (!is_closed_) receive(layer + 1, *plain);
  }
  if (!is_closed_ && tls.is_closed_by_peer()) end();
}

void ByteStream::end() {
  on_end(tls_.empty() || tls_.back()->is_closed_by_peer());
}

// ---- output -----------------------------------------------------------------------------------

Result<void> ByteStream::send_below(std::size_t layer, std::string_view bytes) {
  if (layer == 0) {
    wire_.append(bytes);
    return {};
  }
  if (layer == 1) return tls_[0]->write(bytes, wire_);
  std::string inner;
  TINKER_TRY(tls_[1]->write(bytes, inner));
  return tls_[0]->write(inner, wire_);
}

void ByteStream::flush() {
  if (is_closed_ || !socket_ || is_waiting_to_write_ || is_write_broken_) return;
  const auto self = shared_from_this();
  while (send_wire() && send_more()) {
  }
  if (is_closed_) return;
  if (wire_.empty() && wire_.capacity() > kKeptBytes) wire_ = std::string();
  on_flushed();
}

bool ByteStream::send_wire() {
  while (wire_sent_ < wire_.size()) {
    std::size_t sent = 0;
    const bool goes_on = send_now(std::string_view(wire_).substr(wire_sent_), sent);
    wire_sent_ += sent;
    if (!goes_on) return false;
  }
  wire_.clear();
  wire_sent_ = 0;
  return true;
}

bool ByteStream::send_more() {
  const std::string_view bytes = output();
  if (bytes.empty()) return false;
  if (tls_.empty()) {
    std::size_t sent = 0;
    const bool goes_on = send_now(bytes, sent);
    if (sent > 0) wrote(sent);
    return goes_on;
  }
  const std::string_view piece = bytes.substr(0, kEncryptBytes);
  if (const auto sent = send(piece); !sent.ok()) {
    on_broken(sent.error());
    return false;
  }
  wrote(piece.size());
  return true;
}

bool ByteStream::send_now(std::string_view bytes, std::size_t& sent) {
  const Socket::Progress progress = socket_->write(bytes);
  if (progress.status == Socket::Status::failed) {
    on_write_failed(progress.error);
    return false;
  }
  sent = progress.bytes;
  sent_bytes_ += sent;
  if (sent == bytes.size()) return true;
  wait_writable();
  return false;
}

void ByteStream::wait_writable() {
  is_waiting_to_write_ = true;
  socket_->wait_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_closed_) return;
    self->is_waiting_to_write_ = false;
    self->flush();
  });
}

void ByteStream::on_write_failed(int error) {
  // The peer may have answered before it closed: a request that is too long, for instance.
  is_write_broken_ = true;
  read_some();
  if (is_closed_) return;
  on_broken(broken(error));
}

}  // namespace tinker::http
