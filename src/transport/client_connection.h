#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/byte_stream.h"
#include "http/tls_session.h"
#include "transport/dialer.h"
#include "transport/exchange.h"
#include "transport/net_context.h"
#include "transport/proxy.h"
#include "transport/tunnel.h"

namespace tinker::http {

/// A connection to one server, straight or through a proxy: a socket, what TLS there is, and the
/// protocol that was agreed on. Loop thread only.
class ClientConnection : public ByteStream {
 public:
  /// Who keeps connections and hears of what happens to them. A call may close the connection.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Exchanges can be started.
    virtual void on_open(ClientConnection& connection) = 0;
    /// Exchanges may have finished, or its capacity changed.
    virtual void on_progress(ClientConnection& connection) = 0;
    /// The last call; `failure` says why it never opened. Exchanges may have finished.
    virtual void on_closed(ClientConnection& connection, const std::optional<Error>& failure) = 0;
    /// `flush` is to be called before the loop waits.
    virtual void on_output(ClientConnection& connection) = 0;
  };

  /// `proxy` may be null and must outlive the connection.
  ClientConnection(std::shared_ptr<NetContext> net,
                   std::weak_ptr<Owner> owner,
                   Url origin,
                   const Proxy* proxy);
  ~ClientConnection() override;

  /// Name lookup to ready connection takes at most `timeout`.
  void open(std::chrono::nanoseconds timeout);
  /// Requires `codec()` to have capacity.
  void start(std::shared_ptr<Exchange> exchange);
  void cancel(Exchange& exchange);
  /// Ends it with everything in flight. Only the first call counts.
  void close(const Error& reason);

  [[nodiscard]] bool is_open() const noexcept { return codec_ != nullptr && !is_closed(); }
  [[nodiscard]] bool is_http2() const noexcept { return is_http2_; }
  [[nodiscard]] std::shared_ptr<ClientConnection> self() {
    return std::static_pointer_cast<ClientConnection>(shared_from_this());
  }
  [[nodiscard]] std::weak_ptr<ClientConnection> weak_self() noexcept {
    return std::static_pointer_cast<ClientConnection>(weak_from_this().lock());
  }
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

  // ByteStream.
  void on_bytes(std::string_view bytes) override;
  void on_secure() override { advance(); }
  void on_turn() override;
  void on_end(bool is_clean) override;
  void on_broken(const Error& error) override { close(error); }
  void on_paused() override;
  [[nodiscard]] bool has_room() const override { return !codec_ || codec_->has_room(); }
  [[nodiscard]] std::string_view output() override;
  void wrote(std::size_t bytes) override { codec_->wrote(bytes, net_->loop().now()); }
  void on_flushed() override;
  [[nodiscard]] std::string peer_name() const override { return next_hop().server(); }

  std::shared_ptr<NetContext> net_;
  std::weak_ptr<Owner> owner_;
  Url origin_;
  const Proxy* proxy_;
  Step step_ = Step::dialing;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<Tunnel> tunnel_;
  std::unique_ptr<Codec> codec_;
  async::TimerId timer_ = {};
  bool is_http2_ = false;
};

}  // namespace tinker::http
