#include "base/strings.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <gtest/gtest.h>

namespace tinker::base::strings_test {
namespace {

TEST(Concat, OfNothingIsEmpty) {
  EXPECT_EQ(concat(), "");
}

TEST(Concat, JoinsEveryKindOfText) {
  const std::string text = "string";
  const std::string_view view = "view";
  const char* pointer = "pointer";

  EXPECT_EQ(concat("literal ", text, ' ', view, ' ', pointer), "literal string view pointer");
}

TEST(Concat, KeepsEmptyPieces) {
  EXPECT_EQ(concat("", std::string(), "x", std::string_view()), "x");
}

TEST(Concat, KeepsZeroBytes) {
  using std::string_view_literals::operator""sv;

  EXPECT_EQ(concat("a\0b"sv, '\0'), std::string("a\0b\0", 4));
}

TEST(Concat, WritesTheExtremesOfIntegers) {
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(Concat, WritesSmallIntegersAsNumbers) {
  EXPECT_EQ(concat(std::uint8_t{7}, ' ', std::int8_t{-8}), "7 -8");
}

TEST(Concat, WritesFloatsInTheirShortestExactForm) {
  EXPECT_EQ(concat(0.1, ' ', 1.0, ' ', 1e300, ' ', -0.0), "0.1 1 1e+300 -0");
  EXPECT_EQ(concat(0.1F), "0.1");
}

TEST(Concat, WritesTheLongestDouble) {
  EXPECT_EQ(concat(-2.2250738585072014e-308), "-2.2250738585072014e-308");
}

TEST(Concat, WritesWhatIsNotFinite) {
  EXPECT_EQ(concat(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(concat(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Concat, TakesManyPieces) {
  EXPECT_EQ(concat(1, 2, 3, 4, 5, 6, 7, 8, 9, 'a', "b", 'c'), "123456789abc");
}

TEST(Concat, DoesNotTakeABool) {
  EXPECT_FALSE((std::is_constructible_v<Piece, bool>));
}

}  // namespace
}  // namespace tinker::base::strings_test
