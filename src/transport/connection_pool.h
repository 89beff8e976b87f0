#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tinker/executor.h"
#include "transport/client_connection.h"
#include "transport/exchange.h"
#include "transport/net_context.h"
#include "transport/proxy.h"

namespace tinker::http {

/// Finds or opens a connection for each request, and sees it to its end: time-outs, cancellation,
/// repetition where the server has done nothing yet. Loop thread only.
class ConnectionPool final : public ClientConnection::Owner,
                             public std::enable_shared_from_this<ConnectionPool> {
 public:
  struct Lane;
  struct Member;

  /// A request on its way through the pool.
  struct Transfer final : Exchange {
    Transfer(Request r, Url u, std::shared_ptr<Executor> executor)
        : Exchange(std::move(r), std::move(u)), promise(std::move(executor)) {}

    Promise<Response> promise;
    // The pool's own.
    Lane* lane = nullptr;      // while it waits
    Member* member = nullptr;  // while it is in flight
    std::list<std::shared_ptr<Transfer>>::iterator place = {};
    async::TimerId timer = {};
    bool is_done = false;
    int resends = 0;
  };

  ConnectionPool(std::shared_ptr<NetContext> net,
                 std::shared_ptr<Executor> workers,
                 ProxyRules proxies);
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;
  ~ConnectionPool() override;

  void start(const std::shared_ptr<Transfer>& transfer);
  void cancel(const std::shared_ptr<Transfer>& transfer);
  void close_channel(std::uint64_t channel);
  /// Ends everything with `cancelled`, for good.
  void shut_down();

 private:
  /// What may share a connection.
  struct Key {
    std::string_view host;
    std::uint16_t port;
    bool is_tls;
    std::uint64_t channel;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };

  void on_open(ClientConnection& connection) override;
  void on_progress(ClientConnection& connection) override;
  void on_closed(ClientConnection& connection, const std::optional<Error>& failure) override;
  void on_output(ClientConnection& connection) override;

  Lane& lane_for(const Transfer& transfer);
  void enqueue(const std::shared_ptr<Transfer>& transfer, Lane& lane, bool is_first);
  void dispatch(Lane& lane);
  void open_connections(Lane& lane);
  void open_connection(Lane& lane);
  void assign(Member& member);
  void settle(Member& member);
  void rest(Member& member);
  void trim(Lane& lane);
  void arm_idle_timer(Member& member, TimePoint when);
  void drop_if_empty(Lane& lane);
  void collect(Member& member);

  void complete(Finished finished, Member& member);
  void resend(const std::shared_ptr<Transfer>& transfer, Lane& lane);
  void deliver(Transfer& transfer);
  void end(Transfer& transfer, Result<Response> result);
  void withdraw(Transfer& transfer);
  void fail_waiting(Lane& lane, const Error& error, std::size_t count);
  /// Those for whom a connection was that could not be opened.
  void fail_waiting_for(Lane& lane, const Error& failure);

  void arm(Transfer& transfer, TimePoint when);
  void on_timer(const std::shared_ptr<Transfer>& transfer);
  void flush_all();

  std::shared_ptr<NetContext> net_;
  std::shared_ptr<Executor> workers_;
  ProxyRules proxies_;
  std::unordered_map<Key, std::unique_ptr<Lane>, KeyHash> lanes_;  // keys point into the lanes
  std::vector<std::shared_ptr<ClientConnection>> unflushed_;
  bool is_shut_down_ = false;
};

}  // namespace tinker::http
