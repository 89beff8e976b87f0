#include "transport/h1_client_codec.h"

#include "base/strings.h"

namespace tinker::http {

namespace {

// Up to here a body is copied behind its head, so that both go out at once.
constexpr std::size_t kSmallBody = std::size_t{16} << 10U;

}  // namespace

void H1ClientCodec::start(std::shared_ptr<Exchange> exchange, TimePoint now) {
  TINKER_CHECK(capacity() > 0);
  exchange_ = std::move(exchange);
  exchange_->phase = Exchange::Phase::sending;
  exchange_->last_activity = now;
  exchange_->is_on_reused = std::exchange(was_used_, true);
  has_received_ = false;
  parser_ = std::make_unique<H1Parser>(*exchange_, limits_, H1Parser::Expect::message);
  write_head();
}

void H1ClientCodec::write_head() {
  const Request& request = exchange_->request;
  const std::string_view body = view(request.body);
  const bool is_small = body.size() <= kSmallBody;
  std::size_t size = 256 + exchange_->url.target.size() + (is_small ? body.size() : 0);
  for (const auto& header : request.headers) size += header.name.size() + header.value.size() + 4;
  head_.clear();
  head_sent_ = 0;
  head_.reserve(size);

  const auto add = [this](std::string_view name, std::string_view value) {
    head_.append(name).append(": ").append(value).append("\r\n");
  };
  head_.append(to_string(request.method)).append(" ");
  if (proxy_ != nullptr) head_.append(exchange_->url.origin());
  head_.append(exchange_->url.target).append(" HTTP/1.1\r\n");
  add("Host", exchange_->url.host_header());
  for (const auto& header : request.headers) {
    if (!is_codec_header(header.name)) add(header.name, header.value);
  }
  if (!request.headers.contains("accept-encoding")) add("Accept-Encoding", "gzip, deflate, zstd");
  if (has_length(request)) add("Content-Length", base::Piece(body.size()).text());
  if (proxy_ != nullptr && !proxy_->authorization.empty()) {
    add("Proxy-Authorization", proxy_->authorization.expose());
  }
  head_.append("\r\n");
  if (is_small) {
    head_.append(body);
    exchange_->body_sent = body.size();
  }
}

std::string_view H1ClientCodec::output(TimePoint) {
  if (!exchange_ || exchange_->phase != Exchange::Phase::sending) return {};
  if (head_sent_ < head_.size()) return std::string_view(head_).substr(head_sent_);
  return view(exchange_->request.body).substr(exchange_->body_sent);
}

void H1ClientCodec::wrote(std::size_t bytes, TimePoint now) {
  if (!exchange_) return;
  exchange_->last_activity = now;
  if (head_sent_ < head_.size()) {
    head_sent_ += bytes;
  } else {
    exchange_->body_sent += bytes;
  }
  if (head_sent_ == head_.size() && exchange_->body_sent == view(exchange_->request.body).size()) {
    exchange_->phase = Exchange::Phase::receiving;
    head_ = std::string();  // an idle connection keeps nothing
    head_sent_ = 0;
  }
}

void H1ClientCodec::receive(std::string_view bytes, TimePoint now) {
  if (!exchange_) {
    is_spent_ = true;  // nobody asked for anything
    return;
  }
  has_received_ = true;
  exchange_->last_activity = now;
  const auto rest = parser_->put(bytes);
  if (!rest.ok()) return fail(rest.error(), false);
  if (!parser_->is_complete()) return;

  // A server may answer before it has read all; what is left of the request cannot be taken back.
  const bool is_early = exchange_->phase != Exchange::Phase::receiving;
  if (is_early || !rest->empty() || !parser_->is_kept_alive()) is_spent_ = true;
  finish(release());
}

void H1ClientCodec::end(const std::optional<Error>& error) {
  is_spent_ = true;
  if (!exchange_) return;
  if (!error) {
    const auto complete = parser_->end();
    if (complete.ok()) return finish(release());
    return fail(complete.error(), exchange_->is_on_reused && !has_received_);
  }
  fail(*error, exchange_->is_on_reused && !has_received_);
}

void H1ClientCodec::cancel(Exchange& exchange) {
  TINKER_CHECK(exchange_.get() == &exchange);
  is_spent_ = true;
  release();
}

void H1ClientCodec::fail(Error error, bool is_untouched) {
  is_spent_ = true;
  Codec::fail(release(), std::move(error), is_untouched);
}

std::shared_ptr<Exchange> H1ClientCodec::release() {
  parser_.reset();
  head_ = std::string();
  head_sent_ = 0;
  return std::exchange(exchange_, nullptr);
}

}  // namespace tinker::http
