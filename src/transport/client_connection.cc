#include "transport/client_connection.h"

#include "base/strings.h"
#include "transport/h1_client_codec.h"
#include "transport/h2_client_session.h"

namespace tinker::http {

namespace {

// How long to wait before asking again whether there is room for more of an answer.
constexpr auto kRoomPause = std::chrono::milliseconds(1);

}  // namespace

ClientConnection::ClientConnection(std::shared_ptr<NetContext> net,
                                   std::weak_ptr<Owner> owner,
                                   Url origin,
                                   const Proxy* proxy)
    : ByteStream(net->buffers()),
      net_(std::move(net)),
      owner_(std::move(owner)),
      origin_(std::move(origin)),
      proxy_(proxy) {}

ClientConnection::~ClientConnection() {
  net_->loop().cancel(timer_);
}

void ClientConnection::open(std::chrono::nanoseconds timeout) {
  timer_ = net_->loop().schedule_after(timeout, [weak = weak_self(), timeout] {
    const auto self = weak.lock();
    if (!self) return;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    self->close({.code = ErrorCode::timed_out,
                 .message = base::concat(
                     "no connection to ", self->next_hop().server(), " within ", ms, " ms"),
                 .retry = {.retryable = true}});
  });
  dialer_ = std::make_unique<Dialer>(net_->loop(), net_->loop().io(), net_->resolver());
  const auto done = [weak = weak_self()](Result<std::unique_ptr<Socket>> socket) {
    if (const auto self = weak.lock()) self->on_dialed(std::move(socket));
  };
  const Url& hop = next_hop();
  if (hop.is_unix()) {
    dialer_->dial_unix(hop.host, done);
  } else {
    dialer_->dial(hop.host, hop.port, done);
  }
}

void ClientConnection::on_dialed(Result<std::unique_ptr<Socket>> socket) {
  if (is_closed()) return;
  if (!socket.ok()) return close(std::move(socket).error());
  attach(*std::move(socket));
  advance();
  flush();
}

void ClientConnection::advance() {
  if (const auto taken = take_step(); !taken.ok()) close(taken.error());
}

Result<void> ClientConnection::take_step() {
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

Result<void> ClientConnection::begin_tls(const Url& peer, TlsSession::Peer kind) {
  TINKER_TRY(auto context, net_->tls());
  TINKER_TRY(auto session, TlsSession::connect(std::move(context), peer.host, peer.port, kind));
  return add_tls(std::move(session));
}

Result<void> ClientConnection::begin_tunnel() {
  tunnel_ = std::make_unique<Tunnel>(origin_, *proxy_, net_->head_limits());
  return send(tunnel_->take_request());
}

void ClientConnection::begin_protocol() {
  net_->loop().cancel(timer_);
  is_http2_ = origin_.is_tls() && tls()->is_http2();
  if (is_http2_) {
    codec_ =
        std::make_unique<H2ClientSession>(H2ClientSession::Options{.limits = net_->head_limits()});
  } else {
    // To a server without TLS the proxy itself carries the requests.
    const Proxy* const addressed = origin_.is_tls() ? nullptr : proxy_;
    codec_ = std::make_unique<H1ClientCodec>(net_->head_limits(), addressed);
  }
  if (const auto owner = owner_.lock()) owner->on_open(*this);
}

void ClientConnection::start(std::shared_ptr<Exchange> exchange) {
  codec_->start(std::move(exchange), net_->loop().now());
  if (const auto owner = owner_.lock()) owner->on_output(*this);
}

void ClientConnection::cancel(Exchange& exchange) {
  codec_->cancel(exchange);
  if (const auto owner = owner_.lock()) {
    owner->on_output(*this);
    owner->on_progress(*this);
  }
}

void ClientConnection::close(const Error& reason) {
  if (is_closed()) return;
  const auto keep = self();
  net_->loop().cancel(timer_);
  dialer_.reset();
  const bool was_open = codec_ != nullptr;
  if (was_open) codec_->end(reason);
  shut();
  tunnel_.reset();
  if (const auto owner = owner_.lock()) {
    owner->on_closed(*this, was_open ? std::nullopt : std::optional(reason));
  }
}

// ---- input ------------------------------------------------------------------------------------

void ClientConnection::on_paused() {
  net_->loop().schedule_after(kRoomPause, [weak = weak_self()] {
    if (const auto keep = weak.lock(); keep && !keep->is_closed()) keep->listen();
  });
}

void ClientConnection::on_turn() {
  const auto owner = owner_.lock();
  if (!owner) return;
  if (codec_) owner->on_progress(*this);
  if (!is_closed()) owner->on_output(*this);
}

void ClientConnection::on_bytes(std::string_view bytes) {
  if (codec_) return codec_->receive(bytes, net_->loop().now());
  if (!tunnel_) {
    return close(connection_error(base::concat(peer_name(), " sent something unasked")));
  }
  const auto answered = tunnel_->receive(bytes);
  if (!answered.ok()) return close(answered.error());
  const std::optional<std::string_view> rest = *answered;
  if (!rest) return;
  advance();
  if (!is_closed() && !rest->empty()) receive_early(*rest);
}

void ClientConnection::on_end(bool is_clean) {
  if (!codec_) {
    return close(connection_error(base::concat(peer_name(),
                                               " closed the connection ",
                                               tunnel_ && step_ == Step::tunnel
                                                   ? "instead of opening a tunnel"
                                                   : "during the TLS handshake")));
  }
  if (!is_clean) {
    return close(connection_error(
        base::concat("the connection to ", peer_name(), " ended before the answer was complete")));
  }
  codec_->end(std::nullopt);
  close(connection_error(base::concat(peer_name(), " closed the connection")));
}

// ---- output -----------------------------------------------------------------------------------

std::string_view ClientConnection::output() {
  return codec_ ? codec_->output(net_->loop().now()) : std::string_view();
}

void ClientConnection::on_flushed() {
  if (!codec_ || !(codec_->has_finished() || codec_->is_spent())) return;
  if (const auto owner = owner_.lock()) owner->on_progress(*this);
}

}  // namespace tinker::http
