#include "support/load_server/serve.h"

#include <charconv>

#include <nghttp2/nghttp2.h>

namespace tinker::load_server {

namespace {

using http::Abort;
using http::ResponseWriter;

// A head of TLS in HTTP/1.1, a frame of impossible length in HTTP/2: nothing in either.
constexpr std::string_view kGarbage =
    "\xFF\x03 not HTTP at all, and no frame of any kind \xFF\r\n\r\n";
constexpr std::size_t kDripBytes = 8;

Request read_head(const http::ServerRequest& request) {
  Request out = {.path = std::string(request.path()), .query = std::string(request.query())};
  for (const auto& [name, value] : request.headers()) {
    if (http::same_name(name, "x-fault")) {
      out.fault = value;
    } else if (http::same_name(name, "accept")) {
      out.accepts_proto = value.find("x-protobuf") != std::string_view::npos;
    } else if (http::same_name(name, "x-stainless-retry-count")) {
      std::from_chars(value.data(), value.data() + value.size(), out.retry_count);
    }
  }
  return out;
}

http::ServerResponse head_of(const Answer& answer) {
  const Plan& plan = answer.plan;
  http::ServerResponse head = {.status = plan.status,
                               .headers = {{"Content-Type", answer.content_type}}};
  if (!plan.retry_after.empty()) head.headers.add("Retry-After", plan.retry_after);
  if (!plan.retry_after_ms.empty()) head.headers.add("retry-after-ms", plan.retry_after_ms);
  if (plan.fault == Fault::bad_gzip) head.headers.add("Content-Encoding", "gzip");
  if (plan.fault == Fault::big_headers) {
    // Fits the compression table of HTTP/2, so that all but the first take a byte each.
    const std::string pad(3000, '~');
    for (int i = 0; i < 134; ++i) head.headers.add("x-pad", pad);
  }
  return head;
}

async::Task<> hang() {
  auto wait = async::sleep_for(std::chrono::hours(24));
  TINKER_CO_TRY(co_await wait);
  co_return Result<void>();
}

/// The head and the first `bytes` of the body.
void begin(const ResponseWriter& writer, const Answer& answer, std::size_t bytes) {
  http::ServerResponse head = head_of(answer);
  head.body = answer.body.substr(0, bytes);
  writer.begin(std::move(head), answer.body.size());
}

async::Task<> drip(ResponseWriter writer, Answer answer) {
  begin(writer, answer, 0);
  for (std::size_t at = 0; at < answer.body.size(); at += kDripBytes) {
    auto written = writer.write(std::string_view(answer.body).substr(at, kDripBytes));
    TINKER_CO_TRY(co_await written);
    auto pause = async::sleep_for(answer.plan.drip);
    TINKER_CO_TRY(co_await pause);
  }
  co_return Result<void>();
}

/// What goes wrong without an answer; false where the fault is none of these.
bool break_off(const ResponseWriter& writer, Fault fault) {
  using Scope = Abort::Scope;
  switch (fault) {
    case Fault::drop: writer.abort({.scope = Scope::connection}); return true;
    case Fault::reset: writer.abort({.scope = Scope::reset}); return true;
    case Fault::garbage:
      writer.abort({.scope = Scope::connection, .raw = std::string(kGarbage)});
      return true;
    case Fault::rst_stream: writer.abort({}); return true;
    case Fault::refused_stream: writer.abort({.code = NGHTTP2_REFUSED_STREAM}); return true;
    case Fault::goaway: writer.abort({.scope = Scope::later}); return true;
    default: return false;
  }
}

/// The head and perhaps some of the body, then the end.
bool cut(const ResponseWriter& writer, const Answer& answer, bool is_http2) {
  const std::size_t half = answer.body.size() / 2;
  switch (answer.plan.fault) {
    case Fault::drop_after_headers:
      begin(writer, answer, 0);
      writer.abort({.scope = Abort::Scope::connection});
      return true;
    case Fault::truncate:
      begin(writer, answer, half);
      writer.abort({});
      return true;
    case Fault::close:
      begin(writer, answer, answer.body.size());
      if (is_http2) writer.end();  // an answer of HTTP/1.1 has ended already, with its length
      writer.abort({.scope = Abort::Scope::connection});
      return true;
    case Fault::bad_chunk:
      writer.begin({.body = "hello"});
      writer.abort({.code = NGHTTP2_PROTOCOL_ERROR, .raw = "zz\r\nbad\r\n"});
      return true;
    default: return false;
  }
}

async::Task<> respond(ResponseWriter writer, Answer answer, bool is_http2) {
  const Fault fault = answer.plan.fault;
  if (break_off(writer, fault) || cut(writer, answer, is_http2)) co_return Result<void>();
  if (fault == Fault::drip) {
    auto dripping = drip(std::move(writer), std::move(answer));
    co_return co_await std::move(dripping);
  }
  if (fault == Fault::stall) begin(writer, answer, answer.body.size() / 2);
  if (fault == Fault::stall || fault == Fault::hang) {
    auto hanging = hang();
    co_return co_await std::move(hanging);
  }
  if (fault == Fault::goaway_served) writer.close_connection();
  http::ServerResponse response = head_of(answer);
  response.body = std::move(answer.body);
  writer.send(std::move(response));
  co_return Result<void>();
}

async::Task<> wait_for_release(std::shared_ptr<Service> service) {
  ++service->api.connections().held;
  auto wait = service->released.wait();
  const auto released = co_await wait;
  --service->api.connections().held;
  co_return released;
}

}  // namespace

async::Task<> serve(std::shared_ptr<Service> service,
                    http::ServerRequest request,
                    ResponseWriter writer) {
  Request asked = read_head(request);
  auto reading = http::read_body(request, std::size_t{1} << 30U);
  TINKER_CO_TRY(asked.body, co_await std::move(reading));
  auto ask = async::this_context();
  const auto context = co_await ask;
  Answer answer;
  do {
    answer = service->api.answer(asked, context.loop->now());
    if (service->api.take_release()) service->released.notify_all();
    if (answer.plan.fault == Fault::hold) {
      auto holding = wait_for_release(service);
      TINKER_CO_TRY(co_await std::move(holding));
    } else if (answer.plan.delay > std::chrono::milliseconds(0)) {
      auto pause = async::sleep_for(answer.plan.delay);
      TINKER_CO_TRY(co_await pause);
    }
  } while (answer.is_pending);
  auto responding = respond(std::move(writer), std::move(answer), request.is_http2());
  co_return co_await std::move(responding);
}

}  // namespace tinker::load_server
