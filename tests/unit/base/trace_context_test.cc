#include "tinker/trace_context.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::trace_context_test {
namespace {

using ::testing::Field;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::MatchesRegex;

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, KeepsWhatTheCallerSupplies) {
  const auto context = TraceContext::parse(kParent, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");

  EXPECT_THAT(context,
              IsOkAndHolds(TraceContext{.traceparent = std::string(kParent),
                                        .tracestate = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}));
}

TEST(TraceContext, NeedsNoState) {
  EXPECT_THAT(TraceContext::parse(kParent), IsOkAndHolds(Field(&TraceContext::tracestate, "")));
}

TEST(TraceContext, RefusesAnotherShape) {
  for (const std::string_view text :
       {"",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b-701"}) {
    EXPECT_THAT(TraceContext::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("traceparent: expected 00-<32 hex")))
        << text;
  }
}

TEST(TraceContext, RefusesOtherVersions) {
  for (const std::string_view version : {"01", "ff", "0A"}) {
    const auto text = std::string(version) + std::string(kParent.substr(2));

    EXPECT_THAT(TraceContext::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("expected version 00")))
        << text;
  }
}

TEST(TraceContext, RefusesUpperCaseAndOtherDigits) {
  for (const std::string_view text : {"00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0G",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba9 2b7-01"}) {
    EXPECT_THAT(TraceContext::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("hex digits in lower case")))
        << text;
  }
}

TEST(TraceContext, RefusesIdsThatAreZero) {
  EXPECT_THAT(TraceContext::parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
              IsError(ErrorCode::invalid_argument, HasSubstr("trace id that is not zero")));
  EXPECT_THAT(TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
              IsError(ErrorCode::invalid_argument, HasSubstr("parent id that is not zero")));
}

TEST(TraceContext, LimitsTheStateTo512Bytes) {
  const std::string longest = "k=" + std::string(510, 'v');

  EXPECT_THAT(TraceContext::parse(kParent, longest), IsOk());
  EXPECT_THAT(TraceContext::parse(kParent, longest + "v"),
              IsError(ErrorCode::invalid_argument, HasSubstr("at most 512 bytes, found 513")));
}

TEST(TraceContext, RefusesAStateThatCouldEndTheHeader) {
  for (const std::string_view state : {"a=b\r\nx-evil: 1", "a=\x01", "a=\x7f", "a=\xc3\xa4"}) {
    EXPECT_THAT(TraceContext::parse(kParent, state),
                IsError(ErrorCode::invalid_argument, HasSubstr("printable")))
        << state;
  }
}

TEST(TraceContext, RefusesAStateWithoutPairs) {
  for (const std::string_view state : {"a", "=b", "a=", "a=b,c"}) {
    EXPECT_THAT(TraceContext::parse(kParent, state),
                IsError(ErrorCode::invalid_argument, HasSubstr("key=value")))
        << state;
  }
}

TEST(TraceContext, AllowsSpaceAndEmptyMembersBetweenPairs) {
  EXPECT_THAT(TraceContext::parse(kParent, "a=1 ,\tb=2,,c=3"), IsOk());
}

TEST(TraceContext, LimitsTheStateTo32Pairs) {
  std::string state = "k=v";
  for (int i = 1; i < 32; ++i) state += ",k=v";

  EXPECT_THAT(TraceContext::parse(kParent, state), IsOk());
  EXPECT_THAT(TraceContext::parse(kParent, state + ",k=v"),
              IsError(ErrorCode::invalid_argument, HasSubstr("at most 32 pairs")));
}

TEST(TraceContext, ValidatesOneFilledInByHand) {
  const TraceContext context = {.traceparent = "nonsense"};

  EXPECT_THAT(context.validate(), IsError(ErrorCode::invalid_argument, HasSubstr("nonsense")));
}

TEST(TraceContext, GeneratesValidContextsThatDiffer) {
  Rng rng(7);
  std::set<std::string> seen;

  for (int i = 0; i < 100; ++i) {
    const auto context = TraceContext::generate(rng);
    EXPECT_THAT(context.validate(), IsOk());
    EXPECT_THAT(context.traceparent, MatchesRegex("00-[0-9a-f]{32}-[0-9a-f]{16}-01"));
    seen.insert(context.traceparent);
  }

  EXPECT_EQ(seen.size(), 100U);
}

TEST(TraceContext, IsRepeatableForASeed) {
  Rng a(3);
  Rng b(3);

  EXPECT_EQ(TraceContext::generate(a), TraceContext::generate(b));
}

}  // namespace
}  // namespace tinker::trace_context_test
