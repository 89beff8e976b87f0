#include "http/connection.h"

#include "base/strings.h"
#include "http/h1_codec.h"
#include "http/h2_session.h"

namespace tinker::http {

namespace {

// A fast server may not keep the loop from everybody else.
constexpr int kReadsPerTurn = 4;
// How long to wait before asking again whether there is room for more of an answer.
constexpr auto kRoomPause = std::chrono::milliseconds(1);
// Encrypted at a time, so that little waits outside the codec.
constexpr std::size_t kEncryptBytes = std::size_t{64} << 10U;
// What a connection keeps of its output buffer when all is sent.
constexpr std::size_t kKeptBytes = 4096;

}  // namespace

Connection::Connection(std::shared_ptr<NetContext> net,
                       std::weak_ptr<Owner> owner,
                       Url origin,
                       const Proxy* proxy)
    : net_(std::move(net)), owner_(std::move(owner)), origin_(std::move(origin)), proxy_(proxy) {}

Connection::~Connection() {
  net_->loop().cancel(timer_);
}

void Connection::open(std::chrono::nanoseconds timeout) {
  timer_ = net_->loop().schedule_after(timeout, [weak = weak_from_this(), timeout] {
    const auto self = weak.lock();
    if (!self) return;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    self->close({.code = ErrorCode::timed_out,
                 .message = base::concat(
                     "no connection to ", self->next_hop().authority(), " within ", ms, " ms"),
                 .retry = {.retryable = true}});
  });
  dialer_ = std::make_unique<Dialer>(net_->loop(), net_->loop().io(), net_->resolver());
  dialer_->dial(next_hop().host,
                next_hop().port,
                [weak = weak_from_this()](Result<std::unique_ptr<Socket>> socket) {
                  if (const auto self = weak.lock()) self->on_dialed(std::move(socket));
                });
}

void Connection::on_dialed(Result<std::unique_ptr<Socket>> socket) {
  if (is_closed_) return;
  if (!socket.ok()) return close(std::move(socket).error());
  socket_ = *std::move(socket);
  listen();
  advance();
  flush();
}

void Connection::advance() {
  if (const auto taken = take_step(); !taken.ok()) close(taken.error());
}

Result<void> Connection::take_step() {
  using Peer = TlsSession::Peer;
  switch (step_) {
    case Step::dialing:
      step_ = Step::proxy_tls;
      if (proxy_ != nullptr && proxy_->url.is_tls()) return begin_tls(proxy_->url, Peer::proxy);
      [[fallthrough]];
    case Step::proxy_tls:
      step_ = Step::tunnel;
      if (proxy_ != nullptr && origin_.is_tls()) return begin_tunnel();
      [[fallthrough]];
    case Step::tunnel:
      step_ = Step::origin_tls;
      if (origin_.is_tls()) {
        return begin_tls(origin_,
                         net_->options().enable_http2 ? Peer::origin : Peer::origin_h1_only);
      }
      [[fallthrough]];
    case Step::origin_tls:
      step_ = Step::ready;
      begin_protocol();
      return {};
    case Step::ready: break;
  }
  return {};
}

Result<void> Connection::begin_tls(const Url& peer, TlsSession::Peer kind) {
  TINKER_TRY(auto context, net_->tls());
  TINKER_TRY(auto session, TlsSession::create(std::move(context), peer.host, peer.port, kind));
  std::string hello;
  TINKER_TRY(session->start(hello));
  tls_.push_back(std::move(session));
  return send_below(tls_.size() - 1, hello);
}

Result<void> Connection::begin_tunnel() {
  tunnel_ = std::make_unique<Tunnel>(origin_, *proxy_, net_->head_limits());
  return send_below(tls_.size(), tunnel_->take_request());
}

void Connection::begin_protocol() {
  net_->loop().cancel(timer_);
  is_http2_ = origin_.is_tls() && tls_.back()->is_http2();
  if (is_http2_) {
    codec_ = std::make_unique<H2Session>(H2Session::Options{.limits = net_->head_limits()});
  } else {
    // To a server without TLS the proxy itself carries the requests.
    const Proxy* const addressed = origin_.is_tls() ? nullptr : proxy_;
    codec_ = std::make_unique<H1Codec>(net_->head_limits(), addressed);
  }
  if (const auto owner = owner_.lock()) owner->on_open(*this);
}

void Connection::start(std::shared_ptr<Exchange> exchange) {
  codec_->start(std::move(exchange), net_->loop().now());
  if (const auto owner = owner_.lock()) owner->on_output(*this);
}

void Connection::cancel(Exchange& exchange) {
  codec_->cancel(exchange);
  if (const auto owner = owner_.lock()) {
    owner->on_output(*this);
    owner->on_progress(*this);
  }
}

void Connection::close(const Error& reason) {
  if (is_closed_) return;
  const auto self = shared_from_this();
  is_closed_ = true;
  net_->loop().cancel(timer_);
  dialer_.reset();
  const bool was_open = codec_ != nullptr;
  if (was_open) codec_->end(reason);
  say_goodbye();
  socket_.reset();
  tls_.clear();
  tunnel_.reset();
  if (const auto owner = owner_.lock()) {
    owner->on_closed(*this, was_open ? std::nullopt : std::optional(reason));
  }
}

// ---- input ------------------------------------------------------------------------------------

void Connection::listen() {
  if (codec_ && !codec_->has_room()) {
    net_->loop().schedule_after(kRoomPause, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && !self->is_closed_) self->listen();
    });
    return;
  }
  socket_->wait_readable([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_readable();
  });
}

void Connection::on_readable() {
  const auto owner = owner_.lock();
  if (!owner || is_closed_) return;
  read_some();
  if (is_closed_) return;
  listen();
  if (codec_) owner->on_progress(*this);
  if (is_closed_) return;
  owner->on_output(*this);
}

void Connection::read_some() {
  for (int i = 0; i < kReadsPerTurn && !is_closed_; ++i) {
    const std::span<char> buffer = net_->read_buffer();
    const Socket::Progress got = socket_->read(buffer);
    switch (got.status) {
      case Socket::Status::ok:
        receive(0, {buffer.data(), got.bytes});
        if (got.bytes < buffer.size()) return;
        if (codec_ && !codec_->has_room()) return;
        break;
      case Socket::Status::would_block: return;
      case Socket::Status::ended: return on_end();
      case Socket::Status::failed:
        return close(connection_error(base::concat(
            "the connection to ", next_hop().authority(), " broke: ", error_text(got.error))));
    }
  }
}

void Connection::receive(std::size_t layer, std::string_view bytes) {
  if (layer == tls_.size()) return receive_plain(bytes);
  TlsSession& tls = *tls_[layer];
  tls.put(bytes);
  while (!is_closed_) {
    const bool was_established = tls.is_established();
    std::string inner;
    std::string& out = layer == 0 ? wire_ : inner;
    const auto plain = tls.read(net_->plain_buffer(layer), out);
    if (!inner.empty()) {
      if (const auto sent = send_below(layer, inner); !sent.ok()) return close(sent.error());
    }
    if (!plain.ok()) return close(plain.error());
    if (!was_established && tls.is_established()) advance();
    if (plain->empty()) break;
    if (!is_closed_) receive(layer + 1, *plain);
  }
  if (!is_closed_ && tls.is_closed_by_peer()) on_end();
}

void Connection::receive_plain(std::string_view bytes) {
  if (codec_) return codec_->receive(bytes, net_->loop().now());
  if (!tunnel_) {
    return close(connection_error(base::concat(next_hop().authority(), " sent something unasked")));
  }
  const auto answered = tunnel_->receive(bytes);
  if (!answered.ok()) return close(answered.error());
  const std::optional<std::string_view> rest = *answered;
  if (!rest) return;
  advance();
  if (!is_closed_ && !rest->empty()) receive(tls_.size() - 1, *rest);
}

void Connection::on_end() {
  const std::string peer = next_hop().authority();
  if (!codec_) {
    return close(connection_error(base::concat(peer,
                                               " closed the connection ",
                                               tunnel_ && step_ == Step::tunnel
                                                   ? "instead of opening a tunnel"
                                                   : "during the TLS handshake")));
  }
  // Without a goodbye somebody may have cut the answer short.
  if (!tls_.empty() && !tls_.back()->is_closed_by_peer()) {
    return close(connection_error(
        base::concat("the connection to ", peer, " ended before the answer was complete")));
  }
  codec_->end(std::nullopt);
  close(connection_error(base::concat(peer, " closed the connection")));
}

// ---- output -----------------------------------------------------------------------------------

Result<void> Connection::send_below(std::size_t layer, std::string_view bytes) {
  if (layer == 0) {
    wire_.append(bytes);
    return {};
  }
  if (layer == 1) return tls_[0]->write(bytes, wire_);
  std::string inner;
  TINKER_TRY(tls_[1]->write(bytes, inner));
  return tls_[0]->write(inner, wire_);
}

void Connection::flush() {
  if (is_closed_ || !socket_ || is_waiting_to_write_ || is_write_broken_) return;
  const auto self = shared_from_this();
  const TimePoint now = net_->loop().now();
  while (send_wire() && send_more(now)) {
  }
  if (is_closed_ || !codec_) return;
  if (wire_.empty() && wire_.capacity() > kKeptBytes) wire_ = std::string();
  if (codec_->has_finished() || codec_->is_spent()) {
    if (const auto owner = owner_.lock()) owner->on_progress(*this);
  }
}

bool Connection::send_wire() {
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

bool Connection::send_more(TimePoint now) {
  if (!codec_) return false;
  const std::string_view bytes = codec_->output(now);
  if (bytes.empty()) return false;
  if (tls_.empty()) {
    std::size_t sent = 0;
    const bool goes_on = send_now(bytes, sent);
    if (sent > 0) codec_->wrote(sent, now);
    return goes_on;
  }
  const std::string_view piece = bytes.substr(0, kEncryptBytes);
  if (const auto sent = send_below(tls_.size(), piece); !sent.ok()) {
    close(sent.error());
    return false;
  }
  codec_->wrote(piece.size(), now);
  return true;
}

bool Connection::send_now(std::string_view bytes, std::size_t& sent) {
  const Socket::Progress progress = socket_->write(bytes);
  if (progress.status == Socket::Status::failed) {
    on_write_failed(progress.error);
    return false;
  }
  sent = progress.bytes;
  if (sent == bytes.size()) return true;
  wait_writable();
  return false;
}

void Connection::wait_writable() {
  is_waiting_to_write_ = true;
  socket_->wait_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->is_closed_) return;
    self->is_waiting_to_write_ = false;
    self->flush();
  });
}

void Connection::on_write_failed(int error) {
  // The server may have answered before it closed: a request that is too long, for instance.
  is_write_broken_ = true;
  read_some();
  if (is_closed_) return;
  close(connection_error(
      base::concat("the connection to ", next_hop().authority(), " broke: ", error_text(error))));
}

void Connection::say_goodbye() {
  if (!socket_ || is_write_broken_) return;
  // Best effort: an alert that explains a failed handshake, or the goodbye of TLS. Behind data that
  // is still waiting it would make no sense.
  if (!is_waiting_to_write_) {
    if (tls_.size() == 1) tls_.front()->close(wire_);
    if (wire_sent_ < wire_.size()) socket_->write(std::string_view(wire_).substr(wire_sent_));
  }
}

}  // namespace tinker::http
