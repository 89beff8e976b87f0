// The two halves of HTTP against each other, over real sockets.
#include "http/server.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "async/semaphore.h"
#include "base/file_descriptor.h"
#include "support/certificates.h"
#include "support/loop_fixture.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::server_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::StartsWith;

async::Task<> echo(ServerRequest request, ResponseWriter writer) {
  auto reading = read_body(request, std::size_t{1} << 30U);
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  if (body.empty()) body = request.target();
  writer.send({.headers = {{"X-Method", to_string(request.method())},
                           {"X-Peer", request.peer().to_string()}},
               .body = std::move(body)});
  co_return Result<void>();
}

/// What a handler that waits for ever tells the test.
struct Held {
  std::promise<void> begun = {};
  std::promise<ErrorCode> ended = {};
};
async::Task<> hold(std::shared_ptr<Held> held) {
  held->begun.set_value();
  auto wait = async::sleep_for(24h);
  const auto woken = co_await wait;
  held->ended.set_value(woken.ok() ? ErrorCode::internal : woken.error().code);
  co_return woken.ok() ? Error{} : woken.error();
}

async::Task<> answer_after_pause(ServerRequest request, ResponseWriter writer) {
  auto pause = async::sleep_for(20ms);
  TINKER_CO_TRY(co_await pause);
  writer.send({.body = std::string(request.target())});
  co_return Result<void>();
}

/// Holds handlers until the test opens it. Loop thread only.
struct Gate {
  async::Signal opened = {};
  bool is_open = false;
};
async::Task<> answer_behind(std::shared_ptr<Gate> gate, ResponseWriter writer) {
  while (!gate->is_open) {
    auto wait = gate->opened.wait();
    TINKER_CO_TRY(co_await wait);
  }
  writer.send({.body = "open"});
  co_return Result<void>();
}

class ServerTest : public testing::LoopFixture {
 protected:
  ServerTest() {
    identity.write_certificate(folder / "cert.pem");
    identity.write_key(folder / "key.pem");
  }
  /// Runs `f` on the loop and waits for it.
  template <typename F>
  auto on_loop(F f) {
    std::promise<decltype(f())> promise;
    auto future = promise.get_future();
    loop->post([&] {
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
        promise.set_value();
      } else {
        promise.set_value(f());
      }
    });
    return future.get();
  }
  void TearDown() override {
    on_loop([this] { server.reset(); });
  }
  TlsIdentity files() const { return {folder / "cert.pem", folder / "key.pem"}; }
  void serve(Handler handler, const ServerOptions& options = {}) {
    on_loop([&] {
      server = Server::create(loop, std::move(handler), options);
      port = server->listen({}, std::nullopt).value();
      tls_port = server->listen({}, files()).value();
    });
  }
  std::string url(std::string_view path) const {
    return "http://127.0.0.1:" + std::to_string(port) + std::string(path);
  }
  std::string tls_url(std::string_view path) const {
    return "https://127.0.0.1:" + std::to_string(tls_port) + std::string(path);
  }
  std::shared_ptr<Transport> client(bool http2 = true) {
    return transport({.ca_file = folder / "cert.pem", .enable_http2 = http2});
  }
  /// Sends `bytes` to the plain port and reads until the server closes.
  std::string ask_raw(std::string_view bytes) const {
    const base::FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return ask_raw(fd.get(), bytes);
  }
  static std::string ask_raw(int fd, std::string_view bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string out;
    std::array<char, 4096> buffer = {};
    ssize_t n = 0;
    while ((n = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0) {
      out.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return out;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path folder = folder_.path();
  testing::Identity identity = testing::make_identity({});
  std::shared_ptr<Server> server;
  std::uint16_t port = 0;
  std::uint16_t tls_port = 0;
};

TEST_F(ServerTest, AnswersOverPlainConnections) {
  serve(echo);
  const auto response = client()->send(post(url("/a"), "hello")).get();
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "hello");
  EXPECT_THAT(std::string(*response->headers.find("X-Peer")), StartsWith("127.0.0.1:"));
}

TEST_F(ServerTest, AgreesOnAProtocolByAlpn) {
  serve(echo);
  for (const bool http2 : {true, false}) {
    const auto response = client(http2)->send(post(tls_url("/a"), "hello")).get();
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->body, "hello");
    // HTTP/2 sends names in lower case.
    EXPECT_EQ((*response->headers.begin()).name, http2 ? "x-method" : "X-Method");
  }
}

TEST_F(ServerTest, KnowsTheMethodsOfTheClient) {
  serve(echo);
  const auto plain = client(false);
  const auto h2 = client();
  for (const Method method : {Method::get,
                              Method::post,
                              Method::put,
                              Method::delete_,
                              Method::head,
                              Method::options,
                              Method::patch}) {
    for (const auto& [transport, where] :
         {std::pair(plain, url("/path")), std::pair(h2, tls_url("/path"))}) {
      const auto response = transport->send({.method = method, .url = where}).get();
      ASSERT_THAT(response, IsOk());
      EXPECT_EQ(response->headers.find("x-method"), to_string(method));
      EXPECT_EQ(response->body, method == Method::head ? "" : "/path");
      EXPECT_EQ(response->headers.find("content-length"), "5");
    }
  }
}

TEST_F(ServerTest, CarriesLargeBodiesBothWays) {
  serve(echo);
  std::string body(20'000'000, 'x');
  for (std::size_t i = 0; i < body.size(); i += 977) body[i] = static_cast<char>('a' + i % 26);
  for (const std::string& where : {url("/"), tls_url("/")}) {
    const auto response = client()->send(post(where, body)).get();
    ASSERT_THAT(response, IsOk());
    EXPECT_TRUE(response->body == body);
  }
  const auto h1 = client(false)->send(post(tls_url("/"), body)).get();
  ASSERT_THAT(h1, IsOk());
  EXPECT_TRUE(h1->body == body);
}

TEST_F(ServerTest, AnswersManyAtATime) {
  serve(answer_after_pause);
  const auto h2 = client();
  std::vector<Future<Response>> answers;
  for (int i = 0; i < 500; ++i) {
    answers.push_back(h2->send(get(tls_url("/" + std::to_string(i)))));
    answers.push_back(h2->send(get(url("/" + std::to_string(i)))));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto response = answers[i].get();
    ASSERT_THAT(response, IsOk());
    EXPECT_EQ(response->body, "/" + std::to_string(i / 2));
  }
}

TEST_F(ServerTest, AClientThatGivesUpCancelsTheHandler) {
  for (const bool is_tls : {true, false}) {
    const auto held = std::make_shared<Held>();
    serve([held](ServerRequest, ResponseWriter) { return hold(held); });
    const auto transport = client();
    auto answer = transport->send(get(is_tls ? tls_url("/") : url("/")));
    held->begun.get_future().wait();
    answer.cancel();
    EXPECT_EQ(held->ended.get_future().get(), ErrorCode::connection_failed);
    on_loop([this] { server.reset(); });
  }
}

TEST_F(ServerTest, ListensOnAUnixSocket) {
  serve(echo);
  const std::string path = folder / "socket";
  ASSERT_THAT(on_loop([&] { return server->listen({.unix_path = path}, std::nullopt); }), IsOk());
  const base::FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(ask_raw(fd.get(), "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              HasSubstr("X-Peer: unix\r\n"));
  on_loop([this] { server.reset(); });
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ServerTest, ReplacesAUnixSocketThatNobodyListensTo) {
  const std::string path = folder / "socket";
  {
    const base::FileDescriptor left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  serve(echo);
  EXPECT_THAT(on_loop([&] { return server->listen({.unix_path = path}, std::nullopt); }), IsOk());
  EXPECT_THAT(on_loop([&] { return server->listen({.unix_path = path}, std::nullopt); }),
              IsError(ErrorCode::io_error, HasSubstr("in use")));
}

TEST_F(ServerTest, SaysWhyItCannotListen) {
  serve(echo);
  EXPECT_THAT(on_loop([&] { return server->listen({.port = port}, std::nullopt); }),
              IsError(ErrorCode::io_error, HasSubstr(std::to_string(port))));
  EXPECT_THAT(on_loop([&] { return server->listen({.host = "no such host"}, std::nullopt); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("no such host")));
  EXPECT_THAT(on_loop([&] { return server->listen({}, TlsIdentity{"/no/file", "/no/key"}); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("/no/file")));
}

TEST_F(ServerTest, RefusalsReachAClientThatStillSends) {
  serve(echo, {.limits = {.max_body_bytes = 1000}});
  const auto response = client(false)->send(post(url("/"), std::string(5'000'000, 'x'))).get();
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->status, 413);
}

TEST_F(ServerTest, AnswersWhatArrivesBeforeAHalfClose) {
  serve(echo);
  EXPECT_THAT(
      ask_raw("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
              "GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
      ::testing::AllOf(HasSubstr("\r\n\r\n/1HTTP/1.1 200"), ::testing::EndsWith("\r\n\r\n/2")));
}

TEST_F(ServerTest, ReadsItsCertificateAgain) {
  serve(echo);
  EXPECT_THAT(client()->send(get(tls_url("/"))).get(), IsOk());
  const auto next = testing::make_identity({});
  next.write_certificate(folder / "cert.pem");
  next.write_key(folder / "key.pem");
  EXPECT_THAT(client()->send(get(tls_url("/"))).get(),
              IsError(ErrorCode::connection_failed, ::testing::_));

  EXPECT_THAT(on_loop([this] { return server->reload_certificates(); }), IsOk());
  EXPECT_THAT(client()->send(get(tls_url("/"))).get(), IsOk());

  // A key that does not fit leaves all as it was.
  identity.write_key(folder / "key.pem");
  EXPECT_THAT(on_loop([this] { return server->reload_certificates(); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("key.pem")));
  EXPECT_THAT(client()->send(get(tls_url("/"))).get(), IsOk());
}

TEST_F(ServerTest, MoreConnectionsThanAllowedWait) {
  serve(answer_after_pause, {.max_connections = 2});
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const auto text = ask_raw("GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
      if (text.ends_with("\r\n\r\n/x")) ++answered;
    });
  }
  std::size_t most = 0;
  while (answered < 8) {
    most = std::max(most, on_loop([this] { return server->connections(); }));
    std::this_thread::yield();
  }
  for (auto& each : clients) each.join();
  EXPECT_LE(most, 2U);
}

TEST_F(ServerTest, DrainFinishesWhatRuns) {
  const auto gate = std::make_shared<Gate>();
  serve([gate](ServerRequest, ResponseWriter writer) {
    return answer_behind(gate, std::move(writer));
  });
  const auto transport = client();
  std::vector<Future<Response>> answers;
  for (int i = 0; i < 10; ++i) {
    answers.push_back(transport->send(get(url("/"))));
    answers.push_back(transport->send(get(tls_url("/"))));
  }
  while (on_loop([this] { return server->running(); }) < 20) std::this_thread::yield();

  auto drained = on_loop([this] { return server->drain(1h); });
  on_loop([&] {
    gate->is_open = true;
    gate->opened.notify_all();
  });

  EXPECT_THAT(drained.get(), IsOk());
  for (auto& answer : answers) EXPECT_THAT(answer.get(), IsOk());
  EXPECT_EQ(on_loop([this] { return server->connections(); }), 0U);
  EXPECT_THAT(transport->send(get(url("/"))).get(),
              IsError(ErrorCode::connection_failed, ::testing::_));
}

TEST_F(ServerTest, DrainHasAnEnd) {
  const auto held = std::make_shared<Held>();
  serve([held](ServerRequest, ResponseWriter) { return hold(held); });
  const auto transport = client();
  auto answer = transport->send(get(url("/")));
  held->begun.get_future().wait();

  EXPECT_THAT(on_loop([this] { return server->drain(1ms); }).get(), IsOk());

  EXPECT_EQ(held->ended.get_future().get(), ErrorCode::deadline_exceeded);
  EXPECT_THAT(answer.get(), IsError(ErrorCode::connection_failed, ::testing::_));
}

TEST_F(ServerTest, PlainBytesOnATlsPortDoNoHarm) {
  serve(echo);
  std::swap(port, tls_port);
  ask_raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  std::swap(port, tls_port);
  EXPECT_THAT(client()->send(get(tls_url("/"))).get(), IsOk());
}

}  // namespace
}  // namespace tinker::http::server_test
