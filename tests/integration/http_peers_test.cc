// The transport against servers and proxies that others wrote: nginx, nghttpd and tinyproxy, each
// started by the tests on a free port of this machine.
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/certificates.h"
#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/process.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::http_peers_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::find_program;
using ::tinker::testing::free_port;
using ::tinker::testing::HasBody;
using ::tinker::testing::HasStatus;
using ::tinker::testing::Identity;
using ::tinker::testing::IsError;
using ::tinker::testing::make_authority;
using ::tinker::testing::make_identity;
using ::tinker::testing::Process;
using ::tinker::testing::TemporaryFolder;

std::string noise(std::size_t size) {
  std::string out(size, '\0');
  std::uint32_t state = 1;
  for (char& c : out) c = static_cast<char>((state = state * 1'664'525 + 1'013'904'223) >> 24U);
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A test with certificates and a folder for what the peers need.
class PeerTest : public ::tinker::testing::LoopFixture {
 protected:
  PeerTest() {
    authority.write_certificate(folder.file("ca.pem"));
    add_certificate("good", make_identity({}, &authority));
    std::filesystem::create_directory(folder.file("www"));
    write_file(folder.file("www/hello"), "hello");
    write_file(folder.file("www/text.txt"), std::string(100'000, 't'));
    write_file(folder.file("www/big"), big);
  }
  void add_certificate(const std::string& name, const Identity& identity) {
    identity.write_certificate(folder.file(name + ".pem"));
    identity.write_key(folder.file(name + ".key"));
  }
  [[nodiscard]] TransportOptions trusting() const { return {.ca_file = folder.file("ca.pem")}; }
  static std::string url(std::string_view scheme, std::uint16_t port, std::string_view path) {
    return std::string(scheme) + "://localhost:" + std::to_string(port) + std::string(path);
  }
  /// Starts a program, or skips the test when it is not here.
  void start(const std::string& program, std::vector<std::string> arguments, std::uint16_t port) {
    const std::string path = find_program(program);
    if (path.empty()) GTEST_SKIP() << program << " is not installed";
    arguments.insert(arguments.begin(), path);
    processes.push_back(
        std::make_unique<Process>(std::move(arguments), folder.file(program + ".log")));
    ASSERT_TRUE(processes.back()->wait_for_port(port))
        << program << " does not start: " << read_file(folder.file(program + ".log"));
  }
  void send_many(Transport& http, const std::string& address, int count) {
    std::vector<Future<Response>> futures;
    for (int i = 0; i < count; ++i) futures.push_back(http.send(get(address)));
    for (auto& future : futures) EXPECT_THAT(future.get(), HasBody("hello"));
  }

  TemporaryFolder folder;
  Identity authority = make_authority("Test Authority");
  std::string big = noise(5'000'000);
  std::vector<std::unique_ptr<Process>> processes;
};

class NginxTest : public PeerTest {
 protected:
  void SetUp() override {
    add_certificate("expired",
                    make_identity({.valid_from = -7200, .valid_until = -3600}, &authority));
    add_certificate("other", make_identity({.alt_names = "DNS:other.example.com"}, &authority));
    add_certificate("self", make_identity({}));
    const Identity stranger = make_authority("Stranger");
    add_certificate("unknown", make_identity({}, &stranger));
    const std::string servers = server(plain, "", "") + server(h2, "ssl http2", "good") +
                                server(h1_tls, "ssl", "good") + server(expired, "ssl", "expired") +
                                server(other, "ssl", "other") + server(self_signed, "ssl", "self") +
                                server(unknown, "ssl", "unknown");
    std::string config =
        "daemon off; worker_processes 1; pid " + folder.file("nginx.pid") + "; error_log " +
        folder.file("error.log") +
        ";\nevents { worker_connections 1024; }\nhttp {\n  access_log off;\n"
        "  types { text/plain txt; } gzip on; gzip_types text/plain; gzip_min_length 1;\n"
        "  client_max_body_size 1m; keepalive_requests 100;\n";
    for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
      config += std::string("  ") + kind + "_temp_path " + folder.file(kind) + ";\n";
    }
    write_file(folder.file("nginx.conf"), config + servers + "}\n");
    start("nginx", {"-e", folder.file("error.log"), "-c", folder.file("nginx.conf")}, plain);
  }
  std::string server(std::uint16_t port, const std::string& flags, const std::string& certificate) {
    std::string out = "  server { listen 127.0.0.1:" + std::to_string(port) + " " + flags +
                      "; root " + folder.file("www") + "; location /status { return 429 busy; }\n";
    if (!certificate.empty()) {
      out += "    ssl_certificate " + folder.file(certificate + ".pem") + "; ssl_certificate_key " +
             folder.file(certificate + ".key") + ";\n";
    }
    return out + "  }\n";
  }
  void check_everything(Transport& http, const std::string& base) {
    EXPECT_THAT(http.send(get(base + "/hello")).get(), HasBody("hello"));
    EXPECT_THAT(http.send(get(base + "/absent")).get(), HasStatus(404));
    EXPECT_THAT(http.send(post(base + "/status", "body")).get(),
                AllOf(HasStatus(429), HasBody("busy")));
    const auto text = http.send(get(base + "/text.txt")).get();
    ASSERT_THAT(text, HasStatus(200));
    EXPECT_EQ(text->headers.find("content-encoding"), "gzip");
    EXPECT_EQ(text->body, std::string(100'000, 't'));
    const auto file = http.send(get(base + "/big")).get();
    ASSERT_THAT(file, HasStatus(200));
    EXPECT_TRUE(file->body == big);
    // More than it takes: it answers before it has read everything.
    EXPECT_THAT(http.send(post(base + "/status", std::string(20'000'000, 'x'))).get(),
                HasStatus(413));
    // More than it allows per connection.
    send_many(http, base + "/hello", 500);
  }

  std::uint16_t plain = free_port();
  std::uint16_t h2 = free_port();
  std::uint16_t h1_tls = free_port();
  std::uint16_t expired = free_port();
  std::uint16_t other = free_port();
  std::uint16_t self_signed = free_port();
  std::uint16_t unknown = free_port();
};

TEST_F(NginxTest, SpeaksHttp1) {
  check_everything(*transport(), url("http", plain, ""));
}
TEST_F(NginxTest, SpeaksHttp1OverTls) {
  check_everything(*transport(trusting()), url("https", h1_tls, ""));
}
TEST_F(NginxTest, SpeaksHttp2) {
  check_everything(*transport(trusting()), url("https", h2, ""));
}

TEST_F(NginxTest, BadCertificatesAreRefused) {
  const auto http = transport(trusting());
  const auto outcome = [&](std::uint16_t port) {
    return http->send(get(url("https", port, "/hello"))).get();
  };

  EXPECT_THAT(outcome(expired),
              IsError(ErrorCode::connection_failed, HasSubstr("localhost expired")));
  EXPECT_THAT(outcome(other), IsError(ErrorCode::connection_failed, HasSubstr("for another host")));
  EXPECT_THAT(outcome(self_signed),
              IsError(ErrorCode::connection_failed, HasSubstr("self-signed")));
  EXPECT_THAT(outcome(unknown),
              IsError(ErrorCode::connection_failed, HasSubstr("unknown authority")));
  EXPECT_THAT(outcome(h2), HasBody("hello"));
}

TEST_F(NginxTest, TheSystemsStoreDoesNotKnowOurAuthority) {
  EXPECT_THAT(transport()->send(get(url("https", h2, "/hello"))).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("unknown authority")));
}

TEST_F(NginxTest, SslCertFileReplacesTheSystemsStore) {
  ::setenv("SSL_CERT_FILE", folder.file("ca.pem").c_str(), 1);

  EXPECT_THAT(transport()->send(get(url("https", h2, "/hello"))).get(), HasBody("hello"));

  ::unsetenv("SSL_CERT_FILE");
}

TEST_F(NginxTest, VerificationCanBeTurnedOff) {
  EXPECT_THAT(transport({.verify_tls = false})->send(get(url("https", expired, "/hello"))).get(),
              HasBody("hello"));
}

TEST_F(NginxTest, PinsAcceptTheirKeysAlone) {
  auto pinned = trusting();
  pinned.pinned_keys = {authority.pin()};
  auto elsewhere = trusting();
  elsewhere.pinned_keys = {make_authority("Another").pin()};

  EXPECT_THAT(transport(pinned)->send(get(url("https", h2, "/hello"))).get(), HasBody("hello"));
  EXPECT_THAT(transport(elsewhere)->send(get(url("https", h2, "/hello"))).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("pinned")));
}

class ProxyTest : public NginxTest {
 protected:
  void SetUp() override {
    NginxTest::SetUp();
    if (IsSkipped()) return;
    write_file(folder.file("tinyproxy.conf"),
               "Port " + std::to_string(proxy) +
                   "\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\n"
                   "MaxClients 100\nBasicAuth user secret-word\nLogLevel Error\n");
    start("tinyproxy", {"-d", "-c", folder.file("tinyproxy.conf")}, proxy);
  }
  TransportOptions through(const std::string& credentials) {
    auto options = trusting();
    options.proxy = Secret("http://" + credentials + "127.0.0.1:" + std::to_string(proxy));
    return options;
  }

  std::uint16_t proxy = free_port();
};

TEST_F(ProxyTest, CarriesPlainRequests) {
  EXPECT_THAT(
      transport(through("user:secret-word@"))->send(get(url("http", plain, "/hello"))).get(),
      HasBody("hello"));
}

TEST_F(ProxyTest, CarriesTunnels) {
  const auto http = transport(through("user:secret-word@"));

  EXPECT_THAT(http->send(get(url("https", h2, "/hello"))).get(), HasBody("hello"));
  EXPECT_THAT(http->send(get(url("https", h1_tls, "/hello"))).get(), HasBody("hello"));
  send_many(*http, url("https", h2, "/hello"), 50);
}

TEST_F(ProxyTest, WrongCredentialsAreRefusedWithoutShowingThem) {
  const auto wrong = transport(through("user:wrong-word@"));
  const auto none = transport(through(""));

  EXPECT_THAT(wrong->send(get(url("http", plain, "/hello"))).get(), HasStatus(401));
  EXPECT_THAT(wrong->send(get(url("https", h2, "/hello"))).get(),
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("proxy"), Not(HasSubstr("wrong-word")))));
  EXPECT_THAT(none->send(get(url("https", h2, "/hello"))).get(),
              IsError(ErrorCode::connection_failed, _));
}

TEST_F(ProxyTest, CertificatesAreThoseOfTheServer) {
  EXPECT_THAT(
      transport(through("user:secret-word@"))->send(get(url("https", expired, "/hello"))).get(),
      IsError(ErrorCode::connection_failed, HasSubstr("localhost expired")));
}

class NghttpdTest : public PeerTest {
 protected:
  void SetUp() override {
    start("nghttpd",
          {"-d",
           folder.file("www"),
           "--echo-upload",
           "--max-concurrent-streams=10",
           std::to_string(port),
           folder.file("good.key"),
           folder.file("good.pem")},
          port);
  }
  std::uint16_t port = free_port();
};

TEST_F(NghttpdTest, SpeaksHttp2) {
  const auto http = transport(trusting());

  EXPECT_THAT(http->send(get(url("https", port, "/hello"))).get(), HasBody("hello"));
  const auto file = http->send(get(url("https", port, "/big"))).get();
  ASSERT_THAT(file, HasStatus(200));
  EXPECT_TRUE(file->body == big);
}

TEST_F(NghttpdTest, UploadsArriveWhole) {
  const auto http = transport(trusting());
  const std::string body = noise(20'000'000);

  const auto echo = http->send(post(url("https", port, "/echo"), body)).get();

  ASSERT_THAT(echo, HasStatus(200));
  EXPECT_TRUE(echo->body == body);
}

TEST_F(NghttpdTest, MoreRequestsThanStreamsAreAllAnswered) {
  const auto http = transport(trusting());

  send_many(*http, url("https", port, "/hello"), 1000);
}

}  // namespace
}  // namespace tinker::http::http_peers_test
