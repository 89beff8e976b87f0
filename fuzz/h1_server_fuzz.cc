#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/server_harness.h"
#include "tinker/check.h"

namespace {

using namespace tinker::http;
using tinker::testing::ServerHarness;

tinker::async::Task<> echo(ServerRequest request, ResponseWriter writer) {
  auto reading = read_body(request, 1 << 20);
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  // A header that came in can go out again.
  ServerResponse response = {.headers = request.headers(), .body = std::string(request.target())};
  response.body.append(body);
  writer.send(std::move(response));
  co_return tinker::Result<void>();
}

struct Outcome {
  std::string answers = {};
  bool is_closing = false;
};

/// All that the server sends to a client that sends `bytes` in pieces.
Outcome serve(std::string_view bytes, std::size_t piece) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    server.send(*wire, bytes.substr(at, piece));
  }
  Outcome out = {.answers = wire->to_client, .is_closing = wire->is_write_shut};
  // Whether a client is told to go on depends on whether it waited.
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  for (std::size_t at = 0; (at = out.answers.find(kContinue, at)) != std::string::npos;) {
    out.answers.erase(at, kContinue.size());
  }
  server.end(*wire);
  TINKER_CHECK(wire->is_closed);
  TINKER_CHECK(server.core->running == 0);
  return out;
}

}  // namespace

// Whatever a client sends, the answers are the same however it is cut, and all ends with it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (bytes.starts_with("PRI")) return 0;  // HTTP/2, perhaps
  const Outcome whole = serve(bytes, std::max<std::size_t>(bytes.size(), 1));
  const Outcome pieces = serve(bytes, std::size_t{1} + data[0]);
  TINKER_CHECK(whole.answers == pieces.answers);
  TINKER_CHECK(whole.is_closing == pieces.is_closing);
  return 0;
}
