// A server at a Unix socket instead of a port.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::unix_socket_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::RawHttp;

class UnixSocket : public ::testing::Test {
 protected:
  [[nodiscard]] Result<LocalServer> start() const {
    return LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                               .unix_socket = path_,
                               .threads = 1});
  }
  [[nodiscard]] testing::RawResponse post(const std::string& path, const std::string& body) const {
    return RawHttp(path_).ask("POST", "/api/v1/" + path, body, "X-API-Key: tml-x\r\n");
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path("socket");
};

TEST_F(UnixSocket, AnswersAndHasNoPort) {
  const auto server = start().value();

  const auto session = post("create_session", R"({"tags":[],"sdk_version":"0.36.0"})");
  const auto promise =
      post("asample",
           R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
           R"("sampling_params":{"max_tokens":1},"num_samples":1})");

  EXPECT_EQ(session.status, 200) << session.body;
  EXPECT_EQ(promise.status, 200) << promise.body;
  EXPECT_EQ(server.port(), 0);
}

TEST_F(UnixSocket, ServesOurClientsByItsUrl) {
  const auto server = start().value();
  const auto service =
      ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-x")}).value();

  const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();
  const auto saved = trainer.save_state("first").get().value();
  const auto fetched =
      service.create_rest_client().download_checkpoint(saved.path, folder_.path("copy")).get();

  EXPECT_THAT(fetched, IsOk());
  EXPECT_TRUE(std::filesystem::exists(folder_.path("copy/adapter_model.safetensors")));
}

TEST_F(UnixSocket, IsNamedByClientsThatFindNobodyThere) {
  const auto url = [&] { return start().value().base_url(); }();

  const auto service = ServiceClient::connect({.base_url = url,
                                               .api_key = Secret("tml-x"),
                                               .start_timeout = std::chrono::milliseconds(1)})
                           .value();

  EXPECT_THAT(service.get_server_capabilities().get(),
              IsError(ErrorCode::connection_failed, HasSubstr(path_.string())));
}

TEST_F(UnixSocket, SpeaksNoTls) {
  EXPECT_THAT(LocalServer::start({.unix_socket = path_, .tls_certificate = "c", .tls_key = "k"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("Unix socket")));
}

TEST_F(UnixSocket, TakesNoRequestsForOtherHosts) {
  const auto server = start().value();

  EXPECT_EQ(RawHttp(path_).ask("GET", "/api/v1/healthz", {}, "Host: evil.example\r\n").status, 403);
}

TEST_F(UnixSocket, GoesWithItsServerAndIsNotSharedByTwo) {
  {
    const auto server = start().value();
    EXPECT_THAT(start(), IsError(ErrorCode::io_error, HasSubstr(path_.string())));
    EXPECT_EQ(RawHttp(path_).ask("GET", "/api/v1/healthz").status, 200);
  }

  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(RawHttp(path_).is_open());
}

TEST_F(UnixSocket, LeavesAFileThatIsNoSocketAlone) {
  folder_.write("socket", "letters");

  EXPECT_THAT(start(),
              IsError(ErrorCode::io_error, HasSubstr("a file is there that is no socket")));
  EXPECT_EQ(folder_.read("socket"), "letters");
}

}  // namespace
}  // namespace tinker::unix_socket_test
