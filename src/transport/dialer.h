#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/event_loop.h"
#include "http/socket.h"
#include "transport/resolver.h"

namespace tinker::http {

/// Makes one TCP connection to a host: looks its name up and tries its addresses, IPv6 and IPv4 in
/// turn, the next one whenever one fails or takes long (after RFC 8305). Or one to a Unix socket.
/// Loop thread only; gives up when it dies.
class Dialer {
 public:
  using Done = UniqueFunction<void(Result<std::unique_ptr<Socket>>)>;

  Dialer(async::EventLoop& loop, boost::asio::io_context& io, Resolver& resolver);
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;
  ~Dialer();

  /// Calls `done` once, later or inside the call, and not after this object has died.
  void dial(std::string host, std::uint16_t port, Done done);
  void dial_unix(const std::string& path, Done done);

  /// IPv6 and IPv4 in turn, beginning with the family that came first.
  static std::vector<Address> interleave(std::vector<Address> addresses);

 private:
  void on_resolved(Result<std::vector<Address>> addresses);
  void try_next();
  void on_connected(std::size_t attempt, const Result<void>& result);
  void finish(Result<std::unique_ptr<Socket>> result);

  async::EventLoop& loop_;
  boost::asio::io_context& io_;
  Resolver& resolver_;
  std::string host_;
  std::uint16_t port_ = 0;
  Done done_;
  std::vector<Address> addresses_;
  std::vector<std::unique_ptr<AsioSocket>> attempts_;  // one per address tried so far
  std::size_t failed_ = 0;
  Error first_failure_ = {};
  async::TimerId timer_ = {};
  std::shared_ptr<Dialer*> self_ = std::make_shared<Dialer*>(this);  // for what may come too late
};

}  // namespace tinker::http
