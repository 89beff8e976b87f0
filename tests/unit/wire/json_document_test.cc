// Reading JSON texts, before any type is known.

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "wire/json_reader.h"

namespace tinker::wire::json_document_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::StartsWith;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using Kind = JsonView::Kind;

Kind kind_of(std::string_view text) {
  return JsonDocument::parse(text).value().root().kind();
}

std::string kind_name_of(std::string_view text) {
  const auto document = JsonDocument::parse(text).value();
  return std::string(document.root().kind_name());
}

std::optional<std::int64_t> as_integer(std::string_view text) {
  return JsonDocument::parse(text).value().root().as_integer();
}

auto is_refused(std::string_view found) {
  return IsError(ErrorCode::invalid_argument,
                 EndsWith("expected one JSON document, found " + std::string(found)));
}

TEST(JsonDocument, TellsTheKindsApart) {
  EXPECT_EQ(kind_of("null"), Kind::null);
  EXPECT_EQ(kind_of("true"), Kind::boolean);
  EXPECT_EQ(kind_of("-3"), Kind::integer);
  EXPECT_EQ(kind_of("9223372036854775807"), Kind::integer);
  EXPECT_EQ(kind_of("9223372036854775808"), Kind::large_integer);
  EXPECT_EQ(kind_of("3.0"), Kind::number);
  EXPECT_EQ(kind_of("3e0"), Kind::number);
  EXPECT_EQ(kind_of(R"("3")"), Kind::string);
  EXPECT_EQ(kind_of("[]"), Kind::array);
  EXPECT_EQ(kind_of("{}"), Kind::object);
}

TEST(JsonDocument, NamesTheKindsForPeople) {
  EXPECT_EQ(kind_name_of("null"), "null");
  EXPECT_EQ(kind_name_of("false"), "false");
  EXPECT_EQ(kind_name_of("true"), "true");
  EXPECT_EQ(kind_name_of("1"), "an integer");
  EXPECT_EQ(kind_name_of("18446744073709551615"), "an integer");
  EXPECT_EQ(kind_name_of("1.5"), "a number");
  EXPECT_EQ(kind_name_of(R"("")"), "a string");
  EXPECT_EQ(kind_name_of("[]"), "an array");
  EXPECT_EQ(kind_name_of("{}"), "an object");
}

// PROTOCOL 4.1: older clients add spaces; a server must accept both.
TEST(JsonDocument, AcceptsWhiteSpaceAroundEverything) {
  const auto document = JsonDocument::parse("\r\n\t {\"a\" : [ 1 , 2 ] }\n");
  ASSERT_THAT(document, IsOk());
}

// PROTOCOL 4.1: older clients escape non-ASCII characters.
TEST(JsonDocument, ReadsEscapesAsTheCharactersThemselves) {
  const auto document = JsonDocument::parse(R"("\u00e9\u20ac\ud83d\ude00\"\\\/\b\f\n\r\t")");
  ASSERT_THAT(document, IsOk());
  EXPECT_EQ(document->root().string(), "é€😀\"\\/\b\f\n\r\t");
}

TEST(JsonDocument, RefusesNothing) {
  EXPECT_THAT(JsonDocument::parse(""), is_refused("nothing"));
  EXPECT_THAT(JsonDocument::parse(" \n"), is_refused("nothing"));
}

TEST(JsonDocument, RefusesTextThatIsNotUtf8) {
  EXPECT_THAT(JsonDocument::parse("\"caf\xe9\""), is_refused("text that is not UTF-8"));
  EXPECT_THAT(JsonDocument::parse("\"\xed\xa0\x80\""), is_refused("text that is not UTF-8"));
}

TEST(JsonDocument, RefusesHalfASurrogatePair) {
  EXPECT_THAT(JsonDocument::parse(R"("\ud800")"), is_refused("a malformed string"));
  EXPECT_THAT(JsonDocument::parse(R"("\ude00x")"), is_refused("a malformed string"));
}

TEST(JsonDocument, RefusesTextAfterTheDocument) {
  EXPECT_THAT(JsonDocument::parse("{} {}"), Not(IsOk()));
  EXPECT_THAT(JsonDocument::parse("1 x"), Not(IsOk()));
}

TEST(JsonDocument, RefusesMalformedStructure) {
  for (const char* text : {"{", "[1,]", "{\"a\":}", "{\"a\" 1}", "{a:1}", "[1 2]", "'a'", "tru"}) {
    EXPECT_THAT(JsonDocument::parse(text), Not(IsOk())) << text;
  }
}

// PROTOCOL 5: bare words and numbers beyond double range make a poll fail at once.
TEST(JsonDocument, RefusesNumbersJsonDoesNotHave) {
  for (const char* text :
       {"NaN", "Infinity", "-Infinity", "[NaN]", "1e400", "-1e400", "01", ".5"}) {
    EXPECT_THAT(JsonDocument::parse(text), Not(IsOk())) << text;
  }
}

TEST(JsonDocument, SaysWhereANumberIsTooLarge) {
  EXPECT_THAT(JsonDocument::parse(R"({"a":[1,1e400]})"),
              IsError(ErrorCode::invalid_argument,
                      "a[1]: expected a number within the range of a double, found '1e400'"));
}

TEST(JsonDocument, ReadsIntegersBeyond64BitsAsFloats) {
  const auto document = JsonDocument::parse("[18446744073709551616,-9223372036854775809,5]");
  ASSERT_THAT(document, IsOk());

  std::vector<JsonView::Kind> kinds;
  std::vector<double> numbers;
  document->root().for_each_element([&](JsonView element) {
    kinds.push_back(element.kind());
    numbers.push_back(element.number());
    return true;
  });

  EXPECT_THAT(kinds,
              ElementsAre(JsonView::Kind::number, JsonView::Kind::number, JsonView::Kind::integer));
  EXPECT_THAT(numbers, ElementsAre(0x1p64, -0x1p63, 5.0));
}

TEST(JsonDocument, SaysWhereTheTextGoesWrong) {
  const auto message_of = [](std::string_view text) {
    return JsonDocument::parse(text).error().message;
  };
  EXPECT_EQ(message_of(R"({"a":{"b":[true,NaN]}})"), "a.b[1]: expected a JSON value, found 'NaN'");
  EXPECT_EQ(message_of(R"({"a":1} x)"), "$: expected nothing after the document, found 'x'");
  EXPECT_EQ(message_of(R"({"a":1,})"), "$: expected a member's name, found another character");
  EXPECT_EQ(message_of(R"({"a")"), "a: expected ':', found the end");
  EXPECT_EQ(message_of(R"({"a":01})"), "$: expected ',' or '}', found '1'");
  EXPECT_EQ(message_of(R"({"a":-})"), "a: expected a digit, found another character");
  EXPECT_EQ(message_of(R"([1 2])"), "$: expected ',' or ']', found '2'");
  EXPECT_EQ(message_of("[\"x"), "[0]: expected the end of a string, found the end");
}

TEST(JsonDocument, AcceptsDeepNestingUpToALimit) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_THAT(JsonDocument::parse(nested(1000)), IsOk());
  for (const std::size_t depth : {std::size_t{1100}, std::size_t{1'000'000}}) {
    EXPECT_THAT(
        JsonDocument::parse(nested(depth)),
        IsError(ErrorCode::invalid_argument,
                AllOf(StartsWith("[0][0]"), HasSubstr("...: expected nesting of at most 1024"))));
  }
}

TEST(JsonView, ReadsIntegersAlsoWhenWrittenAsFloats) {
  EXPECT_THAT(as_integer("3.0"), Optional(3));
  EXPECT_THAT(as_integer("1e3"), Optional(1000));
  EXPECT_THAT(as_integer("-0.0"), Optional(0));
  EXPECT_THAT(as_integer("-9223372036854775808"),
              Optional(std::numeric_limits<std::int64_t>::min()));
}

TEST(JsonView, HasNoIntegerForWhatIsNone) {
  EXPECT_EQ(as_integer("3.5"), std::nullopt);
  EXPECT_EQ(as_integer("9223372036854775808"), std::nullopt);
  EXPECT_EQ(as_integer("9.3e18"), std::nullopt);
  EXPECT_EQ(as_integer("true"), std::nullopt);
  EXPECT_EQ(as_integer(R"("3")"), std::nullopt);
  EXPECT_EQ(as_integer("null"), std::nullopt);
}

TEST(JsonView, ReadsEveryNumberAsADouble) {
  const auto document = JsonDocument::parse("[2, 18446744073709551615, 0.5]").value();
  std::vector<double> numbers;
  document.root().for_each_element([&](JsonView element) {
    numbers.push_back(element.number());
    return true;
  });
  EXPECT_THAT(numbers, ElementsAre(2.0, 18446744073709551615.0, 0.5));
}

TEST(JsonView, VisitsMembersInOrderWithTheirRepeats) {
  const auto document = JsonDocument::parse(R"({"b":1,"a":2,"b":3})").value();
  std::vector<std::pair<std::string, std::int64_t>> members;
  const bool finished = document.root().for_each_member([&](std::string_view name, JsonView value) {
    members.emplace_back(name, value.integer());
    return true;
  });

  EXPECT_TRUE(finished);
  EXPECT_THAT(members, ElementsAre(Pair("b", 1), Pair("a", 2), Pair("b", 3)));
}

TEST(JsonView, StopsVisitingWhenToldTo) {
  const auto document = JsonDocument::parse("[1,2,3]").value();
  int visited = 0;
  EXPECT_FALSE(document.root().for_each_element([&](JsonView) { return ++visited < 2; }));
  EXPECT_EQ(visited, 2);
}

TEST(JsonView, FindsTheLastMemberOfAName) {
  const auto document = JsonDocument::parse(R"({"a":1,"a":2})").value();
  EXPECT_EQ(document.root().member("a")->integer(), 2);
  EXPECT_FALSE(document.root().member("b").has_value());
}

TEST(JsonView, AppendsNumbersUntilOneDoesNotFit) {
  std::vector<std::int32_t> narrow;
  std::vector<std::int64_t> wide;
  std::vector<float> floats;

  EXPECT_EQ(JsonDocument::parse("[1,-2147483648,2.0]").value().root().append_to(narrow),
            std::nullopt);
  EXPECT_THAT(JsonDocument::parse("[1,2147483648]").value().root().append_to(narrow), Optional(1U));
  EXPECT_THAT(JsonDocument::parse("[1,2,9223372036854775808]").value().root().append_to(wide),
              Optional(2U));
  EXPECT_EQ(JsonDocument::parse("[1,0.5,3.4e38]").value().root().append_to(floats), std::nullopt);
  EXPECT_THAT(JsonDocument::parse("[1,3.5e38]").value().root().append_to(floats), Optional(1U));
  EXPECT_THAT(JsonDocument::parse(R"(["1"])").value().root().append_to(floats), Optional(0U));
}

TEST(JsonDocument, OneThatLivesIsNotChangedByTheNext) {
  const auto first = JsonDocument::parse(R"({"a": "first"})").value();
  {
    const auto gone = JsonDocument::parse(R"({"a": "gone"})").value();
  }
  const auto second = JsonDocument::parse(R"({"a": "second"})").value();
  const auto large = JsonDocument::parse("[\"" + std::string(100'000, 'x') + "\"]").value();

  EXPECT_EQ(first.root().member("a")->string(), "first");
  EXPECT_EQ(second.root().member("a")->string(), "second");
  EXPECT_EQ(large.root().kind(), Kind::array);
}

TEST(JsonDocument, IsReadAfterOneThatWasRefused) {
  EXPECT_THAT(JsonDocument::parse(R"({"a": )"),
              IsError(ErrorCode::invalid_argument, HasSubstr("expected")));
  const auto document = JsonDocument::parse(R"({"a": 1})").value();

  EXPECT_EQ(document.root().member("a")->integer(), 1);
}

}  // namespace
}  // namespace tinker::wire::json_document_test
