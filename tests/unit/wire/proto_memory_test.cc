// What reading and writing do with memory: one buffer out, views of the received one in.

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_memory_test {
namespace {

using ::testing::Each;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders

/// Where a message lies, before it is handed over.
struct Place {
  explicit Place(const std::string& body)
      : begin(reinterpret_cast<const std::byte*>(body.data())), end(begin + body.size()) {}

  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const {
    const std::less_equal<> not_after;
    return not_after(begin, bytes.data()) && not_after(bytes.data() + bytes.size(), end);
  }

  const std::byte* begin;
  const std::byte* end;
};

ForwardBackwardRequest large_request() {
  const Datum datum = {.model_input = ModelInput::from_tokens(std::vector<std::int32_t>(100, 7)),
                       .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>(100, 8)},
                                          {"weights", std::vector<float>(100, 0.5F)}}};
  return {.model_id = "m", .seq_id = 1, .data = std::vector<Datum>(50, datum)};
}

TEST(ProtoMemory, WritesARequestIntoOneBufferOfItsSize) {
  const auto body = encode_proto(large_request());
  ASSERT_THAT(body, IsOk());
  EXPECT_EQ(body->capacity(), body->size());
}

TEST(ProtoMemory, WritesAnswersIntoOneBufferOfTheirSize) {
  const auto sample =
      encode_proto(SampleResponse{.sequences = {{.tokens = std::vector<std::int32_t>(500),
                                                 .logprobs = std::vector<float>(500)}}});
  const auto output = encode_proto(ForwardBackwardOutput{
      .loss_fn_output_type = "T",
      .loss_fn_outputs = std::vector<NamedTensors>(20, {{"logprobs", std::vector<float>(100)}})});
  EXPECT_EQ(sample->capacity(), sample->size());
  EXPECT_EQ(output->capacity(), output->size());
}

TEST(ProtoMemory, RefersToTheTensorsOfARequest) {
  std::string body = encode_proto(large_request()).value();
  const Place place(body);

  const auto request = decode_proto<ForwardBackwardRequest>(std::move(body));

  ASSERT_THAT(request, IsOk());
  for (const auto& datum : request->data) {
    EXPECT_TRUE(place.holds(datum.loss_fn_inputs.at("target_tokens").ints().bytes()));
    EXPECT_TRUE(place.holds(datum.loss_fn_inputs.at("weights").floats().bytes()));
  }
}

TEST(ProtoMemory, RefersToTheTensorsOfAnOutput) {
  std::string body =
      encode_proto(ForwardBackwardOutput{.loss_fn_outputs = std::vector<NamedTensors>(
                                             3, {{"logprobs", std::vector<float>(100, -0.5F)}})})
          .value();
  const Place place(body);

  const auto output = decode_proto<ForwardBackwardOutput>(std::move(body));

  ASSERT_THAT(output, IsOk());
  ASSERT_EQ(output->loss_fn_outputs.size(), 3U);
  for (const auto& datum : output->loss_fn_outputs) {
    EXPECT_TRUE(place.holds(datum.at("logprobs").floats().bytes()));
  }
}

TEST(ProtoMemory, RefersToTheIndicesOfASparseTensor) {
  std::string body = encode_proto(TensorData(Buffer<float>(std::vector<float>{1.0F}),
                                             TensorData::Shape{1, 9},
                                             {.crow = std::vector<std::int64_t>{0, 1},
                                              .col = std::vector<std::int64_t>{4}}))
                         .value();
  const Place place(body);

  const auto tensor = decode_proto<TensorData>(std::move(body));

  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(place.holds(tensor->floats().bytes()));
  EXPECT_TRUE(place.holds(tensor->indices()->crow.bytes()));
  EXPECT_TRUE(place.holds(tensor->indices()->col.bytes()));
}

TEST(ProtoMemory, KeepsTheMessageAliveThroughItsTensors) {
  TensorData kept;
  {
    auto request = decode_proto<ForwardBackwardRequest>(encode_proto(large_request()).value());
    kept = request.value().data.at(7).loss_fn_inputs.at("weights");
  }
  EXPECT_EQ(kept.size(), 100U);
  EXPECT_THAT(kept.floats().to_vector(), Each(0.5F));
}

TEST(ProtoMemory, ReadsTensorsAtEveryAlignment) {
  const TensorData weights = std::vector<float>{1.0F, 2.0F, 3.0F};
  const TensorData targets = std::vector<std::int64_t>{1, -2, 3};
  for (std::size_t shift = 0; shift < 9; ++shift) {
    const Datum datum = {.model_input = {.chunks = {DmelChunk{.dmel = std::string(shift, 'x')}}},
                         .loss_fn_inputs = {{"target_tokens", targets}, {"weights", weights}}};
    EXPECT_THAT(decode_proto<Datum>(encode_proto(datum).value()), IsOkAndHolds(datum));
  }
}

TEST(ProtoMemory, OwnsWhatItWidened) {
  const std::string body = field(2,
                                 entry(2,
                                       "x",
                                       field(1, raw<std::int32_t>({-1, 5})) +
                                           field(2, raw<std::int64_t>({0, 8})) + int_field(3, 3)) +
                                     int_field(3, 1));
  const auto output = decode_proto<ForwardBackwardOutput>(body);
  EXPECT_THAT(output.value().loss_fn_outputs.at(0).at("x").ints().to_vector(),
              ::testing::ElementsAre(-1, 5));
}

}  // namespace
}  // namespace tinker::wire::proto_memory_test
