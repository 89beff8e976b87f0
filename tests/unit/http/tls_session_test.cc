#include "http/tls_session.h"

#include <array>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "support/certificates.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::tls_session_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::CertificateOptions;
using ::tinker::testing::Identity;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::make_authority;
using ::tinker::testing::make_identity;

/// A TLS server in memory.
class TlsPeer {
 public:
  explicit TlsPeer(const Identity& identity, bool speaks_h2 = true, int max_version = 0)
      : speaks_h2_(speaks_h2) {
    context_.reset(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(context_.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), identity.key.get());
    if (max_version != 0) SSL_CTX_set_max_proto_version(context_.get(), max_version);
    SSL_CTX_set_alpn_select_cb(context_.get(), select_protocol, this);
    reconnect();
  }
  /// Waits for a new client with the same context, which knows earlier sessions.
  void reconnect() {
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_accept_state(ssl_.get());
  }
  void receive(std::string_view bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
    if (SSL_is_init_finished(ssl_.get()) == 0) SSL_do_handshake(ssl_.get());
  }
  std::string output() {
    std::string out(BIO_ctrl_pending(out_), '\0');
    if (!out.empty()) BIO_read(out_, out.data(), static_cast<int>(out.size()));
    return out;
  }
  void write(std::string_view plain) {
    SSL_write(ssl_.get(), plain.data(), static_cast<int>(plain.size()));
  }
  std::string read() {
    std::string out;
    std::array<char, 4096> buffer = {};
    for (int n = 0; (n = SSL_read(ssl_.get(), buffer.data(), buffer.size())) > 0;) {
      out.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return out;
  }
  void say_goodbye() { SSL_shutdown(ssl_.get()); }
  [[nodiscard]] std::string server_name() const {
    const char* const name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }
  [[nodiscard]] const std::string& offered() const { return offered_; }

 private:
  struct Free {
    void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
    void operator()(SSL* p) const { SSL_free(p); }
  };
  static int select_protocol(SSL*,
                             const unsigned char** out,
                             unsigned char* out_size,
                             const unsigned char* in,
                             unsigned int in_size,
                             void* user_data) {
    auto& me = *static_cast<TlsPeer*>(user_data);
    me.offered_.assign(reinterpret_cast<const char*>(in), in_size);
    const auto at = me.offered_.find(me.speaks_h2_ ? "h2" : "http/1.1");
    if (at == std::string::npos) return SSL_TLSEXT_ERR_NOACK;
    *out = in + at;
    *out_size = in[at - 1];
    return SSL_TLSEXT_ERR_OK;
  }

  bool speaks_h2_;
  std::string offered_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

class TlsSessionTest : public ::testing::Test {
 protected:
  void SetUp() override { authority.write_certificate(ca_file); }
  void TearDown() override { std::filesystem::remove(ca_file); }

  std::shared_ptr<TlsContext> context(TlsOptions options) {
    if (options.ca_file.empty()) options.ca_file = ca_file;
    return TlsContext::create(options).value();
  }
  std::shared_ptr<TlsContext> context() { return context(TlsOptions()); }
  std::unique_ptr<TlsSession> session_to(const std::string& host,
                                         std::shared_ptr<TlsContext> with,
                                         TlsSession::Peer peer = TlsSession::Peer::origin) {
    return TlsSession::connect(std::move(with), host, 443, peer).value();
  }
  /// Carries bytes to and fro until both are quiet; plain text from the server.
  static Result<std::string> pump(TlsSession& session,
                                  TlsPeer& peer,
                                  std::size_t piece = 1U << 20U) {
    std::string plain;
    std::string out;
    if (!session.is_established()) {
      TINKER_TRY(session.start(out));
    }
    std::array<char, 1000> buffer = {};
    while (true) {
      peer.receive(out);
      out.clear();
      const std::string in = peer.output();
      if (in.empty()) return plain;
      for (std::size_t at = 0; at < in.size(); at += piece) {
        session.put(std::string_view(in).substr(at, piece));
        while (true) {
          TINKER_TRY(const auto text, session.read(buffer, out));
          if (text.empty()) break;
          plain += text;
        }
      }
    }
  }
  Result<std::string> connect(const std::string& host, const Identity& server) {
    return connect(host, server, TlsOptions());
  }
  Result<std::string> connect(const std::string& host, const Identity& server, TlsOptions options) {
    TlsPeer peer(server);
    const auto session = session_to(host, context(std::move(options)));
    return pump(*session, peer);
  }

  Identity authority = make_authority("Test Authority");
  std::string ca_file = (std::filesystem::temp_directory_path() /
                         ("tls_session_test_" + std::to_string(getpid()) + ".pem"))
                            .string();
};

TEST_F(TlsSessionTest, CarriesTextBothWaysHoweverItIsCut) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsPeer peer(make_identity({}, &authority), true, version);
    const auto session = session_to("localhost", context());
    ASSERT_THAT(pump(*session, peer, 1), IsOk());
    ASSERT_TRUE(session->is_established());

    std::string out;
    const std::string question(50'000, 'q');
    ASSERT_THAT(session->write(question, out), IsOk());
    peer.receive(out);
    EXPECT_EQ(peer.read(), question);
    const std::string text(100'000, 'a');
    peer.write(text);
    EXPECT_EQ(pump(*session, peer, 7).value(), text);
    EXPECT_FALSE(session->is_closed_by_peer());
    peer.say_goodbye();
    EXPECT_THAT(pump(*session, peer), IsOk());
    EXPECT_TRUE(session->is_closed_by_peer());
  }
}

TEST_F(TlsSessionTest, AgreesOnHttp2WhereBothWantIt) {
  const Identity server = make_identity({}, &authority);
  TlsPeer modern(server);
  TlsPeer old(server, false);
  const auto both = session_to("localhost", context());
  const auto with_old = session_to("localhost", context());
  const auto unwilling = session_to("localhost", context(), TlsSession::Peer::origin_h1_only);

  ASSERT_THAT(pump(*both, modern), IsOk());
  ASSERT_THAT(pump(*with_old, old), IsOk());
  EXPECT_TRUE(both->is_http2());
  EXPECT_FALSE(with_old->is_http2());
  TlsPeer again(server);
  ASSERT_THAT(pump(*unwilling, again), IsOk());
  EXPECT_FALSE(unwilling->is_http2());
  EXPECT_THAT(again.offered(), Not(HasSubstr("h2")));
}

// PROTOCOL 1: '_' becomes '-' in the server name; addresses are not sent (RFC 6066).
TEST_F(TlsSessionTest, SendsTheServerName) {
  const Identity server =
      make_identity({.alt_names = "DNS:*.example.com,IP:127.0.0.1"}, &authority);
  const auto name_for = [&](const std::string& host) {
    TlsPeer peer(server);
    const auto session = session_to(host, context());
    EXPECT_THAT(pump(*session, peer), IsOk()) << host;
    return peer.server_name();
  };

  EXPECT_EQ(name_for("api.example.com"), "api.example.com");
  EXPECT_EQ(name_for("my_api.example.com"), "my-api.example.com");
  EXPECT_EQ(name_for("127.0.0.1"), "");
}

TEST_F(TlsSessionTest, ChecksTheNameThatWasAskedFor) {
  const auto outcome = [&](const std::string& host, const std::string& names) {
    return connect(host, make_identity({.common_name = "x", .alt_names = names}, &authority));
  };

  EXPECT_THAT(outcome("api.example.com", "DNS:api.example.com"), IsOk());
  EXPECT_THAT(outcome("a.example.com", "DNS:*.example.com"), IsOk());
  EXPECT_THAT(outcome("a_b.example.com", "DNS:*.example.com"), IsOk());
  EXPECT_THAT(outcome("a_b.example.com", "DNS:a_b.example.com"), IsOk());
  EXPECT_THAT(outcome("::1", "IP:::1"), IsOk());
  for (const auto& [host, names] : std::vector<std::pair<std::string, std::string>>{
           {"api.example.com", "DNS:other.example.com"},
           {"a.b.example.com", "DNS:*.example.com"},
           {"example.com", "DNS:*.example.com"},
           {"a_b.example.com", "DNS:a-b.example.com"},
           {"a_b.c_d.example.com", "DNS:*.c-d.example.com"},
           {"127.0.0.1", "DNS:127.0.0.1"},
           {"127.0.0.2", "IP:127.0.0.1"}}) {
    EXPECT_THAT(outcome(host, names),
                IsError(ErrorCode::connection_failed, HasSubstr("for another host")))
        << host << " against " << names;
  }
}

TEST_F(TlsSessionTest, ACommonNameIsNoSubstituteForAnAddress) {
  EXPECT_THAT(connect("127.0.0.1",
                      make_identity({.common_name = "127.0.0.1", .alt_names = ""}, &authority)),
              IsError(ErrorCode::connection_failed, HasSubstr("for another host")));
}

TEST_F(TlsSessionTest, SaysWhatIsWrongWithACertificate) {
  const Identity stranger = make_authority("Stranger");
  const auto reason = [&](const CertificateOptions& options, const Identity* issuer) {
    const auto result = connect("localhost", make_identity(options, issuer));
    EXPECT_FALSE(result.ok());
    if (result.ok()) return std::string();
    EXPECT_EQ(result.error().code, ErrorCode::connection_failed);
    EXPECT_FALSE(result.error().retry.retryable);
    return result.error().message;
  };

  EXPECT_EQ(reason({.valid_from = -7200, .valid_until = -3600}, &authority),
            "TLS: certificate of host localhost expired");
  EXPECT_EQ(reason({.valid_from = 3600, .valid_until = 7200}, &authority),
            "TLS: certificate of host localhost is not valid yet");
  EXPECT_EQ(reason({}, nullptr), "TLS: certificate of host localhost is self-signed");
  EXPECT_EQ(reason({}, &stranger),
            "TLS: certificate of host localhost is signed by an unknown authority");
  EXPECT_EQ(reason({.alt_names = "DNS:other"}, &authority),
            "TLS: certificate of host localhost is for another host");
}

TEST_F(TlsSessionTest, WithoutVerificationAnyCertificateWillDo) {
  EXPECT_THAT(connect("localhost", make_identity({.alt_names = "DNS:other"}), {.verify = false}),
              IsOk());
}

TEST_F(TlsSessionTest, PinsAcceptTheirKeysAlone) {
  const Identity server = make_identity({}, &authority);
  const Identity other = make_identity({}, &authority);
  const auto with_pin = [&](const std::string& pin, bool verify = true) {
    return connect("localhost", server, {.verify = verify, .pinned_keys = {pin}});
  };

  EXPECT_THAT(with_pin(server.pin()), IsOk());
  EXPECT_THAT(with_pin(authority.pin()), IsOk());
  EXPECT_THAT(with_pin(server.pin(), false), IsOk());
  EXPECT_THAT(with_pin(other.pin()), IsError(ErrorCode::connection_failed, HasSubstr("pinned")));
  EXPECT_THAT(with_pin(other.pin(), false),
              IsError(ErrorCode::connection_failed, HasSubstr("pinned")));
  // An unverified chain says nothing about who issued it.
  EXPECT_THAT(with_pin(authority.pin(), false),
              IsError(ErrorCode::connection_failed, HasSubstr("pinned")));
}

TEST_F(TlsSessionTest, APinDoesNotReplaceTheOtherChecks) {
  const Identity server = make_identity({.alt_names = "DNS:other"}, &authority);

  EXPECT_THAT(connect("localhost", server, {.pinned_keys = {server.pin()}}),
              IsError(ErrorCode::connection_failed, HasSubstr("for another host")));
}

TEST_F(TlsSessionTest, RefusesPinsThatAreNone) {
  for (const char* pin : {"",
                          "sha256//",
                          "sha256//AAAA",
                          "abc",
                          "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
                          "zz00000000000000000000000000000000000000000000000000000000000000"}) {
    EXPECT_THAT(TlsContext::create({.verify = false, .pinned_keys = {pin}}),
                IsError(ErrorCode::invalid_argument, HasSubstr("pinned key")))
        << pin;
  }
}

TEST_F(TlsSessionTest, SaysWhichFileOfAuthoritiesCannotBeRead) {
  EXPECT_THAT(TlsContext::create({.ca_file = "/no/such/file.pem"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("/no/such/file.pem")));
}

TEST_F(TlsSessionTest, RefusesOldVersions) {
  TlsPeer peer(make_identity({}, &authority), true, TLS1_1_VERSION);
  const auto session = session_to("localhost", context());

  EXPECT_THAT(pump(*session, peer), IsError(ErrorCode::connection_failed, HasSubstr("handshake")));
}

TEST_F(TlsSessionTest, ResumesEarlierSessions) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsPeer peer(make_identity({}, &authority), true, version);
    const auto shared = context();
    const auto first = session_to("localhost", shared);
    ASSERT_THAT(pump(*first, peer), IsOk());
    EXPECT_FALSE(first->is_resumed());

    peer.reconnect();
    const auto second = session_to("localhost", shared);
    ASSERT_THAT(pump(*second, peer), IsOk());

    EXPECT_TRUE(second->is_resumed());
    EXPECT_TRUE(second->is_http2());
  }
}

TEST_F(TlsSessionTest, GarbageIsAReadableError) {
  const auto session = session_to("localhost", context());
  std::string out;
  ASSERT_THAT(session->start(out), IsOk());
  std::array<char, 1000> buffer = {};

  session->put("HTTP/1.1 400 Bad Request\r\n\r\n");

  EXPECT_THAT(session->read(buffer, out),
              IsError(ErrorCode::connection_failed,
                      HasSubstr("TLS: handshake with host localhost failed: ")));
}

TEST_F(TlsSessionTest, ADamagedRecordIsAnError) {
  TlsPeer peer(make_identity({}, &authority));
  const auto session = session_to("localhost", context());
  ASSERT_THAT(pump(*session, peer), IsOk());
  peer.write("secret text");
  std::string record = peer.output();
  record.back() = static_cast<char>(record.back() ^ 1);
  std::array<char, 1000> buffer = {};
  std::string out;

  session->put(record);

  EXPECT_THAT(session->read(buffer, out),
              IsError(ErrorCode::connection_failed, HasSubstr("localhost")));
}

}  // namespace
}  // namespace tinker::http::tls_session_test
