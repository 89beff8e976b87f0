// What the service has since SDK 0.37 (PROTOCOL 14): the search for checkpoints, and adapters that
// clients send.
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "hostile_server.h"
#include "support/full_disk.h"

namespace tinker::newer_routes_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HostileServer;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::kAda;
using testing::kBob;
using ::testing::Not;
using testing::RawResponse;

// ---- Search

class CheckpointSearch : public HostileServer {
 protected:
  void SetUp() override {
    save("weights", "first", R"(,"user_metadata":{"kind":"a","more":"b"})");
    save("weights", "second");
    save("sampler_weights", "third");
    const auto session =
        ask("PUT", "sessions/" + session_ + "/project", R"({"project_id":"night"})");
    EXPECT_EQ(session.status, 200);
  }
  void save(const std::string& kind, const std::string& name, const std::string& more = "") {
    const auto saved = outcome(post(kind == "weights" ? "save_weights" : "save_weights_for_sampler",
                                    base::concat(R"({"model_id":")",
                                                 run_,
                                                 R"(","path":")",
                                                 name,
                                                 R"(","seq_id":)",
                                                 ++number_,
                                                 more,
                                                 "}")));
    ASSERT_EQ(saved.body.find("error"), std::string::npos) << saved.body;
  }
  [[nodiscard]] CheckpointSearchResponse search(const std::string& body,
                                                const char* key = kAda) const {
    const auto answer = ask("POST", "checkpoints/search", body, key);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<CheckpointSearchResponse>(answer.body).value();
  }
  [[nodiscard]] std::vector<std::string> found(const std::string& body,
                                               const char* key = kAda) const {
    std::vector<std::string> out;
    for (const auto& checkpoint : search(body, key).checkpoints) {
      out.push_back(checkpoint.checkpoint_id);
    }
    return out;
  }

  const std::string session_ = new_session();
  const std::string run_ = new_run(session_);
  int number_ = 0;
};

TEST_F(CheckpointSearch, YieldsTheCallersOwnNewestFirst) {
  EXPECT_THAT(found("{}"), ElementsAre("sampler_weights/third", "weights/second", "weights/first"));
  EXPECT_THAT(found("{}", kBob), IsEmpty());
}

TEST_F(CheckpointSearch, YieldsWhatMatchesAll) {
  EXPECT_THAT(found(R"({"user_metadata":{"kind":"a"}})"), ElementsAre("weights/first"));
  EXPECT_THAT(found(R"({"user_metadata":{"kind":"a","more":"c"}})"), IsEmpty());
  EXPECT_THAT(found(R"({"checkpoint_type":"sampler"})"), ElementsAre("sampler_weights/third"));
  EXPECT_THAT(found(R"({"checkpoint_type":"sampler","user_metadata":{"kind":"a"}})"), IsEmpty());
  EXPECT_EQ(found(R"({"base_models":["tiny","other"]})").size(), 3U);
  EXPECT_THAT(found(R"({"base_models":["other"]})"), IsEmpty());
  EXPECT_THAT(found(R"({"base_models":[]})"), IsEmpty());
  EXPECT_EQ(found(R"({"base_models":null})").size(), 3U);
  EXPECT_THAT(found(R"({"project_ids":["night"]})"), IsEmpty());  // the run is older than that
  EXPECT_EQ(found(R"({"project_ids":[""]})").size(), 3U);
}

TEST_F(CheckpointSearch, YieldsPageAfterPage) {
  const auto first = search(R"({"limit":2})");
  ASSERT_TRUE(first.next_cursor.has_value());
  const auto cursor = wire::encode_json(*first.next_cursor).value();
  const auto second = search(R"({"limit":2,"cursor":)" + cursor + "}");

  EXPECT_EQ(first.checkpoints.size(), 2U);
  ASSERT_EQ(second.checkpoints.size(), 1U);
  EXPECT_EQ(second.checkpoints.at(0).checkpoint_id, "weights/first");
  EXPECT_EQ(second.next_cursor, std::nullopt);
}

TEST_F(CheckpointSearch, YieldsOfOthersOnlyWhatIsPublicAndNoneOfTheirNotes) {
  const std::string accessible = R"({"owner":{"type":"accessible"}})";
  const std::string of_ada =
      R"({"owner":{"type":"user","owner_urns":["tml:organization_user:ada"]}})";
  EXPECT_THAT(found(accessible, kBob), IsEmpty());
  ASSERT_EQ(ask("POST", "training_runs/" + run_ + "/checkpoints/weights/first/publish").status,
            200);

  EXPECT_THAT(found(accessible, kBob), ElementsAre("weights/first"));
  EXPECT_THAT(found(of_ada, kBob), ElementsAre("weights/first"));
  EXPECT_EQ(found(of_ada).size(), 3U);
  EXPECT_EQ(search(accessible, kBob).checkpoints.at(0).user_metadata, std::nullopt);
  EXPECT_THAT(found("{}", kBob), IsEmpty());
  EXPECT_THAT(found(R"({"owner":{"type":"accessible"},"user_metadata":{"kind":"a"}})", kBob),
              IsEmpty());
  EXPECT_THAT(found(R"({"owner":{"type":"accessible"},"project_ids":[""]})", kBob), IsEmpty());
}

TEST_F(CheckpointSearch, RefusesWhatItDoesNotKnow) {
  const auto refusal = [&](const std::string& body) {
    const auto answer = post("checkpoints/search", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.body;
  };
  EXPECT_THAT(refusal(R"({"limit":0})"), HasSubstr("limit: expected 1 to 200, found 0"));
  EXPECT_THAT(refusal(R"({"limit":201})"), HasSubstr("201"));
  EXPECT_THAT(refusal(R"({"checkpoint_type":"best"})"), HasSubstr("best"));
  EXPECT_THAT(refusal(R"({"owner":{"type":"user","owner_urns":[]}})"), HasSubstr("owner_urns"));
  EXPECT_THAT(refusal(R"({"cursor":{"last_created_at":"2026-01-01T00:00:00"}})"),
              HasSubstr("cursor"));
}

TEST_F(CheckpointSearch, HasTheBaseModelAsAllListsHave) {
  const auto run = "training_runs/" + run_ + "/checkpoints";
  EXPECT_EQ(search("{}").checkpoints.at(0).base_model, "tiny");
  EXPECT_THAT(ask("GET", run).body, HasSubstr(R"("base_model":"tiny")"));
  EXPECT_THAT(ask("GET", "checkpoints").body, HasSubstr(R"("base_model":"tiny")"));
}

// ---- Uploads

class AdapterUpload : public HostileServer {
 protected:
  void SetUp() override {
    const auto trainer = service().create_lora_training_client("tiny", {.rank = 4}).get().value();
    auto [gradients, update] = trainer.train_step({Datum::next_token({5, 9, 12, 200, 31, 7})},
                                                  LossFn::cross_entropy,
                                                  {.learning_rate = 1e-2});
    ASSERT_THAT(update.get(), IsOk());
    const auto path = trainer.save_weights_external("out").get().value().path;
    logprobs_ = logprobs(trainer.save_weights_for_sampler("s").get().value().path);
    const auto urls = service().create_rest_client().get_external_weights_urls(path).get().value();
    config_ = fetch(urls.urls.at("adapter_config.json"));
    weights_ = fetch(urls.urls.at("adapter_model.safetensors"));
  }

  [[nodiscard]] std::vector<std::optional<float>> logprobs(const std::string& path) const {
    const auto sampler = service().create_sampling_client({.model_path = path}).get();
    EXPECT_THAT(sampler, IsOk());
    return sampler->compute_logprobs(ModelInput::from_tokens({5, 9, 12, 200})).get().value();
  }
  /// The path of a URL of this server.
  static std::string target_of(const std::string& url) { return url.substr(url.find("/api/v1/")); }
  [[nodiscard]] std::string fetch(const std::string& url) const {
    return testing::RawHttp(server_.port()).ask("GET", target_of(url)).body;
  }
  [[nodiscard]] RawResponse put(const std::string& url, std::string_view body) const {
    return testing::RawHttp(server_.port())
        .ask("PUT", target_of(url), body, "Content-Type: application/octet-stream\r\n");
  }
  static std::string start_body(int rank = 4) {
    return base::concat(R"({"base_model":"tiny","lora_config":{"rank":)",
                        rank,
                        R"(},"destination_project_id":"p"})");
  }
  [[nodiscard]] ExternalWeightsUploadStartResponse start(
      const std::string& body = start_body()) const {
    const auto answer = post("external_weights_upload_start", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<ExternalWeightsUploadStartResponse>(answer.body).value();
  }
  [[nodiscard]] RawResponse finish(const std::string& id, const char* key = kAda) const {
    return ask("POST", "external_weights_upload_finish", R"({"upload_id":")" + id + "\"}", key);
  }
  void put_all(const ExternalWeightsUploadStartResponse& upload) const {
    ASSERT_EQ(put(upload.urls.at("adapter_config.json"), config_).status, 200);
    ASSERT_EQ(put(upload.urls.at("adapter_model.safetensors"), weights_).status, 200);
  }

  std::string config_;
  std::string weights_;
  std::vector<std::optional<float>> logprobs_;
};

TEST_F(AdapterUpload, BecomesACheckpointToSampleFromAndToTrain) {
  const auto upload = start();
  put_all(upload);
  const auto answer = finish(upload.upload_id);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto path =
      wire::decode_json<ExternalWeightsUploadFinishResponse>(answer.body).value().tinker_path;

  EXPECT_EQ(logprobs(path), logprobs_);
  EXPECT_THAT(service().create_training_client_from_state(path).get(), IsOk());
  EXPECT_EQ(finish(upload.upload_id).body, answer.body);  // a repeat
  const auto found = wire::decode_json<CheckpointSearchResponse>(
      post("checkpoints/search", R"({"project_ids":["p"]})").body);
  ASSERT_EQ(found->checkpoints.size(), 1U);
  EXPECT_EQ(found->checkpoints.at(0).tinker_path, path);
}

TEST_F(AdapterUpload, IsFinishedOnlyWhenAllFilesAreThereAndFit) {
  const auto upload = start();
  EXPECT_THAT(finish(upload.upload_id).body, HasSubstr("adapter_config.json was not uploaded"));
  ASSERT_EQ(put(upload.urls.at("adapter_config.json"), config_).status, 200);
  EXPECT_THAT(finish(upload.upload_id).body, HasSubstr("adapter_model.safetensors was not"));
  ASSERT_EQ(put(upload.urls.at("adapter_model.safetensors"), "garbage").status, 200);
  const auto refused = finish(upload.upload_id);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("adapter_model.safetensors"));

  put_all(upload);
  EXPECT_EQ(finish(upload.upload_id).status, 200);
}

TEST_F(AdapterUpload, MustBeWhatItsClientSaid) {
  const auto upload = start(start_body(8));
  put_all(upload);

  const auto answer = finish(upload.upload_id);

  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("rank 4"));
  EXPECT_THAT(answer.body, HasSubstr("rank 8"));
}

TEST_F(AdapterUpload, IsOfItsOwnerAndOfWhoHasTheLinks) {
  const auto upload = start();
  put_all(upload);
  std::string forged = upload.urls.at("adapter_config.json");
  forged.back() = forged.back() == '0' ? '1' : '0';

  EXPECT_EQ(put(forged, config_).status, 403);
  EXPECT_EQ(finish(upload.upload_id, kBob).status, 404);
  EXPECT_EQ(finish("none").status, 404);
  EXPECT_EQ(finish("../x").status, 404);
  ASSERT_EQ(finish(upload.upload_id).status, 200);
  EXPECT_EQ(finish(upload.upload_id, kBob).status, 404);
  EXPECT_EQ(put(upload.urls.at("adapter_config.json"), "other").status, 404);
}

TEST_F(AdapterUpload, IsRefusedForModelsAndRanksThatAreNotServed) {
  const auto refusal = [&](const std::string& body) {
    const auto answer = post("external_weights_upload_start", body);
    EXPECT_THAT(answer.status, ::testing::AnyOf(400, 404)) << answer.body;
    return answer.body;
  };
  EXPECT_THAT(refusal(R"({"base_model":"huge","lora_config":{"rank":4}})"), HasSubstr("huge"));
  EXPECT_THAT(refusal(start_body(0)), HasSubstr("found 0"));
  EXPECT_THAT(refusal(start_body(1'000'000)), HasSubstr("1000000"));
  EXPECT_THAT(refusal(R"({"base_model":"tiny"})"), HasSubstr("lora_config"));
}

TEST_F(AdapterUpload, IsWithoutWhatIsStillBeingSent) {
  const auto upload = start();
  put_all(upload);
  const auto files = [this] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(server_.data_dir())) {
      out.push_back(entry.path());
    }
    return out;
  };
  const auto is_being_sent = Contains(EndsWith(".incomplete"));
  testing::RawHttp sender(server_.port());
  const auto request = testing::RawHttp::request(
      "PUT", target_of(upload.urls.at("adapter_config.json")), config_, "");
  sender.send(request.substr(0, request.size() - 1));
  while (!::testing::Value(files(), is_being_sent)) std::this_thread::yield();

  ASSERT_EQ(finish(upload.upload_id).status, 200);

  ASSERT_EQ(ask("GET", "checkpoints").status, 200);  // the disk is done with what came before
  EXPECT_THAT(files(), Not(is_being_sent));
}

TEST_F(AdapterUpload, CanBeFinishedAgainAfterTheDiskWasFull) {
  const auto upload = start();
  put_all(upload);
  {
    const testing::FullDisk full(1);
    ASSERT_GE(finish(upload.upload_id).status, 500);
  }

  EXPECT_EQ(finish(upload.upload_id).status, 200);
}

TEST_F(AdapterUpload, IsOneOfAFew) {
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(start().upload_id.empty());

  EXPECT_EQ(post("external_weights_upload_start", start_body()).status, 429);
  EXPECT_EQ(ask("POST", "external_weights_upload_start", start_body(), kBob).status, 200);
}

}  // namespace
}  // namespace tinker::newer_routes_test
