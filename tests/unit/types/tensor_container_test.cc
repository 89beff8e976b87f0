// PROTOBUF 6: every row of its table, and both examples.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/model_input.h"

namespace tinker::tensor_container_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOkAndHolds;

using std::string_view_literals::operator""sv;

/// A container of one dimension, given as the bytes of its varint.
std::string one_dimension(std::string_view varint) {
  return "\x04\x01" + std::string(varint);
}

TEST(TensorContainer, ReadsTheShape) {
  EXPECT_THAT(tensor_container_shape("\x04\x02\x01\x50"sv), IsOkAndHolds(ElementsAre(1, 80)));
}

TEST(TensorContainer, ReadsTheShapeOfAConstant) {
  EXPECT_THAT(tensor_container_shape("\xfe\x04\x02\x80\x01\x50"sv),
              IsOkAndHolds(ElementsAre(128, 80)));
}

TEST(TensorContainer, IgnoresThePayload) {
  EXPECT_THAT(tensor_container_shape("\x04\x02\x01\x50\xff\xff\xff"sv),
              IsOkAndHolds(ElementsAre(1, 80)));
}

TEST(TensorContainer, MayHaveNoDimensions) {
  EXPECT_THAT(tensor_container_shape("\x00\x00"sv), IsOkAndHolds(IsEmpty()));
}

TEST(TensorContainer, ReadsEveryDtype) {
  for (char dtype = 0; dtype <= 7; ++dtype) {
    EXPECT_THAT(tensor_container_shape(std::string{dtype, '\x01', '\x05'}),
                IsOkAndHolds(ElementsAre(5)))
        << int{dtype};
  }
}

TEST(TensorContainer, RefusesAnEmptyOne) {
  EXPECT_THAT(tensor_container_shape(""), IsError(ErrorCode::invalid_argument, HasSubstr("empty")));
}

TEST(TensorContainer, RefusesOneThatEndsInsideItsHeader) {
  const std::string_view whole = "\xfe\x04\x02\x80\x01\x50";

  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(tensor_container_shape(whole.substr(0, size)),
                IsError(ErrorCode::invalid_argument, HasSubstr("truncated")))
        << size << " bytes";
  }
}

TEST(TensorContainer, RefusesAnUnknownDtype) {
  for (const std::string_view bytes : {"\x08\x01\x05"sv,
                                       "\x7f\x01\x05"sv,
                                       "\x80\x01\x05"sv,
                                       "\xff\x01\x05"sv,
                                       "\xfe\x08\x01\x05"sv,
                                       "\xfe\xfe\x01\x05"sv}) {
    EXPECT_THAT(tensor_container_shape(bytes),
                IsError(ErrorCode::invalid_argument, HasSubstr("unknown dtype byte")));
  }
}

TEST(TensorContainer, NamesTheUnknownDtype) {
  EXPECT_THAT(tensor_container_shape("\xff\x01\x05"sv),
              IsError(ErrorCode::invalid_argument, HasSubstr("255")));
}

TEST(TensorContainer, ReadsNumbersOfSeveralBytes) {
  EXPECT_THAT(tensor_container_shape(one_dimension("\xac\x02")), IsOkAndHolds(ElementsAre(300)));
}

TEST(TensorContainer, AcceptsNineContinuationBytesAndAFinalOne) {
  const std::string nine(9, '\x80');

  EXPECT_THAT(tensor_container_shape(one_dimension(nine + '\x01')),
              IsOkAndHolds(ElementsAre(std::uint64_t{1} << 63U)));
  EXPECT_THAT(tensor_container_shape(one_dimension(nine + '\0')), IsOkAndHolds(ElementsAre(0)));
}

TEST(TensorContainer, ReadsTheLargest64BitNumber) {
  EXPECT_THAT(tensor_container_shape(one_dimension(std::string(9, '\xff') + '\x01')),
              IsOkAndHolds(ElementsAre(std::numeric_limits<std::uint64_t>::max())));
}

TEST(TensorContainer, RefusesTenContinuationBytes) {
  for (const char* end : {"", "\x01"}) {
    EXPECT_THAT(tensor_container_shape(one_dimension(std::string(10, '\x80') + end)),
                IsError(ErrorCode::invalid_argument, HasSubstr("too long")));
  }
}

TEST(TensorContainer, RefusesTenContinuationBytesInItsRank) {
  EXPECT_THAT(tensor_container_shape("\x04" + std::string(10, '\x80') + '\x01'),
              IsError(ErrorCode::invalid_argument, HasSubstr("too long")));
}

// Python's integers go on beyond 64 bits; no tensor has such a dimension.
TEST(TensorContainer, RefusesANumberAbove64Bits) {
  EXPECT_THAT(tensor_container_shape(one_dimension(std::string(9, '\xff') + '\x02')),
              IsError(ErrorCode::invalid_argument, HasSubstr("64 bits")));
}

TEST(TensorContainer, DoesNotBelieveAHugeRank) {
  const std::string huge_rank = "\x04" + std::string(9, '\xff') + '\x01' + std::string(50, '\x01');

  EXPECT_THAT(tensor_container_shape(huge_rank),
              IsError(ErrorCode::invalid_argument, HasSubstr("truncated")));
}

}  // namespace
}  // namespace tinker::tensor_container_test
