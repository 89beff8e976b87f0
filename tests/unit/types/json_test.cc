#include "tinker/types/json.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

namespace tinker::json_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsNull;
using ::testing::Pair;
using ::testing::Pointee;

constexpr auto kInt64Max = std::numeric_limits<std::int64_t>::max();

TEST(Json, IsNullByDefault) {
  EXPECT_TRUE(Json().is_null());
  EXPECT_EQ(Json(), Json(nullptr));
}

TEST(Json, IsNotNullWithAValue) {
  for (const Json& value :
       {Json(false), Json(0), Json(""), Json(Json::Array()), Json(Json::Object())}) {
    EXPECT_FALSE(value.is_null());
  }
}

TEST(Json, KeepsABoolABool) {
  EXPECT_THAT(Json(true).get_if<bool>(), Pointee(true));
  EXPECT_THAT(Json(true).get_if<std::int64_t>(), IsNull());
}

TEST(Json, KeepsAnIntegerAnInteger) {
  EXPECT_THAT(Json(42).get_if<std::int64_t>(), Pointee(42));
  EXPECT_THAT(Json(42).get_if<double>(), IsNull());
}

TEST(Json, KeepsAFloatAFloat) {
  EXPECT_THAT(Json(1.0).get_if<double>(), Pointee(1.0));
  EXPECT_THAT(Json(0.5F).get_if<double>(), Pointee(0.5));
}

TEST(Json, HoldsUnsignedIntegersAsSignedWhereTheyFit) {
  EXPECT_THAT(Json(std::uint64_t{kInt64Max}).get_if<std::int64_t>(), Pointee(kInt64Max));
  EXPECT_THAT(Json(std::uint8_t{7}).get_if<std::int64_t>(), Pointee(7));
}

TEST(Json, HoldsIntegersAboveTheSignedRange) {
  const auto above = std::uint64_t{kInt64Max} + 1;

  EXPECT_THAT(Json(above).get_if<std::uint64_t>(), Pointee(above));
  EXPECT_THAT(Json(above).get_if<std::int64_t>(), IsNull());
}

TEST(Json, HoldsTheSmallestInteger) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();

  EXPECT_THAT(Json(kMin).get_if<std::int64_t>(), Pointee(kMin));
}

TEST(Json, HoldsEveryKindOfText) {
  EXPECT_THAT(Json("literal").get_if<std::string>(), Pointee(Eq("literal")));
  EXPECT_THAT(Json(std::string("string")).get_if<std::string>(), Pointee(Eq("string")));
  EXPECT_THAT(Json(std::string_view("view")).get_if<std::string>(), Pointee(Eq("view")));
}

TEST(Json, HoldsArraysInOrder) {
  const Json array = Json::Array{1, "two", nullptr};

  EXPECT_THAT(array.get_if<Json::Array>(), Pointee(ElementsAre(Json(1), Json("two"), Json())));
}

TEST(Json, HoldsMembersInOrder) {
  const Json object = Json::Object{{"b", 1}, {"a", 2}};

  EXPECT_THAT(object.get_if<Json::Object>(),
              Pointee(ElementsAre(Pair("b", Json(1)), Pair("a", Json(2)))));
}

TEST(JsonFind, GivesTheMemberOfThatName) {
  const Json object = Json::Object{{"team", "nlp"}, {"run", Json::Object{{"step", 3}}}};

  EXPECT_THAT(object.find("team"), Pointee(Json("nlp")));
  EXPECT_THAT(object.find("run")->find("step"), Pointee(Json(3)));
}

TEST(JsonFind, GivesNothingForAnotherName) {
  const Json object = Json::Object{{"team", "nlp"}};

  EXPECT_THAT(object.find("tea"), IsNull());
  EXPECT_THAT(object.find(""), IsNull());
}

TEST(JsonFind, TellsAMemberThatIsNullFromNone) {
  const Json object = Json::Object{{"team", nullptr}};

  EXPECT_THAT(object.find("team"), Pointee(Json()));
}

TEST(JsonFind, GivesNothingForWhatIsNoObject) {
  EXPECT_THAT(Json().find("team"), IsNull());
  EXPECT_THAT(Json("team").find("team"), IsNull());
  EXPECT_THAT(Json(Json::Array{"team"}).find("team"), IsNull());
}

TEST(Json, DiffersByKindEvenWhereNumbersAgree) {
  EXPECT_NE(Json(1), Json(1.0));
  EXPECT_NE(Json(1), Json(true));
  EXPECT_NE(Json(0), Json());
  EXPECT_NE(Json("1"), Json(1));
}

TEST(Json, EqualsTheSameTree) {
  const auto tree = [](int leaf) { return Json(Json::Object{{"a", Json::Array{1, leaf}}}); };

  EXPECT_EQ(tree(2), tree(2));
  EXPECT_NE(tree(2), tree(3));
}

}  // namespace
}  // namespace tinker::json_test
