#include "http/server.h"

#include <utility>

namespace tinker::http {

std::shared_ptr<Server> Server::create(std::shared_ptr<async::AsioLoop> loop,
                                       Handler handler,
                                       const ServerOptions& options) {
  auto server = std::make_shared<Server>(std::move(loop), std::move(handler), options);
  server->core_->on_change = [weak = std::weak_ptr(server)] {
    if (const auto self = weak.lock()) self->on_change();
  };
  return server;
}

Server::Server(std::shared_ptr<async::AsioLoop> loop, Handler handler, const ServerOptions& options)
    : loop_(std::move(loop)),
      max_connections_(options.max_connections),
      core_(std::make_shared<ServerCore>(loop_, std::move(handler), options.limits)) {}

Server::~Server() {
  loop_->cancel(drain_timer_);
  core_->on_change = nullptr;
  close_all({.code = ErrorCode::cancelled, .message = "the server has stopped"});
}

Result<std::uint16_t> Server::listen(const ListenAddress& address,
                                     const std::optional<TlsIdentity>& identity) {
  auto listener = std::make_unique<Listener>();
  if (identity) {
    listener->identity = identity;
    TINKER_TRY(listener->tls, TlsServerContext::create(*identity));
  }
  TINKER_TRY(listener->acceptor, Acceptor::listen(loop_, address));
  listener->acceptor->start([weak = weak_from_this(), from = listener.get()](
                                std::unique_ptr<Socket> socket, std::optional<Address> peer) {
    if (const auto self = weak.lock()) self->on_accepted(*from, std::move(socket), peer);
  });
  const std::uint16_t port = listener->acceptor->port();
  listeners_.push_back(std::move(listener));
  return port;
}

Result<void> Server::reload_certificates() {
  std::vector<std::shared_ptr<const TlsServerContext>> fresh;
  for (const auto& listener : listeners_) {
    fresh.emplace_back();
    if (listener->identity) {
      TINKER_TRY(fresh.back(), TlsServerContext::create(*listener->identity));
    }
  }
  for (std::size_t i = 0; i < fresh.size(); ++i) listeners_[i]->tls = std::move(fresh[i]);
  return {};
}

void Server::on_accepted(const Listener& listener,
                         std::unique_ptr<Socket> socket,
                         const std::optional<Address>& address) {
  std::unique_ptr<TlsSession> tls;
  if (listener.tls) {
    auto session = TlsSession::accept(*listener.tls);
    if (!session.ok()) return;  // no memory: the connection closes
    tls = *std::move(session);
  }
  ServerConnection::open(core_,
                         std::move(socket),
                         std::move(tls),
                         {.address = address, .is_tls = listener.tls != nullptr});
  if (connections() < max_connections_) return;
  for (const auto& each : listeners_) each->acceptor->pause();
}

void Server::on_change() {
  if (connections() < max_connections_) {
    for (const auto& listener : listeners_) listener->acceptor->resume();
  }
  if (!drained_ || connections() > 0 || running() > 0) return;
  loop_->cancel(drain_timer_);
  std::exchange(drained_, std::nullopt)->set({});
}

Future<void> Server::drain(std::chrono::nanoseconds limit) {
  drained_.emplace(loop_);
  auto future = drained_->future();
  listeners_.clear();
  const auto open = core_->connections;  // a copy: connections leave while they drain
  for (const auto& connection : open) connection->drain();
  drain_timer_ = loop_->schedule_after(limit, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->close_all({.code = ErrorCode::deadline_exceeded,
                       .message = "the server stops and waits no longer"});
    }
  });
  on_change();
  return future;
}

void Server::close_all(const Error& reason) {
  listeners_.clear();
  const auto open = core_->connections;
  for (const auto& connection : open) connection->close(reason);
  core_->scope->cancel(reason);
}

}  // namespace tinker::http
