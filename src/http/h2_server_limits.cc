// What an HTTP/2 client may do to a server, and how a session ends.
//
// Frames that cost the peer nothing (resets, pings, settings, empty data) are paid from a bucket of
// tokens that fills with time; a client that empties it is told to calm down. Time limits of
// streams are looked at together, at `next_look_`: a stream that moved too little since the last
// look is refused, or reset where its answer has begun.
#include <algorithm>
#include <utility>
#include <vector>

#include "http/h2_common.h"
#include "http/h2_server_session.h"

namespace tinker::http {

namespace {

constexpr double kTokensPerSecond = 100;

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
  ServerExchange& exchange = *stream.exchange;
  const auto waited = now - stream.since;
  if (!stream.is_head_complete) {
    // Nothing else can come before the rest of this head.
    if (waited >= limits_.times.head) terminate(NGHTTP2_ENHANCE_YOUR_CALM);
    next_look_ = std::min(next_look_, time_after(stream.since, limits_.times.head));
    return;
  }
  const std::uint64_t moved = stream.body_bytes + stream.sent_bytes;
  const bool awaits_body = !exchange.is_body_complete() && exchange.unread_bytes() == 0;
  const bool awaits_room = !exchange.out().empty();
  if (!awaits_body && !awaits_room) {
    stream.since = now;
    stream.moved_bytes = moved;
    return;
  }
  const auto limit = awaits_room ? limits_.times.write : limits_.times.body;
  if (waited < limit) {
    next_look_ = std::min(next_look_, time_after(stream.since, limit));
    return;
  }
  const std::uint64_t wanted = awaits_room ? 1 : limits_.min_body_bytes;
  const bool is_slow = moved - stream.moved_bytes < wanted;
  stream.since = now;
  stream.moved_bytes = moved;
  if (!is_slow) return;
  if (awaits_room) return reset(exchange.stream_id, NGHTTP2_CANCEL);
  const Refusal refusal = {.status = 408, .why = "the body came too slowly"};
  const auto keep = stream.exchange;
  refuse(stream, refusal);
  keep->fail_body(refusal);
}

}  // namespace tinker::http
