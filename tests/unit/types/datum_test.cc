// PROTOBUF 3.2: what ends up in loss_fn_inputs.
#include "tinker/types/datum.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::datum_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Numbers = std::vector<double>;
using Rows = std::vector<std::vector<double>>;

constexpr std::array<std::string_view, 6> kFloatInputs = {"weights",
                                                          "advantages",
                                                          "logprobs",
                                                          "clip_low_threshold",
                                                          "clip_high_threshold",
                                                          "sequence_ratio_mask"};

Datum example() {
  return {.model_input = ModelInput::from_tokens({10, 11}),
          .loss_fn_inputs = {{"target_tokens", Ints{11, 12}}, {"weights", Floats{0.0F, 1.0F}}}};
}

/// A 2-D float32 tensor.
TensorData matrix(std::int64_t rows, std::int64_t columns, Floats cells) {
  return {Buffer<float>(std::move(cells)), TensorData::Shape{rows, columns}};
}

// ---- dtype by key ----------------------------------------------------------------------------

TEST(LossInputDtype, OfTargetTokensIsInt64) {
  EXPECT_EQ(loss_input_dtype("target_tokens"), TensorDtype::int64);
}

TEST(LossInputDtype, OfTheOtherKnownInputsIsFloat32) {
  for (const auto name : kFloatInputs) {
    EXPECT_EQ(loss_input_dtype(name), TensorDtype::float32) << name;
  }
}

TEST(LossInputDtype, OfAnUnknownInputIsNotKnown) {
  for (const auto name : {"", "target", "Weights", "weights ", "my_input"}) {
    EXPECT_EQ(loss_input_dtype(name), std::nullopt) << name;
  }
}

// ---- make_loss_input -------------------------------------------------------------------------

TEST(MakeLossInput, GivesIntegersForTargetTokens) {
  EXPECT_THAT(make_loss_input("target_tokens", Numbers{1, 2}),
              IsOkAndHolds(TensorData(Ints{1, 2})));
}

TEST(MakeLossInput, GivesFloatsForTheOtherKnownInputs) {
  for (const auto name : kFloatInputs) {
    EXPECT_THAT(make_loss_input(name, Numbers{0.5, 1}), IsOkAndHolds(TensorData(Floats{0.5F, 1})))
        << name;
  }
}

TEST(MakeLossInput, CutsFractionsTowardsZeroForIntegers) {
  EXPECT_THAT(make_loss_input("target_tokens", Numbers{1.9, -1.9, -0.5}),
              IsOkAndHolds(TensorData(Ints{1, -1, 0})));
}

TEST(MakeLossInput, KeepsNanForFloats) {
  const auto tensor = make_loss_input("weights", Numbers{std::nan("")});

  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(std::isnan(tensor->floats()[0]));
}

TEST(MakeLossInput, RefusesNanForIntegers) {
  EXPECT_THAT(
      make_loss_input("target_tokens", Numbers{std::nan("")}),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("target_tokens"), HasSubstr("nan"))));
}

TEST(MakeLossInput, RefusesWhatOverflowsAnInteger) {
  for (const double value :
       {0x1.0p63, -0x1.1p63, 1e300, -1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(make_loss_input("target_tokens", Numbers{value}),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("target_tokens"), HasSubstr("64 bits"))))
        << value;
  }
}

TEST(MakeLossInput, AcceptsTheSmallestInteger) {
  EXPECT_THAT(make_loss_input("target_tokens", Numbers{-0x1.0p63}),
              IsOkAndHolds(TensorData(Ints{std::numeric_limits<std::int64_t>::min()})));
}

TEST(MakeLossInput, GivesShapeZeroForNoNumbers) {
  EXPECT_THAT(make_loss_input("target_tokens", Numbers{}), IsOkAndHolds(TensorData(Ints{})));
  EXPECT_THAT(make_loss_input("weights", Numbers{}), IsOkAndHolds(TensorData(Floats{})));
}

TEST(MakeLossInput, RefusesAnUnknownNameAndNamesIt) {
  EXPECT_THAT(make_loss_input("my_input", Numbers{1}),
              IsError(ErrorCode::invalid_argument, HasSubstr("'my_input'")));
  EXPECT_THAT(make_loss_input("my_input", Rows{{1}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("'my_input'")));
}

TEST(MakeLossInput, GivesAMatrixForRows) {
  EXPECT_THAT(make_loss_input("weights", Rows{{1, 2, 3}, {4, 5, 6}}),
              IsOkAndHolds(matrix(2, 3, {1, 2, 3, 4, 5, 6})));
}

TEST(MakeLossInput, GivesAMatrixForEmptyRows) {
  EXPECT_THAT(make_loss_input("weights", Rows{{}, {}}), IsOkAndHolds(matrix(2, 0, {})));
}

// "Numpy arrays and lists never become sparse."
TEST(MakeLossInput, NeverGivesASparseTensor) {
  const auto tensor = make_loss_input("weights", Rows(100, Numbers(100)));

  ASSERT_THAT(tensor, IsOk());
  EXPECT_FALSE(tensor->is_sparse());
}

TEST(MakeLossInput, NamesTheRowThatIsRagged) {
  EXPECT_THAT(
      make_loss_input("weights", Rows{{1, 2}, {3, 4}, {5}}),
      IsError(ErrorCode::invalid_argument, "weights: expected rows of 2 values, found 1 in row 2"));
}

// ---- validate --------------------------------------------------------------------------------

TEST(DatumValidate, AcceptsAnExample) {
  EXPECT_THAT(example().validate(), IsOk());
}

TEST(DatumValidate, AcceptsADatumWithoutInputs) {
  EXPECT_THAT(Datum().validate(), IsOk());
}

TEST(DatumValidate, RefusesFloatsForTargetTokens) {
  Datum datum = example();
  datum.loss_fn_inputs["target_tokens"] = Floats{11, 12};

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("loss_fn_inputs.target_tokens"),
                            HasSubstr("expected int64, found float32"))));
}

TEST(DatumValidate, RefusesIntegersForTheOtherKnownInputs) {
  for (const auto name : kFloatInputs) {
    Datum datum = example();
    datum.loss_fn_inputs[std::string(name)] = Ints{1, 2};

    EXPECT_THAT(datum.validate(),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("loss_fn_inputs." + std::string(name)),
                              HasSubstr("expected float32, found int64"))));
  }
}

// Inputs of a custom loss carry the names declared at its creation (PROTOBUF 3).
TEST(DatumValidate, AcceptsAnyDtypeForAnUnknownInput) {
  Datum datum = example();
  datum.loss_fn_inputs["mine"] = Ints{1};
  datum.loss_fn_inputs["yours"] = Floats{1};

  EXPECT_THAT(datum.validate(), IsOk());
}

TEST(DatumValidate, NamesTheInputWhoseShapeDoesNotFit) {
  Datum datum = example();
  datum.loss_fn_inputs["weights"] = matrix(2, 2, {1, 2, 3});

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("loss_fn_inputs.weights"),
                            HasSubstr("expected 4 values for shape [2, 2], found 3"))));
}

TEST(DatumValidate, NamesTheInputWhoseSparseIndicesDoNotFit) {
  Datum datum = example();
  datum.loss_fn_inputs["weights"] = TensorData(
      Buffer<float>(Floats{1}), TensorData::Shape{1, 9}, {.crow = Ints{0, 1}, .col = Ints{9}});

  EXPECT_THAT(datum.validate(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("loss_fn_inputs.weights"), HasSubstr("columns below 9"))));
}

TEST(DatumValidate, OfABatchAcceptsGoodDatums) {
  EXPECT_THAT(validate(std::vector{example(), example()}), IsOk());
  EXPECT_THAT(validate(std::vector<Datum>{}), IsOk());
}

TEST(DatumValidate, OfABatchNamesTheDatumAndTheInput) {
  std::vector<Datum> data(4, example());
  data[3].loss_fn_inputs["weights"] = matrix(2, 2, {1, 2, 3});

  EXPECT_THAT(validate(data),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("data[3]"),
                            HasSubstr("loss_fn_inputs.weights"),
                            HasSubstr("expected 4 values"))));
}

}  // namespace
}  // namespace tinker::datum_test
