// How we write JSON: compact, UTF-8 as it is, floats as floats (PROTOCOL 4).

#include "wire/json_writer.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::wire::json_writer_test {
namespace {

using ::testing::HasSubstr;

template <typename Write>
std::string written(Write write, NonFinite non_finite = NonFinite::refuse) {
  JsonWriter writer(non_finite);
  write(writer);
  EXPECT_EQ(writer.error(), std::nullopt);
  return std::move(writer).take();
}

template <typename T>
std::string number(T value) {
  return written([&](JsonWriter& w) { w.number(value); });
}

std::string text(std::string_view value) {
  return written([&](JsonWriter& w) { w.string(value); });
}

// PROTOCOL 4.1: separators without spaces.
TEST(JsonWriter, SeparatesMembersAndElementsWithCommasAlone) {
  const std::string out = written([](JsonWriter& w) {
    w.begin_object();
    w.key("a");
    w.begin_array();
    w.integer(std::int64_t{1});
    w.null();
    w.boolean(true);
    w.boolean(false);
    w.begin_object();
    w.end_object();
    w.begin_array();
    w.end_array();
    w.end_array();
    w.key("b");
    w.string("x");
    w.escaped_key("c");
    w.base64("foo");
    w.end_object();
  });

  EXPECT_EQ(out, R"({"a":[1,null,true,false,{},[]],"b":"x","c":"Zm9v"})");
}

// A comma is due or not by what was written last, so texts that end in a bracket must not confuse
// it.
TEST(JsonWriter, SeparatesAfterTextsThatLookLikeStructure) {
  const std::string out = written([](JsonWriter& w) {
    w.begin_array();
    w.string("{");
    w.string("[");
    w.string(":");
    w.string("");
    w.end_array();
  });

  EXPECT_EQ(out, R"(["{","[",":",""])");
}

TEST(JsonWriter, EscapesWhatJsonMustEscape) {
  EXPECT_EQ(text("\"\\\n\r\t"), R"("\"\\\n\r\t")");
  EXPECT_EQ(text(std::string_view("\0\x01\b\f\x1f", 5)), R"("\u0000\u0001\u0008\u000c\u001f")");
  EXPECT_EQ(text("plain\"tail"), R"("plain\"tail")");
}

// PROTOCOL 4.1: non-ASCII characters unescaped.
TEST(JsonWriter, LeavesOtherCharactersAlone) {
  EXPECT_EQ(text("é€😀\x7f/<>"), "\"é€😀\x7f/<>\"");
}

TEST(JsonWriter, EscapesKeysOnRequest) {
  const std::string out = written([](JsonWriter& w) {
    w.begin_object();
    w.escaped_key("a\"b");
    w.null();
    w.end_object();
  });

  EXPECT_EQ(out, R"({"a\"b":null})");
}

TEST(JsonWriter, RefusesTextThatIsNotUtf8) {
  JsonWriter writer(NonFinite::as_strings);
  const Path::Step step(writer.path(), "name");
  writer.string("caf\xe9");

  ASSERT_TRUE(writer.error().has_value());
  EXPECT_EQ(writer.error()->code, ErrorCode::invalid_argument);
  EXPECT_EQ(writer.error()->message, "name: expected UTF-8 text");
}

// PROTOCOL 4.6: integers print as integers.
TEST(JsonWriter, WritesIntegersInFull) {
  const std::string out = written([](JsonWriter& w) {
    w.begin_array();
    w.integer(std::numeric_limits<std::int64_t>::min());
    w.integer(std::int64_t{0});
    w.integer(std::numeric_limits<std::int64_t>::max());
    w.integer(std::numeric_limits<std::uint64_t>::max());
    w.end_array();
  });

  EXPECT_EQ(out, "[-9223372036854775808,0,9223372036854775807,18446744073709551615]");
}

TEST(JsonWriter, WritesTokenIds) {
  const std::vector<std::int32_t> ids = {
      0, -1, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};

  const std::string out = written([&](JsonWriter& w) {
    w.begin_object();
    w.key("a");
    w.integers(ids);
    w.key("b");
    w.integers({});
    w.key("c");
    w.null();
    w.end_object();
  });

  EXPECT_EQ(out, R"({"a":[0,-1,-2147483648,2147483647],"b":[],"c":null})");
}

// PROTOCOL 4.6: float-typed fields always print with a fraction or exponent.
TEST(JsonWriter, WritesFloatsAsFloats) {
  EXPECT_EQ(number(1.0), "1.0");
  EXPECT_EQ(number(0.0), "0.0");
  EXPECT_EQ(number(-0.0), "-0.0");
  EXPECT_EQ(number(-7.0), "-7.0");
  EXPECT_EQ(number(0.7), "0.7");
  EXPECT_EQ(number(1e-12), "1e-12");
  EXPECT_EQ(number(1e300), "1e+300");
  EXPECT_EQ(number(123456789.0), "123456789.0");
}

TEST(JsonWriter, WritesTheShortestTextThatReadsBackTheSame) {
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(number(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(number(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
}

// PROTOCOL 9.13 shows 0.0001 and 1e-12: an exponent only below 1e-4 and from 1e16 on.
TEST(JsonWriter, WritesOrdinaryMagnitudesWithoutAnExponent) {
  EXPECT_EQ(number(0.0001), "0.0001");
  EXPECT_EQ(number(100000.0), "100000.0");
  EXPECT_EQ(number(3e-4), "0.0003");
  EXPECT_EQ(number(1e15), "1000000000000000.0");
  EXPECT_EQ(number(1e16), "1e+16");
  EXPECT_EQ(number(1e-5), "1e-05");
}

TEST(JsonWriter, WritesFloat32InItsOwnPrecision) {
  EXPECT_EQ(number(0.1F), "0.1");
  EXPECT_EQ(number(2.0F), "2.0");
}

// PROTOCOL 4.1: NaN and infinities are refused with a local error.
TEST(JsonWriter, RefusesNonFiniteNumbersInRequests) {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
    JsonWriter writer(NonFinite::refuse);
    const Path::Step step(writer.path(), "temperature");
    writer.number(value);

    ASSERT_TRUE(writer.error().has_value());
    EXPECT_EQ(writer.error()->code, ErrorCode::invalid_argument);
    EXPECT_THAT(writer.error()->message, HasSubstr("temperature: expected a finite number, found"));
  }
}

// PROTOCOL 5: the only way to send a non-finite float is a string.
TEST(JsonWriter, WritesNonFiniteNumbersOfAnswersAsStrings) {
  const std::string out = written(
      [](JsonWriter& w) {
        w.begin_array();
        w.number(std::numeric_limits<double>::quiet_NaN());
        w.number(std::numeric_limits<float>::infinity());
        w.number(-std::numeric_limits<double>::infinity());
        w.end_array();
      },
      NonFinite::as_strings);

  EXPECT_EQ(out, R"(["NaN","inf","-inf"])");
}

TEST(JsonWriter, KeepsTheFirstFailure) {
  JsonWriter writer(NonFinite::refuse);
  writer.fail("one");
  writer.fail("two");
  EXPECT_EQ(writer.error()->message, "$: one");
}

}  // namespace
}  // namespace tinker::wire::json_writer_test
