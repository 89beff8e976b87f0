#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "tinker/training_data.h"
#include "tinker/types/forward_backward.h"

namespace tinker::render::datum_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

using Tokens = std::vector<std::int32_t>;
using Weights = std::vector<float>;

constexpr DatumOptions kUnreduced = {.reduction = WeightReduction::none};

ImageChunk image(std::int64_t tokens) {
  return {.data = "png", .expected_tokens = tokens};
}

SupervisedExample text_example(Tokens tokens, Weights weights) {
  return {.input = ModelInput::from_tokens(std::move(tokens)), .weights = std::move(weights)};
}

std::vector<std::int64_t> targets_of(const Datum& datum) {
  const auto& values = datum.loss_fn_inputs.at("target_tokens").ints();
  return {values.begin(), values.end()};
}

Weights weights_of(const Datum& datum) {
  const auto& values = datum.loss_fn_inputs.at("weights").floats();
  return {values.begin(), values.end()};
}

auto is_refused(std::string_view why) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(std::string(why)));
}

TEST(ToDatum, ShiftsTargetsAndWeights) {
  const auto datum = to_datum(text_example({1, 2, 3, 4}, {1, 0, 1, 1}), kUnreduced);

  ASSERT_THAT(datum, IsOk());
  EXPECT_EQ(datum->model_input, ModelInput::from_tokens({1, 2, 3}));
  EXPECT_THAT(targets_of(*datum), ElementsAre(2, 3, 4));
  EXPECT_THAT(weights_of(*datum), ElementsAre(0, 1, 1));
  EXPECT_THAT(datum->validate(LossFn::cross_entropy), IsOk());
}

TEST(ToDatum, DividesByTheSumOfWhatIsLeft) {
  const auto datum = to_datum(text_example({1, 2, 3, 4}, {1, 0, 1, 1}));

  EXPECT_THAT(weights_of(datum.value()), ElementsAre(0, 0.5, 0.5));
}

TEST(ToDatum, SumsInSinglePrecision) {
  const auto datum = to_datum(text_example(Tokens(4, 7), {0, 1, 1, 1}));

  EXPECT_THAT(weights_of(datum.value()), Each(1.0F / 3.0F));
}

TEST(ToDatum, KeepsExamplesThatTrainNothing) {
  const auto datum = to_datum(text_example({1, 2, 3}, {1, 0, 0}));

  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(weights_of(*datum), ElementsAre(0, 0));
}

TEST(ToDatum, CutsTextFromTheRight) {
  const auto datum = to_datum(text_example({1, 2, 3, 4, 5}, {0, 0, 1, 1, 1}), {.max_length = 4});

  ASSERT_THAT(datum, IsOk());
  EXPECT_EQ(datum->model_input, ModelInput::from_tokens({1, 2, 3}));
  EXPECT_THAT(targets_of(*datum), ElementsAre(2, 3, 4));
  EXPECT_THAT(weights_of(*datum), ElementsAre(0, 0.5, 0.5));
}

TEST(ToDatum, LeavesAloneWhatFits) {
  const auto datum = to_datum(text_example({1, 2, 3}, {0, 1, 1}), {.max_length = 3});

  EXPECT_THAT(targets_of(datum.value()), ElementsAre(2, 3));
}

SupervisedExample with_image() {
  ModelInput input = ModelInput::from_tokens({1, 2});
  input.append(image(3)).append(EncodedTextChunk{{6, 7}});
  return {.input = std::move(input), .weights = {0, 1, 0, 0, 0, 1, 1}};
}

TEST(ToDatum, HasZerosWhereAnImageIs) {
  const auto datum = to_datum(with_image(), kUnreduced);

  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(datum->model_input.chunks,
              ElementsAre(EncodedTextChunk{{1, 2}}, image(3), EncodedTextChunk{{6}}));
  EXPECT_THAT(targets_of(*datum), ElementsAre(2, 0, 0, 0, 6, 7));
  EXPECT_THAT(weights_of(*datum), ElementsAre(1, 0, 0, 0, 1, 1));
}

TEST(ToDatum, DropsAnImageAsAWhole) {
  // With 5 the image fits, but at the end it is dropped, too.
  for (const std::size_t most : {3U, 4U, 5U}) {
    const auto datum = to_datum(with_image(), {.max_length = most});

    ASSERT_THAT(datum, IsOk());
    EXPECT_EQ(datum->model_input, ModelInput::from_tokens({1}));
    EXPECT_THAT(targets_of(*datum), ElementsAre(2));
    EXPECT_THAT(weights_of(*datum), ElementsAre(1));
  }
}

TEST(ToDatum, LosesALastChunkOfOneToken) {
  const auto datum = to_datum(with_image(), {.max_length = 6});

  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(datum->model_input.chunks, ElementsAre(EncodedTextChunk{{1, 2}}, image(3)));
  EXPECT_THAT(targets_of(*datum), ElementsAre(2, 0, 0, 0, 6));
}

TEST(ToDatum, PassesOverEmptyChunks) {
  ModelInput input;
  input.append(EncodedTextChunk{})
      .append(EncodedTextChunk{{1, 2}})
      .append(EncodedTextChunk{})
      .append(EncodedTextChunk{{3}})
      .append(EncodedTextChunk{});

  const auto datum = to_datum({.input = std::move(input), .weights = {0, 1, 1}});

  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(datum->model_input.chunks, ElementsAre(EncodedTextChunk{{1, 2}}));
  EXPECT_THAT(targets_of(*datum), ElementsAre(2, 3));
}

TEST(ToDatum, RefusesWhatIsTooShort) {
  EXPECT_THAT(to_datum({}), is_refused("has 0"));
  EXPECT_THAT(to_datum(text_example({1}, {1})), is_refused("has 1"));
  EXPECT_THAT(to_datum(text_example({1, 2, 3}, {1, 1, 1}), {.max_length = 1}), is_refused("has 1"));
  EXPECT_THAT(to_datum(text_example({1, 2, 3}, {1, 1, 1}), {.max_length = 0}), is_refused("has 0"));
  ModelInput only_image;
  only_image.append(image(9));
  EXPECT_THAT(to_datum({.input = only_image, .weights = Weights(9)}), is_refused("has 0"));
}

TEST(ToDatum, RefusesWeightsThatDoNotFit) {
  EXPECT_THAT(to_datum(text_example({1, 2, 3}, {1, 1})), is_refused("has 2 for 3"));
  EXPECT_THAT(to_datum(text_example({1, 2, 3}, {})), is_refused("has 0 for 3"));
}

TEST(ToDatum, RefusesImagesOfUnknownOrImpossibleLength) {
  for (const std::int64_t tokens : {std::int64_t{-1}, std::int64_t{1} << 62U}) {
    ModelInput input;
    input.append(image(tokens)).append(EncodedTextChunk{{1, 2}});
    EXPECT_THAT(to_datum({.input = input, .weights = {1, 1}}), is_refused(std::to_string(tokens)));
  }
  ModelInput unknown;
  unknown.append(ImageChunk{.data = "png"}).append(EncodedTextChunk{{1, 2}});
  EXPECT_THAT(to_datum({.input = unknown, .weights = {1, 1}}), is_refused("expected_tokens"));
}

TEST(DataStatistics, CountsWhatDataHave) {
  DataStatistics found;

  found.add(to_datum(text_example({1, 2, 3, 4}, {0, 0, 1, 1})).value());
  found.add(to_datum(text_example({1, 2}, {1, 0})).value());
  found.add({.model_input = ModelInput::from_tokens({1, 2})});  // another loss's

  EXPECT_EQ(found.data, 3U);
  EXPECT_EQ(found.tokens, 6U);
  EXPECT_EQ(found.trained, 2U);
  EXPECT_EQ(found.longest, 3U);
  EXPECT_EQ(found.untrained, 2U);
}

TEST(DataStatistics, CountsWhatIsMadeAndWhatLostItsEnd) {
  DataStatistics found;
  const DatumOptions options = {.max_length = 3, .statistics = &found};

  EXPECT_THAT(to_datum(text_example({1, 2, 3, 4}, {0, 0, 1, 1}), options), IsOk());
  EXPECT_THAT(to_datum(text_example({1, 2, 3}, {0, 1, 1}), options), IsOk());
  EXPECT_THAT(to_datum(text_example({1}, {1}), options), is_refused("has 1"));

  EXPECT_EQ(found.data, 2U);
  EXPECT_EQ(found.truncated, 1U);
  EXPECT_EQ(found.tokens, 4U);
  EXPECT_EQ(found.trained, 3U);
}

/// A datum of `length` inputs, the first of which is `first`.
Datum datum_of(std::size_t length, std::int32_t first) {
  Tokens tokens(length + 1);
  std::iota(tokens.begin(), tokens.end(), first);
  return to_datum(text_example(std::move(tokens), Weights(length + 1, 1)), kUnreduced).value();
}

TEST(Pack, FillsUpInOrder) {
  const auto packed = pack({datum_of(2, 10), datum_of(3, 20), datum_of(4, 30), datum_of(1, 40)}, 5);

  ASSERT_THAT(packed, IsOk());
  ASSERT_THAT(*packed, SizeIs(2));
  EXPECT_THAT(targets_of((*packed)[0]), ElementsAre(11, 12, 21, 22, 23));
  EXPECT_THAT(targets_of((*packed)[1]), ElementsAre(31, 32, 33, 34, 41));
  EXPECT_THAT((*packed)[0].model_input.to_tokens(),
              ::tinker::testing::IsOkAndHolds(Tokens{10, 11, 20, 21, 22}));
  EXPECT_THAT(validate(*packed, LossFn::cross_entropy), IsOk());
}

TEST(Pack, KeepsAllWeights) {
  std::vector<Datum> data = {to_datum(text_example({1, 2, 3}, {0, 1, 1})).value(),
                             to_datum(text_example({4, 5}, {0, 1})).value()};

  const auto packed = pack(data, 8);

  EXPECT_THAT(weights_of(packed.value().front()), ElementsAre(0.5, 0.5, 1));
}

TEST(Pack, MakesNothingOfNothing) {
  EXPECT_THAT(pack({}, 5).value(), IsEmpty());
}

TEST(Pack, RefusesWhatItWouldSpoil) {
  EXPECT_THAT(pack({datum_of(2, 1), datum_of(6, 1)}, 5), is_refused("data[1]: 6 tokens"));
  EXPECT_THAT(pack({Datum{}}, 5), is_refused("data[0]: no target_tokens"));
  auto other_loss = datum_of(2, 1);
  other_loss.loss_fn_inputs.emplace("advantages", Weights{1, 1});
  EXPECT_THAT(pack({other_loss}, 5), is_refused("'advantages' would be lost"));
  auto wrong_type = datum_of(2, 1);
  wrong_type.loss_fn_inputs.insert_or_assign("weights", std::vector<std::int64_t>{1, 1});
  EXPECT_THAT(pack({wrong_type}, 5), is_refused("no weights"));
  auto uneven = datum_of(2, 1);
  uneven.loss_fn_inputs.insert_or_assign("weights", Weights{1});
  EXPECT_THAT(pack({uneven}, 5), is_refused("2 inputs, 2 targets and 1 weights"));
}

}  // namespace
}  // namespace tinker::render::datum_test
