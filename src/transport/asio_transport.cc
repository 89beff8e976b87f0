#include "transport/asio_transport.h"

#include "base/block_pool.h"
#include "base/environment.h"
#include "transport/connection_pool.h"

namespace tinker::http {

namespace {

Result<ProxyRules> proxy_rules(const TransportOptions& options) {
  if (!options.proxy.empty()) return ProxyRules::explicit_proxy(options.proxy.expose());
  if (!options.use_environment_proxy) return ProxyRules::none();
  return ProxyRules::from_environment(base::process_environment());
}

Result<std::shared_ptr<ConnectionPool>> make_pool(std::shared_ptr<async::AsioLoop> loop,
                                                  std::shared_ptr<Executor> workers,
                                                  TransportOptions options) {
  TINKER_TRY(auto proxies, proxy_rules(options));
  auto net = std::make_shared<NetContext>(std::move(loop), std::move(options));
  return std::make_shared<ConnectionPool>(std::move(net), std::move(workers), std::move(proxies));
}

}  // namespace

AsioTransport::AsioTransport(std::shared_ptr<async::AsioLoop> loop,
                             Result<std::shared_ptr<ConnectionPool>> pool)
    : loop_(std::move(loop)), pool_(std::move(pool)) {}

std::shared_ptr<Transport> AsioTransport::create(std::shared_ptr<async::AsioLoop> loop,
                                                 std::shared_ptr<Executor> workers,
                                                 TransportOptions options) {
  auto pool = make_pool(loop, std::move(workers), std::move(options));
  return std::shared_ptr<Transport>(new AsioTransport(std::move(loop), std::move(pool)));
}

Result<std::shared_ptr<Transport>> AsioTransport::create(
    const std::shared_ptr<async::RuntimeCore>& runtime, TransportOptions options) {
  auto loop = std::dynamic_pointer_cast<async::AsioLoop>(runtime->loop());
  if (!loop) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "a runtime in virtual time has no network: give a transport"};
  }
  return create(std::move(loop), runtime->workers(), std::move(options));
}

AsioTransport::~AsioTransport() {
  // The pool ends on its own thread: by this call, or with the loop that destroys it unrun.
  if (pool_.ok()) loop_->post([pool = *std::move(pool_)] { pool->shut_down(); });
}

Future<Response> AsioTransport::send(Request request) {
  if (!pool_.ok()) return Future<Response>::ready(pool_.error());
  auto url = Url::parse(request.url);
  if (!url.ok()) return Future<Response>::ready(std::move(url).error());
  if (auto checked = check_headers(request.headers); !checked.ok()) {
    return Future<Response>::ready(checked.error());
  }
  using Transfer = ConnectionPool::Transfer;
  const auto transfer = std::allocate_shared<Transfer>(
      base::BlockAllocator<Transfer>(), std::move(request), *std::move(url), loop_);
  auto future = transfer->promise.future();
  transfer->promise.on_cancel([weak_loop = std::weak_ptr(loop_),
                               weak_pool = std::weak_ptr(*pool_),
                               weak = std::weak_ptr(transfer)] {
    const auto loop = weak_loop.lock();
    if (!loop) return;
    loop->post([weak_pool, weak] {
      const auto pool = weak_pool.lock();
      const auto alive = weak.lock();
      if (pool && alive) pool->cancel(alive);
    });
  });
  loop_->post([weak_pool = std::weak_ptr(*pool_), transfer] {
    if (const auto pool = weak_pool.lock()) pool->start(transfer);
  });
  return future;
}

void AsioTransport::close_channel(std::uint64_t channel) {
  if (!pool_.ok()) return;
  loop_->post([weak_pool = std::weak_ptr(*pool_), channel] {
    if (const auto pool = weak_pool.lock()) pool->close_channel(channel);
  });
}

}  // namespace tinker::http
