#include "http/server_exchange.h"

#include <algorithm>

#include "base/strings.h"

namespace tinker::http {

// ---- the request's body -----------------------------------------------------------------------

void ServerExchange::add_body(std::string_view bytes) {
  body_.append(bytes);
  wake_reader();
}

void ServerExchange::end_body() {
  is_body_complete_ = true;
  wake_reader();
}

void ServerExchange::fail_body(const Refusal& refusal) {
  body_error_ = std::make_unique<Error>(Error{.code = error_code_for_status(refusal.status),
                                              .message = std::string(refusal.why),
                                              .http_status = refusal.status});
  wake_reader();
}

void ServerExchange::lose_body() {
  if (body_error_) return;
  body_error_ = std::make_unique<Error>(gone());
  wake_reader();
}

void ServerExchange::wake_reader() {
  if (auto* const reader = std::exchange(reader_, nullptr)) reader->wake({});
}

Result<std::string> ServerExchange::take_body() {
  if (body_.empty()) {
    if (body_error_) return *body_error_;
    if (!is_body_complete_) return gone();
  }
  std::string piece = std::exchange(body_, {});
  if (carrier_ != nullptr && !piece.empty()) carrier_->on_body_taken(*this, piece.size());
  return piece;
}

bool ServerExchange::ReadWait::start(const async::Context& context,
                                     std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  exchange_->reader_ = this;
  if (exchange_->carrier_ != nullptr) exchange_->carrier_->on_body_wanted(*exchange_);
  return true;
}

Result<std::string> ServerExchange::ReadWait::await_resume() {
  if (is_awake()) {
    if (auto outcome = take_outcome(); !outcome.ok()) return outcome.error();
  }
  return exchange_->take_body();
}

async::Task<std::string> read_body(ServerRequest request, std::size_t limit) {
  return read_body(std::move(request), limit, [](std::size_t) { return Result<void>(); });
}

async::Task<std::string> read_body(ServerRequest request,
                                   std::size_t limit,
                                   UniqueFunction<Result<void>(std::size_t)> on_size) {
  std::uint64_t size = request.content_length().value_or(0);
  std::string whole;
  while (true) {
    if (size > limit) {
      co_return Error{.code = ErrorCode::unexpected_status,
                      .message = base::concat("the body is longer than ", limit, " bytes"),
                      .http_status = 413};
    }
    TINKER_CO_TRY(on_size(size));
    auto next = request.read();
    TINKER_CO_TRY(std::string piece, co_await next);
    if (piece.empty()) co_return whole;
    if (whole.empty()) {
      whole = std::move(piece);
    } else {
      whole.append(piece);
    }
    size = std::max<std::uint64_t>(size, whole.size());
  }
}

// ---- the answer -------------------------------------------------------------------------------

void ServerExchange::send(ServerResponse response) {
  if (answer_ != Answer::none || carrier_ == nullptr) return;
  if (!check_headers(response.headers).ok() || response.status < 200 || response.status > 999) {
    response = {.status = 500, .body = "the answer cannot be sent\n"};
  }
  response_ = std::move(response);
  answer_ = Answer::complete;
  carrier_->on_answer(*this);
}

void ServerExchange::begin(ServerResponse head, std::optional<std::uint64_t> length) {
  if (answer_ != Answer::none || carrier_ == nullptr) return;
  const bool is_too_long = length && head.body.size() > *length;
  if (is_too_long) return send({.status = 500, .body = "the answer is longer than its length\n"});
  if (!check_headers(head.headers).ok() || head.status < 200 || head.status > 999) {
    return send(std::move(head));
  }
  response_ = std::move(head);
  declared_length_ = length;
  written_ = response_.body.size();
  answer_ = Answer::streaming;
  carrier_->on_answer(*this);
}

Result<void> ServerExchange::add_output(std::string_view piece) {
  if (carrier_ == nullptr || answer_ != Answer::streaming) return gone();
  written_ += piece.size();
  if (declared_length_ && written_ > *declared_length_) {
    abort({});
    return Error{
        .code = ErrorCode::internal,
        .message = base::concat("the answer is longer than its ", *declared_length_, " bytes")};
  }
  response_.body.append(piece);
  carrier_->on_output(*this);
  return {};
}

void ServerExchange::end() {
  if (carrier_ == nullptr || answer_ != Answer::streaming) return;
  if (declared_length_ && written_ < *declared_length_ && may_have_body()) return abort({});
  answer_ = Answer::complete;
  carrier_->on_output(*this);
}

void ServerExchange::abort(const Abort& how) {
  if (carrier_ != nullptr) carrier_->on_aborted(*this, how);
}

void ServerExchange::close_connection() {
  if (carrier_ != nullptr && answer_ == Answer::none) carrier_->on_last(*this);
}

void ServerExchange::finish(const Result<void>& result) {
  if (carrier_ == nullptr) return;
  if (answer_ == Answer::streaming) return result.ok() ? end() : abort({});
  if (answer_ == Answer::complete) return;
  ServerResponse response = {.status = 500};
  response.headers.add("Content-Type", "text/plain");
  if (result.ok()) {
    response.body = "there is no answer to this request\n";
  } else if (result.error().http_status >= 400) {
    response.status = result.error().http_status;
    response.body = base::concat(result.error().message, "\n");
  } else {
    response.body = "the request failed inside the server\n";
  }
  send(std::move(response));
}

bool ServerExchange::WriteWait::start(const async::Context& context,
                                      std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  exchange_->writer_ = this;
  return true;
}

void ServerExchange::on_writable() {
  if (auto* const writer = std::exchange(writer_, nullptr)) writer->wake({});
}

void ServerExchange::release() {
  carrier_ = nullptr;
  wake_reader();
  if (auto* const writer = std::exchange(writer_, nullptr)) writer->wake(gone());
}

void ServerExchange::cancel(const Error& reason) {
  carrier_ = nullptr;
  scope_.cancel(reason);
  release();  // wakes those who wait in a scope of their own
}

Error ServerExchange::gone() {
  return connection_error("the client went away before the answer was complete");
}

}  // namespace tinker::http
