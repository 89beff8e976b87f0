// A disk that fails the server: read-only, full, with files that somebody cut short.
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/temporary_folder.h"
#include "support/unprivileged.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::disk_faults_test {
namespace {

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

/// While it lives, no file of this process grows beyond a size.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

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
