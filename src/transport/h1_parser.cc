#include "transport/h1_parser.h"

#include <boost/beast/http/basic_parser.hpp>

#include "base/strings.h"

namespace tinker::http {

namespace beast = boost::beast;
using beast::http::error;
using ErrorCodeRef = beast::error_code&;

namespace {

constexpr int kMaxInterimAnswers = 100;

}  // namespace

/// Beast's parser, writing straight into the exchange.
class H1Parser::Parser final : public beast::http::basic_parser<false> {
 public:
  Parser(Exchange& exchange, const HeadLimits& limits) : exchange_(exchange), limits_(limits) {
    eager(true);
    body_limit(boost::none);
    header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(limits.max_bytes, UINT32_MAX)));
  }

  /// The error behind an error code that one of the functions below gave.
  [[nodiscard]] const std::optional<Error>& failure() const noexcept { return failure_; }

 private:
  void on_request_impl(
      beast::http::verb, beast::string_view, beast::string_view, int, ErrorCodeRef) override {}
  void on_response_impl(int status, beast::string_view, int, ErrorCodeRef ec) override {
    exchange_.response.status = status;
    if (status < 100) ec = error::bad_status;
  }
  void on_field_impl(beast::http::field,
                     beast::string_view name,
                     beast::string_view value,
                     ErrorCodeRef ec) override {
    check(add_response_header(
              exchange_, {name.data(), name.size()}, {value.data(), value.size()}, limits_),
          ec);
  }
  void on_header_impl(ErrorCodeRef ec) override {
    exchange_.is_head_complete = exchange_.response.status >= 200;
    const auto length = content_length();
    if (length && !is_done()) check(expect_response_body(exchange_, *length), ec);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCodeRef) override {}
  std::size_t on_body_impl(beast::string_view body, ErrorCodeRef ec) override {
    check(add_response_body(exchange_, {body.data(), body.size()}), ec);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCodeRef) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, ErrorCodeRef ec) override {
    return on_body_impl(body, ec);
  }
  void on_finish_impl(ErrorCodeRef) override {}

  void check(Result<void> result, ErrorCodeRef ec) {
    if (result.ok()) return;
    failure_ = result.error();
    ec = error::body_limit;
  }

  Exchange& exchange_;
  const HeadLimits& limits_;
  std::optional<Error> failure_ = {};
};

H1Parser::H1Parser(Exchange& exchange, HeadLimits limits, Expect expect)
    : exchange_(exchange), limits_(limits), expect_(expect) {
  begin();
}
H1Parser::~H1Parser() = default;

void H1Parser::begin() {
  parser_ = std::make_unique<Parser>(exchange_, limits_);
  parser_->skip(expect_ == Expect::head_only || exchange_.request.method == Method::head);
}

bool H1Parser::is_complete() const noexcept {
  return parser_->is_done();
}
bool H1Parser::is_kept_alive() const noexcept {
  return parser_->keep_alive();
}

Result<std::string_view> H1Parser::put(std::string_view bytes) {
  const bool was_pending = !pending_.empty();
  if (was_pending) {
    pending_.append(bytes);
    bytes = pending_;
  }
  TINKER_TRY(parse(bytes));
  if (is_complete()) return bytes;

  if (was_pending) {
    pending_.erase(0, pending_.size() - bytes.size());
  } else {
    pending_.assign(bytes);
  }
  // The parser limits heads, but neither the extensions of a chunk nor its trailers.
  if (pending_.size() > limits_.max_bytes) {
    return connection_error("the answer is not HTTP/1.1: a line in it does not end");
  }
  return std::string_view();
}

Result<void> H1Parser::parse(std::string_view& bytes) {
  while (!bytes.empty()) {
    beast::error_code ec;
    const std::size_t used = parser_->put(boost::asio::buffer(bytes.data(), bytes.size()), ec);
    bytes.remove_prefix(used);
    if (ec == error::need_more) return {};
    if (ec == error::header_limit) {
      return Error{
          .code = ErrorCode::invalid_response,
          .message = base::concat("the headers of the answer are longer than the limit of ",
                                  limits_.max_bytes,
                                  " bytes")};
    }
    if (const auto& failure = parser_->failure(); ec && failure) return *failure;
    if (ec) return connection_error(base::concat("the answer is not HTTP/1.1: ", ec.message()));
    if (!parser_->is_done()) continue;
    if (exchange_.is_head_complete) return {};

    if (exchange_.response.status == 101) {
      return connection_error("the server switched to another protocol unasked (101)");
    }
    if (++interim_answers_ > kMaxInterimAnswers) {
      return connection_error("the server sends interim answers (1xx) without end");
    }
    exchange_.response = {};
    begin();
  }
  return {};
}

Result<void> H1Parser::end() {
  if (is_complete()) return {};
  beast::error_code ec = error::partial_message;
  if (parser_->got_some()) parser_->put_eof(ec);
  if (!ec) return {};
  if (!exchange_.is_head_complete) {
    return connection_error("the server closed the connection before it answered");
  }
  return connection_error(
      base::concat("the server closed the connection in the middle of its answer, after ",
                   exchange_.body_bytes,
                   " bytes of the body"));
}

}  // namespace tinker::http
