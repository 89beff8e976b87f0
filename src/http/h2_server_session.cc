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
#include <array>
#include <utility>

#include "base/block_pool.h"
#include "base/strings.h"
#include "http/h2_common.h"
#include "tinker/check.h"

namespace tinker::http {

namespace {

constexpr std::int32_t kStreamWindow = 256 << 10;
constexpr std::int32_t kConnectionWindow = 16 << 20;
constexpr std::size_t kSendWindow = std::size_t{256} << 10U;
// How much is made ready for sending at a time, and what stays when all is sent.
constexpr std::size_t kOutputBytes = std::size_t{64} << 10U;
constexpr std::size_t kKeptBytes = 1024;

Error went_away() {
  return connection_error("the client gave the request up");
}

bool is_bodiless(int status) noexcept {
  return status == 204 || status == 304;
}

}  // namespace

/// What nghttp2 calls.
struct H2ServerSession::Callbacks {
  static H2ServerSession& self(void* user_data) {
    return *static_cast<H2ServerSession*>(user_data);
  }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      self(user_data).add_stream(frame->hd.stream_id);
    }
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static int on_header(nghttp2_session*,
                       const nghttp2_frame* frame,
                       const std::uint8_t* name,
                       std::size_t name_size,
                       const std::uint8_t* value,
                       std::size_t value_size,
                       std::uint8_t,
                       void* user_data) {
    H2ServerSession& me = self(user_data);
    if (Stream* const stream = me.find(frame->hd.stream_id)) {
      me.add_field(*stream, h2_text(name, name_size), h2_text(value, value_size));
    }
    return 0;
  }

  static int on_data(nghttp2_session*,
                     std::uint8_t,
                     std::int32_t id,
                     const std::uint8_t* data,
                     std::size_t size,
                     void* user_data) {
    H2ServerSession& me = self(user_data);
    if (Stream* const stream = me.find(id)) {
      me.on_data(*stream, h2_text(data, size));
    } else {
      nghttp2_session_consume(me.session_.get(), id, size);
    }
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    H2ServerSession& me = self(user_data);
    const bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    Stream* const stream = me.find(frame->hd.stream_id);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (stream != nullptr) me.on_head(*stream, is_end);
        return 0;
      case NGHTTP2_DATA:
        if (stream != nullptr && is_end) stream->exchange->end_body();
        return frame->hd.length > 0 || is_end || me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      case NGHTTP2_WINDOW_UPDATE: return 0;
      default: return me.spend() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static int on_stream_close(nghttp2_session*,
                             std::int32_t id,
                             std::uint32_t code,
                             void* user_data) {
    self(user_data).on_closed(id, code);
    return 0;
  }

  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    const bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!is_message || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    // The answer is complete: what is left of the request is of no use (RFC 9113, section 8.1).
    H2ServerSession& me = self(user_data);
    const Stream* const stream = me.find(frame->hd.stream_id);
    if (stream != nullptr && !stream->exchange->is_body_complete()) {
      me.reset(frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static ssize_t read_body(nghttp2_session*,
                           std::int32_t id,
                           std::uint8_t*,
                           std::size_t size,
                           std::uint32_t* flags,
                           nghttp2_data_source*,
                           void* user_data) {
    const Stream* const stream = self(user_data).find(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t left = stream->exchange->out().size() - stream->out_at;
    const bool is_complete = stream->exchange->answer() == ServerExchange::Answer::complete;
    if (left == 0 && !is_complete) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (is_complete && left <= size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(std::min(left, size));
  }

  static int send_body(nghttp2_session*,
                       nghttp2_frame* frame,
                       const std::uint8_t* head,
                       std::size_t size,
                       nghttp2_data_source*,
                       void* user_data) {
    H2ServerSession& me = self(user_data);
    Stream* const stream = me.find(frame->hd.stream_id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    std::string& out = stream->exchange->out();
    me.out_.append(h2_text(head, kH2FrameHeadBytes)).append(out, stream->out_at, size);
    stream->out_at += size;
    stream->sent_bytes += size;
    // Pieces are taken out together, so that what is left is moved seldom.
    if (stream->out_at == out.size() || stream->out_at >= kSendWindow) {
      out.erase(0, std::exchange(stream->out_at, 0));
    }
    if (out.size() - stream->out_at <= kSendWindow / 2) stream->exchange->on_writable();
    return me.out_.size() < kOutputBytes ? 0 : NGHTTP2_ERR_PAUSE;
  }
};

void H2ServerSession::Free::operator()(nghttp2_session* session) const noexcept {
  nghttp2_session_del(session);
}

H2ServerSession::H2ServerSession(const Setup& setup)
    : host_(setup.host),
      limits_(setup.limits),
      clock_(setup.clock),
      peer_(setup.peer),
      since_(clock_.now()),
      next_look_(TimePoint::max()),
      tokens_at_(since_) {
  begin_session();
}

H2ServerSession::~H2ServerSession() {
  end(connection_error("the server has stopped"));
}

void H2ServerSession::begin_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  TINKER_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, Callbacks::on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_stream_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::on_sent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks, Callbacks::send_body);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_max_send_header_block_length(option, std::size_t{1} << 20U);
  nghttp2_session* session = nullptr;
  const int made = nghttp2_session_server_new3(&session, callbacks, this, option, h2_memory());
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  TINKER_CHECK(made == 0);
  session_.reset(session);

  const std::array<nghttp2_settings_entry, 3> settings = {{
      {.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, .value = limits_.max_streams},
      {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = kStreamWindow},
      {.settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       .value = static_cast<std::uint32_t>(limits_.request.head.max_bytes)},
  }};
  TINKER_CHECK(nghttp2_submit_settings(session, 0, settings.data(), settings.size()) == 0);
  TINKER_CHECK(nghttp2_session_set_local_window_size(session, 0, 0, kConnectionWindow) == 0);
}

// ---- input ------------------------------------------------------------------------------------

void H2ServerSession::receive(std::string_view bytes) {
  if (is_over_) return;
  is_receiving_ = true;
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), h2_bytes(bytes), bytes.size());
  if (used < 0 && !is_over_) {
    terminate(used == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
  }
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
  if (exchange.head().content_length.value_or(0) > limits_.max_body_bytes &&
      stream.refusal.status == 0) {
    stream.refusal = {.status = 413, .why = "the body is longer than this server takes"};
  }
  if (!is_end) next_look_ = std::min(next_look_, time_after(stream.since, limits_.times.body));
  if (stream.refusal.status != 0) {
    refuse(stream, stream.refusal);
  } else {
    ready_.push_back(stream.exchange);
  }
}

void H2ServerSession::on_data(Stream& stream, std::string_view bytes) {
  stream.body_bytes += bytes.size();
  if (stream.exchange->answer() == ServerExchange::Answer::complete) {  // nobody reads it
    nghttp2_session_consume(session_.get(), stream.exchange->stream_id, bytes.size());
    return;
  }
  if (stream.body_bytes > limits_.max_body_bytes) {
    const Refusal refusal = {.status = 413, .why = "the body is longer than this server takes"};
    nghttp2_session_consume(session_.get(), stream.exchange->stream_id, bytes.size());
    stream.exchange->fail_body(refusal);
    return refuse(stream, refusal);
  }
  stream.exchange->add_body(bytes);
}

void H2ServerSession::start_ready() {
  for (auto& exchange : std::exchange(ready_, {})) {
    if (find(exchange->stream_id) != nullptr) host_.on_request(std::move(exchange));
  }
}

void H2ServerSession::on_closed(std::int32_t id, std::uint32_t code) {
  Stream* const stream = find(id);
  if (stream == nullptr) return;
  nghttp2_session_set_stream_user_data(session_.get(), id, nullptr);
  nghttp2_session_consume_connection(session_.get(), stream->exchange->unread_bytes());
  const std::size_t slot = stream->exchange->slot;
  const std::unique_ptr<Stream> gone = std::move(streams_[slot]);
  if (slot + 1 < streams_.size()) {
    streams_[slot] = std::move(streams_.back());
    streams_[slot]->exchange->slot = slot;
  }
  streams_.pop_back();
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
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, code);
}

void H2ServerSession::refuse(Stream& stream, const Refusal& refusal) {
  stream.refusal = refusal;
  ServerExchange& exchange = *stream.exchange;
  if (exchange.answer() != ServerExchange::Answer::none) {
    reset(exchange.stream_id, NGHTTP2_CANCEL);
  } else {
    ServerResponse response = {.status = refusal.status, .body = base::concat(refusal.why, "\n")};
    response.headers.add("content-type", "text/plain");
    exchange.send(std::move(response));
  }
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
  nghttp2_session_consume(session_.get(), exchange.stream_id, bytes);
  work();
}

void H2ServerSession::on_answer(ServerExchange& exchange) {
  Stream* const stream = find(exchange.stream_id);
  if (stream == nullptr) return;
  const bool may_have_body = std::as_const(exchange).head().method != Method::head &&
                             !is_bodiless(exchange.response().status);
  const bool is_empty =
      exchange.answer() == ServerExchange::Answer::complete && exchange.out().empty();
  stream->has_data = may_have_body && !is_empty;
  submit(exchange, stream->has_data);
  if (!may_have_body) exchange.out().clear();
  if (stream->has_data) {
    next_look_ = std::min(next_look_, time_after(clock_.now(), limits_.times.write));
  }
  work();
}

void H2ServerSession::submit(const ServerExchange& exchange, bool has_body) {
  const ServerResponse& response = exchange.response();
  const base::Piece status(response.status);
  std::optional<std::uint64_t> length = exchange.declared_length();
  if (exchange.answer() == ServerExchange::Answer::complete) length = response.body.size();
  const base::Piece length_text(length.value_or(0));
  std::vector<nghttp2_nv> head;
  head.reserve(response.headers.size() + 3);
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.push_back(h2_field(name, value, NGHTTP2_NV_FLAG_NONE));
  };
  add(":status", status.text());
  for (const auto& header : response.headers) {
    if (!is_codec_header(header.name)) add(header.name, header.value);
  }
  if (!response.headers.contains("date")) add("date", clock_.date());
  if (length && !is_bodiless(response.status)) add("content-length", length_text.text());
  const nghttp2_data_provider provider = {.source = {.ptr = nullptr},
                                          .read_callback = Callbacks::read_body};
  nghttp2_submit_response(
      session_.get(), exchange.stream_id, head.data(), head.size(), has_body ? &provider : nullptr);
}

void H2ServerSession::on_output(ServerExchange& exchange) {
  const Stream* const stream = find(exchange.stream_id);
  if (stream == nullptr || !stream->has_data) {
    exchange.out().clear();  // a body that the answer cannot have
    return;
  }
  next_look_ = std::min(next_look_, time_after(clock_.now(), limits_.times.write));
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

std::string_view H2ServerSession::output() {
  if (out_sent_ < out_.size()) return std::string_view(out_).substr(out_sent_);
  out_.clear();
  out_sent_ = 0;
  while (out_.size() < kOutputBytes) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_.get(), &data);
    if (size < 0) is_over_ = true;
    if (size <= 0) break;
    out_.append(h2_text(data, static_cast<std::size_t>(size)));
  }
  if (out_.empty() && !raw_.empty()) out_ = std::exchange(raw_, {});
  if (out_.empty() && out_.capacity() > kKeptBytes) out_ = std::string();
  return out_;
}

void H2ServerSession::wrote(std::size_t bytes) {
  out_sent_ += bytes;
}

}  // namespace tinker::http
