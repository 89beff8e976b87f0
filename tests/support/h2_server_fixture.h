#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "async/semaphore.h"
#include "support/h2_client_peer.h"
#include "support/server_harness.h"

/// A server that speaks HTTP/2 in virtual time, its client, and handlers to choose from.
namespace tinker::testing::h2 {

using namespace http;

/// A handler's controls, for those that wait.
struct Gate {
  async::Signal signal = {};
  int passes = 0;  ///< How often handlers may go on.
  std::size_t taken = 0;
  int written = 0;
  int cancelled = 0;
};

inline async::Task<> pass(std::shared_ptr<Gate> gate) {
  while (gate->passes == 0) {
    auto wait = gate->signal.wait();
    const auto woken = co_await wait;
    if (!woken.ok()) {
      ++gate->cancelled;
      co_return woken.error();
    }
  }
  --gate->passes;
  co_return Result<void>();
}

inline async::Task<> echo(ServerRequest request, ResponseWriter writer) {
  auto reading = read_body(request, 100 << 20);
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  const auto host = request.headers().find("host").value_or("");
  writer.send(
      {.headers = {{"X-Target", request.target()}, {"X-Host", host}}, .body = std::move(body)});
  co_return Result<void>();
}
inline async::Task<> gated(std::shared_ptr<Gate> gate,
                           ServerRequest request,
                           ResponseWriter writer) {
  auto passing = pass(gate);
  TINKER_CO_TRY(co_await std::move(passing));
  writer.send({.body = std::string(request.target())});
  co_return Result<void>();
}
inline async::Task<> read_gated(std::shared_ptr<Gate> gate,
                                ServerRequest request,
                                ResponseWriter writer) {
  while (true) {
    auto passing = pass(gate);
    TINKER_CO_TRY(co_await std::move(passing));
    auto next = request.read();
    TINKER_CO_TRY(const std::string piece, co_await next);
    if (piece.empty()) break;
    gate->taken += piece.size();
  }
  writer.send({});
  co_return Result<void>();
}
inline async::Task<> flood(std::shared_ptr<Gate> gate,
                           ServerRequest request,
                           ResponseWriter writer) {
  writer.begin({});
  const std::string piece(10'000, 'x');
  for (int i = 0; i < 500; ++i) {
    auto written = writer.write(piece);
    TINKER_CO_TRY(co_await written);
    ++gate->written;
  }
  if (request.path() == "/broken") co_return Error{.message = "in the middle"};
  co_return Result<void>();
}

using Gated = async::Task<> (*)(std::shared_ptr<Gate>, ServerRequest, ResponseWriter);

class H2ServerFixture : public ::testing::Test {
 protected:
  static constexpr ServerLimits kLimits = {.max_body_bytes = 100 << 20,
                                           .min_body_bytes = 100,
                                           .max_streams = 50,
                                           .times = {.head = std::chrono::seconds(10),
                                                     .body = std::chrono::seconds(20),
                                                     .idle = std::chrono::seconds(60),
                                                     .write = std::chrono::seconds(30)}};

  void serve(Handler handler, const ServerLimits& limits = kLimits) {
    server.emplace(std::move(handler), limits);
    wire = server->connect();
  }
  void serve(Gated handler, const ServerLimits& limits = kLimits) {
    serve(
        [this, handler](ServerRequest request, ResponseWriter writer) {
          return handler(gate, std::move(request), std::move(writer));
        },
        limits);
  }
  /// Carries bytes both ways until there are none.
  void run() {
    while (true) {
      const std::string out = client.output();
      server->send(*wire, out);
      const std::string in = ServerHarness::receive(*wire);
      client.receive(in);
      if (out.empty() && in.empty()) return;
    }
  }
  void let_pass(int count) {
    gate->passes += count;
    gate->signal.notify_all();
    server->loop->run_ready();
    run();
  }
  H2ClientPeer::Stream& stream(std::int32_t id) { return client.streams[id]; }

  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::optional<ServerHarness> server;
  std::shared_ptr<MemoryWire> wire;
  H2ClientPeer client;
};

}  // namespace tinker::testing::h2
