#include "base/environment.h"

#include <cstdlib>
#include <map>

#include <gmock/gmock.h>

namespace tinker::base::environment_test {
namespace {

using ::testing::Optional;

TEST(Environment, ReadsThatOfTheProcess) {
  ASSERT_EQ(::setenv("TINKER_TEST_VARIABLE", "x", 1), 0);
  EXPECT_THAT(process_environment()("TINKER_TEST_VARIABLE"), Optional(std::string("x")));
  EXPECT_THAT(variable({}, "TINKER_TEST_VARIABLE"), Optional(std::string("x")));
  ASSERT_EQ(::unsetenv("TINKER_TEST_VARIABLE"), 0);
  EXPECT_EQ(process_environment()("TINKER_TEST_VARIABLE"), std::nullopt);
}

TEST(Environment, TakesAnEmptyVariableForUnset) {
  const std::map<std::string, std::string> variables = {{"A", ""}, {"B", "b"}};
  const Environment env = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(variable(env, "A"), std::nullopt);
  EXPECT_THAT(variable(env, "B"), Optional(std::string("b")));
  EXPECT_EQ(variable(env, "C"), std::nullopt);
}

}  // namespace
}  // namespace tinker::base::environment_test
