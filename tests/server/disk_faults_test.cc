// A disk that fails the server: read-only, full, with files that somebody cut short.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/full_disk.h"
#include "support/raw_http.h"
#include "support/small_disk.h"
#include "support/temporary_folder.h"
#include "support/unprivileged.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::disk_faults_test {
namespace {

using testing::FullDisk;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

class FailingDisk : public ::testing::Test {
 protected:
  [[nodiscard]] LocalServer start() const { return LocalServer::start(options()).value(); }
  [[nodiscard]] LocalServerOptions options() const {
    return {.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
            .data_dir = folder_.path("data"),
            .threads = 1,
            .precision = EnginePrecision::f32};
  }
  static ServiceClient connect(const LocalServer& server) {
    return ServiceClient::connect(
               {.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
        .value();
  }
  static TrainingClient new_run(const ServiceClient& service) {
    return service.create_lora_training_client("tiny", {.rank = 64}).get().value();
  }
  [[nodiscard]] std::set<std::filesystem::path> folders() const {
    const std::filesystem::directory_iterator all(folder_.path("data/checkpoints"));
    return {begin(all), end(all)};
  }

  testing::TemporaryFolder folder_;
};

TEST_F(FailingDisk, ThatIsReadOnlyIsNamedBeforeTheServerStarts) {
  {
    const auto server = start();
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(folder_.path("data"), std::filesystem::perms(0555));
  const testing::Unprivileged nobody;
  ASSERT_TRUE(nobody.succeeded());

  EXPECT_THAT(LocalServer::start(options()), IsError(ErrorCode::io_error, HasSubstr("data")));
}

TEST_F(FailingDisk, ThatCutAFileShortSparesTheOtherCheckpoints) {
  std::string whole;
  std::string cut;
  std::filesystem::path victim;
  {
    const auto server = start();
    const auto run = new_run(connect(server));
    whole = run.save_state("whole").get().value().path;
    const auto before = folders();
    cut = run.save_state("cut").get().value().path;
    for (const auto& folder : folders()) {
      if (!before.contains(folder)) victim = folder / "adapter_model.safetensors";
    }
    ASSERT_THAT(server.stop(), IsOk());
  }
  std::filesystem::resize_file(victim, std::filesystem::file_size(victim) / 2);

  const auto server = start();
  const auto service = connect(server);

  EXPECT_THAT(service.create_training_client_from_state_with_optimizer(cut).get(),
              IsError(ErrorCode::request_failed, HasSubstr("adapter_model.safetensors")));
  EXPECT_THAT(service.create_training_client_from_state_with_optimizer(whole).get(), IsOk());
}

TEST_F(FailingDisk, ThatCutTheOptimizerShortSparesItsWeights) {
  std::string path;
  {
    const auto server = start();
    const auto run = new_run(connect(server));
    ASSERT_THAT(
        run.train_step({Datum::next_token({5, 9, 12})}, LossFn::cross_entropy, {}).optim_step.get(),
        IsOk());
    path = run.save_state("cut").get().value().path;
    ASSERT_THAT(server.stop(), IsOk());
  }
  const auto victim = *folders().begin() / "optimizer.safetensors";
  std::filesystem::resize_file(victim, std::filesystem::file_size(victim) / 2);

  const auto server = start();
  const auto service = connect(server);

  EXPECT_THAT(service.create_training_client_from_state_with_optimizer(path).get(),
              IsError(ErrorCode::request_failed, HasSubstr("optimizer.safetensors")));
  EXPECT_THAT(service.create_training_client_from_state(path).get(), IsOk());
}

TEST_F(FailingDisk, ThatBecomesReadOnlyFailsSavesAndNothingElse) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0777));
  const testing::Unprivileged nobody;
  ASSERT_TRUE(nobody.succeeded());
  const auto server = start();
  const auto run = new_run(connect(server));
  ASSERT_THAT(run.save_state("before").get(), IsOk());
  const auto checkpoints = folder_.path("data/checkpoints");
  std::filesystem::permissions(checkpoints, std::filesystem::perms(0500));

  EXPECT_THAT(run.save_state("meanwhile").get(),
              IsError(ErrorCode::request_failed, HasSubstr("Permission denied")));
  EXPECT_THAT(run.forward({Datum::next_token({5, 9, 12})}, LossFn::cross_entropy).get(), IsOk());
  std::filesystem::permissions(checkpoints, std::filesystem::perms(0700));

  EXPECT_THAT(run.save_state("meanwhile").get(), IsOk());
}

TEST_F(FailingDisk, ThatIsFullForAWhileLosesNoUsage) {
  const auto server = start();
  const auto sampler = connect(server).create_sampling_client({.base_model = "tiny"}).get().value();
  const auto usage = [&server] {
    const auto now = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    const auto target = base::concat("/api/v1/billing/usage/events?starting_on=",
                                     DateTime(now - std::chrono::hours(1)).to_string(),
                                     "&ending_before=",
                                     DateTime(now + std::chrono::hours(2)).to_string());
    return testing::RawHttp(server.port()).ask("GET", target, {}, "X-API-Key: tml-local-test\r\n");
  };
  const auto draw = [&sampler](int tokens) {
    return sampler
        .sample(ModelInput::from_tokens({1, 2, 3}),
                {.max_tokens = tokens, .stop = std::vector<std::int32_t>()})
        .get();
  };
  ASSERT_THAT(draw(1), IsOk());  // the model is loaded
  ASSERT_EQ(usage().status, 200);
  {
    const FullDisk full(1);
    ASSERT_THAT(draw(7), IsOk());
    EXPECT_EQ(usage().status, 500);
  }

  const auto answer = usage();

  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr(R"("token_count":8)"));
}

TEST_F(FailingDisk, WithNoSpaceLeftFailsSavesAndNothingElse) {
  std::filesystem::create_directory(folder_.path("data"));
  const testing::SmallDisk disk(folder_.path("data"), 8U << 20U);
  if (!disk.is_mounted())
    GTEST_SKIP() << "no file system can be mounted: " << ::strerror(disk.error());
  const auto server = start();
  const auto service = connect(server);
  const auto run = new_run(service);
  const std::vector<Datum> batch = {Datum::next_token({5, 9, 12, 200, 31})};
  std::vector<std::string> saved;

  auto save = run.save_state("0").get();
  while (save.ok() && saved.size() < 100) {
    saved.push_back(save->path);
    ASSERT_THAT(run.train_step(batch, LossFn::cross_entropy, {}).optim_step.get(), IsOk());
    save = run.save_state(std::to_string(saved.size())).get();
  }

  EXPECT_THAT(save, IsError(ErrorCode::request_failed, HasSubstr("No space left on device")));
  ASSERT_GE(saved.size(), 2U);
  EXPECT_EQ(folders().size(), saved.size());  // nothing is left of the one that failed
  EXPECT_THAT(run.train_step(batch, LossFn::cross_entropy, {}).optim_step.get(), IsOk());
  for (const auto& path : saved) {
    EXPECT_THAT(service.create_training_client_from_state_with_optimizer(path).get(), IsOk());
  }
  const auto rest = service.create_rest_client();
  ASSERT_THAT(rest.delete_checkpoint_from_tinker_path(saved.back()).get(), IsOk());
  EXPECT_THAT(run.save_state("again").get(), IsOk());
}

/// Runs that survive the server, of whose logs one is much longer than the others.
class FullDurableDisk : public FailingDisk {
 protected:
  [[nodiscard]] LocalServer start_durable(std::uint16_t port = 0) const {
    auto durable = options();
    durable.durable = true;
    durable.port = port;
    return LocalServer::start(durable).value();
  }
  /// So many steps on many targets at few positions, so that the log grows and little is computed;
  /// the loss of the last.
  static double train_long(const TrainingClient& trainer, int steps) {
    constexpr std::int64_t kPositions = 32;
    constexpr std::int64_t kTargets = 256;  // at each
    const TensorData::Shape shape = {kPositions, kTargets};
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < kPositions * kTargets; ++i) targets.push_back(i % 500);
    const TensorData weights(TensorData::Values(Buffer(std::vector(targets.size(), 0.01F))), shape);
    const Datum datum = {
        .model_input = ModelInput::from_tokens(std::vector<std::int32_t>(kPositions, 7)),
        .loss_fn_inputs = {{"target_tokens",
                            TensorData(TensorData::Values(Buffer(std::move(targets))), shape)},
                           {"weights", weights}},
    };
    double loss = 0.0;
    for (int i = 0; i < steps; ++i) loss = step(trainer, {datum});
    return loss;
  }
  static double train_short(const TrainingClient& trainer) {
    return step(trainer, {Datum::next_token({5, 9, 12, 200, 31})});
  }
  static double step(const TrainingClient& trainer, std::vector<Datum> batch) {
    auto [gradients, update] =
        trainer.train_step(std::move(batch), LossFn::cross_entropy, {.learning_rate = 1e-2});
    update.get().value();
    return gradients.get().value().loss().value();
  }
  static TrainingClient new_seeded_run(const ServiceClient& service) {
    return service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get().value();
  }
  [[nodiscard]] std::filesystem::path log_of(const TrainingClient& trainer) const {
    const std::string& id = trainer.model_id();
    const std::filesystem::path folder = folder_.path("data/journal/" + id.substr(0, id.find(':')));
    return folder / ("train-" + id.substr(id.rfind(':') + 1)) / "log";
  }
  [[nodiscard]] std::uintmax_t log_bytes(const TrainingClient& trainer) const {
    return std::filesystem::file_size(log_of(trainer));
  }
  /// What the log says of the state that it begins with.
  [[nodiscard]] std::string state_of(const TrainingClient& trainer) const {
    std::ifstream file(log_of(trainer), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto from = text.find("snapshot-");
    return from == std::string::npos ? std::string() : text.substr(from, 16);
  }
  static testing::RawResponse ask(const LocalServer& server,
                                  std::string_view method,
                                  std::string_view target,
                                  std::string_view body = {}) {
    return testing::RawHttp(server.port())
        .ask(method, target, body, "X-API-Key: tml-local-test\r\n");
  }
};

TEST_F(FullDurableDisk, StopsTheRunWhoseLogItHasNoRoomForAndLosesNothing) {
  std::optional<LocalServer> server = start_durable();
  const auto service = connect(*server);
  const auto reference = new_seeded_run(service);
  train_long(reference, 4);
  ASSERT_THAT(reference.optim_step({.learning_rate = 1e-2}).get(), IsOk());
  const double expected = train_long(reference, 1);
  const auto waiting = new_seeded_run(service);
  const auto refused = new_seeded_run(service);
  const auto other = new_seeded_run(service);
  train_long(waiting, 4);
  train_long(refused, 4);
  train_short(other);
  const auto bytes = log_bytes(waiting);
  ASSERT_EQ(log_bytes(refused), bytes);
  ASSERT_LT(2 * log_bytes(other), bytes);
  const std::string next =
      R"({"model_id":")" + refused.model_id() + R"(","seq_id":9,"adam_params":{}})";
  std::optional<FullDisk> full(std::in_place, bytes + 20);  // a record is cut in the middle

  const auto answer = ask(*server, "POST", "/api/v1/optim_step", next);
  auto step = waiting.optim_step({.learning_rate = 1e-2});  // its client tries again

  EXPECT_EQ(answer.status, 507);
  EXPECT_THAT(answer.body, HasSubstr("File too large"));
  EXPECT_GT(train_short(other), 0.0);
  EXPECT_FALSE(step.is_ready());
  full.reset();
  EXPECT_THAT(step.get(), IsOk());
  EXPECT_EQ(ask(*server, "POST", "/api/v1/optim_step", next).status, 200);
  const auto port = server->port();
  ASSERT_THAT(server->stop(), IsOk());
  server.reset();
  server = start_durable(port);
  EXPECT_EQ(ask(*server, "POST", "/api/v1/optim_step", next).status, 200);  // is still known
  EXPECT_EQ(train_long(waiting, 1), expected);
  EXPECT_GT(train_short(other), 0.0);
}

TEST_F(FullDurableDisk, HandsOutNoSaveThatItMightDoAgain) {
  const auto server = start_durable();
  const auto service = connect(server);
  const auto trainer = new_seeded_run(service);
  train_long(trainer, 4);
  const auto before = log_bytes(trainer);
  ASSERT_THAT(trainer.save_state("one").get(), IsOk());
  const auto one = log_bytes(trainer) - before;  // the request and its result
  const auto rest = service.create_rest_client();
  std::optional<FullDisk> full(std::in_place, before + 2 * one - 1);

  auto saving = trainer.save_state("two");
  while (!saving.is_ready() && rest.list_user_checkpoints().get().value().checkpoints.size() < 2) {
  }

  EXPECT_THAT(saving.get(std::chrono::milliseconds(500)),
              IsError(ErrorCode::deadline_exceeded, ::testing::_));
  full.reset();
  EXPECT_THAT(saving.get(), IsOk());
}

TEST_F(FullDurableDisk, KeepsASamplerWhoseWeightsItCouldNotWriteAtFirst) {
  auto durable = options();
  durable.durable = true;
  durable.snapshot_steps = 1;
  std::optional<LocalServer> server = LocalServer::start(durable).value();
  const auto trainer = new_run(connect(*server));
  train_short(trainer);
  const auto sample = [](const SamplingClient& sampler) {
    return sampler.sample(ModelInput::from_tokens({5, 9}), {.max_tokens = 6, .seed = 7}).get();
  };
  std::optional<FullDisk> full(std::in_place, 256U << 10U);  // for a log, but not for an adapter

  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  const auto before = sample(sampler).value().sequences.at(0).tokens;
  train_short(trainer);
  full.reset();
  const auto state = state_of(trainer);
  while (state_of(trainer) == state) train_short(trainer);  // until the log is cut
  durable.port = server->port();
  ASSERT_THAT(server->stop(), IsOk());
  server.reset();
  server = LocalServer::start(durable).value();

  const auto after = sample(sampler);
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(after->sequences.at(0).tokens, before);
}

TEST_F(FailingDisk, ThatIsFullFailsASaveAndNothingElse) {
  const auto server = start();
  const auto service = connect(server);
  const auto run = new_run(service);
  const auto saved = run.save_weights_for_sampler("before").get().value().path;
  const auto before = folders();
  {
    const FullDisk full(512U << 10U);

    EXPECT_THAT(run.save_state("full").get(),
                IsError(ErrorCode::request_failed, HasSubstr("File too large")));
  }

  EXPECT_THAT(service.create_sampling_client({.model_path = saved}).get(), IsOk());
  EXPECT_THAT(run.save_state("after").get(), IsOk());
  EXPECT_EQ(folders().size(), before.size() + 1);  // nothing is left of the one that failed
}

}  // namespace
}  // namespace tinker::disk_faults_test
