#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/timer_queue.h"
#include "http/message.h"
#include "http/url.h"
#include "tinker/http.h"
#include "tinker/result.h"

namespace tinker::http {

using async::TimePoint;

/// One request under way and what has come back so far. The codec that carries it fills it.
struct Exchange : std::enable_shared_from_this<Exchange> {
  enum class Phase { waiting, sending, receiving };

  Exchange() = default;
  Exchange(Request r, Url u) : request(std::move(r)), url(std::move(u)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// As before the first attempt.
  void reset() {
    response = {};
    response_head_bytes = 0;
    is_head_complete = false;
    body_bytes = 0;
    has_sink_begun = false;
    phase = Phase::waiting;
    body_sent = 0;
  }

  Request request = {};
  Url url = {};

  Response response = {};
  std::size_t response_head_bytes = 0;
  bool is_head_complete = false;
  std::uint64_t body_bytes = 0;  // that came, wherever they went
  bool has_sink_begun = false;

  Phase phase = Phase::waiting;
  TimePoint last_activity = {};
  std::size_t body_sent = 0;

  // The codec's own.
  std::int32_t stream_id = 0;
  std::size_t slot = 0;
  std::uint64_t received_before = 0;
  bool is_on_reused = false;
  bool is_stream_open = false;
};

/// How an exchange ended.
struct Finished {
  std::shared_ptr<Exchange> exchange;
  std::optional<Error> error = {};
  /// The server has not begun with it, so it may be sent again.
  bool is_untouched = false;
};

/// Speaks one protocol over one connection, without knowing sockets: bytes in, bytes out. Loop
/// thread only.
class Codec {
 public:
  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;

  /// How many more exchanges can be started now.
  [[nodiscard]] virtual std::size_t capacity() const = 0;
  [[nodiscard]] virtual std::size_t in_flight() const = 0;
  /// How many exchanges the peer allows at a time, once it has said so.
  [[nodiscard]] virtual std::optional<std::size_t> peer_limit() const { return std::nullopt; }
  /// What to take for that limit until then.
  virtual void assume_peer_limit(std::size_t /*limit*/) {}
  /// Nothing more can be started here: the connection is to be closed after the last exchange.
  [[nodiscard]] virtual bool is_spent() const = 0;

  /// Requires `capacity() > 0`.
  virtual void start(std::shared_ptr<Exchange> exchange, TimePoint now) = 0;
  /// Drops one that is in flight here; it will not be among the finished ones.
  virtual void cancel(Exchange& exchange) = 0;

  /// Whether all whose answers come can take more of them.
  [[nodiscard]] virtual bool has_room() const = 0;

  /// What is to be sent next; empty when there is nothing. Valid until the next call.
  [[nodiscard]] virtual std::string_view output(TimePoint now) = 0;
  /// So many bytes of `output` have been sent.
  virtual void wrote(std::size_t bytes, TimePoint now) = 0;
  virtual void receive(std::string_view bytes, TimePoint now) = 0;
  /// Nothing more will come. With an error the connection broke; without one the peer ended it
  /// properly.
  virtual void end(const std::optional<Error>& error) = 0;

  /// What has ended since the last call.
  std::vector<Finished> take_finished() { return std::exchange(finished_, {}); }
  [[nodiscard]] bool has_finished() const noexcept { return !finished_.empty(); }

 protected:
  void finish(std::shared_ptr<Exchange> exchange) {
    finished_.push_back({.exchange = std::move(exchange)});
  }
  void fail(std::shared_ptr<Exchange> exchange, Error error, bool is_untouched) {
    finished_.push_back(
        {.exchange = std::move(exchange), .error = std::move(error), .is_untouched = is_untouched});
  }

 private:
  std::vector<Finished> finished_;
};

/// Whether the request states the length of its body: one that may have a body always does.
inline bool has_length(const Request& request) noexcept {
  return request.method == Method::post || request.method == Method::put ||
         request.method == Method::patch || !view(request.body).empty();
}

/// Whether more of the answer can be taken.
inline bool has_room(const Exchange& exchange) noexcept {
  return !exchange.request.sink || exchange.request.sink->has_room();
}

/// Keeps a header of an answer, within the limits.
Result<void> add_response_header(Exchange& exchange,
                                 std::string_view name,
                                 std::string_view value,
                                 const HeadLimits& limits);
/// Keeps a piece of an answer's body, within `Request::max_response_bytes`, or hands it to the
/// sink.
Result<void> add_response_body(Exchange& exchange, std::string_view piece);
/// Makes room for a body of that length, refusing one that is too long. With a sink, nothing.
Result<void> expect_response_body(Exchange& exchange, std::uint64_t length);

}  // namespace tinker::http
