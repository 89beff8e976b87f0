// Downloads from storage that others wrote: nginx, which here is the API as well.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/certificates.h"
#include "support/process.h"
#include "tinker/rest_client.h"
#include "tinker/testing/matchers.h"

namespace tinker::download_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::tinker::testing::find_program;
using ::tinker::testing::free_port;
using ::tinker::testing::Identity;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::make_authority;
using ::tinker::testing::make_identity;
using ::tinker::testing::Process;
using ::tinker::testing::TemporaryFolder;

constexpr auto kExternal = "tinker://run:train:0/external_weights/a";

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

class DownloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    authority.write_certificate(folder.file("ca.pem"));
    const Identity identity = make_identity({}, &authority);
    identity.write_certificate(folder.file("good.pem"));
    identity.write_key(folder.file("good.key"));
    std::filesystem::create_directory(folder.file("www"));
    std::ofstream(folder.file("www/model"), std::ios::binary) << big;
    std::ofstream(folder.file("www/config"), std::ios::binary) << "{}";
  }
  /// Starts nginx with a checkpoint whose files are at `storage`.
  void serve(const std::string& storage) {
    const std::string path = find_program("nginx");
    if (path.empty()) GTEST_SKIP() << "nginx is not installed";
    const std::string urls = R"({"urls":{"sub/config":")" + storage +
                             R"(/config?sig=1","model":")" + storage +
                             R"(/model?sig=1"},"expires":"2036-05-27T20:00:00Z"})";
    std::string config = "daemon off; worker_processes 1; pid " + folder.file("nginx.pid") +
                         "; error_log " + folder.file("error.log") +
                         ";\nevents { worker_connections 1024; }\nhttp {\n  access_log off;\n";
    for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
      config += std::string("  ") + kind + "_temp_path " + folder.file(kind) + ";\n";
    }
    config += server(plain, "", urls) + server(h2, "ssl http2", urls) + "}\n";
    std::ofstream(folder.file("nginx.conf")) << config;
    nginx = std::make_unique<Process>(
        std::vector<std::string>{
            path, "-e", folder.file("error.log"), "-c", folder.file("nginx.conf")},
        folder.file("nginx.log"));
    ASSERT_TRUE(nginx->wait_for_port(plain)) << read_file(folder.file("nginx.log"));
  }
  std::string server(std::uint16_t port, const std::string& flags, const std::string& urls) {
    return "  server { listen 127.0.0.1:" + std::to_string(port) + " " + flags + "; root " +
           folder.file("www") + ";\n    ssl_certificate " + folder.file("good.pem") +
           "; ssl_certificate_key " + folder.file("good.key") + ";\n    location /plain/ { alias " +
           folder.file("www") +
           "/; max_ranges 0; }\n    location /api/ { default_type application/json; return 200 "
           "'{}'; }\n"
           "    location ~ external_weights_urls$ { default_type application/json; return 200 '" +
           urls + "'; }\n  }\n";
  }
  RestClient connect() {
    return RestClient::connect({.base_url = url("http", plain, ""),
                                .api_key = Secret("tml-key"),
                                .transport_options = {.ca_file = folder.file("ca.pem"),
                                                      .use_environment_proxy = false}})
        .value();
  }
  static std::string url(const std::string& scheme, std::uint16_t port, const std::string& path) {
    return scheme + "://localhost:" + std::to_string(port) + path;
  }
  void download_everything() {
    const auto done =
        connect()
            .download_checkpoint(kExternal, target(), {.part_bytes = std::size_t{1} << 20U})
            .get();
    ASSERT_THAT(done, IsOk());
    EXPECT_THAT(done->files,
                ElementsAre(DownloadedFile{.name = "model", .size = big.size()},
                            DownloadedFile{.name = "sub/config", .size = 2}));
    EXPECT_TRUE(read_file(target() + "/model") == big);
    EXPECT_EQ(read_file(target() + "/sub/config"), "{}");
    EXPECT_FALSE(std::filesystem::exists(target() + ".partial"));
  }
  [[nodiscard]] std::string target() const { return folder.file("copy"); }

  TemporaryFolder folder;
  Identity authority = make_authority("Test Authority");
  std::string big = noise(20'000'000);
  std::uint16_t plain = free_port();
  std::uint16_t h2 = free_port();
  std::unique_ptr<Process> nginx;
};

TEST_F(DownloadTest, ComesInPartsOverHttp1) {
  serve(url("http", plain, ""));
  if (!IsSkipped()) download_everything();
}

TEST_F(DownloadTest, ComesInPartsOverHttp2) {
  serve(url("https", h2, ""));
  if (!IsSkipped()) download_everything();
}

TEST_F(DownloadTest, StreamsOverHttp1WithoutRanges) {
  serve(url("http", plain, "/plain"));
  if (!IsSkipped()) download_everything();
}

TEST_F(DownloadTest, StreamsOverHttp2WithoutRanges) {
  serve(url("https", h2, "/plain"));
  if (!IsSkipped()) download_everything();
}

TEST_F(DownloadTest, GoesOnAfterACancellation) {
  serve(url("https", h2, ""));
  if (IsSkipped()) return;
  std::stop_source source;
  DownloadOptions options = {.part_bytes = std::size_t{1} << 20U};
  options.progress = [&](const DownloadProgress& progress) {
    if (progress.bytes_done > 10'000'000) source.request_stop();
  };
  const auto rest = connect();
  EXPECT_THAT(rest.with({.stop_token = source.get_token()})
                  .download_checkpoint(kExternal, target(), options)
                  .get(),
              IsError(ErrorCode::cancelled, _));
  EXPECT_FALSE(std::filesystem::exists(target()));

  const auto done = rest.download_checkpoint(kExternal, target()).get();

  ASSERT_THAT(done, IsOk());
  EXPECT_GT(done->bytes_reused, 0U);
  EXPECT_TRUE(read_file(target() + "/model") == big);
}

TEST_F(DownloadTest, AFileThatIsNotThereIsSaidSo) {
  serve(url("http", plain, "/absent"));
  if (IsSkipped()) return;

  EXPECT_THAT(connect().download_checkpoint(kExternal, target()).get(),
              IsError(ErrorCode::not_found, ::testing::HasSubstr("storage answers 404")));
}

}  // namespace
}  // namespace tinker::download_test
