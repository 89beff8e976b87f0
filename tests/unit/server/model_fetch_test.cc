#include "server/model_fetch.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "engine/random_model.h"
#include "support/hub_files.h"
#include "support/tcp_server.h"
#include "support/temporary_folder.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::model_fetch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeTransport;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::kTinyTokenizer;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;
using ::tinker::testing::TemporaryFolder;

constexpr const char* kCommit = "cccccccccccccccccccccccccccccccccccccccc";
constexpr const char* kListing = "/api/models/Acme/Small/revision/main";

/// A hub with Acme/Small. The real one over a network: tests/integration/serve_fetch_test.py.
class ModelFetchTest : public ::testing::Test {
 protected:
  ModelFetchTest() {
    const engine::ModelConfig config = {.vocab_size = 3,
                                        .hidden_size = 8,
                                        .ffn_size = 8,
                                        .layers = 1,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 4,
                                        .context_length = 128};
    engine::write_random_model(files_.path("made"), config, 1).value();
    files_.write("made/tokenizer.json", kTinyTokenizer);
    std::string siblings;
    for (const auto* const name : {"config.json", "model.safetensors", "tokenizer.json"}) {
      const auto content = files_.read(std::string("made/") + name);
      bytes_ += content.size();
      siblings += std::string(siblings.empty() ? "" : ",") + R"({"rfilename":")" + name +
                  R"(","size":)" + std::to_string(content.size()) + "}";
      contents_[std::string("/Acme/Small/resolve/") + kCommit + "/" + name] = content;
    }
    contents_[kListing] =
        std::string(R"({"sha":")") + kCommit + R"(","siblings":[)" + siblings + "]}";
    for (const auto& [path, content] : contents_) {
      hub_->reply(
          path,
          {{.body = content, .headers = {{"X-Repo-Commit", kCommit}, {"ETag", etag_of(path)}}}});
    }
  }

  /// In quotes.
  static std::string etag_of(const std::string& path) {
    return "\"" + path.substr(path.rfind('/') + 1) + "\"";
  }
  [[nodiscard]] LocalServerOptions options() {
    return {.models = {{.name = "small", .source = "Acme/Small"}, {.name = "Acme/Small"}},
            .logger = Logger(),
            .fetch_models = true,
            .on_fetch =
                [this](const FetchProgress& progress) {
                  const std::scoped_lock lock(mutex_);
                  seen_.push_back(progress);
                },
            .hub = {.endpoint = "https://hub.test",
                    .cache = files_.path("cache"),
                    .is_offline = false,
                    .transport = hub_,
                    .runtime = runtime_}};
  }

  TemporaryFolder files_;
  Runtime runtime_ = Runtime::start();
  std::shared_ptr<FakeTransport> hub_ = std::make_shared<FakeTransport>(runtime_);
  std::map<std::string, std::string> contents_ = {};  // by path
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::vector<FetchProgress> seen_;
};

TEST_F(ModelFetchTest, AServerStartsWithModelsThatItFetchedOnce) {
  EXPECT_THAT(LocalServer::start(options()), IsOk());

  EXPECT_THAT(hub_->sent(kListing), SizeIs(1));
  ASSERT_FALSE(seen_.empty());
  EXPECT_EQ(seen_.back().model, "Acme/Small");
  EXPECT_EQ(seen_.back().bytes, bytes_);
  EXPECT_EQ(seen_.back().total_bytes, bytes_);
}

TEST_F(ModelFetchTest, AServerFetchesNothingUnlessItIsAskedTo) {
  auto plain = options();
  plain.fetch_models = false;

  EXPECT_THAT(LocalServer::start(plain),
              IsError(ErrorCode::invalid_argument, HasSubstr("fetch_models is off")));

  EXPECT_THAT(hub_->sent(), IsEmpty());
}

TEST_F(ModelFetchTest, AServerWithoutModelsOfAHubNeedsNoCache) {  // nor a HOME to have one in
  auto local = options();
  local.models = {{.name = "small", .source = files_.path("made")}};
  local.hub = {.endpoint = "no URL"};

  EXPECT_THAT(fetch_models(local), IsOk());
}

TEST_F(ModelFetchTest, AnExceptionOfTheUserEndsTheFetch) {  // and not the thread of the network
  const TcpServer hub([this](TcpPeer& peer, int) {
    for (auto request = peer.read_request(); !request.empty(); request = peer.read_request()) {
      const auto from = request.find(' ') + 1;
      const auto path = request.substr(from, request.find_first_of(" ?", from) - from);
      peer.respond(
          contents_.at(path),
          std::string("X-Repo-Commit: ") + kCommit + "\r\nETag: " + etag_of(path) + "\r\n");
    }
  });
  auto throwing = options();
  throwing.on_fetch = [calls = 0](const FetchProgress&) mutable {
    if (++calls > 1) throw std::runtime_error("enough");  // in the middle of a file
  };
  throwing.hub.endpoint = hub.url("");
  throwing.hub.transport = nullptr;

  EXPECT_THAT(fetch_models(throwing), IsError(ErrorCode::internal, HasSubstr("enough")));
}

TEST_F(ModelFetchTest, NothingIsFetchedForAModelThatTheEngineCannotRun) {
  const std::string folder = "cache/models--Acme--Small/";
  files_.write(folder + "refs/main", kCommit);
  files_.write(folder + "snapshots/" + kCommit + "/config.json", R"({"model_type":"mamba"})");

  EXPECT_THAT(fetch_models(options()), IsError(ErrorCode::invalid_argument, HasSubstr("mamba")));

  EXPECT_THAT(hub_->sent(), IsEmpty());
}

TEST_F(ModelFetchTest, AnAnswerThatIsNoListingIsRefused) {
  for (const auto* const body : {"<html>", "{}", R"({"sha":"../..","siblings":[]})"}) {
    hub_->reply(kListing, {{.body = body}});
    EXPECT_THAT(fetch_models(options()),
                IsError(ErrorCode::invalid_response, HasSubstr("answers as no hub does")))
        << body;
  }
}

}  // namespace
}  // namespace tinker::server::model_fetch_test
