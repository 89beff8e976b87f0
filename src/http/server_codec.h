#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "async/event_loop.h"
#include "http/request_head.h"
#include "http/server_exchange.h"

namespace tinker::http {

using async::time_after;
using async::TimePoint;

/// How long a client may take. A limit that passes ends the request with 408 where nothing was
/// answered yet, else the connection.
struct ServerTimes {
  std::chrono::nanoseconds head = std::chrono::seconds(15);   ///< For a head, TLS included.
  std::chrono::nanoseconds body = std::chrono::seconds(30);   ///< For `min_body_bytes` of a body.
  std::chrono::nanoseconds idle = std::chrono::seconds(75);   ///< Between requests.
  std::chrono::nanoseconds write = std::chrono::seconds(60);  ///< For `min_write_bytes`.
  std::chrono::nanoseconds linger = std::chrono::seconds(2);  ///< To hear the last answer.
};

/// What a client may ask of a server.
struct ServerLimits {
  RequestLimits request = {};
  std::uint64_t max_body_bytes = std::uint64_t{1} << 30U;
  std::uint64_t min_body_bytes = 1024;   ///< In `ServerTimes::body`.
  std::uint64_t min_write_bytes = 1024;  ///< Of answers, in `ServerTimes::write`.
  std::uint32_t max_streams = 250;       ///< At a time, of one HTTP/2 connection.
  ServerTimes times = {};
};

/// What the codecs of one server share. Loop thread only.
class ServerClock {
 public:
  explicit ServerClock(const Clock& clock) noexcept : clock_(clock) {}
  [[nodiscard]] TimePoint now() const { return clock_.now(); }
  /// The value of `Date`, written once a second. Valid until the next call.
  std::string_view date();

 private:
  const Clock& clock_;
  std::chrono::sys_seconds second_ = {};
  std::string text_ = {};
};

/// The server's side of one protocol over one connection, without a socket: bytes in, bytes out.
/// Loop thread only.
class ServerCodec {
 public:
  /// The connection, as the codec sees it.
  class Host {
   public:
    virtual ~Host() = default;
    /// A request came: its handler may run inside the call.
    virtual void on_request(std::shared_ptr<ServerExchange> exchange) = 0;
    /// `resume` is to be called, then `output`, before the loop waits.
    virtual void on_work() = 0;
    /// The connection is to be reset, whatever else it carries.
    virtual void on_reset() = 0;
  };
  /// What a codec is made of.
  struct Setup {
    Host& host;
    const ServerLimits& limits;
    ServerClock& clock;
    Peer peer;
    TimePoint opened;  ///< When the connection was: `ServerTimes::head` counts from there.
  };

  ServerCodec() = default;
  ServerCodec(const ServerCodec&) = delete;
  ServerCodec& operator=(const ServerCodec&) = delete;
  virtual ~ServerCodec() = default;

  virtual void receive(std::string_view bytes) = 0;
  /// Goes on with what was received and had to wait.
  virtual void resume() = 0;
  /// Whether more bytes can be taken.
  [[nodiscard]] virtual bool has_room() const = 0;
  /// What is to be sent next; empty when there is nothing. Valid until the next call.
  [[nodiscard]] virtual std::string_view output() = 0;
  virtual void wrote(std::size_t bytes) = 0;
  /// Nothing more will come, or can be sent: cancels what is being handled.
  virtual void end(const Error& reason) = 0;
  /// Takes no new requests: what runs is finished, then the codec is done.
  virtual void drain() = 0;
  /// The connection is to be closed once `output` is sent.
  [[nodiscard]] virtual bool is_done() const = 0;
  /// When `on_deadline` is to be called if nothing changes before.
  [[nodiscard]] virtual TimePoint deadline() const = 0;
  virtual void on_deadline(TimePoint now) = 0;
};

}  // namespace tinker::http
