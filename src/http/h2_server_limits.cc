// What an HTTP/2 client may do to a server, and how a session ends.
//
// Frames that cost the peer nothing (resets, pings, settings, empty data, invalid ones) are paid
// from a bucket of tokens that fills with time; a client that empties it is told to calm down. Time
// limits of streams are looked at together, at `next_look_`: a stream that moved too little since
// the last look is refused, or reset where its answer has begun.
#include <algorithm>
#include <utility>
#include <vector>

#include "http/h2_common.h"
#include "http/h2_server_session.h"

namespace tinker::http {

namespace {

constexpr double kTokensPerSecond = 100;
// Frames that may wait to be sent, beside those of the answers: a client that takes none of them
// could have us make one for each of its own.
constexpr std::size_t kMaxQueuedFrames = 1000;
constexpr std::size_t kFramesPerStream = 4;
// Clients wait where the window has no room for a whole frame.
constexpr std::int32_t kStarvedBytes = 16 << 10;

}  // namespace

bool H2ServerSession::spend() {
  const TimePoint now = clock_.now();
  const double seconds = std::chrono::duration<double>(now - tokens_at_).count();
  tokens_at_ = now;
  tokens_ = std::min(kMaxTokens, tokens_ + seconds * kTokensPerSecond) - 1;
  if (tokens_ > 0) return true;
  terminate(NGHTTP2_ENHANCE_YOUR_CALM);
  return false;
}

void H2ServerSession::terminate(std::uint32_t code) {
  is_over_ = true;
  nghttp2_session_terminate_session(session_.get(), code);
}

void H2ServerSession::check_session(std::ptrdiff_t used) {
  const std::size_t most = kMaxQueuedFrames + kFramesPerStream * limits_.max_streams;
  const bool is_flood =
      used == NGHTTP2_ERR_FLOODED || nghttp2_session_get_outbound_queue_size(session_.get()) > most;
  if (is_flood) {
    terminate(NGHTTP2_ENHANCE_YOUR_CALM);
  } else if (used < 0) {
    terminate(used == NGHTTP2_ERR_CALLBACK_FAILURE ? NGHTTP2_INTERNAL_ERROR
                                                   : NGHTTP2_PROTOCOL_ERROR);
  }
}

void H2ServerSession::end(const Error& reason) {
  is_over_ = true;
  for (const auto& stream : std::exchange(streams_, {})) {
    nghttp2_session_set_stream_user_data(session_.get(), stream->exchange->stream_id, nullptr);
    stream->exchange->cancel(reason);
  }
}

void H2ServerSession::drain() {
  go_away(nghttp2_session_get_last_proc_stream_id(session_.get()));
  work();
}

void H2ServerSession::go_away(std::int32_t last) {
  if (std::exchange(is_draining_, true) || is_over_) return;
  nghttp2_submit_goaway(
      session_.get(), NGHTTP2_FLAG_NONE, std::max(last, 0), NGHTTP2_NO_ERROR, nullptr, 0);
}

bool H2ServerSession::is_done() const {
  if (is_over_) return true;
  if (is_draining_ && streams_.empty()) return true;
  return nghttp2_session_want_read(session_.get()) == 0;
}

TimePoint H2ServerSession::deadline() const {
  if (is_over_) return TimePoint::max();
  if (!streams_.empty()) return next_look_;
  return time_after(since_, is_first_ ? limits_.times.head : limits_.times.idle);
}

void H2ServerSession::on_deadline(TimePoint now) {
  if (streams_.empty()) {
    terminate(NGHTTP2_NO_ERROR);
    return;
  }
  next_look_ = time_after(now, std::min(limits_.times.body, limits_.times.write));
  std::vector<std::int32_t> ids;
  ids.reserve(streams_.size());
  for (const auto& stream : streams_) ids.push_back(stream->exchange->stream_id);
  for (const std::int32_t id : ids) {
    if (Stream* const stream = find(id)) check_stream(*stream, now);
  }
  if (is_over_) end(connection_error("the client was too slow"));
  work();
}

void H2ServerSession::check_stream(Stream& stream, TimePoint now) {
  if (!stream.is_head_complete) {
    // Nothing else can come before the rest of this head.
    if (now - stream.since >= limits_.times.head) terminate(NGHTTP2_ENHANCE_YOUR_CALM);
    next_look_ = std::min(next_look_, time_after(stream.since, limits_.times.head));
    return;
  }
  if (stream.is_stalled && !stream.is_reset) check_writing(stream, now);
  if (!stream.is_reset) check_body(stream, now);
}

void H2ServerSession::check_writing(Stream& stream, TimePoint now) {
  // An answer that the client's windows let pass waits for the socket, which the connection
  // watches.
  const std::int32_t id = stream.exchange->stream_id;
  const bool is_held = nghttp2_session_get_remote_window_size(session_.get()) <= 0 ||
                       nghttp2_session_get_stream_remote_window_size(session_.get(), id) <= 0;
  if (!is_held) return begin_write_period(stream, now);
  const TimePoint due = time_after(stream.stalled_since, limits_.times.write);
  if (now < due) {
    next_look_ = std::min(next_look_, due);
  } else if (stream.sent_bytes - stream.stalled_bytes < limits_.min_write_bytes) {
    reset(id, NGHTTP2_CANCEL);
  } else {
    begin_write_period(stream, now);
  }
}

void H2ServerSession::check_body(Stream& stream, TimePoint now) {
  const ServerExchange& exchange = *stream.exchange;
  const bool is_wanted =
      !exchange.is_body_complete() && exchange.answer() != ServerExchange::Answer::complete;
  // A handler that is slow to read is no fault of the client's.
  if (!is_wanted || exchange.unread_bytes() > 0 || is_starved()) {
    return begin_body_period(stream, now);
  }
  const TimePoint due = time_after(stream.since, limits_.times.body);
  if (now < due) {
    next_look_ = std::min(next_look_, due);
  } else if (stream.body_bytes - stream.period_bytes < limits_.min_body_bytes) {
    refuse(stream, {.status = 408, .why = "the body came too slowly"});
  } else {
    begin_body_period(stream, now);
  }
}

void H2ServerSession::begin_body_period(Stream& stream, TimePoint now) {
  stream.since = now;
  stream.period_bytes = stream.body_bytes;
}

void H2ServerSession::begin_write_period(Stream& stream, TimePoint now) {
  stream.stalled_since = now;
  stream.stalled_bytes = stream.sent_bytes;
}

void H2ServerSession::watch_writing(Stream& stream) {
  if (stream.exchange->out().empty() || std::exchange(stream.is_stalled, true)) return;
  begin_write_period(stream, clock_.now());
  next_look_ = std::min(next_look_, time_after(stream.stalled_since, limits_.times.write));
}

bool H2ServerSession::is_starved() const {
  return nghttp2_session_get_local_window_size(session_.get()) < kStarvedBytes;
}

void H2ServerSession::give_window(std::int32_t id, std::size_t bytes) {
  const bool was_starved = is_starved();
  if (id == 0) {
    nghttp2_session_consume_connection(session_.get(), bytes);
  } else {
    nghttp2_session_consume(session_.get(), id, bytes);
  }
  if (!was_starved || is_starved()) return;
  for (const auto& stream : streams_) {
    if (stream->is_head_complete) begin_body_period(*stream, clock_.now());
  }
}

}  // namespace tinker::http
