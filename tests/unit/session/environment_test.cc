#include "session/environment.h"

#include <map>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::session::environment_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOkAndHolds;
using ::testing::Not;

Environment fixed(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(ResolveBaseUrl, PrefersArgumentThenEnvironmentThenTheOfficialService) {  // R3.18
  const auto env = fixed({{"TINKER_BASE_URL", "http://env.test/base"}});
  EXPECT_THAT(resolve_base_url("http://arg.test", env), IsOkAndHolds("http://arg.test"));
  EXPECT_THAT(resolve_base_url("", env), IsOkAndHolds("http://env.test/base"));
  EXPECT_THAT(resolve_base_url("", fixed({{"TINKER_BASE_URL", ""}})),
              IsOkAndHolds("https://tinker.thinkingmachines.dev/services/tinker-prod"));
  EXPECT_THAT(resolve_base_url("", fixed({})), IsOkAndHolds(std::string(kOfficialBaseUrl)));
}

TEST(ResolveBaseUrl, DropsAllTrailingSlashes) {  // R3.18
  EXPECT_THAT(resolve_base_url("HTTP://Server.test:80/a///", fixed({})),
              IsOkAndHolds("http://server.test/a"));
}

TEST(ResolveBaseUrl, SaysWhichValueCannotBeUsed) {
  EXPECT_THAT(resolve_base_url("nonsense", fixed({})),
              IsError(ErrorCode::invalid_argument, HasSubstr("base_url")));
  EXPECT_THAT(resolve_base_url("", fixed({{"TINKER_BASE_URL", "https://u:hunter22@x"}})),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("TINKER_BASE_URL"), Not(HasSubstr("hunter22")))));
}

TEST(IsOfficialHost, LooksAtTheHostAlone) {
  EXPECT_TRUE(is_official_host(kOfficialBaseUrl));
  EXPECT_TRUE(is_official_host("https://tinker.thinkingmachines.dev/services/tinker-other"));
  EXPECT_TRUE(is_official_host("https://Tinker.ThinkingMachines.dev.:8443"));
  EXPECT_FALSE(is_official_host("https://tinker.thinkingmachines.dev.evil.test"));
  EXPECT_FALSE(is_official_host("https://evil.test/tinker.thinkingmachines.dev"));
  EXPECT_FALSE(is_official_host("http://localhost:8000"));
  EXPECT_FALSE(is_official_host(""));
}

}  // namespace
}  // namespace tinker::session::environment_test
