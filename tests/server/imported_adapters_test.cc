// Adapters in PEFT's layout that were trained elsewhere, offered by the embedded server.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::imported_adapters_test {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

constexpr const char* kPath = "tinker://imported/sampler_weights/style";

ServiceClient connect(const LocalServer& server, const std::string& key = "tml-local-test") {
  return ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret(key)}).value();
}

std::vector<std::int32_t> sample_from(const ServiceClient& service, const std::string& path) {
  const auto sampler = service.create_sampling_client({.model_path = path}).get().value();
  return sampler
      .sample(ModelInput::from_tokens({5, 9}),
              {.max_tokens = 8, .stop = std::vector<std::int32_t>(), .temperature = 0})
      .get()
      .value()
      .sequences.at(0)
      .tokens;
}

class ImportedAdapter : public ::testing::Test {
 protected:
  /// A server on a small model, and one adapter that it trained and stored, in PEFT's two files.
  ImportedAdapter() {
    const auto server = LocalServer::start(options()).value();
    const auto service = connect(server);
    const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();
    for (int i = 0; i < 3; ++i) {
      auto [gradients, update] = trainer.train_step({Datum::next_token({5, 9, 12, 200, 31, 7})},
                                                    LossFn::cross_entropy,
                                                    {.learning_rate = 0.05});
      (void)gradients.get().value();
      (void)update.get().value();
    }
    const auto path = trainer.save_weights_for_sampler("final").get().value().path;
    expected = sample_from(service, path);
    fs::create_directory(peft);
    for (const auto& entry : fs::recursive_directory_iterator(server.data_dir())) {
      const auto name = entry.path().filename();
      if (name == "adapter_config.json" || name == "adapter_model.safetensors") {
        fs::copy_file(entry.path(), peft / name);
      }
    }
    name_base_model("tiny");
  }
  [[nodiscard]] LocalServerOptions options() const {
    return {.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
            .threads = 1,
            .precision = EnginePrecision::f32};
  }
  [[nodiscard]] LocalServerOptions with_adapter() const {
    auto out = options();
    out.adapters = {{.name = "style", .folder = peft}};
    return out;
  }
  void name_base_model(const std::string& name) const {
    std::ifstream in(peft / "adapter_config.json");
    const std::string config(std::istreambuf_iterator<char>(in), {});
    const std::regex base(R"~("base_model_name_or_path": *"[^"]*")~");
    write("adapter_config.json",
          std::regex_replace(config, base, R"("base_model_name_or_path": ")" + name + '"'));
  }
  void write(const char* file, const std::string& text) const {
    std::ofstream(peft / file, std::ios::binary) << text;
  }

  testing::TemporaryFolder folder;
  fs::path peft = fs::path(folder.path()) / "peft";
  std::vector<std::int32_t> expected = {};
};

TEST_F(ImportedAdapter, IsSampledFrom) {
  const auto server = LocalServer::start(with_adapter()).value();

  EXPECT_EQ(sample_from(connect(server), kPath), expected);
}

TEST_F(ImportedAdapter, IsReadByEveryoneAndListedNowhere) {
  auto with_keys = with_adapter();
  with_keys.keys = {{.owner = "ada", .key = Secret("tml-ada-0123456789abcdef")},
                    {.owner = "bob", .key = Secret("tml-bob-0123456789abcdef")}};
  const auto server = LocalServer::start(with_keys).value();

  for (const char* key : {"tml-ada-0123456789abcdef", "tml-bob-0123456789abcdef"}) {
    const auto rest = connect(server, key).create_rest_client();
    const auto info = rest.get_weights_info_by_tinker_path(kPath).get();
    ASSERT_THAT(info, IsOk());
    EXPECT_EQ(info->base_model, "tiny");
    EXPECT_EQ(info->lora_rank, 4);
    EXPECT_TRUE(rest.list_user_checkpoints().get().value().checkpoints.empty());
  }
}

TEST_F(ImportedAdapter, IsNotCopied) {
  const auto server = LocalServer::start(with_adapter()).value();

  EXPECT_THAT(
      testing::RawHttp(server.port())
          .ask("POST",
               "/api/v1/copy_weights",
               base::concat(R"({"source_path":")", kPath, R"(","destination_project_id":"mine"})"),
               "X-API-Key: tml-local-test\r\nContent-Type: application/json\r\n")
          .body,
      HasSubstr("was imported: it can be sampled from, not copied"));
}

TEST_F(ImportedAdapter, TakesTheModelThatItsConfigurationNames) {
  auto two = with_adapter();
  two.models = {{.name = "other", .source = "random:1x32,vocab=512"},
                {.name = "tiny", .source = "random:2x64,vocab=512"}};
  const auto server = LocalServer::start(two).value();

  EXPECT_EQ(sample_from(connect(server), kPath), expected);
}

TEST_F(ImportedAdapter, NeedsItsModelWhereSeveralAreServed) {
  auto two = with_adapter();
  two.models = {{.name = "a", .source = "random:2x64,vocab=512"},
                {.name = "b", .source = "random:2x64,vocab=512"}};

  EXPECT_THAT(LocalServer::start(two),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("style"), HasSubstr("\"tiny\""), HasSubstr("a, b"))));
}

TEST_F(ImportedAdapter, IsOfTheOnlyModelWhateverItsConfigurationNames) {
  name_base_model("somebody/else");
  const auto server = LocalServer::start(with_adapter()).value();

  EXPECT_EQ(sample_from(connect(server), kPath), expected);
}

TEST_F(ImportedAdapter, HasToFitItsModel) {
  auto other = with_adapter();
  other.models = {{.name = "tiny", .source = "random:1x32,vocab=512"}};

  EXPECT_THAT(LocalServer::start(other), IsError(ErrorCode::invalid_argument, HasSubstr("style")));
}

TEST_F(ImportedAdapter, HasToBeThere) {
  auto missing = with_adapter();
  missing.adapters[0].folder = peft / "nowhere";

  EXPECT_THAT(LocalServer::start(missing),
              IsError(ErrorCode::invalid_argument, HasSubstr("nowhere")));
}

TEST_F(ImportedAdapter, HasToBeWhole) {
  write("adapter_model.safetensors", "cut");

  EXPECT_THAT(LocalServer::start(with_adapter()),
              IsError(ErrorCode::invalid_argument, HasSubstr("adapter_model.safetensors")));
}

TEST_F(ImportedAdapter, HasToHaveAConfigurationThatIsJson) {
  write("adapter_config.json", "{");

  EXPECT_THAT(LocalServer::start(with_adapter()),
              IsError(ErrorCode::invalid_argument, HasSubstr("adapter_config.json")));
}

TEST_F(ImportedAdapter, HasANameOfItsOwnThatAPathCanHold) {
  auto twice = with_adapter();
  twice.adapters.push_back(twice.adapters[0]);
  EXPECT_THAT(LocalServer::start(twice),
              IsError(ErrorCode::invalid_argument, HasSubstr("\"style\"")));

  auto slashed = with_adapter();
  slashed.adapters[0].name = "a/b";
  EXPECT_THAT(LocalServer::start(slashed), IsError(ErrorCode::invalid_argument, HasSubstr("a/b")));
}

TEST_F(ImportedAdapter, IsNotChanged) {
  const auto server = LocalServer::start(with_adapter()).value();
  const auto rest = connect(server).create_rest_client();

  EXPECT_THAT(rest.delete_checkpoint_from_tinker_path(kPath).get(),
              IsError(ErrorCode::not_found, HasSubstr("style")));
}

}  // namespace
}  // namespace tinker::imported_adapters_test
