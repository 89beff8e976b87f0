// Batches that make several requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::training_batch_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

constexpr auto kParallel = R"({"fwdbwd_max_chunk_len":1})";
constexpr auto kSerial = R"({"fwdbwd_max_chunk_len":1,"parallel_fwdbwd_chunks":false})";

struct Training : ClientFixture {
  explicit Training(const char* config) : ClientFixture(config) {}

  /// The seq_ids of the batches in the order they came.
  [[nodiscard]] std::vector<std::int64_t> arrived() const {
    std::vector<std::int64_t> out;
    for (const auto& batch : batches) out.push_back(batch.seq_id);
    return out;
  }
  /// Answers the part with that id so, and the others as usual.
  void refuse(std::int64_t seq_id, FakeReply reply) {
    server->handle("/forward_backward", [this, seq_id, reply](const http::Request& request) {
      auto accepted = accept_batch(request);
      return batches.back().seq_id == seq_id ? reply : accepted;
    });
  }

  ServiceClient service = connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST(TrainingBatch, ItsFirstPartLeavesLast) {  // R7.7
  Training f(kParallel);
  auto gradients = f.trainer.forward_backward(make_data(4), LossFn::cross_entropy);
  auto step = f.trainer.optim_step(AdamParams());

  EXPECT_THAT(step.get(), IsOk());

  ASSERT_THAT(f.arrived(), SizeIs(4));
  EXPECT_EQ(f.arrived().back(), 1);
  EXPECT_THAT(f.arrived(), UnorderedElementsAre(1, 2, 3, 4));
  EXPECT_THAT(f.bodies("/optim_step")[0], HasSubstr(R"("seq_id":5,)"));
  EXPECT_THAT(f.paths().back(), "optim_step");
  EXPECT_THAT(gradients.get()->metrics, ElementsAre(Pair("loss:sum", 4)));
}

TEST(TrainingBatch, ItsPartsLeaveOneAfterTheOtherWhereTheServerWantsThat) {  // R7.7
  Training f(kSerial);

  const auto output = f.trainer.forward_backward(make_data(3), LossFn::cross_entropy).get();

  EXPECT_THAT(f.arrived(), ElementsAre(1, 2, 3));
  EXPECT_THAT(output->loss_fn_outputs, SizeIs(3));
}

TEST(TrainingBatch, APartThatFailsFailsTheBatchAndWhatWaits) {  // D2
  Training f(kParallel);
  f.refuse(3, {.status = 422, .body = "bad datum"});
  auto gradients = f.trainer.forward_backward(make_data(3), LossFn::cross_entropy);
  auto step = f.trainer.optim_step(AdamParams());

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::unprocessable, AllOf(HasSubstr("bad datum"))));
  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad datum")));
  EXPECT_THAT(f.arrived(), UnorderedElementsAre(2, 3)) << "the first part must not be sent";
  EXPECT_THAT(f.trainer.optim_step(AdamParams()).get(), IsOk());
  EXPECT_THAT(f.bodies("/optim_step"), ElementsAre(HasSubstr(R"("seq_id":5,)")));
}

TEST(TrainingBatch, ErrorsNameTheData) {
  Training f(kSerial);
  f.refuse(2, {.status = 422, .body = "bad"});

  const auto output = f.trainer.forward_backward(make_data(3), LossFn::cross_entropy).get();

  ASSERT_FALSE(output.ok());
  EXPECT_THAT(output.error().to_string(), HasSubstr("data[1] to data[1]"));
}

TEST(TrainingBatch, PartsCanBeUsedAsTheyArrive) {
  Training f(kSerial);
  auto parts = f.trainer.forward_backward_parts(make_data(2), LossFn::cross_entropy, {});
  ASSERT_THAT(parts, IsOk());
  ASSERT_THAT(*parts, SizeIs(2));

  EXPECT_EQ((*parts)[1].first, 1U);
  EXPECT_EQ((*parts)[1].count, 1U);
  EXPECT_THAT((*parts)[0].output.get(), IsOk());
  EXPECT_THAT((*parts)[1].output.get(), IsOk());
}

TEST(TrainingBatch, PartsThatWereNotSentSayWhy) {
  Training f(kSerial);
  f.refuse(2, {.status = 422, .body = "bad"});
  auto parts = f.trainer.forward_backward_parts(make_data(3), LossFn::cross_entropy, {}).value();

  EXPECT_THAT(parts[1].output.get(), IsError(ErrorCode::unprocessable, HasSubstr("bad")));
  EXPECT_THAT(parts[2].output.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad")));
  EXPECT_THAT(parts[0].output.get(), IsOk()) << "it had been sent";
}

TEST(TrainingBatch, CancellingOnePartCancelsAll) {
  Training f(kSerial);
  f.server->reply("/forward_backward", {{.never = true}});
  auto parts = f.trainer.forward_backward_parts(make_data(2), LossFn::cross_entropy, {}).value();
  f.time.run_ready();

  parts[1].output.cancel();

  EXPECT_THAT(parts[0].output.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(parts[1].output.get(), IsError(ErrorCode::cancelled, _));
}

TEST(TrainingBatch, CancellingAfterAPartWasSentEndsWhatWaits) {
  Training f(kSerial);
  f.refuse(2, {.never = true});
  auto gradients = f.trainer.forward_backward(make_data(2), LossFn::cross_entropy);
  auto step = f.trainer.optim_step(AdamParams());
  f.time.run_ready();

  gradients.cancel();

  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("cancelled")))
      << "half a batch is no batch";
}

TEST(TrainingBatch, IsCompressedWhereTheServerWantsThat) {
  Training f(R"({"proto_compress_fwdbwd":true})");
  f.server->handle("/forward_backward", [&](const http::Request& request) {
    EXPECT_EQ(request.headers.find("content-encoding"), "zstd");
    EXPECT_EQ(request.body->substr(0, 4), "\x28\xB5\x2F\xFD");
    return f.accept();
  });

  EXPECT_THAT(f.trainer.forward_backward(make_data(1), LossFn::cross_entropy).get(), IsOk());
}

TEST(TrainingBatch, IsDividedByItsBytesWhereTheServerWantsThat) {  // R7.5
  Training f(R"({"fwdbwd_max_chunk_bytes_count":64})");

  EXPECT_THAT(f.trainer.forward_backward(make_data(5), LossFn::cross_entropy).get(), IsOk());

  ASSERT_THAT(f.batches, SizeIs(3)) << "two of 32 bytes each in a part";
  std::size_t data = 0;
  for (const auto& batch : f.batches) data += batch.data.size();
  EXPECT_EQ(data, 5);
}

TEST(TrainingBatch, BytesInFlightAreBounded) {  // R7.8
  Training f(R"({"fwdbwd_max_chunk_len":1,"fwdbwd_dispatch_bytes_semaphore_size":40})");
  f.server->handle("/forward_backward", [&](const http::Request& request) {
    auto reply = f.accept_batch(request);
    reply.delay = 1s;
    return reply;
  });

  EXPECT_THAT(f.trainer.forward_backward(make_data(5), LossFn::cross_entropy).get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 3s) << "two of 32 bytes at a time, then the first";
}

}  // namespace
}  // namespace tinker::client::training_batch_test
