#include "render/json_reader.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "render/python_json.h"

namespace tinker::render {
namespace {

/// What `json.dumps(json.loads(text))` gives.
std::string round_trip(std::string_view text) {
  const auto value = read_python_json(text);
  return value.ok() ? dump_json(*value, kAsciiJson).value() : value.error().message;
}

TEST(JsonReader, ReadsWhatPythonReads) {
  EXPECT_EQ(round_trip(R"( {"b" : [1, 2.50, -0, 1E5, null], "a": {"x": true}} )"),
            R"({"b": [1, 2.5, 0, 100000.0, null], "a": {"x": true}})");
  EXPECT_EQ(round_trip("[NaN, Infinity, -Infinity, 1e400, 1e-400, -1e400]"),
            "[NaN, Infinity, -Infinity, Infinity, 0.0, -Infinity]");
  EXPECT_EQ(round_trip(R"("\u00e9\ud83e\udd84\n\/ é")"), R"("\u00e9\ud83e\udd84\n/ \u00e9")");
  EXPECT_EQ(round_trip(R"({"a": 1, "b": 2, "a": 3})"), R"({"a": 3, "b": 2})");
}

TEST(JsonReader, KeepsAllDigitsOfIntegers) {
  EXPECT_EQ(round_trip("[123456789012345678901234567890, -9223372036854775809]"),
            "[123456789012345678901234567890, -9223372036854775809]");
  EXPECT_EQ(round_trip("9223372036854775807"), "9223372036854775807");
}

TEST(JsonReader, RefusesInPythonsWords) {
  EXPECT_EQ(round_trip(""), "Expecting value: line 1 column 1 (char 0)");
  EXPECT_EQ(round_trip("-"), "Expecting value: line 1 column 1 (char 0)");
  EXPECT_EQ(round_trip("{bad"),
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)");
  EXPECT_EQ(round_trip("{\"é\"\n 1}"), "Expecting ':' delimiter: line 2 column 2 (char 6)");
  EXPECT_EQ(round_trip("[1 2]"), "Expecting ',' delimiter: line 1 column 4 (char 3)");
  EXPECT_EQ(round_trip("01"), "Extra data: line 1 column 2 (char 1)");
  EXPECT_EQ(round_trip("[1.]"), "Expecting ',' delimiter: line 1 column 3 (char 2)");
  EXPECT_EQ(round_trip("\"ab"), "Unterminated string starting at: line 1 column 1 (char 0)");
  EXPECT_EQ(round_trip("\"a\tb\""), "Invalid control character at: line 1 column 3 (char 2)");
  EXPECT_EQ(round_trip(R"("\x")"), "Invalid \\escape: line 1 column 2 (char 1)");
  EXPECT_EQ(round_trip(R"("\u12")"), "Invalid \\uXXXX escape: line 1 column 3 (char 2)");
}

TEST(JsonReader, RefusesWhatUtf8CannotHold) {
  EXPECT_THAT(round_trip(R"("\ud800")"), ::testing::StartsWith("Half of a surrogate pair"));
  EXPECT_THAT(round_trip(R"("\ud800\u0041")"), ::testing::StartsWith("Half of a surrogate pair"));
  EXPECT_THAT(round_trip(R"("\udc00")"), ::testing::StartsWith("Half of a surrogate pair"));
}

TEST(JsonReader, BoundsItsDepth) {
  EXPECT_THAT(round_trip(std::string(100'000, '[')), ::testing::StartsWith("Nested too deeply"));
  const std::string deep = std::string(150, '[') + std::string(150, ']');
  EXPECT_EQ(round_trip(deep), deep);
}

}  // namespace
}  // namespace tinker::render
