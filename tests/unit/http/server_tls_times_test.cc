#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "http/tls_server_context.h"
#include "support/certificates.h"
#include "support/server_harness.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::server_tls_times_test {
namespace {

using namespace std::chrono_literals;
using testing::ServerHarness;

/// A TLS client in memory that trusts everybody.
class TlsClient {
 public:
  TlsClient() {
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_connect_state(ssl_.get());
  }
  void receive(std::string_view bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    SSL_do_handshake(ssl_.get());
  }
  std::string output() {
    std::string out(BIO_ctrl_pending(out_), '\0');
    if (!out.empty()) BIO_read(out_, out.data(), static_cast<int>(out.size()));
    return out;
  }
  std::string seal(std::string_view plain) {
    SSL_write(ssl_.get(), plain.data(), static_cast<int>(plain.size()));
    return output();
  }
  [[nodiscard]] bool is_established() const { return SSL_is_init_finished(ssl_.get()) == 1; }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{SSL_new(context_.get()), SSL_free};
  BIO* in_ = BIO_new(BIO_s_mem());   // owned by `ssl_`
  BIO* out_ = BIO_new(BIO_s_mem());  // likewise
};

async::Task<> answer_much(ServerRequest, ResponseWriter writer) {
  writer.send({.body = std::string(100'000, 'x')});
  co_return Result<void>();
}

class ServerTlsTimes : public ::testing::Test {
 protected:
  ServerTlsTimes() {
    const auto made = testing::make_identity({});
    const TlsIdentity files = {.certificate_file = folder.path("cert"),
                               .key_file = folder.path("key")};
    made.write_certificate(files.certificate_file);
    made.write_key(files.key_file);
    const auto context = TlsServerContext::create(files);
    EXPECT_THAT(context, testing::IsOk());
    auto session = TlsSession::accept(**context);
    EXPECT_THAT(session, testing::IsOk());
    ServerConnection::open(server.core,
                           std::make_unique<testing::MemorySocket>(wire),
                           *std::move(session),
                           {.is_tls = true});
  }
  void shake_hands() {
    client.receive("");
    for (std::string out; !(out = client.output()).empty();) {
      server.send(*wire, out);
      client.receive(ServerHarness::receive(*wire));
    }
  }
  /// Lets the client take `bytes` every ten seconds.
  void take(std::size_t bytes, int times) {
    for (int i = 0; i < times; ++i) {
      server.loop->advance(10s);
      wire->room = bytes;
      wire->wake();
      server.loop->run_ready();
    }
  }

  testing::TemporaryFolder folder;
  ServerHarness server{
      answer_much,
      {.min_write_bytes = 100,
       .times = {.head = 10s, .body = 20s, .idle = 60s, .write = 30s, .linger = 2s}}};
  std::shared_ptr<testing::MemoryWire> wire = std::make_shared<testing::MemoryWire>(server.loop);
  TlsClient client;
};

TEST_F(ServerTlsTimes, AHandshakeThatDoesNotEndIsClosed) {
  client.receive("");
  for (const char c : client.output().substr(0, 20)) {
    server.send(*wire, std::string(1, c));
    server.loop->advance(490ms);
  }
  EXPECT_FALSE(wire->is_closed);
  server.loop->advance(1s);
  EXPECT_TRUE(wire->is_closed);
}

TEST_F(ServerTlsTimes, TheTimeForAHeadBeginsBeforeTheHandshake) {
  server.loop->advance(9s);
  shake_hands();
  EXPECT_TRUE(client.is_established());
  EXPECT_FALSE(wire->is_write_shut);
  server.loop->advance(2s);
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(ServerTlsTimes, AnAnswerTakesAsLongAsTheSocketMovesBytes) {
  shake_hands();
  wire->room = 1000;
  server.send(*wire, client.seal("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  take(1000, 20);
  EXPECT_FALSE(wire->is_closed);
  take(1, 8);
  EXPECT_TRUE(wire->is_closed);
}

}  // namespace
}  // namespace tinker::http::server_tls_times_test
