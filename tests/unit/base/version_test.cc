#include "tinker/version.h"

#include <string>

#include <gmock/gmock.h>

namespace tinker::version_test {
namespace {

using ::testing::MatchesRegex;

TEST(Version, IsThreeNumbers) {
  EXPECT_THAT(std::string(version()), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(Version, OfTheProtocolIsThatOfTheSpecification) {
  EXPECT_EQ(protocol_version(), "0.36.0");
}

}  // namespace
}  // namespace tinker::version_test
