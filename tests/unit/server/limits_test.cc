#include "server/limits.h"

#include <set>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::server::limits_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

auto refused(const char* limit, const char* expected, const char* found) {
  return IsError(ErrorCode::invalid_argument,
                 AllOf(HasSubstr(limit), HasSubstr(expected), HasSubstr(found)));
}

TEST(ServerLimits, AreSetByNameWithTheirUnits) {
  LocalServerLimits limits;

  EXPECT_THAT(set_limit(limits, "json_bytes", "3MiB"), IsOk());
  EXPECT_THAT(set_limit(limits, "head_bytes", "512"), IsOk());
  EXPECT_THAT(set_limit(limits, "target_bytes", "512B"), IsOk());
  EXPECT_THAT(set_limit(limits, "samples", "7"), IsOk());
  EXPECT_THAT(set_limit(limits, "poll_time", "250ms"), IsOk());
  EXPECT_THAT(set_limit(limits, "idle_time", "20"), IsOk());
  EXPECT_THAT(set_limit(limits, "link_time", "2h"), IsOk());

  EXPECT_EQ(limits.json_bytes, 3U << 20U);
  EXPECT_EQ(limits.head_bytes, 512U);
  EXPECT_EQ(limits.target_bytes, 512U);
  EXPECT_EQ(limits.samples, 7U);
  EXPECT_EQ(limits.poll_time, 250ms);
  EXPECT_EQ(limits.idle_time, 20s);
  EXPECT_EQ(limits.link_time, 2h);
}

TEST(ServerLimits, HaveTextsThatSetThemAgain) {
  const LocalServerLimits defaults;
  std::set<std::string_view> names;
  for (const auto& row : limit_rows()) {
    SCOPED_TRACE(row.name);
    LocalServerLimits changed;
    const auto text = limit_text(defaults, row);
    EXPECT_THAT(set_limit(changed, row.name, "3"), IsOk());
    EXPECT_NE(limit_text(changed, row), text);
    EXPECT_THAT(set_limit(changed, row.name, text), IsOk());
    EXPECT_EQ(limit_text(changed, row), text);
    EXPECT_TRUE(names.insert(row.name).second);
  }
  EXPECT_THAT(check_limits(defaults), IsOk());
}

TEST(ServerLimits, NameTheValueThatIsNone) {
  LocalServerLimits limits;
  EXPECT_THAT(set_limit(limits, "nothing", "1"),
              refused("'nothing'", "expected one of", "poll_time"));
  EXPECT_THAT(set_limit(limits, "samples", "1KiB"), refused("samples", "a whole number", "'1KiB'"));
  EXPECT_THAT(set_limit(limits, "samples", "0"), refused("samples", "from 1 to 1000000000", "'0'"));
  EXPECT_THAT(set_limit(limits, "samples", "-1"), refused("samples", "a whole number", "'-1'"));
  EXPECT_THAT(set_limit(limits, "json_bytes", "1s"), refused("json_bytes", "64MiB", "'1s'"));
  EXPECT_THAT(set_limit(limits, "json_bytes", "18446744073709551615GiB"),
              refused("json_bytes", "a size", "18446744073709551615GiB"));
  EXPECT_THAT(set_limit(limits, "poll_time", ""), refused("poll_time", "30s", "''"));
  EXPECT_THAT(set_limit(limits, "poll_time", "90000h"), refused("poll_time", "87600h", "'90000h'"));
  EXPECT_THAT(set_limit(limits, "poll_time", "1 s"), refused("poll_time", "30s", "'1 s'"));

  limits.chunk_time = -1ms;
  EXPECT_THAT(check_limits(limits), refused("chunk_time", "from 1ms", "found"));
}

}  // namespace
}  // namespace tinker::server::limits_test
