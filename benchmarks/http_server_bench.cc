// Our server half with a handler that says hello, for `./dev bench http_server`
// (http_server_area.py), which puts load on it: http_server_bench CERTIFICATE KEY. Speaks HTTP/1.1
// and HTTP/2, without TLS at one port and with it at another. Prints both; serves until the
// standard input ends.

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "async/asio_loop.h"
#include "http/server.h"

namespace tinker::http {
namespace {

async::Task<> hello(ServerRequest, ResponseWriter writer) {
  writer.send({.headers = {{"Content-Type", "text/plain"}}, .body = "hello, world"});
  co_return Result<void>();
}

void raise_descriptor_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const TlsIdentity& identity) {
  raise_descriptor_limit();
  const auto loop = async::AsioLoop::create();
  auto server = Server::create(loop, hello, {.limits = {.times = {.idle = std::chrono::hours(1)}}});
  for (const auto& tls : {std::optional<TlsIdentity>(), std::optional(identity)}) {
    const auto port = server->listen({}, tls);
    if (!port.ok()) {
      std::fprintf(stderr, "http_server_bench: %s\n", port.error().to_string().c_str());
      return 1;
    }
    std::printf("%d\n", static_cast<int>(*port));
  }
  std::fflush(stdout);
  std::thread end([&loop] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    loop->stop();
  });
  loop->run();
  end.join();
  return 0;
}

}  // namespace
}  // namespace tinker::http

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: http_server_bench CERTIFICATE KEY\n");
    return 2;
  }
  return tinker::http::run({.certificate_file = argv[1], .key_file = argv[2]});
}
