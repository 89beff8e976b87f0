#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/dialer.h"
#include "http/exchange.h"
#include "http/net_context.h"
#include "http/proxy.h"
#include "http/tls_session.h"
#include "http/tunnel.h"

namespace tinker::http {

/// A connection to one server, straight or through a proxy: a socket, what TLS there is, and the
/// protocol that was agreed on. Loop thread only.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Who keeps connections and hears of what happens to them. A call may close the connection.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Exchanges can be started.
    virtual void on_open(Connection& connection) = 0;
    /// Exchanges may have finished, or its capacity changed.
    virtual void on_progress(Connection& connection) = 0;
    /// The last call; `failure` says why it never opened. Exchanges may have finished.
    virtual void on_closed(Connection& connection, const std::optional<Error>& failure) = 0;
    /// `flush` is to be called before the loop waits.
    virtual void on_output(Connection& connection) = 0;
  };

  /// `proxy` may be null and must outlive the connection.
  Connection(std::shared_ptr<NetContext> net,
             std::weak_ptr<Owner> owner,
             Url origin,
             const Proxy* proxy);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection();

  /// Name lookup to ready connection takes at most `timeout`.
  void open(std::chrono::nanoseconds timeout);
  /// Requires `codec()` to have capacity.
  void start(std::shared_ptr<Exchange> exchange);
  void cancel(Exchange& exchange);
  /// Sends what there is to send.
  void flush();
  /// Ends it with everything in flight. Only the first call counts.
  void close(const Error& reason);

  [[nodiscard]] bool is_open() const noexcept { return codec_ != nullptr && !is_closed_; }
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }
  [[nodiscard]] bool is_http2() const noexcept { return is_http2_; }
  /// Requires that it has been open.
  [[nodiscard]] Codec& codec() noexcept { return *codec_; }

 private:
  enum class Step { dialing, proxy_tls, tunnel, origin_tls, ready };

  // Opening.
  void on_dialed(Result<std::unique_ptr<Socket>> socket);
  void advance();
  Result<void> take_step();
  Result<void> begin_tls(const Url& peer, TlsSession::Peer kind);
  Result<void> begin_tunnel();
  void begin_protocol();
  [[nodiscard]] const Url& next_hop() const noexcept { return proxy_ ? proxy_->url : origin_; }

  // Input.
  void listen();
  void on_readable();
  void read_some();
  void receive(std::size_t layer, std::string_view bytes);
  void receive_plain(std::string_view bytes);
  void on_end();

  // Output.
  /// Hands bytes of `layer` to what carries it.
  Result<void> send_below(std::size_t layer, std::string_view bytes);
  bool send_wire();
  bool send_more(TimePoint now);
  bool send_now(std::string_view bytes, std::size_t& sent);
  void wait_writable();
  void on_write_failed(int error);
  void say_goodbye();

  std::shared_ptr<NetContext> net_;
  std::weak_ptr<Owner> owner_;
  Url origin_;
  const Proxy* proxy_;
  Step step_ = Step::dialing;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<Socket> socket_;
  std::vector<std::unique_ptr<TlsSession>> tls_;  // outermost first
  std::unique_ptr<Tunnel> tunnel_;
  std::unique_ptr<Codec> codec_;
  std::string wire_;  // for the socket, as far as `wire_sent_` sent already
  std::size_t wire_sent_ = 0;
  async::TimerId timer_ = {};
  bool is_waiting_to_write_ = false;
  bool is_write_broken_ = false;
  bool is_http2_ = false;
  bool is_closed_ = false;
};

}  // namespace tinker::http
