// PROTOCOL 7.7 and 7.9 (datetime members). What is accepted was compared with the models of the
// official SDK 0.36.0; differences are named.
#include "tinker/types/date_time.h"

#include <chrono>
#include <limits>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::date_time_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Optional;

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;

/// What a text is written as after it was read; "refused" for none.
std::string rewritten(std::string_view text) {
  const auto parsed = DateTime::parse(text);
  return parsed ? parsed->to_string() : "refused";
}

std::string from_unix(double seconds) {
  const auto date_time = DateTime::from_unix(seconds);
  return date_time ? date_time->to_string() : "refused";
}

DateTime::Instant noon_utc() {
  return std::chrono::sys_days{std::chrono::year{2026} / 1 / 2} + hours(12);
}

TEST(DateTime, IsTheEpochInUtcByDefault) {
  EXPECT_EQ(DateTime().to_string(), "1970-01-01T00:00:00Z");
}

TEST(DateTime, TakesAnInstantAsUtc) {
  EXPECT_EQ(DateTime(noon_utc()).to_string(), "2026-01-02T12:00:00Z");
}

// ---- what is read ----------------------------------------------------------------------------

TEST(DateTimeParse, KeepsWhatItWrites) {
  for (const char* text : {"2026-01-02T03:04:05Z",
                           "2026-01-02T03:04:05.678901Z",
                           "2026-01-02T03:04:05.000001+02:00",
                           "2026-01-02T03:04:05-12:34",
                           "2026-01-02T03:04:05",
                           "2026-01-02T03:04:05.500000"}) {
    EXPECT_EQ(rewritten(text), text);
  }
}

TEST(DateTimeParse, ReadsLowerCaseLetters) {
  EXPECT_EQ(rewritten("2026-01-02t03:04:05z"), "2026-01-02T03:04:05Z");
}

TEST(DateTimeParse, ReadsOtherSeparators) {
  EXPECT_EQ(rewritten("2026-01-02 03:04:05Z"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(rewritten("2026-01-02_03:04:05Z"), "2026-01-02T03:04:05Z");
}

TEST(DateTimeParse, ReadsATimeWithoutSeconds) {
  EXPECT_EQ(rewritten("2026-01-02T03:04"), "2026-01-02T03:04:00");
  EXPECT_EQ(rewritten("2026-01-02T03:04Z"), "2026-01-02T03:04:00Z");
}

TEST(DateTimeParse, ReadsADateAsItsMidnight) {
  EXPECT_EQ(rewritten("2026-01-02"), "2026-01-02T00:00:00");
}

TEST(DateTimeParse, FillsUpAShortFraction) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05.5Z"), "2026-01-02T03:04:05.500000Z");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05,25Z"), "2026-01-02T03:04:05.250000Z");
}

TEST(DateTimeParse, DropsDigitsBeyondMicroseconds) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05.6789019Z"), "2026-01-02T03:04:05.678901Z");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05.99999999999999999999Z"), "2026-01-02T03:04:05.999999Z");
}

TEST(DateTimeParse, DropsAFractionOfZero) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05.000Z"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05.0000009Z"), "2026-01-02T03:04:05Z");
}

TEST(DateTimeParse, KeepsATimeWithoutOffsetNaive) {
  const auto naive = DateTime::parse("2026-01-02T03:04:05");

  ASSERT_THAT(naive, IsOk());
  EXPECT_EQ(naive->utc_offset(), std::nullopt);
}

TEST(DateTimeParse, ReadsOffsetsWithAndWithoutAColon) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05+02:30"), "2026-01-02T03:04:05+02:30");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05-0230"), "2026-01-02T03:04:05-02:30");
}

TEST(DateTimeParse, ReadsTheLargestOffset) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05+23:59"), "2026-01-02T03:04:05+23:59");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05-23:59"), "2026-01-02T03:04:05-23:59");
}

TEST(DateTimeParse, WritesAnOffsetOfZeroAsZ) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05+00:00"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(rewritten("2026-01-02T03:04:05-00:00"), "2026-01-02T03:04:05Z");
}

TEST(DateTimeParse, KnowsLeapYears) {
  EXPECT_EQ(rewritten("2024-02-29"), "2024-02-29T00:00:00");
  EXPECT_EQ(rewritten("2000-02-29"), "2000-02-29T00:00:00");
  EXPECT_EQ(rewritten("2023-02-29"), "refused");
  EXPECT_EQ(rewritten("2100-02-29"), "refused");
}

TEST(DateTimeParse, ReadsTheFirstAndTheLastMoment) {
  EXPECT_EQ(rewritten("0001-01-01T00:00:00Z"), "0001-01-01T00:00:00Z");
  EXPECT_EQ(rewritten("9999-12-31T23:59:59.999999Z"), "9999-12-31T23:59:59.999999Z");
}

TEST(DateTimeParse, ReadsTheFirstAndTheLastMomentOfAnyOffset) {
  EXPECT_EQ(rewritten("0001-01-01T00:00:00+14:00"), "0001-01-01T00:00:00+14:00");
  EXPECT_EQ(rewritten("9999-12-31T23:59:59-12:00"), "9999-12-31T23:59:59-12:00");
}

// ---- what is refused -------------------------------------------------------------------------

TEST(DateTimeParse, RefusesFieldsOutOfRange) {
  for (const char* text : {"0000-01-01",
                           "2026-00-01",
                           "2026-13-01",
                           "2026-01-00",
                           "2026-01-32",
                           "2026-04-31",
                           "2026-01-02T24:00:00",
                           "2026-01-02T23:60:00",
                           "2026-01-02T23:59:60Z",
                           "2026-01-02T03:04:05+24:00",
                           "2026-01-02T03:04:05-02:60"}) {
    EXPECT_EQ(rewritten(text), "refused") << text;
  }
}

TEST(DateTimeParse, RefusesWhatIsCutShort) {
  for (const char* text : {"",
                           "2026",
                           "2026-01",
                           "2026-01-",
                           "2026-01-0",
                           "2026-01-02T",
                           "2026-01-02T0",
                           "2026-01-02T03",
                           "2026-01-02T03:",
                           "2026-01-02T03:04:",
                           "2026-01-02T03:04:0",
                           "2026-01-02T03:04:05.",
                           "2026-01-02T03:04:05+",
                           "2026-01-02T03:04:05+0",
                           "2026-01-02T03:04:05+02:",
                           "2026-01-02T03:04:05+02:0"}) {
    EXPECT_EQ(rewritten(text), "refused") << text;
  }
}

// RFC 3339: an offset has minutes. The official models refuse it too.
TEST(DateTimeParse, RefusesAnOffsetWithoutMinutes) {
  EXPECT_EQ(rewritten("2026-01-02T03:04:05+02"), "refused");
}

TEST(DateTimeParse, RefusesOtherForms) {
  for (const char* text : {"26-01-02",
                           "2026-1-2",
                           "20260102T030405Z",
                           "2026/01/02",
                           "-2026-01-02",
                           "+2026-01-02",
                           "2026-01-02Z",
                           "2026-01-02X03:04:05",
                           "2026-01-02T03.04.05",
                           "2026-01-02T03:04.5",
                           "2026-01-02T-3:04:05",
                           "2026-01-02T03:04:05.-1",
                           "today"}) {
    EXPECT_EQ(rewritten(text), "refused") << text;
  }
}

TEST(DateTimeParse, RefusesWhatSurroundsADate) {
  for (const char* text : {" 2026-01-02T03:04:05Z",
                           "2026-01-02T03:04:05Z ",
                           "2026-01-02T03:04:05 Z",
                           "2026-01-02T03:04:05ZZ",
                           "2026-01-02T03:04:05+02:00:00"}) {
    EXPECT_EQ(rewritten(text), "refused") << text;
  }
}

TEST(DateTimeParse, QuotesWhatItRefuses) {
  EXPECT_THAT(DateTime::parse("tomorrow"),
              IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("'tomorrow'"), HasSubstr("T"))));
}

// ---- from numbers ----------------------------------------------------------------------------

TEST(DateTimeFromUnix, ReadsSeconds) {
  EXPECT_EQ(from_unix(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(from_unix(1'700'000'000), "2023-11-14T22:13:20Z");
  EXPECT_EQ(from_unix(-1), "1969-12-31T23:59:59Z");
}

TEST(DateTimeFromUnix, KeepsFractionsToTheMicrosecond) {
  EXPECT_EQ(from_unix(1.5), "1970-01-01T00:00:01.500000Z");
  EXPECT_EQ(from_unix(-0.25), "1969-12-31T23:59:59.750000Z");
  EXPECT_EQ(from_unix(1'700'000'000.123456), "2023-11-14T22:13:20.123456Z");
}

TEST(DateTimeFromUnix, ReadsLargeNumbersAsMilliseconds) {
  EXPECT_EQ(from_unix(1'700'000'000'000), "2023-11-14T22:13:20Z");
  EXPECT_EQ(from_unix(-62'135'596'800'000), "0001-01-01T00:00:00Z");
}

TEST(DateTimeFromUnix, SwitchesToMillisecondsBeyond20Billion) {
  EXPECT_EQ(from_unix(2e10), "2603-10-11T11:33:20Z");
  EXPECT_EQ(from_unix(20'000'000'001), "1970-08-20T11:33:20.001000Z");
  EXPECT_EQ(from_unix(-2e10), "1336-03-23T12:26:40Z");
  EXPECT_EQ(from_unix(-20'000'000'001), "1969-05-14T12:26:39.999000Z");
}

TEST(DateTimeFromUnix, KeepsMillisecondsExact) {
  EXPECT_EQ(from_unix(1'700'000'000'123), "2023-11-14T22:13:20.123000Z");
  EXPECT_EQ(from_unix(100'000'000'000'001), "5138-11-16T09:46:40.001000Z");
  EXPECT_EQ(from_unix(253'402'300'799'999), "9999-12-31T23:59:59.999000Z");
}

TEST(DateTimeFromUnix, ReachesTheYear9999AndNoFurther) {
  EXPECT_EQ(from_unix(253'402'300'799'000), "9999-12-31T23:59:59Z");
  EXPECT_EQ(from_unix(253'402'300'800'000), "refused");
}

TEST(DateTimeFromUnix, ReachesTheYear1AndNoFurther) {
  EXPECT_EQ(from_unix(-62'135'596'800'000), "0001-01-01T00:00:00Z");
  EXPECT_EQ(from_unix(-62'135'596'801'000), "refused");
}

TEST(DateTimeFromUnix, RefusesWhatIsNotFinite) {
  EXPECT_EQ(from_unix(std::numeric_limits<double>::quiet_NaN()), "refused");
  EXPECT_EQ(from_unix(std::numeric_limits<double>::infinity()), "refused");
  EXPECT_EQ(from_unix(-std::numeric_limits<double>::infinity()), "refused");
  EXPECT_EQ(from_unix(1e300), "refused");
}

// ---- what it means ---------------------------------------------------------------------------

TEST(DateTimeInstant, SubtractsTheOffset) {
  const auto east = DateTime::parse("2026-01-02T14:30:00+02:30");
  const auto west = DateTime::parse("2026-01-02T00:00:00-12:00");

  ASSERT_THAT(east, IsOk());
  ASSERT_THAT(west, IsOk());
  EXPECT_EQ(east->instant(), noon_utc());
  EXPECT_EQ(west->instant(), noon_utc());
}

TEST(DateTimeInstant, TakesATimeWithoutOffsetAsUtc) {
  const auto naive = DateTime::parse("2026-01-02T12:00:00");

  ASSERT_THAT(naive, IsOk());
  EXPECT_EQ(naive->instant(), noon_utc());
}

TEST(DateTimeInstant, IsExactToTheMicrosecond) {
  const auto date_time = DateTime::parse("2026-01-02T12:00:00.000007Z");

  ASSERT_THAT(date_time, IsOk());
  EXPECT_EQ(date_time->instant() - noon_utc(), microseconds(7));
}

TEST(DateTimeOffset, IsSignedMinutes) {
  EXPECT_THAT(DateTime::parse("2026-01-02T00:00Z")->utc_offset(), Optional(minutes(0)));
  EXPECT_THAT(DateTime::parse("2026-01-02T00:00+02:30")->utc_offset(), Optional(minutes(150)));
  EXPECT_THAT(DateTime::parse("2026-01-02T00:00-02:30")->utc_offset(), Optional(minutes(-150)));
}

TEST(DateTime, EqualsTheSameTextNotTheSameInstant) {
  const auto utc = DateTime::parse("2026-01-02T12:00:00Z");
  const auto east = DateTime::parse("2026-01-02T14:00:00+02:00");

  ASSERT_THAT(utc, IsOk());
  ASSERT_THAT(east, IsOk());
  EXPECT_NE(*utc, *east);
  EXPECT_EQ(utc->instant(), east->instant());
}

TEST(DateTime, OfUtcIsNotNaive) {
  const auto utc = DateTime::parse("2026-01-02T12:00:00Z");
  const auto naive = DateTime::parse("2026-01-02T12:00:00");

  ASSERT_THAT(utc, IsOk());
  ASSERT_THAT(naive, IsOk());
  EXPECT_NE(*utc, *naive);
}

}  // namespace
}  // namespace tinker::date_time_test
