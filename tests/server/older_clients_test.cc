// Bodies as SDK 0.24.1 posted them without protobuf, against the embedded server: JSON goes in and,
// for who asks for nothing else, JSON comes out (PROTOCOL 10.5, 11).

#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/loop_fixture.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "tinker/types/session.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::older_clients_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kProtobuf = "application/x-protobuf, application/json";

class OlderClients : public testing::LoopFixture {
 protected:
  OlderClients() {
    const auto session = post<CreateSessionResponse>(
        "create_session",
        R"({"tags":[],"user_metadata":{},"sdk_version":"0.24.1","type":"create_session"})");
    session_id = session.session_id;
    const auto model = submit<CreateModelResponse>(
        "create_model",
        base::concat(R"({"session_id":")",
                     session_id,
                     R"(","model_seq_id":0,"base_model":"tiny","lora_config":{"rank":4},)",
                     R"("type":"create_model"})"));
    model_id = model.model_id;
  }

  http::Response send(std::string path, std::string body, http::Headers headers) {
    auto request = LoopFixture::post(base::concat(server.base_url(), "/api/v1/", path), body);
    headers.add("x-api-key", "tml-local-test");
    request.headers = std::move(headers);
    return http->send(std::move(request)).get().value();
  }
  http::Response send_json(std::string path, std::string body) {
    return send(std::move(path), std::move(body), {{"content-type", "application/json"}});
  }
  template <typename Answer>
  Answer post(std::string path, std::string body) {
    const auto response = send_json(std::move(path), std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return wire::decode_json<Answer>(response.body).value();
  }
  http::Response poll(const std::string& request_id, const char* accept) {
    return send("retrieve_future",
                base::concat(R"({"request_id":")", request_id, R"("})"),
                {{"content-type", "application/json"}, {"accept", accept}});
  }
  template <typename Answer>
  Answer submit(std::string path, std::string body) {
    const auto future = post<UntypedApiFuture>(std::move(path), std::move(body));
    const auto response = poll(future.request_id, "application/json");
    EXPECT_EQ(response.headers.find("content-type"), "application/json");
    return wire::decode_json<Answer>(response.body).value();
  }
  /// As recorded; the ids are this test's.
  [[nodiscard]] std::string batch(const char* member, int seq_id) const {
    return base::concat(
        R"({")",
        member,
        R"(":{"data":[{"loss_fn_inputs":{"target_tokens":{"data":[9,12,200,31],"dtype":"int64",)",
        R"("shape":[4]},"weights":{"data":[0.0,1.0,1.0,1.0],"dtype":"float32","shape":[4]}},)",
        R"("model_input":{"chunks":[{"tokens":[5,9,12,200],"type":"encoded_text"}]}}],)",
        R"("loss_fn":"cross_entropy"},"model_id":")",
        model_id,
        R"(","seq_id":)",
        seq_id,
        "}");
  }

  LocalServer server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .threads = 1,
                          .precision = EnginePrecision::f32})
          .value();
  std::shared_ptr<http::Transport> http = transport();
  std::string session_id = {};
  std::string model_id = {};
};

TEST_F(OlderClients, TrainWithJson) {
  const auto first =
      submit<ForwardBackwardOutput>("forward_backward", batch("forward_backward_input", 1));
  submit<OptimStepResponse>("optim_step",
                            base::concat(R"({"adam_params":{"learning_rate":0.01},"model_id":")",
                                         model_id,
                                         R"(","seq_id":2,"type":"optim_step"})"));
  const auto second = submit<ForwardBackwardOutput>("forward", batch("forward_input", 3));

  EXPECT_LT(second.loss().value(), first.loss().value());
}

TEST_F(OlderClients, ForwardAddsNoGradient) {
  submit<ForwardBackwardOutput>("forward", batch("forward_input", 1));
  const auto before = submit<ForwardBackwardOutput>("forward", batch("forward_input", 2));
  submit<OptimStepResponse>("optim_step",
                            base::concat(R"({"adam_params":{"learning_rate":0.01},"model_id":")",
                                         model_id,
                                         R"(","seq_id":3,"type":"optim_step"})"));
  const auto after = submit<ForwardBackwardOutput>("forward", batch("forward_input", 4));

  EXPECT_EQ(after, before);
}

TEST_F(OlderClients, GetProtobufWhereTheyAcceptIt) {
  const auto future =
      post<UntypedApiFuture>("forward_backward", batch("forward_backward_input", 1));

  const auto as_protobuf = poll(future.request_id, kProtobuf);
  const auto as_json = poll(future.request_id, "application/json");

  EXPECT_EQ(as_protobuf.headers.find("content-type"), "application/x-protobuf");
  EXPECT_EQ(wire::encode_json(wire::decode_proto<ForwardBackwardOutput>(as_protobuf.body).value())
                .value(),
            as_json.body);
}

TEST_F(OlderClients, SampleWithJson) {
  const auto response = submit<SampleResponse>(
      "asample",
      R"({"num_samples":2,"prompt":{"chunks":[{"tokens":[5,9],"type":"encoded_text"}]},)"
      R"("sampling_params":{"max_tokens":3,"temperature":0.0,"top_k":-1,"top_p":1.0},)"
      R"("base_model":"tiny","prompt_logprobs":true,"topk_prompt_logprobs":2,"type":"sample"})");

  ASSERT_EQ(response.sequences.size(), 2U);
  EXPECT_EQ(response.sequences[0].tokens, response.sequences[1].tokens);
  EXPECT_EQ(response.sequences[0].logprobs.size(), 3U);
  EXPECT_EQ(response.prompt_logprob(0), std::nullopt);
  EXPECT_LT(response.prompt_logprob(1), 0.0F);
  EXPECT_EQ(response.topk_prompt_logprobs.value().k, 2U);
}

TEST_F(OlderClients, HearWhatIsWrongWithTheirBody) {
  const auto response = send_json("forward_backward", R"({"model_id":"m","seq_id":1})");

  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("forward_backward_input"));
}

TEST_F(OlderClients, CannotTrainByTheNameOfAForwardPass) {
  const auto future = post<UntypedApiFuture>("forward", batch("forward_backward_input", 1));

  const auto response = poll(future.request_id, "application/json");
  EXPECT_THAT(response.body, HasSubstr(R"("category":"user")"));
  EXPECT_THAT(response.body, HasSubstr("forward_input"));
}

TEST_F(OlderClients, HearThatTheTypeOfTheirBodyIsUnknown) {
  const auto response = send("forward", batch("forward_input", 1), {{"content-type", "text/html"}});

  EXPECT_EQ(response.status, 415);
  EXPECT_THAT(response.body, HasSubstr("text/html"));
}

}  // namespace
}  // namespace tinker::older_clients_test
