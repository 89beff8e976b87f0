#include "transport/h2_client_session.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/strings.h"
#include "http/h2_callbacks.h"
#include "http/h2_common.h"

namespace tinker::http {

namespace {

constexpr std::int32_t kStreamWindow = 4 << 20;
constexpr std::int32_t kConnectionWindow = 32 << 20;
// Room that stays when all is sent.
constexpr std::size_t kKeptBytes = 4096;

/// Values that never come again would only push others out of the compression table.
std::uint8_t indexing(std::string_view name) {
  const bool is_unique = same_name(name, "x-idempotency-key") || same_name(name, "traceparent");
  return is_unique ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
}

Error going_away() {
  return connection_error("the server is going away before handling the request");
}

}  // namespace

struct H2ClientSession::Calls {
  static void on_header(H2ClientSession& me,
                        std::int32_t id,
                        std::string_view name,
                        std::string_view value) {
    Exchange* const exchange = me.find(id);
    if (exchange == nullptr) return;
    if (name == ":status") {
      exchange->response.status = number_or(value, 0);
      // Interim answers without headers have an end too.
      exchange->response_head_bytes += name.size() + value.size();
      return;
    }
    const auto added = add_response_header(*exchange, name, value, me.options_.limits);
    if (!added.ok()) me.refuse(*exchange, added.error());
  }

  static void on_data(H2ClientSession& me, std::int32_t id, std::string_view bytes) {
    Exchange* const exchange = me.find(id);
    if (exchange == nullptr) return;
    exchange->last_activity = me.now_;
    const auto added = add_response_body(*exchange, bytes);
    if (!added.ok()) me.refuse(*exchange, added.error());
  }

  static void on_frame(H2ClientSession& me, const nghttp2_frame& frame) {
    switch (frame.hd.type) {
      case NGHTTP2_HEADERS:
        if (Exchange* const exchange = me.find(frame.hd.stream_id)) me.on_head(*exchange);
        break;
      case NGHTTP2_DATA: break;
      case NGHTTP2_SETTINGS:
        if ((frame.hd.flags & NGHTTP2_FLAG_ACK) == 0) me.on_settings();
        return;
      case NGHTTP2_GOAWAY: me.on_go_away(frame.goaway.last_stream_id); return;
      default: return;
    }
    if ((frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
    if (Exchange* const exchange = me.find(frame.hd.stream_id)) me.complete(*exchange);
  }

  static void on_invalid_frame(H2ClientSession& me, const nghttp2_frame&, int error) {
    me.violation_ = nghttp2_strerror(error);
  }

  static void on_closed(H2ClientSession& me, std::int32_t id, std::uint32_t code) {
    if (Exchange* const exchange = me.find(id)) me.on_closed(*exchange, code);
  }

  static void on_not_sent(H2ClientSession& me, const nghttp2_frame& frame) {
    if (frame.hd.type != NGHTTP2_HEADERS) return;
    for (const auto& exchange : me.slots_) {
      if (!exchange || exchange->stream_id != frame.hd.stream_id) continue;
      me.fail(me.release(*exchange),
              connection_error("HTTP/2: the connection ended before the request was sent"),
              true);
      break;
    }
  }

  static void on_sent(const H2ClientSession& me, const nghttp2_frame& frame) {
    if (frame.hd.type != NGHTTP2_HEADERS) return;
    Exchange* const exchange = me.find(frame.hd.stream_id);
    if (exchange == nullptr) return;
    exchange->last_activity = me.now_;
    exchange->is_stream_open = true;
    exchange->phase = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 ? Exchange::Phase::receiving
                                                                      : Exchange::Phase::sending;
  }

  static std::optional<H2BodyLeft> body_left(const H2ClientSession& me, std::int32_t id) {
    const Exchange* const exchange = me.find(id);
    if (exchange == nullptr) return std::nullopt;
    return H2BodyLeft{.bytes = view(exchange->request.body).size() - exchange->body_sent};
  }

  static int send_body(H2ClientSession& me,
                       std::int32_t id,
                       std::string_view head,
                       std::size_t size) {
    Exchange* const exchange = me.find(id);
    if (exchange == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::string_view body = view(exchange->request.body);
    const int verdict = me.out_.add_data(head, body.substr(exchange->body_sent, size));
    exchange->body_sent += size;
    exchange->last_activity = me.now_;
    if (exchange->body_sent == body.size()) exchange->phase = Exchange::Phase::receiving;
    return verdict;
  }
};

H2ClientSession::H2ClientSession(Options options) : options_(options) {
  begin_session();
}
H2ClientSession::~H2ClientSession() = default;

void H2ClientSession::begin_session() {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {.settings_id = NGHTTP2_SETTINGS_ENABLE_PUSH, .value = 0},
      {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = kStreamWindow},
      {.settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
       .value = static_cast<std::uint32_t>(options_.limits.max_bytes)},
  }};
  session_ = begin_h2_session({.make = nghttp2_session_client_new3,
                               .set_callbacks = H2Callbacks<H2ClientSession, Calls>::set,
                               .settings = settings,
                               .connection_window = kConnectionWindow},
                              this);
}

std::size_t H2ClientSession::capacity() const {
  if (is_ended_ || is_going_away_ || nghttp2_session_check_request_allowed(session_.get()) == 0) {
    return 0;
  }
  const std::size_t limit = std::min(peer_limit().value_or(assumed_limit_), options_.max_streams);
  return limit > in_flight() ? limit - in_flight() : 0;
}

std::optional<std::size_t> H2ClientSession::peer_limit() const {
  if (!has_settings_) return std::nullopt;
  return nghttp2_session_get_remote_settings(session_.get(),
                                             NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool H2ClientSession::has_room() const {
  if (sinks_ == 0) return true;
  return std::ranges::all_of(
      slots_, [](const auto& exchange) { return !exchange || http::has_room(*exchange); });
}

bool H2ClientSession::is_spent() const {
  return is_ended_ || is_going_away_ || nghttp2_session_check_request_allowed(session_.get()) == 0;
}

void H2ClientSession::start(std::shared_ptr<Exchange> exchange, TimePoint now) {
  now_ = now;
  exchange->phase = Exchange::Phase::sending;
  exchange->last_activity = now;
  exchange->is_on_reused = was_used_;
  exchange->is_stream_open = false;
  exchange->received_before = received_;
  if (free_slots_.empty()) {
    exchange->slot = slots_.size();
    slots_.emplace_back();
  } else {
    exchange->slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Exchange& e = *exchange;
  if (e.request.sink) ++sinks_;
  slots_[e.slot] = std::move(exchange);
  e.stream_id = submit(e);
  if (e.stream_id < 0) {
    const std::string reason = nghttp2_strerror(e.stream_id);
    fail(
        release(e), connection_error(base::concat("HTTP/2: cannot open a stream: ", reason)), true);
  }
}

std::int32_t H2ClientSession::submit(const Exchange& exchange) {
  const Request& request = exchange.request;
  const std::string authority = exchange.url.host_header();
  const std::string_view body = view(request.body);
  const base::Piece length(body.size());
  std::vector<nghttp2_nv> head;
  head.reserve(request.headers.size() + 6);
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.push_back(h2_field(name, value, indexing(name)));
  };
  add(":method", to_string(request.method));
  add(":scheme", exchange.url.scheme);
  add(":authority", authority);
  add(":path", exchange.url.target);
  for (const auto& header : request.headers) {
    if (!is_codec_header(header.name)) add(header.name, header.value);
  }
  if (!request.headers.contains("accept-encoding")) add("accept-encoding", "gzip, deflate, zstd");
  if (has_length(request)) add("content-length", length.text());

  const nghttp2_data_provider provider = H2Callbacks<H2ClientSession, Calls>::body();
  // One more than the slot: a null pointer means none.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nghttp2 has room for a pointer, we keep a number.
  auto* const slot = reinterpret_cast<void*>(exchange.slot + 1);
  return nghttp2_submit_request(
      session_.get(), nullptr, head.data(), head.size(), body.empty() ? nullptr : &provider, slot);
}

Exchange* H2ClientSession::find(std::int32_t stream_id) const {
  const auto slot = reinterpret_cast<std::uintptr_t>(
      nghttp2_session_get_stream_user_data(session_.get(), stream_id));
  if (slot == 0 || slot > slots_.size()) return nullptr;
  Exchange* const exchange = slots_[slot - 1].get();
  return exchange != nullptr && exchange->stream_id == stream_id ? exchange : nullptr;
}

std::shared_ptr<Exchange> H2ClientSession::release(const Exchange& exchange) {
  free_slots_.push_back(exchange.slot);
  if (exchange.request.sink) --sinks_;
  return std::exchange(slots_[exchange.slot], nullptr);
}

void H2ClientSession::reset_stream(std::int32_t id) {
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

void H2ClientSession::cancel(Exchange& exchange) {
  TINKER_CHECK(exchange.slot < slots_.size() && slots_[exchange.slot].get() == &exchange);
  reset_stream(exchange.stream_id);
  release(exchange);
}

void H2ClientSession::complete(Exchange& exchange) {
  if (!exchange.is_head_complete) {
    return refuse(exchange,
                  connection_error("HTTP/2: the stream ended before there was an answer"));
  }
  // The server may answer before it has read all of the request; the rest is of no use then.
  if (exchange.phase != Exchange::Phase::receiving) reset_stream(exchange.stream_id);
  was_used_ = true;
  finish(release(exchange));
}

void H2ClientSession::refuse(Exchange& exchange, Error error) {
  reset_stream(exchange.stream_id);
  fail(release(exchange), std::move(error), false);
}

void H2ClientSession::on_head(Exchange& exchange) {
  exchange.last_activity = now_;
  if (exchange.is_head_complete) return;  // trailers
  if (exchange.response.status < 100) {
    return refuse(exchange, connection_error("HTTP/2: the answer has no valid status"));
  }
  if (exchange.response.status < 200) {  // an interim answer
    exchange.response = {};
    if (exchange.response_head_bytes <= options_.limits.max_bytes) return;
    return refuse(exchange, connection_error("the server sends interim answers (1xx) without end"));
  }
  exchange.is_head_complete = true;
  const auto length = exchange.response.headers.find("content-length");
  if (!length) return;
  const auto expected = expect_response_body(exchange, number_or<std::uint64_t>(*length, 0));
  if (!expected.ok()) refuse(exchange, expected.error());
}

void H2ClientSession::on_settings() {
  has_settings_ = true;
  // nghttp2 would keep what is beyond the limit until other streams end, which may take long. On
  // another connection it can go at once.
  std::size_t room = peer_limit().value_or(0);
  const auto is_open = [](const auto& exchange) { return exchange && exchange->is_stream_open; };
  room -= std::min(room, static_cast<std::size_t>(std::ranges::count_if(slots_, is_open)));
  for (const auto& slot : slots_) {
    if (!slot || slot->is_stream_open) continue;
    if (room > 0) {
      --room;
      continue;
    }
    const Exchange& exchange = *slot;
    reset_stream(exchange.stream_id);
    fail(release(exchange), connection_error("HTTP/2: the server allows no more streams"), true);
  }
}

void H2ClientSession::on_go_away(std::int32_t last_stream_id) {
  is_going_away_ = true;
  // nghttp2 closes streams the server will not handle, but forgets those it has not opened yet.
  for (const auto& slot : slots_) {
    if (!slot) continue;
    const Exchange& exchange = *slot;
    if (exchange.is_stream_open && exchange.stream_id <= last_stream_id) continue;
    reset_stream(exchange.stream_id);
    fail(release(exchange), going_away(), true);
  }
}

void H2ClientSession::on_closed(Exchange& exchange, std::uint32_t error_code) {
  // An answer of the length it promised is complete, however its stream ends.
  const auto length = exchange.response.headers.find("content-length");
  if (exchange.is_head_complete && length &&
      number_or<std::uint64_t>(*length, UINT64_MAX) == exchange.body_bytes) {
    return finish(release(exchange));
  }
  if (error_code == NGHTTP2_REFUSED_STREAM) {
    return fail(
        release(exchange), connection_error("the server refused the request's stream"), true);
  }
  if (error_code == NGHTTP2_NO_ERROR) {
    return fail(
        release(exchange),
        connection_error("HTTP/2: the server ended the stream before its answer was complete"),
        false);
  }
  const char* const reason = nghttp2_http2_strerror(error_code);
  fail(release(exchange),
       connection_error(base::concat("HTTP/2: stream ended with ", reason)),
       false);
}

std::string_view H2ClientSession::output(TimePoint now) {
  now_ = now;
  if (!out_.left().empty()) return out_.left();
  if (const int failed = out_.fill(*session_); failed < 0) {
    end(connection_error(base::concat("HTTP/2: ", nghttp2_strerror(failed))));
  }
  // After a violation nghttp2 says goodbye and listens no more.
  if (!is_ended_ && nghttp2_session_want_read(session_.get()) == 0) {
    const char* const what = violation_.empty() ? "invalid frames" : violation_.c_str();
    end(connection_error(base::concat("HTTP/2: the server broke the protocol: ", what)));
  }
  // Of many connections few have something to send at a time, and the idle ones keep nothing.
  out_.trim(in_flight() == 0 ? 0 : kKeptBytes);
  return out_.left();
}

void H2ClientSession::wrote(std::size_t bytes, TimePoint) {
  out_.wrote(bytes);
}

void H2ClientSession::receive(std::string_view bytes, TimePoint now) {
  if (is_ended_) return;
  now_ = now;
  received_ += bytes.size();
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), h2_bytes(bytes), bytes.size());
  if (used < 0) {
    const char* const reason = nghttp2_strerror(static_cast<int>(used));
    end(connection_error(base::concat("HTTP/2: the server broke the protocol: ", reason)));
  }
}

bool H2ClientSession::is_untouched(const Exchange& exchange) const {
  return exchange.is_on_reused && exchange.received_before == received_;
}

void H2ClientSession::end(const std::optional<Error>& error) {
  is_ended_ = true;
  const Error reason =
      error ? *error : connection_error("the server closed the connection before it answered");
  for (const auto& slot : slots_) {
    if (!slot) continue;
    const Exchange& exchange = *slot;
    const bool may_repeat = is_untouched(exchange);
    fail(release(exchange), reason, may_repeat);
  }
}

}  // namespace tinker::http
