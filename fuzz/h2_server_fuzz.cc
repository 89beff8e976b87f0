#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/server_harness.h"
#include "tinker/check.h"

namespace {

using namespace tinker::http;
using tinker::testing::ServerHarness;

constexpr unsigned kBlock = 1;
constexpr unsigned kUnblock = 2;
constexpr unsigned kWait = 4;
constexpr unsigned kDrain = 8;

tinker::async::Task<> serve(ServerRequest request, ResponseWriter writer) {
  if (request.path() == "/early") {
    writer.send({.status = 403});
    co_return tinker::Result<void>();
  }
  if (request.path() == "/late") {
    auto pause = tinker::async::sleep_for(std::chrono::seconds(1));
    TINKER_CO_TRY(co_await pause);
  }
  writer.begin({});
  while (true) {
    auto next = request.read();
    TINKER_CO_TRY(const std::string piece, co_await next);
    if (piece.empty()) break;
    auto written = writer.write(piece);
    TINKER_CO_TRY(co_await written);
  }
  co_return tinker::Result<void>();
}

}  // namespace

// A script of steps (what to do, how many bytes the client sends, those bytes): whatever the client
// does, every handler ends with its connection.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ServerHarness server(serve);
  const auto wire = server.connect();
  server.send(*wire, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  std::string_view script(reinterpret_cast<const char*>(data), size);
  while (script.size() >= 2) {
    const auto action = static_cast<unsigned char>(script[0]);
    const std::size_t length = static_cast<unsigned char>(script[1]);
    script.remove_prefix(2);
    if ((action & kBlock) != 0) wire->room = 0;
    if ((action & kUnblock) != 0) {
      wire->room = std::string::npos;
      wire->wake();
    }
    if ((action & kWait) != 0) server.loop->advance(std::chrono::seconds(5));
    if ((action & kDrain) != 0) {
      const auto open = server.core->connections;
      for (const auto& connection : open) connection->drain();
    }
    server.send(*wire, script.substr(0, length));
    script.remove_prefix(std::min(length, script.size()));
  }
  wire->room = std::string::npos;
  wire->wake();
  server.end(*wire);
  TINKER_CHECK(wire->is_closed);
  TINKER_CHECK(server.core->running == 0);
  return 0;
}
