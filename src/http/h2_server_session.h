#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/h2_session.h"
#include "http/server_codec.h"

namespace tinker::http {

/// HTTP/2: many requests at a time, each a stream.
class H2ServerSession final : public ServerCodec, private ServerExchange::Carrier {
 public:
  explicit H2ServerSession(const Setup& setup);
  ~H2ServerSession() override;

  void receive(std::string_view bytes) override;
  void resume() override {}
  /// Always: flow control and the limits on streams bound what can come.
  [[nodiscard]] bool has_room() const override { return true; }
  [[nodiscard]] std::string_view output() override;
  void wrote(std::size_t bytes) override;
  void end(const Error& reason) override;
  void drain() override;
  [[nodiscard]] bool is_done() const override;
  [[nodiscard]] TimePoint deadline() const override;
  void on_deadline(TimePoint now) override;

 private:
  static constexpr double kMaxTokens = 1000;
  struct Calls;  // what nghttp2 calls
  /// One request's state beside its exchange.
  struct Stream {
    std::shared_ptr<ServerExchange> exchange;
    std::size_t head_bytes = 0;
    Refusal refusal = {.status = 0};  // status 0: none
    std::uint64_t body_bytes = 0;
    std::uint64_t sent_bytes = 0;     // of the answer
    std::size_t out_at = 0;           // what of `ServerExchange::out` was sent
    TimePoint since = {};             // the head began, then: a period of the body
    std::uint64_t period_bytes = 0;   // `body_bytes` at that time
    TimePoint stalled_since = {};     // the answer waits to be sent, begin of a period
    std::uint64_t stalled_bytes = 0;  // `sent_bytes` at that time
    bool is_stalled = false;
    bool is_head_complete = false;
    bool has_data = false;  // the answer has a body
    bool is_reset = false;  // a RST_STREAM waits to be sent
  };

  // ServerExchange::Carrier.
  void on_body_wanted(ServerExchange& exchange) override;
  void on_body_taken(ServerExchange& exchange, std::size_t bytes) override;
  void on_answer(ServerExchange& exchange) override;
  void on_output(ServerExchange& exchange) override;
  void on_aborted(ServerExchange& exchange, const Abort& how) override;
  void on_last(ServerExchange& exchange) override;
  [[nodiscard]] bool is_congested(const ServerExchange& exchange) const override;

  void begin_session();
  [[nodiscard]] Stream* find(std::int32_t id) const;
  void add_stream(std::int32_t id);
  void add_field(Stream& stream, std::string_view name, std::string_view value);
  void on_head(Stream& stream, bool is_end);
  [[nodiscard]] Refusal refusal_of(const RequestHead& head) const;
  void on_data(Stream& stream, std::string_view bytes);
  void on_closed(std::int32_t id, std::uint32_t code);
  void start_ready();
  void refuse(Stream& stream, const Refusal& refusal);
  void submit(const ServerExchange& exchange, bool has_body);
  /// That much of an answer went into `out_`.
  static void on_sent(Stream& stream, std::size_t bytes);
  void reset(std::int32_t id, std::uint32_t code);
  /// Counts a frame that costs the peer nothing and us something; false when it is one too many.
  bool spend();
  void terminate(std::uint32_t code);
  /// Ends the session where nghttp2 has failed, with `used`, or too much waits to be sent.
  void check_session(std::ptrdiff_t used);
  /// Takes no requests after stream `last`.
  void go_away(std::int32_t last);
  void check_stream(Stream& stream, TimePoint now);
  void check_writing(Stream& stream, TimePoint now);
  void check_body(Stream& stream, TimePoint now);
  static void begin_body_period(Stream& stream, TimePoint now);
  static void begin_write_period(Stream& stream, TimePoint now);
  /// The answer has more to send, as of now.
  void watch_writing(Stream& stream);
  /// The client may not send: other streams fill the window of the connection.
  [[nodiscard]] bool is_starved() const;
  /// Lets the client send that much more, of stream `id` or, with 0, of the connection alone.
  void give_window(std::int32_t id, std::size_t bytes);
  void work();

  Host& host_;
  const ServerLimits& limits_;
  ServerClock& clock_;
  Peer peer_;
  H2SessionPtr session_;
  std::vector<std::unique_ptr<Stream>> streams_;        // by `ServerExchange::slot`
  std::vector<std::shared_ptr<ServerExchange>> ready_;  // whose handlers are to be started
  H2Output out_;
  std::string raw_;             // to follow all frames
  TimePoint since_;             // the last stream ended, or the session began
  TimePoint next_look_;         // at streams that may be slow
  double tokens_ = kMaxTokens;  // for frames that `spend` counts
  TimePoint tokens_at_;
  bool is_first_ = true;  // no request came yet
  bool is_receiving_ = false;
  bool is_draining_ = false;
  bool is_over_ = false;
};

}  // namespace tinker::http
