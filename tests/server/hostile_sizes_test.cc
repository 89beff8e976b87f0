// Requests that are well-formed and ask for more than there can be.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hostile_server.h"
#include "support/peak_memory.h"
#include "wire/proto.h"

namespace tinker::hostile_sizes_test {
namespace {

using testing::HostileServer;
using testing::IsUsersFault;
using testing::PeakMemory;
using testing::RawResponse;

constexpr std::size_t kMuch = 600U << 20U;  // the test's own requests are part of it

class HostileSize : public HostileServer {
 protected:
  void TearDown() override {
    if (testing::kCanMeasureMemory) {
      EXPECT_LT(memory_.grown_bytes(), kMuch);
    }
    HostileServer::TearDown();
  }
  /// Of a training body for a new run.
  [[nodiscard]] RawResponse train(std::vector<Datum> data) const {
    ForwardBackwardRequest request;
    request.model_id = new_run(new_session());
    request.data = std::move(data);
    request.loss_fn = LossFn::cross_entropy;
    request.seq_id = 1;
    return outcome(post("forward_backward", wire::encode_proto(request).value()));
  }

  PeakMemory memory_;
};

class HostileSample : public HostileSize, public ::testing::WithParamInterface<const char*> {};

TEST_P(HostileSample, IsTheUsersFault) {
  const auto sampler = new_sampler(new_session());
  const auto body =
      R"({"sampling_session_id":")" + sampler +
      R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1,2],"type":"encoded_text"}]},)" + GetParam() +
      "}";

  EXPECT_THAT(outcome(post("asample", body)), IsUsersFault());
}

INSTANTIATE_TEST_SUITE_P(
    ,
    HostileSample,
    ::testing::Values(R"("num_samples":0,"sampling_params":{"max_tokens":1})",
                      R"("num_samples":-1,"sampling_params":{"max_tokens":1})",
                      R"("num_samples":1000000000,"sampling_params":{"max_tokens":1})",
                      R"("num_samples":9223372036854775807,"sampling_params":{"max_tokens":1})",
                      R"("num_samples":16384,"sampling_params":{"max_tokens":1000000000})",
                      R"("sampling_params":{"max_tokens":0})",
                      R"("sampling_params":{"max_tokens":-5})",
                      R"("sampling_params":{"max_tokens":1,"top_k":-9})",
                      R"("sampling_params":{"max_tokens":1,"top_p":7})",
                      R"("sampling_params":{"max_tokens":1,"temperature":-1})",
                      R"("sampling_params":{"max_tokens":1},"topk_prompt_logprobs":1000000000)",
                      R"("sampling_params":{"max_tokens":1},"topk_sample_logprobs":1000000000)",
                      R"("sampling_params":{"max_tokens":1},"topk_sample_logprobs":-1)",
                      R"("sampling_params":{"max_tokens":1},"prompt_alt_tokens_k":1000000000)",
                      R"("sampling_params":{"max_tokens":1,"stop":[""]})"));

TEST_F(HostileSize, OfAPromptIsTheUsersFault) {
  std::string tokens = "1";
  for (int i = 0; i < 1'000'000; ++i) tokens += ",1";
  const auto body = R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[)" + tokens +
                    R"(],"type":"encoded_text"}]},"sampling_params":{"max_tokens":1}})";

  EXPECT_THAT(outcome(post("asample", body)), IsUsersFault());
}

TEST_F(HostileSize, OfTokensIsTheUsersFault) {
  for (const char* token : {"-1", "300", "2147483647", "-2147483648", "99999999999"}) {
    const auto body = std::string(R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[)") +
                      token + R"(],"type":"encoded_text"}]},"sampling_params":{"max_tokens":1}})";

    EXPECT_THAT(outcome(post("asample", body)), IsUsersFault()) << token;
  }
}

TEST_F(HostileSize, OfARankIsTheUsersFault) {
  const auto session = new_session();
  int number = 0;
  for (const char* rank : {"0", "-1", "1000000000", "9223372036854775807", "1048576"}) {
    const auto body = R"({"session_id":")" + session + R"(","model_seq_id":)" +
                      std::to_string(++number) + R"(,"base_model":"tiny","lora_config":{"rank":)" +
                      rank + "}}";

    EXPECT_THAT(outcome(post("create_model", body)), IsUsersFault()) << rank;
  }
}

TEST_F(HostileSize, OfAnEmptyBatchIsTheUsersFault) {
  EXPECT_THAT(train({}), IsUsersFault());
}

TEST_F(HostileSize, OfABatchOfEmptyDataIsTheUsersFault) {
  EXPECT_THAT(train(std::vector<Datum>(1'000'000)), IsUsersFault());
}

TEST_F(HostileSize, OfASequenceIsTheUsersFault) {
  EXPECT_THAT(train({Datum::next_token(std::vector<std::int32_t>(1'000'000, 1))}), IsUsersFault());
}

TEST_F(HostileSize, OfATargetIsTheUsersFault) {
  for (const std::int32_t token : {-1, 300, 2'147'483'647}) {
    EXPECT_THAT(train({Datum::next_token({1, 2, token})}), IsUsersFault()) << token;
  }
}

TEST_F(HostileSize, OfATensorBeyondItsDataIsTheUsersFault) {
  Datum datum = Datum::next_token({1, 2, 3});
  datum.loss_fn_inputs.insert_or_assign("weights", TensorData(std::vector<float>{1.0F}));

  EXPECT_THAT(train({datum}), IsUsersFault());
}

TEST_F(HostileSize, OfNumbersOfRequestsHarmsNobody) {
  const auto run = new_run(new_session());
  for (const char* number : {"-1", "0", "9223372036854775807", "-9223372036854775808"}) {
    const auto body = R"({"model_id":")" + run + R"(","adam_params":{},"seq_id":)" + number + "}";
    EXPECT_LT(outcome(post("optim_step", body)).status, 500) << number;
  }
}

TEST_F(HostileSize, OfTheStepOfAnOptimizerIsTheUsersFault) {
  const auto run = new_run(new_session());
  int number = 0;
  for (const char* params : {R"({"learning_rate":-0.001})",
                             R"({"beta1":2})",
                             R"({"beta2":-1})",
                             R"({"eps":-1})",
                             R"({"grad_clip_norm":-1})"}) {
    const auto body = R"({"model_id":")" + run + R"(","adam_params":)" + params + R"(,"seq_id":)" +
                      std::to_string(++number) + "}";
    EXPECT_THAT(outcome(post("optim_step", body)), IsUsersFault()) << params;
  }
}

TEST_F(HostileSize, OfALifetimeIsTheUsersFault) {
  const auto run = new_run(new_session());
  int number = 0;
  for (const char* ttl : {"0", "-1", "1", "9223372036854775807", "-9223372036854775808"}) {
    const auto body = R"({"model_id":")" + run + R"(","path":"p","ttl_seconds":)" + ttl +
                      R"(,"seq_id":)" + std::to_string(++number) + "}";
    EXPECT_THAT(outcome(post("save_weights", body)), IsUsersFault()) << ttl;
  }
}

TEST_F(HostileSize, OfALossGraphIsTheUsersFault) {
  std::string nodes;
  for (int i = 0; i < 100'000; ++i) nodes += (i == 0 ? "" : ",") + std::string(R"({"op":"add"})");
  const auto body = R"({"session_id":")" + new_session() +
                    R"(","custom_loss_seq_id":1,"name":"n","inputs":[],"graph":{"nodes":[)" +
                    nodes + "]}}";

  EXPECT_THAT(outcome(post("create_custom_loss", body)), IsUsersFault());
}

}  // namespace
}  // namespace tinker::hostile_sizes_test
