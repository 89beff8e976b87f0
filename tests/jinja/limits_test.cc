// Templates from strangers: whatever they do ends soon, in little memory, with a text or an error.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jinja/template.h"
#include "tinker/testing/matchers.h"

namespace tinker::jinja::limits_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

constexpr auto kInvalid = ErrorCode::invalid_argument;

Result<std::string> render(const std::string& source, const RenderOptions& options = {}) {
  TINKER_TRY(const auto parsed, Template::parse(source));
  return parsed.render({}, options);
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(JinjaLimits, BoundTheStepsOfLoops) {
  EXPECT_THAT(
      render("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
             {.max_steps = 100'000}),
      IsError(kInvalid, HasSubstr("100000 steps")));
}

TEST(JinjaLimits, BoundTheStepsOfFilters) {
  EXPECT_THAT(
      render("{% for i in range(1000) %}{{ range(1000) | map('string') | list }}{% endfor %}",
             {.max_steps = 10'000}),
      IsError(kInvalid, HasSubstr("10000 steps")));
}

TEST(JinjaLimits, BoundWhatIsPrinted) {
  EXPECT_THAT(render("{% for i in range(1000) %}0123456789{% endfor %}", {.max_bytes = 5000}),
              IsError(kInvalid, AllOf(HasSubstr("line 1"), HasSubstr("5000 bytes"))));
  EXPECT_THAT(render("{% for i in range(1000) %}0123456789{% endfor %}", {.max_bytes = 10'000}),
              IsOk());
}

TEST(JinjaLimits, BoundTextThatGrows) {
  const std::string doubling =
      "{% set ns = namespace(x='0123456789') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}";
  EXPECT_THAT(render(doubling), IsError(kInvalid, HasSubstr("bytes")));
  EXPECT_THAT(render("{{ 'ab' * 10000000000 }}"), IsError(kInvalid, HasSubstr("bytes")));
  EXPECT_THAT(render("{{ [1] * 10000000000 }}"), IsError(kInvalid, HasSubstr("bytes")));
  EXPECT_THAT(render("{{ 'a'.center(10000000000) }}"), IsError(kInvalid, HasSubstr("too large")));
  EXPECT_THAT(render("{{ '%1000000000d' % 1 }}"), IsError(kInvalid, HasSubstr("width")));
  EXPECT_THAT(render("{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ "
                     "ns.x %}{% endfor %}"),
              IsError(kInvalid, HasSubstr("too long")));
}

TEST(JinjaLimits, BoundMacrosThatCallThemselves) {
  EXPECT_THAT(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              IsError(kInvalid, HasSubstr("without end")));
}

TEST(JinjaLimits, BoundHowDeepTemplatesAreNested) {
  EXPECT_THAT(render("{{ " + repeated("(", 10'000) + "1" + repeated(")", 10'000) + " }}"),
              IsError(kInvalid, HasSubstr("levels deep")));
  EXPECT_THAT(render("{{ " + repeated("not ", 10'000) + "1 }}"),
              IsError(kInvalid, HasSubstr("levels deep")));
  EXPECT_THAT(render("{{ " + repeated("-", 10'000) + "1 }}"),
              IsError(kInvalid, HasSubstr("levels deep")));
  EXPECT_THAT(render(repeated("{% if 1 %}", 10'000)), IsError(kInvalid, HasSubstr("levels deep")));
  EXPECT_THAT(render("{{ 1" + repeated(" + 1", 10'000) + " }}"),
              IsError(kInvalid, HasSubstr("too many parts")));
  EXPECT_THAT(render("{{ x" + repeated(".x", 10'000) + " }}"),
              IsError(kInvalid, HasSubstr("too many parts")));
  EXPECT_THAT(render("{{ 1" + repeated(" + 1", 100) + " }}"), IsOkAndHolds("101"));
}

TEST(JinjaLimits, BoundHowDeepValuesAreNested) {
  EXPECT_THAT(render("{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = "
                     "[ns.x] %}{% endfor %}"),
              IsError(kInvalid, HasSubstr("nested too deep")));
  EXPECT_THAT(render("{% set ns = namespace(x='a') %}{% for i in range(100000) %}"
                     "{% set ns.x = ns.x | map('string') %}{% endfor %}"),
              IsError(kInvalid, HasSubstr("nested too deep")));
}

TEST(JinjaLimits, BearNamespacesThatHoldThemselvesAndLongChainsOfThem) {
  EXPECT_THAT(
      render("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns | string | length > 9 }}"),
      IsOkAndHolds("True"));
  EXPECT_THAT(
      render("{% set ns = namespace(last=0) %}{% for i in range(50000) %}"
             "{% set ns.last = namespace(before=ns.last) %}{% endfor %}{% set ns.last = 0 %}ok"),
      IsOkAndHolds("ok"));
}

TEST(JinjaLimits, RefuseIntegersBeyond64Bits) {
  EXPECT_THAT(render("{{ 9223372036854775807 + 1 }}"), IsError(kInvalid, HasSubstr("64 bits")));
  EXPECT_THAT(render("{{ 10 ** 19 }}"), IsError(kInvalid, HasSubstr("64 bits")));
  EXPECT_THAT(render("{{ 99999999999999999999 }}"), IsError(kInvalid, HasSubstr("too large")));
  EXPECT_THAT(render("{{ (-9223372036854775807 - 1) // -1 }}"),
              IsError(kInvalid, HasSubstr("64 bits")));
  EXPECT_THAT(render("{{ (-9223372036854775807 - 1) % -1 }}"), IsOkAndHolds("0"));
}

TEST(JinjaErrors, NameLineAndColumn) {
  EXPECT_THAT(render("a\n{{ 'ü' ~ \n  missing.x }}"),
              IsError(kInvalid, HasSubstr("line 3, column 10: 'missing' is undefined")));
  EXPECT_THAT(render("ab {% include 'x' %}"),
              IsError(kInvalid, HasSubstr("line 1, column 7: the tag 'include' is not supported")));
  EXPECT_THAT(render("{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ m() }}"),
              IsError(kInvalid, HasSubstr("line 2, column 6: division by zero")));
}

}  // namespace
}  // namespace tinker::jinja::limits_test
