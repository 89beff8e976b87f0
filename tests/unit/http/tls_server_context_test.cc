#include "http/tls_server_context.h"

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "support/certificates.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::tls_server_context_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

// OpenSSL's default would ask at the terminal, and take its answer from there.
TEST(TlsServerContext, RefusesAKeyWithAPasswordWithoutAsking) {
  const testing::TemporaryFolder folder;
  const auto identity = testing::make_identity({});
  const TlsIdentity files = {.certificate_file = folder.path("cert"),
                             .key_file = folder.path("key")};
  identity.write_certificate(files.certificate_file);
  identity.write_key(files.key_file);
  ASSERT_THAT(TlsServerContext::create(files), IsOk());

  std::string password = "secret";
  FILE* const file = std::fopen(files.key_file.c_str(), "w");
  PEM_write_PrivateKey(file,
                       identity.key.get(),
                       EVP_aes_128_cbc(),
                       reinterpret_cast<unsigned char*>(password.data()),
                       static_cast<int>(password.size()),
                       nullptr,
                       nullptr);
  std::fclose(file);

  EXPECT_THAT(TlsServerContext::create(files),
              IsError(ErrorCode::invalid_argument, HasSubstr(files.key_file)));
}

}  // namespace
}  // namespace tinker::http::tls_server_context_test
