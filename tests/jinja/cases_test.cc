// Templates that use what Jinja has, one feature a line, and what jinja2 makes of them
// (cases.jsonl, written by make_cases.py).
#include <chrono>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jinja/json_values.h"
#include "jinja/template.h"
#include "tinker/testing/matchers.h"

namespace tinker::jinja::cases_test {
namespace {

using testing::IsError;
using testing::IsOkAndHolds;
using ::testing::StartsWith;

// 2025-03-07 15:04:09 UTC, as compare.py has it.
constexpr std::chrono::sys_seconds kNow(std::chrono::seconds(1'741'359'849));

TEST(JinjaCases, AreRenderedAsJinja2RendersThem) {
  std::ifstream file(TINKER_JINJA_CASES);
  std::string line;
  std::getline(file, line);
  const auto variables =
      testing::to_template_value(wire::JsonDocument::parse(line).value().root()).dict();
  int count = 0;
  for (; std::getline(file, line); ++count) {
    const auto one = wire::JsonDocument::parse(line).value();
    const std::string source(one.root().member("template").value().string());
    SCOPED_TRACE(source);
    const auto expected = one.root().member("text");
    const auto parsed = Template::parse(source);
    const auto rendered = parsed.ok() ? parsed->render(variables, {.now = kNow})
                                      : Result<std::string>(parsed.error());

    if (expected) {
      EXPECT_THAT(rendered, IsOkAndHolds(std::string(expected->string())));
    } else {
      EXPECT_THAT(rendered, IsError(ErrorCode::invalid_argument, StartsWith("line ")));
    }
  }
  EXPECT_GE(count, 130);
}

}  // namespace
}  // namespace tinker::jinja::cases_test
