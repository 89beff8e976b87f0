// `LocalServerOptions::memory_bytes` bounds all that models, adapters and their work take together.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "hostile_server.h"
#include "support/temporary_folder.h"

namespace tinker::memory_limit_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HostileServer;
using testing::IsOk;
using testing::RawResponse;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

class LittleMemory : public HostileServer {
 protected:
  LittleMemory() : HostileServer(with_little_memory()) {}
  static LocalServerOptions with_little_memory() {
    auto out = options();
    out.memory_bytes = 64 * kMiB;
    return out;
  }

  [[nodiscard]] RawResponse make_run(const std::string& session, int number, int rank) const {
    return outcome(post("create_model",
                        base::concat(R"({"session_id":")",
                                     session,
                                     R"(","model_seq_id":)",
                                     number,
                                     R"(,"base_model":"tiny","lora_config":{"rank":)",
                                     rank,
                                     "}}")));
  }
  [[nodiscard]] static bool is_made(const RawResponse& made) {
    return made.status == 200 && made.body.find("\"error\"") == std::string::npos;
  }
  [[nodiscard]] RawResponse save(const std::string& run, int number, int sampler) const {
    return outcome(post("save_weights_for_sampler",
                        base::concat(R"({"model_id":")",
                                     run,
                                     R"(","seq_id":)",
                                     number,
                                     R"(,"sampling_session_seq_id":)",
                                     sampler,
                                     "}")));
  }
  [[nodiscard]] RawResponse sample(const std::string& sampler) const {
    return outcome(post("asample",
                        R"({"sampling_session_id":")" + sampler +
                            R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1],)"
                            R"("type":"encoded_text"}]},"sampling_params":{"max_tokens":1}})"));
  }
};

TEST_F(LittleMemory, HasNoRoomForManyLargeRuns) {
  const auto session = new_session();
  int made = 0;
  RawResponse last = make_run(session, 1, 512);
  for (; is_made(last) && made < 20; ++made) last = make_run(session, made + 2, 512);

  EXPECT_GE(made, 1);
  EXPECT_LT(made, 20);
  EXPECT_THAT(last.body,
              AllOf(HasSubstr("training of an adapter of rank 512 needs"),
                    HasSubstr("MiB are left of the 64 MiB for models"),
                    HasSubstr(R"("category":"user")")));
  // What is given back can be had again.
  ASSERT_EQ(outcome(post("unload_model", R"({"model_id":")" + session + R"(:train:1"})")).status,
            200);
  EXPECT_TRUE(is_made(make_run(session, 100, 512)));
}

TEST_F(LittleMemory, KeepsFewerWeightsWithoutANameWhereTheyAreLarge) {
  const auto session = new_session();
  ASSERT_TRUE(is_made(make_run(session, 1, 512)));
  const std::string run = session + ":train:1";
  constexpr int kSaves = 12;  // fewer than are kept where there is room
  for (int i = 1; i <= kSaves; ++i) {
    const auto saved = save(run, i, i);
    ASSERT_TRUE(is_made(saved)) << saved.body;
  }

  EXPECT_THAT(sample(session + ":sample:1").body, HasSubstr("newer ones took their place"));
  const auto result = sample(base::concat(session, ":sample:", kSaves));
  EXPECT_EQ(result.header("content-type"), "application/x-protobuf") << result.body;
}

TEST_F(LittleMemory, BoundsTrainingByWhatAdaptersLeave) {
  const auto trainer = service().create_lora_training_client("tiny", {.rank = 2}).get().value();
  const Datum datum = Datum::next_token(std::vector<std::int32_t>(2000, 1));
  ASSERT_THAT(trainer.forward_backward({datum}, LossFn::cross_entropy).get(), IsOk());
  const auto session = new_session();
  for (int i = 1; i < 20 && is_made(make_run(session, i, 512)); ++i) {
  }
  for (int i = 101; i < 200 && is_made(make_run(session, i, 16)); ++i) {
  }

  const auto refused = trainer.forward_backward({datum}, LossFn::cross_entropy).get();

  EXPECT_THAT(refused,
              testing::IsError(ErrorCode::request_failed, HasSubstr("whose longest sequence")));
}

/// A server that was started again, with room for one copy of the only checkpoint's adapter.
class StoredCheckpoint : public ::testing::Test {
 protected:
  StoredCheckpoint() {
    {
      const auto first = start(512 * kMiB);
      const auto trainer =
          connect(first).create_lora_training_client("tiny", {.rank = 1024}).get().value();
      path_ = trainer.save_weights_for_sampler("stored").get().value().path;
    }
    server_ = start(18 * kMiB);
    service_ = connect(*server_);
  }
  [[nodiscard]] LocalServer start(std::size_t memory) const {
    return LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                               .data_dir = folder_.path("data"),
                               .threads = 1,
                               .memory_bytes = memory,
                               .precision = EnginePrecision::f32})
        .value();
  }
  static ServiceClient connect(const LocalServer& server) {
    return ServiceClient::connect(
               {.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
        .value();
  }
  [[nodiscard]] std::vector<Future<SampleResponse>> begin_samples(std::int32_t count) const {
    const auto sampler = service_->create_sampling_client({.model_path = path_}).get().value();
    std::vector<Future<SampleResponse>> out;
    for (std::int32_t i = 0; i < count; ++i) {
      out.push_back(sampler.sample(ModelInput::from_tokens({1, i}), {.max_tokens = 1}));
    }
    return out;
  }

  const testing::TemporaryFolder folder_;
  std::string path_;
  std::optional<LocalServer> server_ = {};
  std::optional<ServiceClient> service_ = {};
};

TEST_F(StoredCheckpoint, IsInMemoryOnceForAllWhoSampleFromIt) {
  auto samples = begin_samples(64);

  for (auto& sample : samples) EXPECT_THAT(sample.get(), IsOk());
  const auto metrics = testing::RawHttp(server_->port()).ask("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("tinker_server_snapshots{kind=\"checkpoint\"} 1\n"));
}

TEST_F(StoredCheckpoint, IsLoadedAlsoWhenTheFirstWhoWaitsGivesUp) {
  auto samples = begin_samples(16);
  samples.front().cancel();

  for (std::size_t i = 1; i < samples.size(); ++i) EXPECT_THAT(samples.at(i).get(), IsOk());
}

}  // namespace
}  // namespace tinker::memory_limit_test
