// Callers that may not do what they ask for: without a key, with a wrong one, with somebody else's
// ids, with links that are not theirs, from pages of other sites.
#include <array>
#include <string>
#include <string_view>

#include "hostile_server.h"

namespace tinker::hostile_callers_test {
namespace {

using testing::fill;
using testing::HostileServer;
using testing::kAda;
using testing::kBob;
using testing::RawHttp;
using testing::RawResponse;

bool needs_link(std::string_view path) {
  return path.starts_with("download/") || path.starts_with("upload/");
}

bool is_open_to_all(std::string_view path) {
  // Metrics on loopback, where these servers listen.
  return path == "healthz" || path == "/metrics" || needs_link(path);
}

class HostileKey : public HostileServer, public ::testing::WithParamInterface<std::string> {};

TEST_P(HostileKey, OpensNoEndpoint) {
  for (const auto& endpoint : server::endpoint_names()) {
    const auto method = http::to_string(endpoint.method);
    const int status = ask(method, fill(endpoint.path, "x"), "{}", GetParam()).status;
    EXPECT_EQ(status,
              needs_link(endpoint.path)       ? 403
              : is_open_to_all(endpoint.path) ? 200
                                              : 401)
        << method << " " << endpoint.path;
  }
}

INSTANTIATE_TEST_SUITE_P(,
                         HostileKey,
                         ::testing::Values("",
                                           "tml-eve-0123456789abcdef",
                                           "tml-ada-0123456789abcdeF",
                                           "tml-ada-0123456789abcde",
                                           "tml-ada-0123456789abcdef0",
                                           "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.",
                                           std::string(4'000, 'k')));

/// Bob, who has learned all the ids of ada's.
class OthersIds : public HostileServer {
 protected:
  void SetUp() override {
    session_ = new_session();
    run_ = new_run(session_);
    sampler_ = new_sampler(session_);
    future_ = run_ + ":0";
    ASSERT_EQ(
        outcome(post("save_weights", R"({"model_id":")" + run_ + R"(","path":"mine","seq_id":1})"))
            .status,
        200);
    ASSERT_EQ(outcome(post("save_weights_external",
                           R"({"model_id":")" + run_ + R"(","path":"out","seq_id":2})"))
                  .status,
              200);
  }
  [[nodiscard]] RawResponse as_bob(std::string_view method,
                                   const std::string& path,
                                   const std::string& body = {}) const {
    return ask(method, path, body, kBob);
  }
  /// What an endpoint tells bob of ada's must be what it tells him of what is not there.
  void expect_hidden(std::string_view path, std::string_view body, const std::string& id) const {
    const auto with = [&](const std::string& text) {
      std::string out(body);
      const auto at = out.find('@');
      return out.replace(at, 1, text);
    };
    SCOPED_TRACE(std::string(path));
    const auto hers = as_bob("POST", std::string(path), with(id));
    const std::string none = id.starts_with("tinker://") ? "tinker://none/weights/none" : "none";
    const auto nobodys = as_bob("POST", std::string(path), with(none));
    EXPECT_EQ(hers.status, nobodys.status) << hers.body;
    EXPECT_EQ(hers.status / 100, path == "cancel_future" ? 2 : 4) << hers.body;
  }

  std::string session_;
  std::string run_;
  std::string sampler_;
  std::string future_;
};

TEST_F(OthersIds, OfSessionsAreAsGoodAsNone) {
  expect_hidden("session_heartbeat", R"({"session_id":"@"})", session_);
  expect_hidden("create_model",
                R"({"session_id":"@","model_seq_id":7,"base_model":"tiny","lora_config":{}})",
                session_);
  expect_hidden("create_sampling_session",
                R"({"session_id":"@","sampling_session_seq_id":7,"base_model":"tiny"})",
                session_);
  expect_hidden("create_custom_loss",
                R"({"session_id":"@","custom_loss_seq_id":7,"name":"n","inputs":[],"graph":{}})",
                session_);
  EXPECT_EQ(as_bob("GET", "sessions/" + session_).status, 404);
  EXPECT_EQ(as_bob("GET", "sessions/" + session_ + "/trace_export").status, 404);
  EXPECT_EQ(as_bob("PUT", "sessions/" + session_ + "/project", R"({"project_id":"p"})").status,
            404);
  EXPECT_EQ(as_bob("POST",
                   "sessions/" + session_ + "/finish",
                   R"({"reason":{"type":"success"},"detail":null})")
                .status,
            404);
  EXPECT_EQ(as_bob("GET", "sessions").body.find(session_), std::string::npos);
  EXPECT_EQ(as_bob("POST", "sessions/search", R"({"session_id":")" + session_ + "\"}")
                .body.find(session_),
            std::string::npos);
}

TEST_F(OthersIds, OfModelsAreAsGoodAsNone) {
  for (const char* path : {"get_info", "unload_model"}) {
    expect_hidden(path, R"({"model_id":"@"})", run_);
  }
  for (const char* path : {"save_weights", "save_weights_for_sampler", "save_weights_external"}) {
    expect_hidden(path, R"({"model_id":"@","path":"his","seq_id":3})", run_);
  }
  expect_hidden("optim_step", R"({"model_id":"@","adam_params":{},"seq_id":3})", run_);
  expect_hidden("load_weights",
                R"({"model_id":"@","path":"tinker://x/weights/y","optimizer":false,"seq_id":3})",
                run_);
}

TEST_F(OthersIds, OfSamplersAreAsGoodAsNone) {
  expect_hidden("join_sampling_session", R"({"sampling_session_id":"@"})", sampler_);
  expect_hidden(
      "asample",
      R"({"sampling_session_id":"@","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
      R"("sampling_params":{"max_tokens":1}})",
      sampler_);
  expect_hidden("retrieve_futures",
                R"({"target":{"sampling_session_id":"@"},"prev_cursor":0,"retrieved_ids":[]})",
                sampler_);
  EXPECT_EQ(as_bob("GET", "samplers/" + sampler_).status, 404);
}

TEST_F(OthersIds, OfFuturesAreAsGoodAsNone) {
  expect_hidden("retrieve_future", R"({"request_id":"@"})", future_);
  expect_hidden("cancel_future", R"({"request_id":"@"})", future_);
  EXPECT_EQ(post("retrieve_future", R"({"request_id":")" + future_ + "\"}").status, 200);
}

TEST_F(OthersIds, OfRunsAndCheckpointsAreAsGoodAsNone) {
  const std::string path = "tinker://" + run_ + "/weights/mine";
  expect_hidden("weights_info", R"({"tinker_path":"@"})", path);
  expect_hidden("copy_weights", R"({"source_path":"@","destination_project_id":"p"})", path);
  const auto his = ask("POST", "create_session", R"({"tags":[],"sdk_version":"0"})", kBob);
  const auto session = wire::decode_json<CreateSessionResponse>(his.body).value().session_id;
  expect_hidden("create_sampling_session",
                R"({"sampling_session_seq_id":1,"model_path":"@","session_id":")" + session + "\"}",
                path);
  const std::string run = "training_runs/" + run_;
  const std::string checkpoint = run + "/checkpoints/weights/mine";
  const std::string out = run + "/checkpoints/external_weights/out";
  EXPECT_EQ(as_bob("GET", run).status, 404);
  EXPECT_EQ(as_bob("GET", run + "/checkpoints").status, 404);
  EXPECT_EQ(as_bob("GET", checkpoint + "/archive").status, 404);
  EXPECT_EQ(as_bob("GET", out + "/external_weights_urls").status, 404);
  EXPECT_EQ(as_bob("POST", checkpoint + "/publish").status, 404);
  EXPECT_EQ(as_bob("DELETE", checkpoint + "/publish").status, 404);
  EXPECT_EQ(as_bob("PUT", checkpoint + "/ttl", R"({"ttl_seconds":7200})").status, 404);
  EXPECT_EQ(as_bob("DELETE", checkpoint).status, 404);
  EXPECT_EQ(as_bob("GET", "checkpoints").body.find("mine"), std::string::npos);
  EXPECT_EQ(as_bob("GET", "training_runs").body.find(run_), std::string::npos);
}

TEST_F(OthersIds, MayNotBeChangedJustBecauseTheyArePublic) {
  const std::string checkpoint = "training_runs/" + run_ + "/checkpoints/weights/mine";
  ASSERT_EQ(ask("POST", checkpoint + "/publish").status, 200);

  EXPECT_EQ(as_bob("GET", checkpoint + "/archive").status, 302);
  EXPECT_EQ(as_bob("PUT", checkpoint + "/ttl", R"({"ttl_seconds":7200})").status, 404);
  EXPECT_EQ(as_bob("DELETE", checkpoint + "/publish").status, 404);
  EXPECT_EQ(as_bob("DELETE", checkpoint).status, 404);
}

TEST_F(OthersIds, OfRunsAreListedAsFarAsTheyArePublic) {  // PROTOCOL 9.22, 9.23
  const std::string run = "training_runs/" + run_;
  const std::string accessible = "?access_scope=accessible";
  ASSERT_EQ(outcome(post("save_weights",
                         R"({"model_id":")" + run_ +
                             R"(","path":"secret","seq_id":3,"user_metadata":{"a":"note"}})"))
                .status,
            200);
  EXPECT_EQ(as_bob("GET", "training_runs" + accessible).body.find(run_), std::string::npos);
  EXPECT_EQ(as_bob("GET", run + accessible).status, 404);
  EXPECT_EQ(as_bob("GET", run + "/checkpoints" + accessible).status, 404);
  ASSERT_EQ(ask("POST", run + "/checkpoints/weights/mine/publish").status, 200);

  const auto listed =
      wire::decode_json<TrainingRunsResponse>(as_bob("GET", "training_runs" + accessible).body)
          .value();
  const auto found = wire::decode_json<TrainingRun>(as_bob("GET", run + accessible).body).value();
  const auto checkpoints = wire::decode_json<CheckpointsListResponse>(
                               as_bob("GET", run + "/checkpoints" + accessible).body)
                               .value();

  EXPECT_EQ(listed.cursor.total_count, 1);
  ASSERT_EQ(listed.training_runs.size(), 1U);
  EXPECT_EQ(listed.training_runs.at(0), found);
  EXPECT_EQ(found.training_run_id, run_);
  EXPECT_EQ(found.last_checkpoint->checkpoint_id, "weights/mine");
  EXPECT_EQ(found.last_request_time, found.last_checkpoint->time);
  ASSERT_EQ(checkpoints.checkpoints.size(), 1U);
  EXPECT_EQ(checkpoints.checkpoints.at(0), found.last_checkpoint);
  EXPECT_EQ(as_bob("GET", "training_runs").body.find(run_), std::string::npos);
  EXPECT_EQ(as_bob("GET", "training_runs" + accessible + "&project_id=").status, 200);
  EXPECT_EQ(as_bob("GET", "training_runs" + accessible + "&project_id=p").body.find(run_),
            std::string::npos);
  EXPECT_EQ(as_bob("GET", run).status, 404);
  EXPECT_EQ(as_bob("GET", run + "/checkpoints").status, 404);
}

TEST_F(OthersIds, OfRunsAreListedWithoutWhatTheirOwnerWroteOnThem) {
  const auto made = outcome(post("create_model",
                                 R"({"session_id":")" + session_ +
                                     R"(","model_seq_id":2,"base_model":"tiny",)"
                                     R"("lora_config":{"rank":2},"user_metadata":{"a":"note"}})"));
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string run = session_ + ":train:2";
  ASSERT_EQ(outcome(post("save_weights",
                         R"({"model_id":")" + run +
                             R"(","path":"mine","seq_id":1,"user_metadata":{"a":"note"}})"))
                .status,
            200);
  const std::string path = "training_runs/" + run;
  ASSERT_EQ(ask("POST", path + "/checkpoints/weights/mine/publish").status, 200);

  const std::string accessible = "?access_scope=accessible";
  EXPECT_THAT(ask("GET", path + accessible).body, ::testing::HasSubstr("note"));
  for (const auto& list :
       {"training_runs" + accessible, path + accessible, path + "/checkpoints" + accessible}) {
    const auto answer = as_bob("GET", list);
    EXPECT_THAT(answer.body, ::testing::HasSubstr("weights/mine"));
    EXPECT_EQ(answer.body.find("note"), std::string::npos) << answer.body;
  }
}

TEST_F(OthersIds, OfPublicCheckpointsAreCopiedWithoutWhatTheirOwnerWroteOnThem) {
  ASSERT_EQ(outcome(post("save_weights",
                         R"({"model_id":")" + run_ +
                             R"(","path":"noted","seq_id":3,"user_metadata":{"a":"note"}})"))
                .status,
            200);
  ASSERT_EQ(ask("POST", "training_runs/" + run_ + "/checkpoints/weights/noted/publish").status,
            200);
  // What bob, or who he says he is, gets to see of his copy.
  const auto copied = [&](const std::string& token) {
    const auto answer = as_bob("POST",
                               "copy_weights",
                               R"({"destination_project_id":"p","source_path":"tinker://)" + run_ +
                                   R"(/weights/noted","weights_access_token":)" + token + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto path = wire::decode_json<CopyWeightsResponse>(answer.body).value().tinker_path;
    const auto run = TinkerPath::parse(path).value().training_run_id;
    return as_bob("GET", "training_runs/" + run + "/checkpoints").body;
  };
  const auto quoted = [](const char* key) { return '"' + std::string(key) + '"'; };

  EXPECT_THAT(copied("null"), ::testing::Not(::testing::HasSubstr("note\"")));
  EXPECT_THAT(copied(quoted(kBob)), ::testing::Not(::testing::HasSubstr("note\"")));
  EXPECT_THAT(copied(quoted(kAda)), ::testing::HasSubstr(R"({"a":"note"})"));
}

class SignedLink : public OthersIds {
 protected:
  void SetUp() override {
    OthersIds::SetUp();
    const auto answer = ask("GET", "training_runs/" + run_ + "/checkpoints/weights/mine/archive");
    const auto location = answer.header("location");
    target_ = location.substr(location.find("/api/"));
    ASSERT_EQ(get(target_), 200);
  }
  [[nodiscard]] int get(const std::string& target) const {
    return RawHttp(server_.port()).ask("GET", target).status;
  }
  [[nodiscard]] std::string with(const std::string& what, const std::string& instead) const {
    std::string out = target_;
    const auto at = out.find(what);
    EXPECT_NE(at, std::string::npos);
    return out.replace(at, what.size(), instead);
  }

  std::string target_;
};

TEST_F(SignedLink, IsRefusedWhenItsSignatureIsAnother) {
  std::string altered = target_;
  altered.back() = altered.back() == '0' ? '1' : '0';

  EXPECT_EQ(get(altered), 403);
  EXPECT_EQ(get(target_ + "0"), 403);
  EXPECT_EQ(get(target_.substr(0, target_.size() - 1)), 403);
  EXPECT_EQ(get(target_.substr(0, target_.find('?'))), 403);
}

TEST_F(SignedLink, IsRefusedForAnotherFile) {
  EXPECT_EQ(get(with("mine", "yours")), 403);
  EXPECT_EQ(get(with("archive.tar", "files/adapter_config.json")), 403);
  EXPECT_EQ(get(with("mine", "..%2fmine")), 403);
}

TEST_F(SignedLink, IsRefusedWithAnotherExpiry) {
  EXPECT_EQ(get(with("expires=", "expires=9")), 403);
  EXPECT_EQ(get(with("expires=", "expires=1&expires=")), 403);
  EXPECT_EQ(get(with("&signature", "0&signature")), 403);
  EXPECT_EQ(get(target_ + "&expires=99999999999"), 403);
}

TEST_F(SignedLink, IsRefusedWhenItsCheckpointIsGone) {
  ASSERT_EQ(ask("DELETE", "training_runs/" + run_ + "/checkpoints/weights/mine").status, 200);

  EXPECT_EQ(get(target_), 404);
}

class ForeignSite : public HostileServer, public ::testing::WithParamInterface<const char*> {};

TEST_P(ForeignSite, OpensNoEndpoint) {  // not even with a key: DNS rebinding
  for (const auto& endpoint : server::endpoint_names()) {
    const auto method = http::to_string(endpoint.method);
    const auto path = fill(endpoint.path, "x");
    EXPECT_EQ(ask(method, path, "{}", kAda, std::string(GetParam()) + "\r\n").status, 403)
        << method << " " << path;
  }
}

INSTANTIATE_TEST_SUITE_P(,
                         ForeignSite,
                         ::testing::Values("Host: evil.example",
                                           "Host: 127.0.0.1.evil.example",
                                           "Host: 192.168.1.7:8000",
                                           "Origin: https://evil.example",
                                           "Origin: null",
                                           "Origin: http://localhost.evil.example"));

}  // namespace
}  // namespace tinker::hostile_callers_test
