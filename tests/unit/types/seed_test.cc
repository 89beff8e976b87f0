// PROTOBUF 1: "the seed is unsigned so that any 64-bit seed fits"; JSON carries it signed too.
#include "tinker/types/seed.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "tinker/types/sampling_params.h"

namespace tinker::seed_test {
namespace {

constexpr auto kUint64Max = std::numeric_limits<std::uint64_t>::max();

TEST(Seed, KeepsASmallNumber) {
  EXPECT_EQ(Seed(42).bits(), 42U);
  EXPECT_FALSE(Seed(42).is_negative());
}

TEST(Seed, KeepsANegativeNumberAsItsTwosComplement) {
  EXPECT_EQ(Seed(-1).bits(), kUint64Max);
  EXPECT_TRUE(Seed(-1).is_negative());
}

TEST(Seed, KeepsTheSmallestNumber) {
  const Seed seed = std::numeric_limits<std::int64_t>::min();

  EXPECT_EQ(seed.bits(), std::uint64_t{1} << 63U);
  EXPECT_TRUE(seed.is_negative());
}

TEST(Seed, KeepsNumbersAboveTheSignedRange) {
  EXPECT_EQ(Seed((std::uint64_t{1} << 63U) + 5).bits(), (std::uint64_t{1} << 63U) + 5);
  EXPECT_EQ(Seed(kUint64Max).bits(), kUint64Max);
  EXPECT_FALSE(Seed(kUint64Max).is_negative());
}

TEST(Seed, TellsMinusOneFromTheLargestNumber) {
  EXPECT_NE(Seed(-1), Seed(kUint64Max));
}

TEST(Seed, EqualsTheSameNumberOfAnotherType) {
  EXPECT_EQ(Seed(std::int8_t{7}), Seed(std::uint64_t{7}));
}

TEST(Seed, IsWrittenAsAPlainNumber) {
  const SamplingParams params = {.seed = 42};

  EXPECT_EQ(params.seed, Seed(42));
}

}  // namespace
}  // namespace tinker::seed_test
