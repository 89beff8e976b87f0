// HTTP/1.1, one request after the other.

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/strings.h"
#include "support/load_server/connection.h"
#include "tinker/http.h"

namespace tinker::load_server {

namespace {

constexpr std::string_view kGarbage = "\x16\x03 not HTTP at all \xFF\xFE\r\n\r\n";
constexpr std::size_t kDripBytes = 8;

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

class H1 final : public Protocol {
 public:
  explicit H1(Connection& connection) : connection_(connection) {}

  void receive(std::string_view bytes) override {
    in_.append(bytes);
    take_requests();
  }

  void on_timer(std::uint32_t tag) override {
    if (tag == kDripTag) {
      drip();
    } else if (answer_.is_pending) {
      ask();
    } else {
      respond();
    }
    take_requests();
  }

 private:
  static constexpr std::uint32_t kDripTag = 1;
  static constexpr std::uint32_t kAnswerTag = 2;

  /// Answers what has come completely, unless an earlier answer is still due.
  void take_requests() {
    std::size_t used = 0;
    while (!is_busy_ && connection_.is_open()) {
      const auto input = std::string_view(in_).substr(used);
      const auto size = parse(input);
      if (!size) break;
      used += *size;
      ask();
    }
    in_.erase(0, used);
  }

  /// Reads one request; how long it was, or nothing when it is not complete.
  std::optional<std::size_t> parse(std::string_view input) {
    const auto end = input.find("\r\n\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    auto head = input.substr(0, end + 2);
    std::size_t length = 0;
    request_ = {};
    read_request_line(head.substr(0, head.find("\r\n")));
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.empty()) {
      const auto line = head.substr(0, head.find("\r\n"));
      head.remove_prefix(line.size() + 2);
      const auto colon = std::min(line.find(':'), line.size() - 1);
      const auto value = trim(line.substr(colon + 1));
      read_header(line.substr(0, colon), value, length);
    }
    const auto total = end + 4 + length;
    if (input.size() < total) return std::nullopt;
    request_.body = input.substr(end + 4, length);
    return total;
  }

  void read_request_line(std::string_view line) {
    const auto from = std::min(line.find(' ') + 1, line.size());
    const auto target = line.substr(from, line.find(' ', from) - from);
    const auto question = std::min(target.find('?'), target.size());
    request_.path = target.substr(0, question);
    request_.query = target.substr(std::min(question + 1, target.size()));
  }

  void read_header(std::string_view name, std::string_view value, std::size_t& length) {
    if (http::same_name(name, "content-length")) {
      std::from_chars(value.data(), value.data() + value.size(), length);
    } else if (http::same_name(name, "x-fault")) {
      request_.fault = value;
    } else if (http::same_name(name, "accept")) {
      request_.accepts_proto = value.find("x-protobuf") != std::string_view::npos;
    } else if (http::same_name(name, "x-stainless-retry-count")) {
      std::from_chars(value.data(), value.data() + value.size(), request_.retry_count);
    }
  }

  void ask() {
    answer_ = connection_.host().api().answer(request_, connection_.host().now());
    if (answer_.plan.fault == Fault::hold) {
      is_busy_ = true;
      return connection_.hold(kAnswerTag);
    }
    if (answer_.plan.delay > std::chrono::milliseconds(0)) {
      is_busy_ = true;
      return connection_.wake_after(answer_.plan.delay, kAnswerTag);
    }
    respond();
  }

  void respond() {
    is_busy_ = false;
    std::string& out = connection_.output();
    const auto half = std::string_view(answer_.body).substr(0, answer_.body.size() / 2);
    switch (answer_.plan.fault) {
      case Fault::drop:
      case Fault::rst_stream:
      case Fault::refused_stream:
      case Fault::goaway: return connection_.finish();
      case Fault::reset: return connection_.reset();
      case Fault::hang: is_busy_ = true; return;
      case Fault::garbage: out += kGarbage; return connection_.finish();
      case Fault::drop_after_headers: write_head(out); return connection_.finish();
      case Fault::truncate:
        write_head(out);
        out += half;
        return connection_.finish();
      case Fault::stall:
        write_head(out);
        out += half;
        is_busy_ = true;
        return;
      case Fault::drip:
        write_head(out);
        dripped_ = 0;
        return drip();
      case Fault::bad_chunk:
        out += "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nbad\r\n";
        is_busy_ = true;
        return;
      default: break;
    }
    write_head(out);
    out += answer_.body;
    if (answer_.plan.fault == Fault::close || is_last()) return connection_.finish_politely();
    if (answer_.plan.fault == Fault::goaway_served) connection_.finish_politely();
  }

  bool is_last() {
    const auto limit = connection_.host().api().options().close_after;
    return limit > 0 && ++answered_ >= limit;
  }

  void write_head(std::string& out) const {
    const Plan& plan = answer_.plan;
    const bool is_plain = plan.status == 200;
    out +=
        is_plain ? "HTTP/1.1 200 OK\r\n" : base::concat("HTTP/1.1 ", plan.status, " Because\r\n");
    out += base::concat("Content-Type: ",
                        answer_.content_type,
                        "\r\nContent-Length: ",
                        answer_.body.size(),
                        "\r\n");
    if (!plan.retry_after.empty()) out += base::concat("Retry-After: ", plan.retry_after, "\r\n");
    if (!plan.retry_after_ms.empty()) {
      out += base::concat("retry-after-ms: ", plan.retry_after_ms, "\r\n");
    }
    if (plan.fault == Fault::bad_gzip) out += "Content-Encoding: gzip\r\n";
    if (plan.fault == Fault::goaway_served) out += "Connection: close\r\n";
    if (plan.fault == Fault::big_headers) {
      for (int i = 0; i < 40; ++i) {
        out += base::concat("x-pad-", i, ": ", std::string(10000, 'p'), "\r\n");
      }
    }
    out += "\r\n";
  }

  void drip() {
    connection_.output() += std::string_view(answer_.body).substr(dripped_, kDripBytes);
    dripped_ += kDripBytes;
    is_busy_ = dripped_ < answer_.body.size();
    if (is_busy_) connection_.wake_after(answer_.plan.drip, kDripTag);
  }

  Connection& connection_;
  std::string in_;
  Request request_;
  Answer answer_;
  std::size_t dripped_ = 0;
  std::size_t answered_ = 0;
  bool is_busy_ = false;  // an answer is due, or has stopped for good
};

}  // namespace

std::unique_ptr<Protocol> make_h1(Connection& connection) {
  return std::make_unique<H1>(connection);
}

}  // namespace tinker::load_server
