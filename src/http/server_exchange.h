#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/task.h"
#include "http/request_head.h"
#include "http/socket.h"
#include "tinker/http.h"
#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace tinker::http {

/// Who sent a request.
struct Peer {
  std::optional<Address> address = {};  ///< Nothing for a Unix socket.
  bool is_tls = false;
  /// "127.0.0.1:50000" or "unix".
  [[nodiscard]] std::string to_string() const { return address ? address->to_string() : "unix"; }
};

/// An answer whose body is complete.
struct ServerResponse {
  int status = 200;
  Headers headers = {};  ///< All but Content-Length, Date and what only one connection needs.
  std::string body = {};
};

/// How an answer is given up. HTTP/1.1 can only end the connection.
struct Abort {
  enum class Scope {
    stream,      ///< This answer alone.
    later,       ///< This and all later requests of the connection, as if they had not been seen.
    connection,  ///< All that the connection carries.
    reset,       ///< The same at once, without order (TCP RST).
  };
  Scope scope = Scope::stream;
  std::uint32_t code = 2;  ///< What HTTP/2 gives as the reason. Default: INTERNAL_ERROR.
  std::string raw = {};    ///< With `connection`: bytes to send in place of HTTP, for tests.
};

/// One request being answered: what the codec that carries it and the handler that answers it
/// share. Loop thread only. Handlers see it as `ServerRequest` and `ResponseWriter`.
class ServerExchange : public std::enable_shared_from_this<ServerExchange> {
 public:
  /// The codec, as the exchange sees it. Called by the handler's coroutine.
  class Carrier {
   public:
    virtual ~Carrier() = default;
    /// The handler waits for the body, of which nothing is there.
    virtual void on_body_wanted(ServerExchange& exchange) = 0;
    /// The handler took that many bytes of the body.
    virtual void on_body_taken(ServerExchange& exchange, std::size_t bytes) = 0;
    /// The head of the answer is there, perhaps with the rest of it.
    virtual void on_answer(ServerExchange& exchange) = 0;
    /// `out` has grown, or the answer is complete.
    virtual void on_output(ServerExchange& exchange) = 0;
    /// The answer will not be completed.
    virtual void on_aborted(ServerExchange& exchange, const Abort& how) = 0;
    /// The connection is to be closed after this answer, whose head is not there yet.
    virtual void on_last(ServerExchange& exchange) = 0;
    /// Whether enough of the answer waits to be sent.
    [[nodiscard]] virtual bool is_congested(const ServerExchange& exchange) const = 0;
  };
  enum class Answer { none, streaming, complete };
  class ReadWait;
  class WriteWait;

  ServerExchange(Carrier& carrier, const Peer& peer) : carrier_(&carrier), peer_(peer) {}

  // ---- for the codec ----
  RequestHead& head() noexcept { return head_; }
  /// The body's next bytes have come; all of it has; it will not come whole.
  void add_body(std::string_view bytes);
  void end_body();
  void fail_body(const Refusal& refusal);
  /// Bytes of the body came after the answer and were dropped: nobody may take the rest for all.
  void lose_body();
  [[nodiscard]] bool is_body_complete() const noexcept { return is_body_complete_; }
  [[nodiscard]] std::size_t unread_bytes() const noexcept { return body_.size(); }
  [[nodiscard]] Answer answer() const noexcept { return answer_; }
  [[nodiscard]] const ServerResponse& response() const noexcept { return response_; }
  /// What of the answer's body the codec has not taken yet.
  [[nodiscard]] std::string& out() noexcept { return response_.body; }
  [[nodiscard]] const std::optional<std::uint64_t>& declared_length() const noexcept {
    return declared_length_;
  }
  /// Whether the answer can have a body: not to HEAD, and not with a status that has none (RFC
  /// 9110, section 6.4.1). Requires that the answer has begun.
  [[nodiscard]] bool may_have_body() const noexcept {
    return head_.method != Method::head && response_.status != 204 && response_.status != 304;
  }
  /// More of the answer can be written.
  void on_writable();
  /// The client or its connection went away: the handler's scope is cancelled.
  void cancel(const Error& reason);
  /// The answer is on its way as a whole, or given up; the codec has forgotten the exchange.
  /// Whoever still reads or writes is told that the client is gone.
  void release();

  // ---- for the connection ----
  [[nodiscard]] std::shared_ptr<async::Scope> scope() { return {shared_from_this(), &scope_}; }
  /// The handler has ended: answers what it left unanswered.
  void finish(const Result<void>& result);

  // ---- for the handler ----
  [[nodiscard]] const RequestHead& head() const noexcept { return head_; }
  [[nodiscard]] const Peer& peer() const noexcept { return peer_; }
  void send(ServerResponse response);
  void begin(ServerResponse head, std::optional<std::uint64_t> length);
  void end();
  void abort(const Abort& how);
  void close_connection();

  std::size_t slot = 0;        // the codec's own
  std::int32_t stream_id = 0;  // of HTTP/2

 private:
  [[nodiscard]] bool has_input() const noexcept {
    return !body_.empty() || is_body_complete_ || body_error_ || carrier_ == nullptr;
  }
  Result<std::string> take_body();
  Result<void> add_output(std::string_view piece);
  void wake_reader();
  [[nodiscard]] static Error gone();

  Carrier* carrier_;  // null when there is nobody to send an answer to
  Peer peer_;
  RequestHead head_ = {};
  std::string body_ = {};  // that came and was not read
  std::unique_ptr<Error> body_error_ = {};
  bool is_body_complete_ = false;
  Answer answer_ = Answer::none;
  ServerResponse response_ = {};
  std::optional<std::uint64_t> declared_length_ = {};
  std::uint64_t written_ = 0;
  ReadWait* reader_ = nullptr;
  WriteWait* writer_ = nullptr;
  async::Scope scope_ = {};
};

/// Awaited, yields the next piece of the body, empty at its end.
class [[nodiscard]] ServerExchange::ReadWait final : public async::Wait {
 public:
  explicit ReadWait(std::shared_ptr<ServerExchange> exchange) : exchange_(std::move(exchange)) {}

  [[nodiscard]] bool await_ready() const noexcept { return exchange_->has_input(); }
  template <std::derived_from<async::TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<std::string> await_resume();

 private:
  bool start(const async::Context& context, std::coroutine_handle<> handle);
  void abandon() override { exchange_->reader_ = nullptr; }

  std::shared_ptr<ServerExchange> exchange_;
};

/// Awaited, ends when the piece was taken and there is room for another.
class [[nodiscard]] ServerExchange::WriteWait final : public async::Wait {
 public:
  WriteWait(std::shared_ptr<ServerExchange> exchange, std::string_view piece)
      : exchange_(std::move(exchange)), added_(exchange_->add_output(piece)) {}

  [[nodiscard]] bool await_ready() const noexcept {
    return !added_.ok() || exchange_->carrier_ == nullptr ||
           !exchange_->carrier_->is_congested(*exchange_);
  }
  template <std::derived_from<async::TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<void> await_resume() { return is_awake() ? take_outcome() : std::move(added_); }

 private:
  bool start(const async::Context& context, std::coroutine_handle<> handle);
  void abandon() override { exchange_->writer_ = nullptr; }

  std::shared_ptr<ServerExchange> exchange_;
  Result<void> added_;
};

/// A request, as its handler sees it. A cheap handle; loop thread only.
class ServerRequest {
 public:
  explicit ServerRequest(std::shared_ptr<ServerExchange> exchange)
      : exchange_(std::move(exchange)) {}

  [[nodiscard]] Method method() const noexcept { return head().method; }
  /// Path and query as sent, or "*". Valid as long as the handle.
  [[nodiscard]] std::string_view target() const noexcept { return head().target; }
  [[nodiscard]] std::string_view path() const noexcept {
    return target().substr(0, target().find('?'));
  }
  [[nodiscard]] std::string_view query() const noexcept {
    const auto mark = target().find('?');
    return mark == std::string_view::npos ? std::string_view() : target().substr(mark + 1);
  }
  [[nodiscard]] const Headers& headers() const noexcept { return head().headers; }
  [[nodiscard]] const Peer& peer() const noexcept { return exchange_->peer(); }
  [[nodiscard]] bool is_http2() const noexcept { return head().is_http2; }
  [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept {
    return head().content_length;
  }
  /// `co_await`ed, yields a `Result<std::string>`: the next piece of the body, empty at its end.
  /// The client sends no more than a window ahead of it. One reader at a time.
  [[nodiscard]] ServerExchange::ReadWait read() const {
    return ServerExchange::ReadWait(exchange_);
  }

 private:
  [[nodiscard]] const RequestHead& head() const noexcept {
    return std::as_const(*exchange_).head();
  }
  std::shared_ptr<ServerExchange> exchange_;
};

/// The whole body. Fails with status 413 where it is, or is declared to be, longer than `limit`.
async::Task<std::string> read_body(ServerRequest request, std::size_t limit);
/// Tells `on_size` before every wait how long the body is: the declared length, else what has come.
/// An error of `on_size` ends the reading.
async::Task<std::string> read_body(ServerRequest request,
                                   std::size_t limit,
                                   UniqueFunction<Result<void>(std::size_t bytes)> on_size);

/// Answers one request: `send` once, or `begin`, `write` any number of times and `end`. A handler
/// that ends without an answer gives status 500, or the `http_status` of its error. Calls without
/// a client to hear them do nothing. A cheap handle; loop thread only.
class ResponseWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<ServerExchange> exchange)
      : exchange_(std::move(exchange)) {}

  /// The whole answer. Only the first `send` or `begin` counts.
  void send(ServerResponse response) const { exchange_->send(std::move(response)); }
  /// The head of an answer whose body follows; `head.body` is its first piece.
  void begin(ServerResponse head) const { exchange_->begin(std::move(head), std::nullopt); }
  /// The same with the body's length, which the pieces must add up to. An answer that has no body,
  /// to HEAD for instance, may state the length and write nothing.
  void begin(ServerResponse head, std::uint64_t length) const {
    exchange_->begin(std::move(head), length);
  }
  /// Adds a piece of the body at once; `co_await`ed, yields a `Result<void>` when the client has
  /// taken so much that the next one may be made. Fails when the client went away.
  [[nodiscard]] ServerExchange::WriteWait write(std::string_view piece) const {
    return {exchange_, piece};
  }
  void end() const { exchange_->end(); }
  /// Gives the answer up. The client sees that it is not complete.
  void abort(const Abort& how) const { exchange_->abort(how); }
  /// Before the answer: it will be the last of its connection, and the client is told so.
  void close_connection() const { exchange_->close_connection(); }

 private:
  std::shared_ptr<ServerExchange> exchange_;
};

}  // namespace tinker::http
