// PROTOCOL 7.3.
#include "tinker/types/model_input.h"

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::model_input_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOkAndHolds;
using ::testing::SizeIs;
using ::testing::VariantWith;

const std::string kDmel80 = {'\x04', '\x02', '\x01', '\x50'};                      // (1, 80)
const std::string kDmel128 = {'\xfe', '\x04', '\x02', '\x80', '\x01', '\x50'};     // (128, 80)
const std::string kDmelScalar = {'\x04', '\x00'};                                  // ()
const std::string kDmelHuge = "\x04\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";  // (2^64 - 1)

EncodedTextChunk text(std::vector<std::int32_t> tokens) {
  return {.tokens = std::move(tokens)};
}

// ---- builders --------------------------------------------------------------------------------

TEST(ModelInput, HasNoChunksByDefault) {
  EXPECT_THAT(ModelInput().chunks, IsEmpty());
}

TEST(ModelInput, FromTokensIsOneChunkOfText) {
  const auto input = ModelInput::from_tokens({9906, 11});

  EXPECT_THAT(input.chunks, ElementsAre(VariantWith<EncodedTextChunk>(text({9906, 11}))));
}

TEST(ModelInput, FromNoTokensIsOneEmptyChunk) {
  const auto input = ModelInput::from_tokens({});

  EXPECT_THAT(input.chunks, ElementsAre(VariantWith<EncodedTextChunk>(text({}))));
}

TEST(ModelInput, AppendKeepsChunksApart) {
  ModelInput input;

  input.append(text({1})).append(text({2})).append(ImageChunk{.data = "x"});

  EXPECT_THAT(input.chunks,
              ElementsAre(VariantWith<EncodedTextChunk>(text({1})),
                          VariantWith<EncodedTextChunk>(text({2})),
                          VariantWith<ImageChunk>(ImageChunk{.data = "x"})));
}

TEST(ModelInput, AppendTokenAddsToTheTextAtTheEnd) {
  auto input = ModelInput::from_tokens({1, 2});

  input.append_token(3).append_token(4);

  EXPECT_THAT(input.chunks, ElementsAre(VariantWith<EncodedTextChunk>(text({1, 2, 3, 4}))));
}

TEST(ModelInput, AppendTokenStartsTheFirstChunk) {
  ModelInput input;

  input.append_token(7);

  EXPECT_THAT(input.chunks, ElementsAre(VariantWith<EncodedTextChunk>(text({7}))));
}

TEST(ModelInput, AppendTokenStartsANewChunkAfterAnImage) {
  auto input = ModelInput::from_tokens({1});
  input.append(ImageChunk{.data = "x"});

  input.append_token(2).append_token(3);

  ASSERT_THAT(input.chunks, SizeIs(3));
  EXPECT_THAT(input.chunks[2], VariantWith<EncodedTextChunk>(text({2, 3})));
}

TEST(ModelInput, EqualsAnInputOfTheSameChunks) {
  EXPECT_EQ(ModelInput::from_tokens({1, 2}), ModelInput::from_tokens({1, 2}));
  EXPECT_NE(ModelInput::from_tokens({1, 2}), ModelInput::from_tokens({1, 3}));
  EXPECT_NE(ModelInput::from_tokens({1, 2}), ModelInput::from_tokens({1}).append(text({2})));
}

// ---- length ----------------------------------------------------------------------------------

TEST(ModelInputLength, OfNothingIsZero) {
  EXPECT_THAT(ModelInput().length(), IsOkAndHolds(0));
}

TEST(ModelInputLength, OfTextIsItsTokens) {
  EXPECT_THAT(ModelInput::from_tokens({1, 2, 3}).length(), IsOkAndHolds(3));
}

TEST(ModelInputLength, OfAnImageIsWhatItStandsFor) {
  const ModelInput input = {.chunks = {ImageChunk{.data = "x", .expected_tokens = 64}}};

  EXPECT_THAT(input.length(), IsOkAndHolds(64));
}

TEST(ModelInputLength, OfAnImageMayBeZero) {
  const ModelInput input = {.chunks = {ImageChunk{.data = "x", .expected_tokens = 0}}};

  EXPECT_THAT(input.length(), IsOkAndHolds(0));
}

TEST(ModelInputLength, OfAnImageAddressIsWhatItStandsFor) {
  const ModelInput input = {.chunks = {ImageAssetPointerChunk{.expected_tokens = 32}}};

  EXPECT_THAT(input.length(), IsOkAndHolds(32));
}

TEST(ModelInputLength, OfAudioIsItsFirstDimension) {
  EXPECT_THAT(ModelInput{.chunks = {DmelChunk{.dmel = kDmel80}}}.length(), IsOkAndHolds(1));
  EXPECT_THAT(ModelInput{.chunks = {DmelChunk{.dmel = kDmel128}}}.length(), IsOkAndHolds(128));
}

TEST(ModelInputLength, IsTheSumOverTheChunks) {
  auto input = ModelInput::from_tokens({1, 2});
  input.append(ImageChunk{.expected_tokens = 64})
      .append(DmelChunk{.dmel = kDmel128})
      .append_token(3);

  EXPECT_THAT(input.length(), IsOkAndHolds(2 + 64 + 128 + 1));
}

TEST(ModelInputLength, NamesTheImageThatStandsForNothing) {
  auto input = ModelInput::from_tokens({1});
  input.append(ImageChunk{.data = "x"});

  EXPECT_THAT(input.length(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("chunks[1]"), HasSubstr("expected_tokens"))));
}

TEST(ModelInputLength, NamesTheImageAddressThatStandsForNothing) {
  const ModelInput input = {.chunks = {ImageAssetPointerChunk{.location = "https://a"}}};

  EXPECT_THAT(input.length(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("chunks[0]"), HasSubstr("expected_tokens"))));
}

TEST(ModelInputLength, NamesTheAudioWithoutAReadableHeader) {
  const ModelInput input = {.chunks = {DmelChunk{}}};

  EXPECT_THAT(
      input.length(),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("chunks[0]"), HasSubstr("empty"))));
}

// PROTOBUF 6, last row: asked for a dimension that is not there.
TEST(ModelInputLength, NamesTheDimensionThatAudioLacks) {
  const ModelInput input = {.chunks = {DmelChunk{.dmel = kDmelScalar}}};

  EXPECT_THAT(input.length(), IsError(ErrorCode::invalid_argument, HasSubstr("dimension 0")));
}

TEST(ModelInputLength, RefusesAudioLongerThan63BitsCount) {
  const ModelInput input = {.chunks = {DmelChunk{.dmel = kDmelHuge}}};

  EXPECT_THAT(input.length(),
              IsError(ErrorCode::invalid_argument, HasSubstr("18446744073709551615")));
}

TEST(ModelInputLength, RefusesASumThatOverflows) {
  const ModelInput input = {
      .chunks = {ImageChunk{.expected_tokens = std::numeric_limits<std::int64_t>::max()},
                 text({1})}};

  EXPECT_THAT(input.length(), IsError(ErrorCode::invalid_argument, HasSubstr("64 bits")));
}

// ---- to_tokens -------------------------------------------------------------------------------

TEST(ModelInputToTokens, JoinsChunksOfText) {
  auto input = ModelInput::from_tokens({1, 2});
  input.append(text({})).append(text({3}));

  EXPECT_THAT(input.to_tokens(), IsOkAndHolds(ElementsAre(1, 2, 3)));
}

TEST(ModelInputToTokens, OfNothingIsNothing) {
  EXPECT_THAT(ModelInput().to_tokens(), IsOkAndHolds(IsEmpty()));
}

TEST(ModelInputToTokens, NamesTheChunkThatIsNotText) {
  auto input = ModelInput::from_tokens({1});
  input.append(DmelChunk{.dmel = kDmel80});

  EXPECT_THAT(input.to_tokens(), IsError(ErrorCode::invalid_argument, "chunks[1] is not text"));
}

}  // namespace
}  // namespace tinker::model_input_test
