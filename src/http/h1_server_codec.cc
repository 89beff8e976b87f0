// `process` is a loop over three states: between requests (`exchange_` is null), receiving a body
// (`framing_` says how it ends), and waiting for the handler. A handler may answer inside the call
// that starts it, so that a burst of pipelined requests is answered in one loop and sent by one
// write; answers that come later ask the host to call `resume`. A request that was answered before
// its body came leaves `framing_` behind: what still comes is dropped, within `kMaxDropped`.
#include "http/h1_server_codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/block_pool.h"
#include "base/strings.h"

namespace tinker::http {

namespace {

// What may wait of a body, and of an answer, before the sender has to pause.
constexpr std::size_t kBodyWindow = std::size_t{256} << 10U;
constexpr std::size_t kSendWindow = std::size_t{256} << 10U;
// Pipelined requests wait while this much is unsent.
constexpr std::size_t kCorkBytes = std::size_t{64} << 10U;
// A body nobody wants is received up to this size, to keep the connection.
constexpr std::uint64_t kMaxDropped = std::uint64_t{64} << 10U;
// Room that a connection keeps for its next answer.
constexpr std::size_t kKeptBytes = 1024;

}  // namespace

H1ServerCodec::H1ServerCodec(const Setup& setup)
    : host_(setup.host),
      limits_(setup.limits),
      clock_(setup.clock),
      peer_(setup.peer),
      since_(setup.opened) {}

H1ServerCodec::~H1ServerCodec() {
  if (exchange_) exchange_->cancel(connection_error("the server has stopped"));
}

// ---- input ------------------------------------------------------------------------------------

bool H1ServerCodec::has_body_room() const noexcept {
  return !exchange_ || exchange_->unread_bytes() < kBodyWindow;
}

bool H1ServerCodec::has_room() const {
  if (is_closing_) return true;  // what comes is dropped
  return is_reading_body() ? has_body_room() : input_.size() < limits_.request.head.max_bytes;
}

void H1ServerCodec::receive(std::string_view bytes) {
  if (is_closing_) return;
  if (input_.empty()) {
    process(bytes);
    input_.assign(bytes);
  } else {
    input_.append(bytes);
    resume();
  }
}

void H1ServerCodec::resume() {
  std::string_view bytes = input_;
  process(bytes);
  if (bytes.empty()) {
    input_ = std::string();  // an idle connection keeps nothing
  } else {
    input_.erase(0, input_.size() - bytes.size());
  }
}

void H1ServerCodec::process(std::string_view& bytes) {
  if (is_processing_) return;
  is_processing_ = true;
  while (!is_closing_) {
    if (is_reading_body()) {
      if (bytes.empty() || !has_body_room()) break;
      take_body(bytes);
    } else if (exchange_ || bytes.empty() || unsent() > kCorkBytes || !take_head(bytes)) {
      break;
    }
  }
  if (is_closing_) bytes = {};
  is_processing_ = false;
}

bool H1ServerCodec::take_head(std::string_view& bytes) {
  if (is_draining_ && !is_head_begun_) {
    is_closing_ = true;
    return false;
  }
  // Some clients end a body with an empty line too many (RFC 9112, section 2.2).
  while (!is_head_begun_ && bytes.starts_with("\r\n")) bytes.remove_prefix(2);
  if (bytes.empty() || bytes == "\r") return false;
  if (!is_head_begun_) {
    is_head_begun_ = true;
    if (!is_first_) since_ = clock_.now();
  }
  const std::size_t size = scanner_.scan(bytes, limits_.request);
  if (scanner_.refusal()) {
    refuse(*scanner_.refusal());
    return false;
  }
  if (size == 0) return false;

  auto exchange = std::allocate_shared<ServerExchange>(
      base::BlockAllocator<ServerExchange>(), static_cast<Carrier&>(*this), peer_);
  const auto refusal = parse_request_head(bytes.substr(0, size), limits_.request, exchange->head());
  bytes.remove_prefix(size);
  scanner_ = HeadScanner();
  is_head_begun_ = is_first_ = false;
  if (refusal) {
    refuse(*refusal);
    return false;
  }
  if (exchange->head().content_length.value_or(0) > limits_.max_body_bytes) {
    refuse({.status = 413, .why = "the body is longer than this server takes"});
    return false;
  }
  const std::shared_ptr<ServerExchange> request = exchange;
  begin_request(std::move(exchange));
  // Most bodies come with their head; their handlers then need not wait.
  if (is_reading_body() && !bytes.empty()) take_body(bytes);
  if (!is_closing_ && exchange_ == request) host_.on_request(request);
  return true;
}

void H1ServerCodec::begin_request(std::shared_ptr<ServerExchange> exchange) {
  const RequestHead& head = std::as_const(*exchange).head();
  exchange_ = std::move(exchange);
  is_kept_alive_ = head.is_kept_alive;
  body_left_ = head.content_length.value_or(0);
  body_bytes_ = period_bytes_ = 0;
  if (head.is_chunked) {
    framing_ = Framing::chunked;
    chunks_ = ChunkedReader();
  } else if (body_left_ > 0) {
    framing_ = Framing::length;
  } else {
    exchange_->end_body();
    return;
  }
  since_ = clock_.now();
  is_continue_due_ = head.expects_continue;
}

void H1ServerCodec::take_body(std::string_view& bytes) {
  is_continue_due_ = false;  // the client did not wait
  if (framing_ == Framing::length) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(body_left_, bytes.size()));
    body_left_ -= size;
    take_piece(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (body_left_ > 0) return;
  } else {
    while (!chunks_.is_complete()) {
      const std::string_view piece = chunks_.next(bytes);
      if (chunks_.is_broken()) {
        bytes = {};
        return refuse_body({.status = 400, .why = "the body is not chunked as it should be"});
      }
      if (piece.empty()) break;
      take_piece(piece);
      if (body_bytes_ > limits_.max_body_bytes) {
        return refuse_body({.status = 413, .why = "the body is longer than this server takes"});
      }
    }
    if (!chunks_.is_complete()) return;
  }
  framing_ = Framing::none;
  if (exchange_) {
    exchange_->end_body();
  } else {
    since_ = clock_.now();  // it was dropped, and the next request may come
  }
}

void H1ServerCodec::take_piece(std::string_view piece) {
  body_bytes_ += piece.size();
  if (exchange_) {
    exchange_->add_body(piece);
  } else if (body_bytes_ > kMaxDropped) {
    is_closing_ = true;
  }
}

void H1ServerCodec::on_body_wanted(ServerExchange&) {
  if (!std::exchange(is_continue_due_, false)) return;
  out_.append("HTTP/1.1 100 Continue\r\n\r\n");
  host_.on_work();
}

void H1ServerCodec::on_body_taken(ServerExchange&, std::size_t bytes) {
  // The client may have waited for this handler, so its time begins anew. Each time costs the
  // client what it owes for one.
  if (is_reading_body() && bytes >= limits_.min_body_bytes) since_ = clock_.now();
  if (bytes >= kBodyWindow || !input_.empty()) host_.on_work();
}

// ---- output -----------------------------------------------------------------------------------

void H1ServerCodec::refuse(const Refusal& refusal) {
  is_closing_ = true;
  is_kept_alive_ = false;
  const std::string body = base::concat(refusal.why, "\n");
  out_.append(base::concat("HTTP/1.1 ",
                           refusal.status,
                           " ",
                           reason_phrase(refusal.status),
                           "\r\nDate: ",
                           clock_.date(),
                           "\r\nContent-Type: text/plain\r\nContent-Length: ",
                           body.size(),
                           "\r\nConnection: close\r\n\r\n",
                           body));
}

void H1ServerCodec::refuse_body(const Refusal& refusal) {
  framing_ = Framing::none;
  is_kept_alive_ = false;
  if (!exchange_) {
    is_closing_ = true;
    return;
  }
  const auto exchange = exchange_;
  exchange->fail_body(refusal);
  if (exchange->answer() != ServerExchange::Answer::none) {
    on_aborted(*exchange, {});
  } else {
    // The refusal is the answer; the handler ends without one.
    refuse(refusal);
    exchange_.reset();
  }
  exchange->cancel({.code = error_code_for_status(refusal.status),
                    .message = std::string(refusal.why),
                    .http_status = refusal.status});
}

bool H1ServerCodec::can_keep_alive(const ServerExchange& exchange) const {
  if (!is_kept_alive_ || is_draining_) return false;
  if (!is_reading_body()) return true;
  // The rest of the body stands between this request and the next one.
  return !std::as_const(exchange).head().expects_continue && framing_ == Framing::length &&
         body_left_ <= kMaxDropped;
}

void H1ServerCodec::on_answer(ServerExchange& exchange) {
  is_kept_alive_ = can_keep_alive(exchange);
  is_continue_due_ = false;  // no interim answer follows the final one
  write_head(exchange);
  on_output(exchange);
}

void H1ServerCodec::write_head(const ServerExchange& exchange) {
  const ServerResponse& response = exchange.response();
  const RequestHead& head = exchange.head();
  const bool is_complete = exchange.answer() == ServerExchange::Answer::complete;
  const bool has_status_body = response.status != 204 && response.status != 304;
  has_answer_body_ = exchange.may_have_body();
  std::optional<std::uint64_t> length = exchange.declared_length();
  if (is_complete) length = response.body.size();
  is_chunked_answer_ = !length && has_answer_body_ && !head.is_http10;
  is_close_delimited_ = !length && !is_chunked_answer_ && has_answer_body_;
  if (is_close_delimited_) is_kept_alive_ = false;

  const auto add = [this](std::string_view name, std::string_view value) {
    out_.append(name).append(": ").append(value).append("\r\n");
  };
  out_.append("HTTP/1.1 ").append(base::Piece(response.status).text()).append(" ");
  out_.append(reason_phrase(response.status)).append("\r\n");
  for (const auto& header : response.headers) {
    if (!is_codec_header(header.name)) add(header.name, header.value);
  }
  if (!response.headers.contains("date")) add("Date", clock_.date());
  if (is_chunked_answer_) {
    add("Transfer-Encoding", "chunked");
  } else if (length && has_status_body) {
    add("Content-Length", base::Piece(*length).text());
  }
  if (!is_kept_alive_) {
    add("Connection", "close");
  } else if (head.is_http10) {
    add("Connection", "keep-alive");
  }
  out_.append("\r\n");
}

void H1ServerCodec::on_output(ServerExchange& exchange) {
  write_piece(exchange);
  if (exchange.answer() == ServerExchange::Answer::complete) {
    if (is_chunked_answer_) out_.append("0\r\n\r\n");
    finish_answer();
  }
  if (!is_processing_) host_.on_work();
}

void H1ServerCodec::write_piece(ServerExchange& exchange) {
  std::string& piece = exchange.out();
  if (has_answer_body_ && !piece.empty()) {
    if (is_chunked_answer_) {
      std::array<char, 16> digits = {};
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), piece.size(), 16);
      out_.append(digits.data(), end.ptr).append("\r\n").append(piece).append("\r\n");
    } else {
      out_.append(piece);
    }
  }
  piece.clear();
}

void H1ServerCodec::finish_answer() {
  const auto exchange = std::exchange(exchange_, nullptr);
  exchange->release();
  begin_period(clock_.now());
  if (!is_kept_alive_) is_closing_ = true;
}

void H1ServerCodec::on_aborted(ServerExchange& exchange, const Abort& how) {
  // Without its end the client sees that the answer is not complete. Where the end of the
  // connection is that end, only a reset can say so.
  out_.append(how.raw);
  const bool looks_complete =
      is_close_delimited_ && how.raw.empty() && exchange.answer() != ServerExchange::Answer::none;
  if (how.scope == Abort::Scope::reset || looks_complete) host_.on_reset();
  const auto keep = std::exchange(exchange_, nullptr);
  exchange.release();
  is_closing_ = true;
  if (!is_processing_) host_.on_work();
}

void H1ServerCodec::on_last(ServerExchange&) {
  is_kept_alive_ = false;
}

bool H1ServerCodec::is_congested(const ServerExchange&) const {
  return unsent() > kSendWindow;
}

std::string_view H1ServerCodec::output() {
  return std::string_view(out_).substr(out_sent_);
}

void H1ServerCodec::wrote(std::size_t bytes) {
  out_sent_ += bytes;
  if (out_sent_ == out_.size()) {
    out_sent_ = 0;
    out_.clear();
    if (out_.capacity() > kKeptBytes) out_ = std::string();
    if (is_idle()) since_ = clock_.now();
  } else if (out_sent_ >= std::max(kSendWindow, unsent())) {
    // What is left is moved seldom, and never more of it than was sent.
    out_.erase(0, std::exchange(out_sent_, 0));
  }
  if (unsent() > kSendWindow / 2) return;
  if (exchange_) {
    exchange_->on_writable();
  } else if (!input_.empty()) {
    host_.on_work();  // requests that waited for room
  }
}

// ---- the end ----------------------------------------------------------------------------------

void H1ServerCodec::end(const Error& reason) {
  is_closing_ = true;
  framing_ = Framing::none;
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->cancel(reason);
}

void H1ServerCodec::drain() {
  is_draining_ = true;
  if (is_idle()) is_closing_ = true;
}

void H1ServerCodec::begin_period(TimePoint now) {
  since_ = now;
  period_bytes_ = body_bytes_;
}

TimePoint H1ServerCodec::deadline() const {
  const ServerTimes& times = limits_.times;
  if (is_closing_) return TimePoint::max();
  if (is_reading_body()) return time_after(since_, times.body);
  // While an answer is being sent, the limit on that is the connection's.
  if (exchange_ || (is_idle() && unsent() > 0)) return TimePoint::max();
  return time_after(since_, is_head_begun_ || is_first_ ? times.head : times.idle);
}

void H1ServerCodec::on_deadline(TimePoint now) {
  if (is_reading_body()) {
    // A handler that is slow to read is no fault of the client's.
    const bool is_fast = body_bytes_ - period_bytes_ >= limits_.min_body_bytes || !has_body_room();
    begin_period(now);
    if (!is_fast) refuse_body({.status = 408, .why = "the body came too slowly"});
  } else if (is_head_begun_) {
    refuse({.status = 408, .why = "the head came too slowly"});
  } else {
    is_closing_ = true;
  }
}

}  // namespace tinker::http
