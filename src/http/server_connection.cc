// One turn: bytes come (`on_bytes`), handlers run and answer inside that call or later, then the
// codec goes on with what had to wait and all output is written at once (`turn`). One timer serves
// all time limits: it stays armed for the earliest of them and is moved only when it fires, so that
// a request costs no timer. At the end the socket is read for a while after the last answer was
// sent: closing it with unread bytes would make the client lose that answer.
#include "http/server_connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "http/h1_server_codec.h"
#include "http/h2_server_session.h"

namespace tinker::http {

namespace {

constexpr std::string_view kH2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

}  // namespace

void ServerConnection::open(const std::shared_ptr<ServerCore>& core,
                            std::unique_ptr<Socket> socket,
                            std::unique_ptr<TlsSession> tls,
                            const Peer& peer) {
  const auto connection = std::make_shared<ServerConnection>(core, peer);
  core->connections.insert(connection);
  ++core->accepted;
  if (tls) {
    if (const auto begun = connection->add_tls(std::move(tls)); !begun.ok()) {
      return connection->close(begun.error());
    }
  }
  connection->arm();
  connection->attach(std::move(socket));
}

ServerConnection::ServerConnection(std::shared_ptr<ServerCore> core, const Peer& peer)
    : ByteStream(core->buffers), core_(std::move(core)), peer_(peer), since_(core_->loop->now()) {}

ServerConnection::~ServerConnection() {
  core_->loop->cancel(timer_);
}

void ServerConnection::drain() {
  is_draining_ = true;
  if (!codec_) return close(connection_error("the server is stopping"));
  codec_->drain();
  on_work();
}

void ServerConnection::close(const Error& reason) {
  if (is_closed()) return;
  const auto keep = self();
  core_->loop->cancel(timer_);
  if (codec_) codec_->end(reason);
  shut();
  core_->connections.erase(keep);
  core_->changed();
}

// ---- input ------------------------------------------------------------------------------------

bool ServerConnection::has_room() const {
  return !has_peer_ended_ && (!codec_ || codec_->has_room());
}

void ServerConnection::on_bytes(std::string_view bytes) {
  if (is_lingering_) return;
  is_receiving_ = true;
  if (codec_) {
    codec_->receive(bytes);
  } else {
    choose_codec(bytes);
  }
  is_receiving_ = false;
}

void ServerConnection::on_secure() {
  begin(tls()->is_http2());
}

void ServerConnection::choose_codec(std::string_view bytes) {
  if (!first_bytes_.empty()) {
    first_bytes_.append(bytes);
    bytes = first_bytes_;
  }
  const bool is_prefix = kH2Preface.starts_with(bytes.substr(0, kH2Preface.size()));
  if (is_prefix && bytes.size() < kH2Preface.size()) {
    if (first_bytes_.empty()) first_bytes_.assign(bytes);
    return;
  }
  begin(is_prefix);
  codec_->receive(bytes);
  first_bytes_ = std::string();
}

void ServerConnection::begin(bool is_http2) {
  const ServerCodec::Setup setup = {.host = *this,
                                    .limits = core_->limits,
                                    .clock = core_->clock,
                                    .peer = peer_,
                                    .opened = since_};
  if (is_http2) {
    codec_ = std::make_unique<H2ServerSession>(setup);
  } else {
    codec_ = std::make_unique<H1ServerCodec>(setup);
  }
}

void ServerConnection::on_request(std::shared_ptr<ServerExchange> exchange) {
  const auto scope = exchange->scope();
  scope->attach(core_->scope);
  ++core_->running;
  auto done = [core = core_, exchange](const Result<void>& result) {
    exchange->scope()->detach();
    --core->running;
    exchange->finish(result);
    core->changed();
  };
  std::optional<async::Task<>> task;
  try {
    task.emplace(core_->handler(ServerRequest(exchange), ResponseWriter(exchange)));
  } catch (...) {  // before its first step: a handler need not be a coroutine itself
    return done(detail::error_from_current_exception("a handler threw"));
  }
  async::run_detached(
      core_->loop,
      scope,
      *std::move(task),
      [done = std::move(done)](const detail::Late<void>& result) { done(*result); });
}

void ServerConnection::on_end(bool) {
  has_peer_ended_ = true;
  if (is_lingering_ || !codec_) return close(connection_error("the client closed the connection"));
  codec_->end(connection_error("the client closed the connection"));
}

// ---- output -----------------------------------------------------------------------------------

void ServerConnection::on_work() {
  if (is_receiving_ || std::exchange(is_work_posted_, true)) return;
  core_->loop->post([weak = std::weak_ptr(self())] {
    const auto alive = weak.lock();
    if (!alive) return;
    alive->is_work_posted_ = false;
    alive->turn();
  });
}

void ServerConnection::on_reset() {
  is_reset_due_ = true;
  on_work();
}

void ServerConnection::turn() {
  if (is_closed()) return;
  if (is_reset_due_) {
    socket()->reset_on_close();
    return close(connection_error("the connection was reset"));
  }
  if (codec_ && !is_lingering_) {
    is_receiving_ = true;  // what handlers send now goes out below
    codec_->resume();
    is_receiving_ = false;
    if (is_closed()) return;
  }
  if (is_paused_ && has_room()) {
    is_paused_ = false;
    listen();
  }
  flush();
  arm();  // `flush` does nothing while the socket takes no more
}

std::string_view ServerConnection::output() {
  return codec_ && !is_lingering_ ? codec_->output() : std::string_view();
}

void ServerConnection::wrote(std::size_t bytes) {
  codec_->wrote(bytes);
}

void ServerConnection::on_flushed() {
  watch_writing();
  const bool is_over = codec_ && !is_lingering_ && !has_unsent() && codec_->is_done();
  if (!is_over || !codec_->output().empty()) return arm();
  if (has_peer_ended_) return close(connection_error("the client closed the connection"));
  is_lingering_ = true;
  since_ = core_->loop->now();
  finish_sending();
  arm();
}

// ---- time -------------------------------------------------------------------------------------

TimePoint ServerConnection::deadline() const {
  const ServerTimes& times = core_->limits.times;
  if (is_lingering_) return time_after(since_, times.linger);
  if (!codec_) return time_after(since_, times.head);
  const TimePoint due = codec_->deadline();
  return is_stalled_ ? std::min(due, time_after(stalled_since_, times.write)) : due;
}

void ServerConnection::watch_writing() {
  if (!std::exchange(is_stalled_, has_unsent()) && is_stalled_) begin_write_period();
}

void ServerConnection::begin_write_period() {
  stalled_since_ = core_->loop->now();
  stalled_from_ = sent_bytes();
}

void ServerConnection::arm() {
  if (is_closed()) return;
  const TimePoint due = deadline();
  if (due >= armed_for_) return;
  core_->loop->cancel(timer_);
  armed_for_ = due;
  timer_ = core_->loop->schedule(due, [weak = std::weak_ptr(self())] {
    if (const auto alive = weak.lock()) alive->on_timer();
  });
}

void ServerConnection::on_timer() {
  if (is_closed()) return;
  armed_for_ = TimePoint::max();
  const TimePoint now = core_->loop->now();
  if (now < deadline()) return arm();
  const bool is_write_due =
      is_stalled_ && now >= time_after(stalled_since_, core_->limits.times.write);
  const bool is_slow = is_write_due && sent_bytes() - stalled_from_ < core_->limits.min_write_bytes;
  if (!codec_ || is_lingering_ || is_slow) {
    return close({.code = ErrorCode::timed_out, .message = "the client was too slow"});
  }
  if (is_write_due) begin_write_period();
  if (now >= codec_->deadline()) codec_->on_deadline(now);
  turn();
}

}  // namespace tinker::http
