// A server behind a proxy: what its links begin with, and who may come in by that name.
#include <string>
#include <string_view>

#include "base/strings.h"
#include "hostile_server.h"

namespace tinker::public_url_test {
namespace {

using ::testing::HasSubstr;
using testing::HostileServer;
using testing::IsError;
using testing::IsOk;
using testing::kAda;
using testing::RawHttp;
using ::testing::StartsWith;

constexpr std::string_view kFront = "https://tinker.example/team";
constexpr const char* kFrontHost = "Host: tinker.example\r\n";

class PublicUrl : public HostileServer {
 protected:
  PublicUrl() : HostileServer(behind_a_proxy()) {}
  static LocalServerOptions behind_a_proxy() {
    auto out = options();
    out.public_url = "https://Tinker.Example:443/team/";
    return out;
  }
  /// What the proxy makes of a link: the same request, in plain HTTP, below the root.
  [[nodiscard]] testing::RawResponse through_the_proxy(std::string_view method,
                                                       std::string_view link,
                                                       std::string_view body = {}) const {
    EXPECT_THAT(std::string(link), StartsWith(base::concat(kFront, "/api/v1/")));
    return RawHttp(server_.port()).ask(method, link.substr(kFront.size()), body, kFrontHost);
  }
};

TEST_F(PublicUrl, BeginsAllLinksWhateverTheRequestNames) {
  const auto trainer = service().create_lora_training_client("tiny", {.rank = 2}).get().value();
  const auto path = trainer.save_state("kept").get().value().path;
  const auto exported = trainer.save_weights_external("out").get().value().path;
  const auto rest = service().create_rest_client();

  const auto archive = rest.get_checkpoint_archive_url(path).get().value();
  const auto files = rest.get_external_weights_urls(exported).get().value();
  const auto upload =
      post("external_weights_upload_start", R"({"base_model":"tiny","lora_config":{"rank":2}})");
  const auto by_front_name =
      ask("GET",
          base::concat("training_runs/", trainer.model_id(), "/checkpoints/weights/kept/archive"),
          {},
          kAda,
          kFrontHost);

  EXPECT_EQ(through_the_proxy("GET", archive.url).status, 200);
  EXPECT_EQ(through_the_proxy("GET", by_front_name.header("location")).status, 200);
  EXPECT_EQ(through_the_proxy("GET", files.urls.at("adapter_config.json")).status, 200);
  ASSERT_EQ(upload.status, 200) << upload.body;
  const auto started = wire::decode_json<ExternalWeightsUploadStartResponse>(upload.body).value();
  EXPECT_EQ(through_the_proxy("PUT", started.urls.at("adapter_config.json"), "{}").status, 200);
}

TEST_F(PublicUrl, LetsItsHostAndItsPagesIn) {
  const auto status = [this](const std::string& headers) {
    return RawHttp(server_.port()).ask("GET", "/api/v1/healthz", {}, headers).status;
  };

  EXPECT_EQ(status(kFrontHost), 200);
  EXPECT_EQ(status(std::string(kFrontHost) + "Origin: https://tinker.example\r\n"), 200);
  EXPECT_EQ(status(std::string(kFrontHost) + "Origin: http://tinker.example\r\n"), 403);
  EXPECT_EQ(status("Host: evil.example\r\n"), 403);
}

TEST_F(PublicUrl, KeepsMetricsFromWhoeverHasNoKey) {
  const auto status = [this](const std::string& headers) {
    return RawHttp(server_.port()).ask("GET", "/metrics", {}, headers).status;
  };

  EXPECT_EQ(status(kFrontHost), 401);
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status(base::concat(kFrontHost, "Authorization: Bearer ", kAda, "\r\n")), 200);
}

TEST(PublicUrlOption, NeedsKeysUnlessItLeadsToThisMachine) {
  const auto start = [](std::string url) {
    return LocalServer::start({.public_url = std::move(url)});
  };

  EXPECT_THAT(start("https://tinker.example"),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("public_url 'https://tinker.example' can be reached from other")));
  EXPECT_THAT(start("http://localhost:9000"), IsOk());
}

TEST(PublicUrlOption, ThatIsNoUrlIsRefused) {
  for (const char* url : {"tinker.example", "ftp://tinker.example", "https://tinker.example?a=b"}) {
    EXPECT_THAT(LocalServer::start({.public_url = url}),
                IsError(ErrorCode::invalid_argument, HasSubstr("public_url")))
        << url;
  }
}

TEST(PublicUrlOption, WithoutItALinkNeedsTheHostOfTheRequest) {
  const auto server = LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32"}},
                                          .host = "0.0.0.0",
                                          .keys = {{.owner = "ada", .key = Secret(kAda)}},
                                          .threads = 1})
                          .value();
  const auto start = [&](const std::string& host) {
    return RawHttp(server.port())
        .ask("POST",
             "/api/v1/external_weights_upload_start",
             R"({"base_model":"tiny","lora_config":{"rank":2}})",
             base::concat(host, "X-API-Key: ", kAda, "\r\n"));
  };

  EXPECT_EQ(start("Host: 127.0.0.1\r\n").status, 200);
  EXPECT_EQ(start("Host:\r\n").status, 400);
}

}  // namespace
}  // namespace tinker::public_url_test
