#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "async/event_loop.h"
#include "async/scope.h"
#include "async/task.h"
#include "http/byte_stream.h"
#include "http/server_codec.h"
#include "tinker/unique_function.h"

namespace tinker::http {

/// Answers one request. Runs on the loop, in a scope that is cancelled when the client goes away.
using Handler = std::function<async::Task<>(ServerRequest request, ResponseWriter writer)>;

class ServerConnection;

/// What the connections of one server share. Loop thread only.
struct ServerCore {
  ServerCore(std::shared_ptr<async::EventLoop> l, Handler h, const ServerLimits& limit)
      : loop(std::move(l)), handler(std::move(h)), limits(limit), clock(loop->clock()) {}

  /// A connection closed, or a handler ended.
  void changed() const {
    if (on_change) on_change();
  }

  const std::shared_ptr<async::EventLoop> loop;
  const Handler handler;
  const ServerLimits limits;
  ServerClock clock;
  IoBuffers buffers = {};
  const std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
  std::unordered_set<std::shared_ptr<ServerConnection>> connections = {};
  std::size_t running = 0;     // handlers
  std::uint64_t accepted = 0;  // connections, ever
  std::function<void()> on_change = {};
};

/// A connection that was accepted: a socket, TLS if wanted, the codec that was agreed on, and the
/// time limits. Loop thread only.
class ServerConnection final : public ByteStream, private ServerCodec::Host {
 public:
  /// Serves `socket`, with TLS where `tls` is given. Kept by `core` until it is closed.
  static void open(const std::shared_ptr<ServerCore>& core,
                   std::unique_ptr<Socket> socket,
                   std::unique_ptr<TlsSession> tls,
                   const Peer& peer);

  ServerConnection(std::shared_ptr<ServerCore> core, const Peer& peer);
  ~ServerConnection() override;

  /// Takes no new requests, and closes after the last answer.
  void drain();
  /// Ends the connection, and all requests on it, now.
  void close(const Error& reason);

 private:
  // ByteStream.
  void on_bytes(std::string_view bytes) override;
  void on_secure() override;
  void on_turn() override { turn(); }
  void on_end(bool is_clean) override;
  void on_broken(const Error& error) override { close(error); }
  void on_paused() override { is_paused_ = true; }
  [[nodiscard]] bool has_room() const override;
  [[nodiscard]] std::string_view output() override;
  void wrote(std::size_t bytes) override;
  void on_flushed() override;
  [[nodiscard]] std::string peer_name() const override { return "the client"; }

  // ServerCodec::Host.
  void on_request(std::shared_ptr<ServerExchange> exchange) override;
  void on_work() override;
  void on_reset() override;

  /// Finds out, without TLS, whether the client speaks HTTP/2 from the start.
  void choose_codec(std::string_view bytes);
  void begin(bool is_http2);
  void turn();
  /// Begins or ends the time that a client has to take what waits for it.
  void watch_writing();
  void begin_write_period();
  void arm();
  void on_timer();
  [[nodiscard]] TimePoint deadline() const;
  [[nodiscard]] std::shared_ptr<ServerConnection> self() {
    return std::static_pointer_cast<ServerConnection>(shared_from_this());
  }

  std::shared_ptr<ServerCore> core_;
  Peer peer_;
  std::unique_ptr<ServerCodec> codec_;
  std::string first_bytes_;         // that may become the preface of HTTP/2
  TimePoint since_;                 // opened, or began to linger
  TimePoint stalled_since_ = {};    // the socket takes no more, begin of a period
  std::uint64_t stalled_from_ = 0;  // `sent_bytes` at that time
  async::TimerId timer_ = {};
  TimePoint armed_for_ = TimePoint::max();
  bool is_receiving_ = false;
  bool is_work_posted_ = false;
  bool is_paused_ = false;
  bool is_stalled_ = false;
  bool is_draining_ = false;
  bool is_lingering_ = false;
  bool is_reset_due_ = false;
  bool has_peer_ended_ = false;
};

}  // namespace tinker::http
