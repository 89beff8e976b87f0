#include "http/http_date.h"

#include <chrono>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::http::http_date_test {
namespace {

using ::testing::Optional;

constexpr std::chrono::sys_seconds kDate{
    std::chrono::seconds(784111777)};  // 1994-11-06 08:49:37 UTC

TEST(HttpDate, ReadsTheThreeFormsOfHttp) {
  // RFC 9110, section 5.6.7
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun Nov  6 08:49:37 1994"), Optional(kDate));
}

TEST(HttpDate, ReadsNumericZones) {
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 09:49:37 +0100"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 03:19:37 -0530"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 -0000"), Optional(kDate));
  EXPECT_THAT(parse_http_date("06 Nov 1994 09:49:37+0100"), Optional(kDate));
  EXPECT_THAT(parse_http_date("06 Nov 1994 03:49:37-0500"), Optional(kDate));
}

TEST(HttpDate, ReadsNamedZones) {
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 UTC"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 Z"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 03:49:37 EST"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 01:49:37 pdt"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 XYZ"), Optional(kDate));
}

TEST(HttpDate, ReadsWhatEmailWrites) {
  EXPECT_THAT(parse_http_date("06 Nov 1994 08:49:37 GMT"), Optional(kDate));
  EXPECT_THAT(parse_http_date("06 Nov 1994 08:49:37"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun,06 Nov 1994 08:49:37 GMT"), Optional(kDate));
  EXPECT_THAT(parse_http_date("sun, 6 nov 94 08:49:37 gmt"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 November 1994 08:49:37 GMT"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 +0000 (UTC)"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49:37 (comment)"), Optional(kDate));
  EXPECT_THAT(parse_http_date("Sun Nov 6 08:49:37 GMT 1994"), Optional(kDate));
  EXPECT_THAT(parse_http_date("  Sun, 06 Nov 1994\t08:49:37 GMT "), Optional(kDate));
}

TEST(HttpDate, TakesMissingSecondsForZero) {
  EXPECT_THAT(parse_http_date("Sun, 06 Nov 1994 08:49 GMT"),
              Optional(kDate - std::chrono::seconds(37)));
}

TEST(HttpDate, PutsTwoDigitYearsWhereTheOfficialPackageDoes) {
  const auto year_of = [](std::string_view text) {
    const auto date = parse_http_date(text).value();
    return static_cast<int>(
        std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(date)).year());
  };

  EXPECT_EQ(year_of("Sunday, 06-Nov-68 08:49:37 GMT"), 2068);
  EXPECT_EQ(year_of("Sunday, 06-Nov-69 08:49:37 GMT"), 1969);
  EXPECT_EQ(year_of("Sunday, 06-Nov-00 08:49:37 GMT"), 2000);
}

TEST(HttpDate, KnowsLeapYearsAndLeapSeconds) {
  EXPECT_NE(parse_http_date("29 Feb 2024 00:00:00 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_date("29 Feb 2023 00:00:00 GMT"), std::nullopt);
  EXPECT_EQ(parse_http_date("31 Dec 2016 23:59:60 GMT"),
            parse_http_date("1 Jan 2017 00:00:00 GMT"));
}

TEST(HttpDate, RefusesWhatIsNoDate) {
  for (const auto* text : {"",
                           " ",
                           ",",
                           "soon",
                           "Sun",
                           "Sun,",
                           "GMT",
                           "06 Nov 1994",
                           "06 Nov 08:49:37 GMT",
                           "Nov 1994 08:49:37 GMT",
                           "06 1994 08:49:37 GMT",
                           "32 Nov 1994 08:49:37 GMT",
                           "00 Nov 1994 08:49:37 GMT",
                           "06 Nov 1994 24:49:37 GMT",
                           "06 Nov 1994 08:60:37 GMT",
                           "06 Nov 1994 08:49:61 GMT",
                           "06 Nov 1994 08:49:37:01 GMT",
                           "06 Nov 1994 : GMT",
                           "06 Nov 1994 08:49:3x GMT",
                           "06 Nov 19945 08:49:37 GMT",
                           "006 Nov 1994 08:49:37 GMT",
                           "06 Nov 994 08:49:37 GMT",
                           "06 Foo 1994 08:49:37 GMT",
                           "06 Nov 1994 08:49:37 +01",
                           "06 Nov 1994 08:49:37 +01:00",
                           "1994-11-06T08:49:37Z",
                           "2026-01-02 03:04:05",
                           "06 Nov 1994 08:49:37 08:49:37",
                           "06 07 Nov 1994 08:49:37",
                           "-",
                           "--",
                           "06-Nov-94",
                           "06 Nov 1994 08:49:37 \x01"}) {
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
  }
}

TEST(HttpDate, IsWrittenAsTheStandardHasIt) {
  using namespace std::chrono_literals;
  EXPECT_EQ(format_http_date(std::chrono::sys_days(1994y / 11 / 6) + 8h + 49min + 37s),
            "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(format_http_date(std::chrono::sys_days(2024y / 2 / 29) + 23h + 59min + 59s),
            "Thu, 29 Feb 2024 23:59:59 GMT");
}

TEST(HttpDate, IsReadAsItWasWritten) {
  for (std::int64_t second = 0; second < 4'000'000'000; second += 12'345'679) {
    const std::chrono::sys_seconds time{std::chrono::seconds(second)};
    EXPECT_EQ(parse_http_date(format_http_date(time)), time);
  }
}

}  // namespace
}  // namespace tinker::http::http_date_test
