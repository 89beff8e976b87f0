// nghttp2 does the framing, header compression and most checks; this file maps its callbacks to
// exchanges. Handlers are never started inside a callback: `receive` starts them when nghttp2 has
// returned, so that whatever they do, no session is used twice at a time.
//
// Flow control: windows open as handlers take the bodies, so that a connection cannot make us keep
// more than its own window. That is many times a stream's, so that one slow handler does not stop
// the others. How the session bounds what a client may do, and how it ends, is in
// h2_server_limits.cc.
#include "http/h2_server_session.h"

#include <algorithm>
#include <utility>

#include "base/block_pool.h"
#include "base/strings.h"
#include "http/h2_common.h"

namespace tinker::http {

namespace {

constexpr std::size_t kSendWindow = std::size_t{256} << 10U;
// Room that stays when all is sent.
constexpr std::size_t kKeptBytes = 1024;

constexpr Refusal kTooLong = {.status = 413, .why = "the body is longer than this server takes"};

Error went_away() {
  return connection_error("the client gave the request up");
}

}  // namespace

H2ServerSession::H2ServerSession(const Setup& setup)
    : host_(setup.host),
      limits_(setup.limits),
      clock_(setup.clock),
      peer_(setup.peer),
      since_(setup.opened),
      next_look_(TimePoint::max()),
      tokens_at_(clock_.now()) {
  begin_session();
}

H2ServerSession::~H2ServerSession() {
  end(connection_error("the server has stopped"));
}

// ---- input ------------------------------------------------------------------------------------

void H2ServerSession::receive(std::string_view bytes) {
  if (is_over_) return;
  is_receiving_ = true;
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), h2_bytes(bytes), bytes.size());
  if (!is_over_) check_session(used);
  if (is_over_) end(connection_error("the client broke the protocol"));
  start_ready();
  is_receiving_ = false;
}

H2ServerSession::Stream* H2ServerSession::find(std::int32_t id) const {
  return id == 0 ? nullptr
                 : static_cast<Stream*>(nghttp2_session_get_stream_user_data(session_.get(), id));
}

void H2ServerSession::add_stream(std::int32_t id) {
  is_first_ = false;
  auto stream = std::make_unique<Stream>();
  stream->exchange = std::allocate_shared<ServerExchange>(
      base::BlockAllocator<ServerExchange>(), static_cast<Carrier&>(*this), peer_);
  stream->exchange->stream_id = id;
  stream->exchange->slot = streams_.size();
  stream->exchange->head().headers.reserve(8, 256);
  stream->exchange->head().is_http2 = true;
  stream->since = clock_.now();
  next_look_ = std::min(next_look_, time_after(stream->since, limits_.times.head));
  nghttp2_session_set_stream_user_data(session_.get(), id, stream.get());
  streams_.push_back(std::move(stream));
}

void H2ServerSession::add_field(Stream& stream, std::string_view name, std::string_view value) {
  RequestHead& head = stream.exchange->head();
  stream.head_bytes += name.size() + value.size() + 32;  // as RFC 9113, section 6.5.2 counts
  if (stream.is_head_complete || stream.refusal.status != 0) return;
  const RequestLimits& limits = limits_.request;
  if (stream.head_bytes > limits.head.max_bytes || head.headers.size() >= limits.head.max_fields) {
    stream.refusal = {.status = 431, .why = "the headers are too long or too many"};
  } else if (name == ":method") {
    const auto method = parse_method(value);
    if (!method) stream.refusal = {.status = 501, .why = "the method is not known here"};
    head.method = method.value_or(Method::get);
  } else if (name == ":path") {
    if (value.size() > limits.max_target_bytes)
      stream.refusal = {.status = 414, .why = "the target is too long"};
    head.target = value;
  } else if (name == ":authority") {
    head.headers.set("host", value);
  } else if (name == "content-length") {
    head.content_length = number_or<std::uint64_t>(value, 0);  // nghttp2 has checked it
    head.headers.add(name, value);
  } else if (name == "expect") {
    head.expects_continue = same_name(value, "100-continue");
    if (!head.expects_continue)
      stream.refusal = {.status = 417, .why = "only 100-continue is known"};
  } else if (!name.starts_with(':') && !(name == "host" && head.headers.contains(name))) {
    head.headers.add(name, value);
  }
}

void H2ServerSession::on_head(Stream& stream, bool is_end) {
  ServerExchange& exchange = *stream.exchange;
  if (is_end) exchange.end_body();
  if (std::exchange(stream.is_head_complete, true)) return;  // trailers
  if (stream.refusal.status == 0) stream.refusal = refusal_of(std::as_const(exchange).head());
  begin_body_period(stream, clock_.now());
  if (!is_end) next_look_ = std::min(next_look_, time_after(stream.since, limits_.times.body));
  if (stream.refusal.status != 0) {
    refuse(stream, stream.refusal);
  } else {
    ready_.push_back(stream.exchange);
  }
}

/// Status 0: nothing is wrong.
Refusal H2ServerSession::refusal_of(const RequestHead& head) const {
  if (head.content_length.value_or(0) > limits_.max_body_bytes) return kTooLong;
  const Refusal none = {.status = 0};
  if (const auto refusal = check_target(head.method, head.target)) return *refusal;
  return check_authority(head.headers.find("host").value_or("")).value_or(none);
}

void H2ServerSession::on_data(Stream& stream, std::string_view bytes) {
  stream.body_bytes += bytes.size();
  if (stream.exchange->answer() == ServerExchange::Answer::complete) {  // nobody reads it
    nghttp2_session_consume(session_.get(), stream.exchange->stream_id, bytes.size());
    return stream.exchange->lose_body();
  }
  if (stream.body_bytes > limits_.max_body_bytes) {
    nghttp2_session_consume(session_.get(), stream.exchange->stream_id, bytes.size());
    return refuse(stream, kTooLong);
  }
  stream.exchange->add_body(bytes);
}

void H2ServerSession::start_ready() {
  for (auto& exchange : std::exchange(ready_, {})) {
    // Frames that came together with a head may have ended its request already.
    const Stream* const stream = find(exchange->stream_id);
    if (stream == nullptr || stream->is_reset || stream->refusal.status != 0) continue;
    host_.on_request(std::move(exchange));
  }
}

void H2ServerSession::on_closed(std::int32_t id, std::uint32_t code) {
  Stream* const stream = find(id);
  if (stream == nullptr) return;
  nghttp2_session_set_stream_user_data(session_.get(), id, nullptr);
  const std::size_t unread = stream->exchange->unread_bytes();
  const std::size_t slot = stream->exchange->slot;
  const std::unique_ptr<Stream> gone = std::move(streams_[slot]);
  if (slot + 1 < streams_.size()) {
    streams_[slot] = std::move(streams_.back());
    streams_[slot]->exchange->slot = slot;
  }
  streams_.pop_back();
  give_window(0, unread);
  if (streams_.empty()) since_ = clock_.now();
  const bool is_whole =
      code == NGHTTP2_NO_ERROR && gone->exchange->answer() == ServerExchange::Answer::complete;
  if (is_whole) {
    gone->exchange->release();
  } else {
    gone->exchange->cancel(went_away());
  }
}

// ---- output -----------------------------------------------------------------------------------

void H2ServerSession::work() {
  if (!is_receiving_) host_.on_work();
}

void H2ServerSession::reset(std::int32_t id, std::uint32_t code) {
  if (Stream* const stream = find(id)) stream->is_reset = true;
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, code);
}

void H2ServerSession::refuse(Stream& stream, const Refusal& refusal) {
  stream.refusal = refusal;
  const auto exchange = stream.exchange;
  exchange->fail_body(refusal);
  if (exchange->answer() != ServerExchange::Answer::none) {
    reset(exchange->stream_id, NGHTTP2_CANCEL);
  } else {
    ServerResponse response = {.status = refusal.status, .body = base::concat(refusal.why, "\n")};
    response.headers.add("content-type", "text/plain");
    exchange->send(std::move(response));
  }
  // The refusal is the answer; a handler that runs ends without one.
  exchange->cancel({.code = error_code_for_status(refusal.status),
                    .message = std::string(refusal.why),
                    .http_status = refusal.status});
}

void H2ServerSession::on_body_wanted(ServerExchange& exchange) {
  RequestHead& head = exchange.head();
  const Stream* const stream = find(exchange.stream_id);
  if (!std::exchange(head.expects_continue, false) || stream == nullptr) return;
  if (stream->body_bytes > 0) return;
  const nghttp2_nv status = h2_field(":status", "100", NGHTTP2_NV_FLAG_NONE);
  nghttp2_submit_headers(
      session_.get(), NGHTTP2_FLAG_NONE, exchange.stream_id, nullptr, &status, 1, nullptr);
  work();
}

void H2ServerSession::on_body_taken(ServerExchange& exchange, std::size_t bytes) {
  // The client may have waited for this handler, so its time begins anew. Each time costs the
  // client what it owes for one.
  Stream* const stream = find(exchange.stream_id);
  if (stream != nullptr && bytes >= limits_.min_body_bytes) stream->since = clock_.now();
  give_window(exchange.stream_id, bytes);
  work();
}

void H2ServerSession::on_answer(ServerExchange& exchange) {
  Stream* const stream = find(exchange.stream_id);
  if (stream == nullptr) return;
  exchange.head().expects_continue = false;  // no interim answer follows the final one
  const bool may_have_body = exchange.may_have_body();
  const bool is_empty =
      exchange.answer() == ServerExchange::Answer::complete && exchange.out().empty();
  stream->has_data = may_have_body && !is_empty;
  submit(exchange, stream->has_data);
  if (!may_have_body) exchange.out().clear();
  if (stream->has_data) watch_writing(*stream);
  work();
}

void H2ServerSession::on_output(ServerExchange& exchange) {
  Stream* const stream = find(exchange.stream_id);
  if (stream == nullptr || !stream->has_data) {
    exchange.out().clear();  // a body that the answer cannot have
    return;
  }
  watch_writing(*stream);
  nghttp2_session_resume_data(session_.get(), exchange.stream_id);
  work();
}

void H2ServerSession::on_aborted(ServerExchange& exchange, const Abort& how) {
  exchange.release();
  switch (how.scope) {
    case Abort::Scope::later:
      go_away(exchange.stream_id - 2);
      reset(exchange.stream_id, NGHTTP2_REFUSED_STREAM);
      break;
    case Abort::Scope::stream: reset(exchange.stream_id, how.code); break;
    case Abort::Scope::connection:
      is_over_ = true;
      raw_ = how.raw;
      break;
    case Abort::Scope::reset: host_.on_reset(); break;
  }
  work();
}

void H2ServerSession::on_last(ServerExchange&) {
  drain();
}

bool H2ServerSession::is_congested(const ServerExchange& exchange) const {
  return exchange.response().body.size() > kSendWindow;
}

void H2ServerSession::on_sent(Stream& stream, std::size_t bytes) {
  std::string& out = stream.exchange->out();
  stream.out_at += bytes;
  stream.sent_bytes += bytes;
  const std::size_t left = out.size() - stream.out_at;
  // What is left is moved seldom, and never more of it than was sent.
  if (left == 0 || stream.out_at >= std::max(kSendWindow, left)) {
    out.erase(0, std::exchange(stream.out_at, 0));
  }
  if (left == 0) stream.is_stalled = false;
  if (left <= kSendWindow / 2) stream.exchange->on_writable();
}

std::string_view H2ServerSession::output() {
  if (!out_.left().empty()) return out_.left();
  if (out_.fill(*session_) < 0) is_over_ = true;
  if (out_.left().empty() && !raw_.empty()) out_.set(std::exchange(raw_, {}));
  out_.trim(kKeptBytes);
  return out_.left();
}

void H2ServerSession::wrote(std::size_t bytes) {
  out_.wrote(bytes);
}

}  // namespace tinker::http
