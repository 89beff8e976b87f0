#include "base/relative_path.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::base::relative_path_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

TEST(RelativePath, KeepsNamesBelowTheFolder) {
  EXPECT_THAT(clean_relative_path("adapter_model.safetensors"),
              IsOkAndHolds("adapter_model.safetensors"));
  EXPECT_THAT(clean_relative_path("a/b c/..d"), IsOkAndHolds("a/b c/..d"));
  EXPECT_THAT(clean_relative_path("./a//b/./c/"), IsOkAndHolds("a/b/c"));
}

TEST(RelativePath, RefusesWhatLeavesIt) {
  const auto refuses = [](std::string_view text, std::string_view why) {
    EXPECT_THAT(clean_relative_path(text),
                IsError(ErrorCode::invalid_response, HasSubstr(std::string(why))))
        << text;
  };
  refuses("/etc/passwd", "\"/etc/passwd\": it is absolute");
  refuses("..", "leaves");
  refuses("a/../../b", "leaves");
  refuses("a\\..\\b", "backslash");
  refuses(std::string_view("a\0b", 3), "a\\x00b");
  refuses("a\nb", "control");
  refuses("", "names nothing");
  refuses("./.", "names nothing");
  refuses(std::string(256, 'a'), "too long");
  refuses(std::string(2000, '/').replace(0, 1, "a"), "too long");
}

}  // namespace
}  // namespace tinker::base::relative_path_test
