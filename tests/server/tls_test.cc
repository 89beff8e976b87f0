// A server with a certificate of its own: clients, links, and another certificate while it runs.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/certificates.h"
#include "support/loop_fixture.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::server_tls_test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::StartsWith;

class TlsServer : public testing::LoopFixture {
 protected:
  TlsServer() { replace_files(); }
  testing::Identity replace_files() {
    auto identity = testing::make_identity({});
    identity.write_certificate(folder_.path("cert.pem"));
    identity.write_key(folder_.path("key.pem"));
    return identity;
  }
  [[nodiscard]] LocalServerOptions options() const {
    return {.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
            .tls_certificate = folder_.path("cert.pem"),
            .tls_key = folder_.path("key.pem"),
            .threads = 1};
  }
  /// A request on a new connection, whose client trusts the certificate that the file has now.
  Result<http::Response> ask(const LocalServer& server) {
    return transport({.ca_file = folder_.path("cert.pem")})
        ->send(get(server.base_url() + "/api/v1/healthz"))
        .get();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(TlsServer, TrainsAndSignsLinksOverTls) {
  const auto server = LocalServer::start(options()).value();
  ASSERT_THAT(server.base_url(), StartsWith("https://127.0.0.1:"));
  const auto service =
      ServiceClient::connect({.base_url = server.base_url(),
                              .api_key = Secret("tml-local-test"),
                              .transport_options = {.ca_file = folder_.path("cert.pem")}})
          .value();

  const auto trainer = service.create_lora_training_client("tiny", {.rank = 2}).get().value();
  auto [gradients, update] =
      trainer.train_step({Datum::next_token({5, 9, 12})}, LossFn::cross_entropy, {});
  EXPECT_THAT(gradients.get(), IsOk());
  EXPECT_THAT(update.get(), IsOk());
  const auto path = trainer.save_state("kept").get().value().path;
  const auto folder = folder_.path("brought");

  EXPECT_THAT(service.create_rest_client().get_checkpoint_archive_url(path).get()->url,
              StartsWith(server.base_url() + "/api/v1/download/"));
  EXPECT_THAT(service.create_rest_client().download_checkpoint(path, folder).get(), IsOk());
}

TEST_F(TlsServer, TakesAnotherCertificateWhenItIsToldTo) {
  const auto server = LocalServer::start(options()).value();
  EXPECT_THAT(ask(server), IsOk());
  const auto second = replace_files();
  EXPECT_THAT(ask(server), IsError(ErrorCode::connection_failed, _));

  EXPECT_THAT(server.reload_certificates(), IsOk());
  EXPECT_THAT(ask(server), IsOk());

  (void)replace_files();
  second.write_key(folder_.path("key.pem"));
  EXPECT_THAT(server.reload_certificates(),
              IsError(ErrorCode::invalid_argument, HasSubstr("key.pem")));
  second.write_certificate(folder_.path("cert.pem"));
  EXPECT_THAT(ask(server), IsOk());
}

TEST_F(TlsServer, IsRefusedWithHalfAnIdentityOrABrokenOne) {
  auto half = options();
  half.tls_key.clear();
  EXPECT_THAT(LocalServer::start(half),
              IsError(ErrorCode::invalid_argument, HasSubstr("a certificate and a key")));
  folder_.write("cert.pem", "no certificate");
  EXPECT_THAT(LocalServer::start(options()),
              IsError(ErrorCode::invalid_argument, HasSubstr("cert.pem")));
}

}  // namespace
}  // namespace tinker::server_tls_test
