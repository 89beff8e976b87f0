// Data that are larger than the limits, and more of them than fit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::large_data_test {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

struct Training : ClientFixture {
  explicit Training(const char* config = "{}") : ClientFixture(config) {}

  /// Seq_id and number of data of each part, in the order of the ids.
  [[nodiscard]] std::map<std::int64_t, std::size_t> parts() const {
    std::map<std::int64_t, std::size_t> out;
    for (const auto& batch : batches) out[batch.seq_id] = batch.data.size();
    return out;
  }

  ServiceClient service = connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

std::vector<Datum> one_of_bytes(std::size_t bytes) {
  return make_data(1, bytes / 16);  // 4 a token, 8 a target, 4 a weight
}

TEST(LargeData, ADatumBeyondEveryLimitIsSentAlone) {  // R7.5, R7.8, R6.8
  Training f(R"({"fwdbwd_dispatch_bytes_semaphore_size":1000000})");

  const auto output = f.trainer.forward_backward(one_of_bytes(16'000'000), LossFn::cross_entropy);
  EXPECT_THAT(f.trainer.optim_step(AdamParams()).get(), IsOk());

  EXPECT_THAT(f.parts(), ElementsAre(::testing::Pair(1, 1U)));
  EXPECT_EQ(f.batches[0].data[0], one_of_bytes(16'000'000)[0]);
}

TEST(LargeData, ALargeFirstDatumMakesNoEmptyPart) {  // R7.5
  const Training f;
  auto data = one_of_bytes(16'000'000);
  for (auto& datum : make_data(2)) data.push_back(datum);

  EXPECT_THAT(f.trainer.forward_backward(data, LossFn::cross_entropy).get()->loss_fn_outputs,
              SizeIs(3));

  EXPECT_THAT(f.parts(), ElementsAre(::testing::Pair(1, 1U), ::testing::Pair(2, 2U)));
}

TEST(LargeData, PartsAreCutByNumberAndByBytes) {  // R7.5
  const Training f(R"({"fwdbwd_max_chunk_len":3,"fwdbwd_max_chunk_bytes_count":100})");
  auto data = make_data(4);                                   // 32 bytes each: three fill a part
  for (auto& datum : make_data(2, 4)) data.push_back(datum);  // 64 bytes each
  data.push_back(make_data(1, 100)[0]);                       // more than a part may have

  EXPECT_THAT(f.trainer.forward_backward(data, LossFn::cross_entropy).get(), IsOk());

  EXPECT_THAT(f.parts(),
              ElementsAre(::testing::Pair(1, 3U),
                          ::testing::Pair(2, 2U),
                          ::testing::Pair(3, 1U),
                          ::testing::Pair(4, 1U)));
}

TEST(LargeData, ImagesOfUnknownLengthAreCutByTheirBytes) {  // R7.4
  const Training f(R"({"fwdbwd_max_chunk_bytes_count":1100})");
  auto data = make_data(4);
  for (auto& datum : data) {
    datum.model_input.chunks.emplace_back(
        ImageChunk{.data = std::string(500, 'x'), .format = ImageFormat::png});
  }

  EXPECT_THAT(f.trainer.forward_backward(data, LossFn::cross_entropy).get(), IsOk());

  EXPECT_THAT(f.parts(), ElementsAre(::testing::Pair(1, 2U), ::testing::Pair(2, 2U)));
}

TEST(LargeData, NoMoreThanTheBudgetIsOnItsWay) {  // R7.8: memory stays bounded
  Training f(R"({"fwdbwd_max_chunk_len":1,"fwdbwd_dispatch_bytes_semaphore_size":320000})");
  std::size_t most = 0;
  f.server->handle("/forward_backward", [&](const http::Request& request) {
    most = std::max(most, f.server->in_flight());
    auto reply = f.accept_batch(request);
    reply.delay = 1s;
    return reply;
  });
  std::vector<Datum> data;
  for (int i = 0; i < 40; ++i) data.push_back(one_of_bytes(160'000)[0]);

  EXPECT_THAT(f.trainer.forward_backward(data, LossFn::cross_entropy).get(), IsOk());

  EXPECT_THAT(f.parts(), SizeIs(40));
  EXPECT_LE(most, 5U) << "three of them at a time, a report and a poll beside";
}

TEST(LargeData, ResultsThatTogetherDoNotFitComeOneAfterTheOther) {  // R6.9: memory stays bounded
  Training f(R"({"inflight_response_bytes_semaphore_size":1000})");
  std::size_t payloads = 0;
  std::size_t most = 0;
  f.server->handle("/retrieve_future", [&](const http::Request& request) {
    const auto asked = wire::decode_json<FutureRetrieveRequest>(*request.body).value();
    if (asked.allow_metadata_only) {
      return FakeReply{.body = R"({"status":"complete_metadata","response_payload_size":1500})"};
    }
    ++payloads;
    std::size_t open = 0;
    for (const auto& sent : f.server->sent("/retrieve_future")) {
      const bool is_payload =
          http::view(sent.request.body).find(R"("allow_metadata_only":false)") !=
          std::string_view::npos;
      if (is_payload && f.time.elapsed() - sent.at < 1s) ++open;
    }
    most = std::max(most, open);
    auto reply = f.result(request);
    reply.delay = 1s;
    return reply;
  });
  std::vector<Future<OptimStepResponse>> steps;
  for (int i = 0; i < 5; ++i) steps.push_back(f.trainer.optim_step(AdamParams()));

  for (auto& step : steps) EXPECT_THAT(step.get(), IsOk());

  EXPECT_EQ(payloads, 5U);
  EXPECT_EQ(most, 1U);
}

}  // namespace
}  // namespace tinker::client::large_data_test
