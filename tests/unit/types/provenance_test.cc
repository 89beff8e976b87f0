// PROTOBUF 3.4: provenance spans.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/datum.h"

namespace tinker::provenance_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

using Source = ProvenanceSpan::Source;

ProvenanceSpan prompt(std::int64_t offset, std::int64_t length) {
  return {.source = Source::prompt_tokens, .sequence_id = "q0", .offset = offset, .length = length};
}

ProvenanceSpan sampled(std::int64_t offset, std::int64_t length) {
  return {
      .source = Source::sampled_tokens, .sequence_id = "q0", .offset = offset, .length = length};
}

/// Five input positions and four targets, each tiled by a part of the prompt and of the sample.
Datum example() {
  return {.model_input = ModelInput::from_tokens({1, 2, 3, 4, 5}),
          .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{2, 3, 4, 5}}},
          .model_input_spans = {prompt(0, 3), sampled(0, 2)},
          .loss_fn_input_spans = {prompt(1, 2), sampled(0, 2)}};
}

TEST(Provenance, TilesBothFields) {
  EXPECT_THAT(example().validate(), IsOk());
}

TEST(Provenance, MayBeAbsent) {
  Datum datum = example();
  datum.model_input_spans.clear();
  datum.loss_fn_input_spans.clear();

  EXPECT_THAT(datum.validate(), IsOk());
}

TEST(Provenance, NeedsTheTargetsSpansToo) {
  Datum datum = example();
  datum.loss_fn_input_spans.clear();

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("model_input_spans"), HasSubstr("loss_fn_input_spans"))));
}

TEST(Provenance, NeedsTheInputsSpansToo) {
  Datum datum = example();
  datum.model_input_spans.clear();

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("model_input_spans"), HasSubstr("loss_fn_input_spans"))));
}

TEST(Provenance, CoversNoFewerPositionsThanTheInputHas) {
  Datum datum = example();
  datum.model_input_spans = {prompt(0, 4)};

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      "model_input_spans: expected spans that cover 5 positions, found 4"));
}

TEST(Provenance, CoversNoMorePositionsThanTheInputHas) {
  Datum datum = example();
  datum.model_input_spans.push_back(sampled(2, 1));

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      "model_input_spans: expected spans that cover 5 positions, found 6"));
}

TEST(Provenance, CoversTheTargets) {
  Datum datum = example();
  datum.loss_fn_input_spans = {sampled(0, 3)};

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      "loss_fn_input_spans: expected spans that cover 4 positions, found 3"));
}

// "for loss_fn_input_spans only when target_tokens has a 1-D shape"
TEST(Provenance, DoesNotCountTargetsOfTwoDimensions) {
  Datum datum = example();
  datum.loss_fn_inputs["target_tokens"] =
      TensorData(Buffer<std::int64_t>(std::vector<std::int64_t>(8)), TensorData::Shape{4, 2});
  datum.loss_fn_input_spans = {sampled(0, 3)};

  EXPECT_THAT(datum.validate(), IsOk());
}

TEST(Provenance, DoesNotCountTargetsThatAreNotThere) {
  Datum datum = example();
  datum.loss_fn_inputs.clear();
  datum.loss_fn_input_spans = {sampled(0, 3)};

  EXPECT_THAT(datum.validate(), IsOk());
}

// Legal from 0.35.
TEST(Provenance, MayHaveSpansOfLengthZero) {
  Datum datum = example();
  datum.model_input_spans.insert(datum.model_input_spans.begin() + 1, sampled(7, 0));
  datum.loss_fn_input_spans.push_back(prompt(0, 0));

  EXPECT_THAT(datum.validate(), IsOk());
}

TEST(Provenance, MayHaveOnlySpansOfLengthZeroWhenThereIsNothingToCover) {
  const Datum datum = {.loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{}}},
                       .model_input_spans = {prompt(0, 0)},
                       .loss_fn_input_spans = {prompt(0, 0)}};

  EXPECT_THAT(datum.validate(), IsOk());
}

TEST(Provenance, RefusesANegativeOffset) {
  Datum datum = example();
  datum.model_input_spans[1].offset = -1;

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("model_input_spans"), HasSubstr("span 1"), HasSubstr("-1"))));
}

TEST(Provenance, RefusesANegativeLengthEvenWhenTheSumFits) {
  Datum datum = example();
  datum.loss_fn_input_spans = {prompt(0, 5), sampled(0, -1)};

  EXPECT_THAT(
      datum.validate(),
      IsError(ErrorCode::invalid_argument,
              AllOf(HasSubstr("loss_fn_input_spans"), HasSubstr("span 1"), HasSubstr("-1"))));
}

TEST(Provenance, RefusesAnEmptySequenceId) {
  Datum datum = example();
  datum.model_input_spans[0].sequence_id.clear();

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument, "model_input_spans: span 0 has no sequence_id"));
}

TEST(Provenance, RefusesLengthsWhoseSumOverflows) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  Datum datum = example();
  datum.model_input_spans = {prompt(0, kMax), sampled(0, kMax), sampled(0, 7)};

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument, HasSubstr("model_input_spans")));
}

TEST(Provenance, NeedsAnInputOfKnownLength) {
  Datum datum = example();
  datum.model_input.append(ImageChunk{.data = "x"});

  EXPECT_THAT(datum.validate(), IsError(ErrorCode::invalid_argument, HasSubstr("expected_tokens")));
}

TEST(Provenance, NamesTheInputOfUnknownLength) {
  std::vector<Datum> data = {example(), example()};
  data[1].model_input.append(ImageChunk{.data = "x"});

  EXPECT_THAT(
      validate(data),
      IsError(ErrorCode::invalid_argument,
              AllOf(HasSubstr("data[1]"), HasSubstr("model_input"), HasSubstr("chunks[1]"))));
}

TEST(Provenance, NamesTheDatumInABatch) {
  std::vector<Datum> data = {example(), example()};
  data[1].model_input_spans.clear();

  EXPECT_THAT(validate(data), IsError(ErrorCode::invalid_argument, HasSubstr("data[1]")));
}

}  // namespace
}  // namespace tinker::provenance_test
