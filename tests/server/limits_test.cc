// Limits that were set are those that a running server keeps; tests/unit/server/limits_test.cc has
// their texts.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "hostile_server.h"
#include "http/content_coding.h"
#include "wire/proto.h"

namespace tinker::limits_test {
namespace {

using ::testing::HasSubstr;
using testing::HostileServer;
using testing::IsError;
using testing::kAda;
using testing::kBob;
using testing::RawHttp;
using testing::RawResponse;
using namespace std::chrono_literals;

constexpr auto kGenerous = 20s;  // less than the default of what is waited for

class Limit : public HostileServer {
 protected:
  Limit()
      : HostileServer({.head_fields = 20,
                       .json_bytes = 2048,
                       .operations = 2,
                       .samples = 2,
                       .poll_time = 50ms,
                       .link_time = 1ms}) {}
  void TearDown() override {}  // what waits is left to the server's end

  [[nodiscard]] static std::string body(const std::string& run, int number) {
    const ForwardBackwardRequest request = {
        .model_id = run, .seq_id = number, .data = {Datum::next_token({1, 2, 3})}};
    return wire::encode_proto(request).value();
  }
  [[nodiscard]] bool is_done(const std::string& id) const {
    const auto result = outcome({.status = 200, .body = R"({"request_id":")" + id + "\"}"});
    return result.status == 200 && result.header("content-type") == "application/x-protobuf";
  }
  /// As a client does: again and again while the server is busy.
  [[nodiscard]] std::string patient_operation(const std::string& run, int number) const {
    auto answer = post("forward_backward", body(run, number));
    const auto begun = std::chrono::steady_clock::now();
    while (answer.status == 429 && std::chrono::steady_clock::now() - begun < kGenerous) {
      answer = post("forward_backward", body(run, number));
    }
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<UntypedApiFuture>(answer.body).value().request_id;
  }
  /// Waits for requests with lower numbers, which do not come.
  [[nodiscard]] std::string waiting_operation(const std::string& run, int number) const {
    const auto answer = post("forward_backward", body(run, number));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<UntypedApiFuture>(answer.body).value().request_id;
  }
  [[nodiscard]] testing::RawResponse sample(int count) const {
    return post(
        "asample",
        R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
        R"("sampling_params":{"max_tokens":1},"num_samples":)" +
            std::to_string(count) + "}");
  }
};

TEST_F(Limit, OfBytesHoldsForBodies) {
  const auto session = [this](std::size_t bytes) {
    return post("create_session",
                R"({"tags":[],"sdk_version":")" + std::string(bytes, '0') + R"("})")
        .status;
  };

  EXPECT_EQ(session(1500), 200);
  EXPECT_EQ(session(2100), 413);
}

TEST_F(Limit, OfHeadersHoldsForHeads) {
  const auto status = [this](int count) {
    std::string headers;
    for (int i = 0; i < count; ++i) headers += "X-" + std::to_string(i) + ": 1\r\n";
    return ask("GET", "healthz", {}, kAda, headers).status;
  };

  EXPECT_EQ(status(10), 200);
  EXPECT_EQ(status(21), 431);
}

TEST_F(Limit, OfSamplesHoldsForRequests) {
  EXPECT_EQ(outcome(sample(2)).status, 200);

  const auto refused = sample(3);

  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("num_samples: expected 1 to 2, found 3"));
}

TEST_F(Limit, OfOperationsKeepsSamplesOut) {
  const auto run = new_run(new_session());
  (void)waiting_operation(run, 5);
  EXPECT_EQ(outcome(sample(1)).status, 200);
  (void)waiting_operation(run, 6);

  EXPECT_EQ(sample(1).status, 429);
}

TEST_F(Limit, OfOperationsLetsOtherOwnersIn) {
  const auto run = new_run(new_session());
  (void)waiting_operation(run, 5);
  (void)waiting_operation(run, 6);
  const std::string request =
      R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
      R"("sampling_params":{"max_tokens":1},"num_samples":1})";

  EXPECT_EQ(ask("POST", "asample", request, kAda).status, 429);
  EXPECT_EQ(ask("POST", "asample", request, kBob).status, 200);
}

TEST_F(Limit, OfOperationsHoldsForTrainingAndUsesUpNoNumber) {
  const auto run = new_run(new_session());
  const auto second = waiting_operation(run, 2);
  const auto third = waiting_operation(run, 3);
  const auto refused = post("forward_backward", body(run, 4));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(waiting_operation(run, 3), third);  // a repeat

  const auto fourth = patient_operation(run, 4);

  for (const auto& id : {second, third, fourth}) EXPECT_TRUE(is_done(id));
}

TEST_F(Limit, OfOperationsLetsInWhatOthersWaitFor) {
  const auto run = new_run(new_session());
  const auto second = waiting_operation(run, 2);
  const auto third = waiting_operation(run, 3);

  const auto first = waiting_operation(run, 1);

  for (const auto& id : {first, second, third}) EXPECT_TRUE(is_done(id));
}

TEST_F(Limit, OfOperationsLetsABatchGoOnThatIsLargerThanIt) {  // its first chunk comes last
  const auto run = new_run(new_session());
  std::vector<std::string> ids;
  for (const int number : {2, 3, 4, 5, 1}) ids.push_back(patient_operation(run, number));

  for (const auto& id : ids) EXPECT_TRUE(is_done(id));
}

TEST_F(Limit, OfOperationsKeepsClientsWaitingButNotFailing) {
  const auto trainer = service().create_lora_training_client("tiny", {.rank = 2}).get().value();
  std::vector<Future<ForwardBackwardOutput>> passes;
  for (int i = 0; i < 8; ++i) {
    passes.push_back(
        trainer.forward_backward({Datum::next_token({1, 2, 3})}, LossFn::cross_entropy));
  }

  for (auto& pass : passes) EXPECT_THAT(pass.get(), testing::IsOk());
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), testing::IsOk());
}

class FewBytes : public HostileServer {
 protected:
  FewBytes() : FewBytes({.accepted_bytes = 4096}) {}
  explicit FewBytes(const LocalServerLimits& limits) : HostileServer(limits) {}

  [[nodiscard]] static std::string body(const std::string& run, int number, std::size_t tokens) {
    const ForwardBackwardRequest request = {
        .model_id = run,
        .seq_id = number,
        .data = {Datum::next_token(std::vector<std::int32_t>(tokens, 1))}};
    return wire::encode_proto(request).value();
  }
};

TEST_F(FewBytes, OfTrainingDataKeepsMoreOfThemOut) {
  const auto run = new_run(new_session());
  const std::size_t tokens = 300;
  ASSERT_EQ(post("forward_backward", body(run, 2, tokens)).status, 200);

  const auto refused = post("forward_backward", body(run, 3, tokens));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("bytes of your training data wait"));
  EXPECT_EQ(outcome(post("forward_backward", body(run, 2, tokens))).status, 200);
  EXPECT_EQ(outcome(post("forward_backward", body(run, 3, tokens))).status, 200);
}

class FewIncomingBytes : public HostileServer {
 protected:
  FewIncomingBytes() : HostileServer({.incoming_bytes = std::size_t{1} << 20U}) {}

  /// More than half of what may come at a time.
  [[nodiscard]] static std::string body() {
    return R"({"tags":[],"sdk_version":")" + std::string(600U << 10U, '0') + R"("})";
  }
  [[nodiscard]] RawResponse create(const char* key) const {
    return ask("POST", "create_session", body(), key);
  }
  /// Sends the head of a request of ada's. When this ends, the server waits for the body.
  static void begin(RawHttp& client) {
    client.send(
        base::concat("POST /api/v1/create_session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ",
                     kAda,
                     "\r\nExpect: 100-continue\r\nContent-Length: ",
                     body().size(),
                     "\r\n\r\n"));
    ASSERT_EQ(client.receive().status, 100);
  }
};

TEST_F(FewIncomingBytes, KeepOutWhoseOtherBodiesHaveNotAllCome) {
  RawHttp slow(server_.port());
  begin(slow);

  const auto refused = create(kAda);

  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_THAT(refused.body, HasSubstr("bytes are being received"));
  EXPECT_EQ(create(kBob).status, 200);
  (void)new_session();  // small bodies always pass
  slow.send(body());
  EXPECT_EQ(slow.receive().status, 200);
  EXPECT_EQ(create(kAda).status, 200);
}

TEST_F(FewIncomingBytes, CountAsTheyComeWhereNoLengthIsDeclared) {
  RawHttp slow(server_.port());
  begin(slow);
  RawHttp endless(server_.port());

  endless.send(
      base::concat("POST /api/v1/create_session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ",
                   kAda,
                   "\r\nTransfer-Encoding: chunked\r\n\r\n96000\r\n",
                   std::string(0x96000, ' ')));

  EXPECT_EQ(endless.receive().status, 429);
}

TEST_F(FewIncomingBytes, CountUnpacked) {
  RawHttp slow(server_.port());
  begin(slow);

  const auto packed = http::zstd_compress(body(), 3).value();

  EXPECT_EQ(ask("POST", "create_session", packed, kAda, "Content-Encoding: zstd\r\n").status, 429);
}

TEST_F(FewIncomingBytes, LetInTheOnlyBodyOfAnOwner) {
  EXPECT_EQ(ask("POST", "create_session", body() + std::string(2U << 20U, ' ')).status, 200);
}

class FewResults : public FewBytes {
 protected:
  FewResults() : FewBytes({.result_bytes = 4096}) {}
};

TEST_F(FewResults, KeepOutWhoDoesNotFetchHisOwn) {
  const auto run = new_run(new_session());
  std::vector<std::string> ids;
  RawResponse answer = post("forward_backward", body(run, 1, 3));
  for (int number = 2; answer.status == 200 && number < 1000; ++number) {
    ids.push_back(wire::decode_json<UntypedApiFuture>(answer.body).value().request_id);
    answer = post("forward_backward", body(run, number, 3));
  }
  ASSERT_EQ(answer.status, 429);
  EXPECT_THAT(answer.body, HasSubstr("bytes of results are not fetched"));
  const auto bob = service(kBob).create_sampling_client({.base_model = "tiny"}).get();
  EXPECT_THAT(bob->sample(ModelInput::from_tokens({1}), {.max_tokens = 1}).get(), testing::IsOk());

  for (const auto& id : ids) {
    EXPECT_EQ(outcome({.status = 200, .body = R"({"request_id":")" + id + "\"}"}).status, 200);
  }
  const auto next = static_cast<int>(ids.size()) + 1;
  EXPECT_EQ(outcome(post("forward_backward", body(run, next, 3))).status, 200);
}

TEST_F(Limit, OfTimeHoldsForPolls) {
  const auto id = waiting_operation(new_run(new_session()), 5);
  const auto begun = std::chrono::steady_clock::now();

  const auto answer = post("retrieve_future", R"({"request_id":")" + id + "\"}");

  EXPECT_EQ(answer.status, 408);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kGenerous);
}

TEST_F(Limit, OfTimeHoldsForLinks) {
  const auto run = new_run(new_session());
  const auto saved =
      outcome(post("save_weights", R"({"model_id":")" + run + R"(","seq_id":1,"path":"mine"})"));
  ASSERT_EQ(saved.status, 200) << saved.body;
  const auto link = ask("GET", "training_runs/" + run + "/checkpoints/weights/mine/archive");
  const auto location = link.header("location");
  ASSERT_EQ(link.status, 302);

  EXPECT_EQ(RawHttp(server_.port()).ask("GET", location.substr(location.find("/api/"))).status,
            403);
}

class OneUnnamedSave : public HostileServer {
 protected:
  OneUnnamedSave() : HostileServer({.ephemeral_saves = 1}) {}

  /// The sampling session of a save without a name.
  [[nodiscard]] std::string save(const std::string& run, int number) const {
    const auto saved = outcome(post("save_weights_for_sampler",
                                    base::concat(R"({"model_id":")",
                                                 run,
                                                 R"(","seq_id":)",
                                                 number,
                                                 R"(,"sampling_session_seq_id":)",
                                                 number,
                                                 "}")));
    EXPECT_EQ(saved.status, 200) << saved.body;
    return wire::decode_json<SaveWeightsForSamplerResponseInternal>(saved.body)
        .value()
        .sampling_session_id.value();
  }
};

TEST_F(OneUnnamedSave, LetsSamplesOfTheWeightsBeforeItEnd) {
  const auto run = new_run(new_session());
  const auto request = R"({"sampling_session_id":")" + save(run, 1) +
                       R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
                       R"("sampling_params":{"max_tokens":200,"stop":[]},"num_samples":100})";
  const auto accepted = post("asample", request);
  ASSERT_EQ(accepted.status, 200) << accepted.body;
  (void)save(run, 2);

  EXPECT_EQ(post("asample", request).body, accepted.body);  // a repeat

  const auto result = outcome(accepted);
  EXPECT_EQ(result.header("content-type"), "application/x-protobuf") << result.body;
}

class FewOfAll : public HostileServer {
 protected:
  FewOfAll()
      : HostileServer(
            {.losses = 1, .sessions = 2, .runs = 1, .upload_time = 1ms, .token_time = 1ms}) {}
  void TearDown() override {}

  [[nodiscard]] RawResponse create(const std::string& key, const char* owner = kAda) const {
    return ask("POST",
               "create_session",
               R"({"tags":[],"sdk_version":"0.36.0"})",
               owner,
               key.empty() ? "" : "X-Idempotency-Key: " + key + "\r\n");
  }
  [[nodiscard]] RawResponse make_run(const std::string& session, int number, int rank) const {
    return post("create_model",
                base::concat(R"({"session_id":")",
                             session,
                             R"(","model_seq_id":)",
                             number,
                             R"(,"base_model":"tiny","lora_config":{"rank":)",
                             rank,
                             "}}"));
  }
  [[nodiscard]] RawResponse make_loss(const std::string& session, int number) const {
    return post("create_custom_loss",
                base::concat(R"({"session_id":")",
                             session,
                             R"(","custom_loss_seq_id":)",
                             number,
                             R"(,"name":"n","inputs":[],"graph":{"nodes":[]}})"));
  }
};

TEST_F(FewOfAll, SessionsOfAnOwnerAndClientsTryAgain) {
  (void)new_session();
  const auto second = create("key");
  ASSERT_EQ(second.status, 200);

  const auto refused = create("");

  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("you have 2 sessions"));
  EXPECT_EQ(create("key").body, second.body);  // a repeat
  EXPECT_EQ(create("", kBob).status, 200);
}

TEST_F(FewOfAll, RunsOfASessionAlsoThoseThatWereRefused) {
  const auto session = new_session();
  const auto first = make_run(session, 1, 0);
  ASSERT_THAT(outcome(first), testing::IsUsersFault());

  const auto refused = make_run(session, 2, 1);

  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("a session can make 1 training runs"));
  EXPECT_EQ(make_run(session, 1, 0).body, first.body);  // a repeat
  EXPECT_EQ(make_run(new_session(), 1, 1).status, 200);
}

TEST_F(FewOfAll, LossesOfASessionAlsoThoseThatWereRefused) {
  const auto session = new_session();
  const auto first = make_loss(session, 1);
  ASSERT_THAT(outcome(first), testing::IsUsersFault());

  EXPECT_EQ(make_loss(session, 2).status, 400);
  EXPECT_EQ(make_loss(session, 1).body, first.body);  // a repeat
}

TEST_F(FewOfAll, TimesOfUploadsAndTokens) {
  const auto upload = wire::decode_json<ExternalWeightsUploadStartResponse>(
      post("external_weights_upload_start", R"({"base_model":"tiny","lora_config":{"rank":4}})")
          .body);
  const auto token = wire::decode_json<AuthTokenResponse>(post("auth/token", "{}").body);
  ASSERT_THAT(upload, testing::IsOk());
  ASSERT_THAT(token, testing::IsOk());
  const std::string url = upload->urls.at("adapter_config.json");

  EXPECT_EQ(RawHttp(server_.port()).ask("PUT", url.substr(url.find("/api/"))).status, 403);
  EXPECT_EQ(ask("GET", "sessions", {}, token->jwt.expose()).status, 401);
}

TEST(Limits, ThatMakeNoSenseKeepAServerFromStarting) {
  EXPECT_THAT(LocalServer::start({.limits = {.poll_time = 0ms}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("limit poll_time: expected")));
}

}  // namespace
}  // namespace tinker::limits_test
