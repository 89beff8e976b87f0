#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/http.h"

namespace tinker::http::headers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

std::vector<Header> entries(const Headers& headers) {
  return {headers.begin(), headers.end()};
}

TEST(Headers, FindsWithoutRegardToCase) {
  const Headers headers = {{.name = "Content-Type", .value = "application/json"}};

  EXPECT_THAT(headers.find("content-type"), Optional(std::string_view("application/json")));
  EXPECT_THAT(headers.find("CONTENT-TYPE"), Optional(std::string_view("application/json")));
  EXPECT_EQ(headers.find("content-typ"), std::nullopt);
  EXPECT_EQ(headers.find("content-type "), std::nullopt);
  EXPECT_TRUE(headers.contains("Content-TYPE"));
  EXPECT_FALSE(headers.contains("accept"));
}

TEST(Headers, FindsTheFirstOfSeveral) {
  const Headers headers = {{.name = "a", .value = "1"}, {.name = "A", .value = "2"}};

  EXPECT_THAT(headers.find("A"), Optional(std::string_view("1")));
}

TEST(Headers, KeepsNamesAndOrderAsGiven) {
  Headers headers;

  headers.add("X-API-Key", "k");
  headers.add("accept", "a");
  headers.add("x-api-key", "l");

  EXPECT_THAT(
      entries(headers),
      ElementsAre(
          FieldsAre("X-API-Key", "k"), FieldsAre("accept", "a"), FieldsAre("x-api-key", "l")));
  EXPECT_EQ(headers.size(), 3U);
}

TEST(Headers, SetReplacesAllOfThatName) {
  Headers headers = {{.name = "Retry", .value = "1"},
                     {.name = "other", .value = "x"},
                     {.name = "RETRY", .value = "2"}};

  headers.set("retry", "3");

  EXPECT_THAT(entries(headers), ElementsAre(FieldsAre("other", "x"), FieldsAre("retry", "3")));
}

TEST(Headers, SetAddsWhatIsMissing) {
  Headers headers;

  headers.set("a", "1");

  EXPECT_THAT(entries(headers), ElementsAre(FieldsAre("a", "1")));
}

TEST(Headers, RemoveTakesAllOfThatName) {
  Headers headers = {{.name = "a", .value = "1"}, {.name = "A", .value = "2"}};

  headers.remove("a");

  EXPECT_THAT(entries(headers), IsEmpty());
  EXPECT_TRUE(headers.empty());
}

TEST(Headers, TakesTextOfItsOwn) {
  Headers headers = {{.name = "name", .value = "value"}};

  for (int i = 0; i < 50; ++i) headers.add((*headers.begin()).name, *headers.find("name"));
  headers.set(*headers.find("name"), (*headers.begin()).name);

  EXPECT_EQ(headers.size(), 52U);
  EXPECT_THAT(headers.find("VALUE"), Optional(std::string_view("name")));
  EXPECT_EQ(std::count(headers.begin(), headers.end(), Header{.name = "name", .value = "value"}),
            51);
}

TEST(Headers, AreEqualByWhatTheyHold) {
  Headers headers = {{.name = "a", .value = "bc"}};
  headers.set("d", "e");
  headers.remove("a");

  EXPECT_EQ(headers, (Headers{{.name = "d", .value = "e"}}));
  EXPECT_NE(headers, (Headers{{.name = "de", .value = ""}}));
  EXPECT_NE(headers, Headers());
}

TEST(Headers, ACopyIsItsOwn) {
  Headers headers = {{.name = "a", .value = "1"}};
  headers.reserve(10, 100);
  const Headers copy = headers;

  headers.set("a", "2");

  EXPECT_THAT(copy.find("a"), Optional(std::string_view("1")));
}

TEST(Headers, NamesOnlyFoldAsciiLetters) {
  EXPECT_TRUE(same_name("", ""));
  EXPECT_FALSE(same_name("[", "{"));
  EXPECT_FALSE(same_name("@", "`"));
  EXPECT_FALSE(same_name("\xC3\x84", "\xC3\xA4"));
}

TEST(Method, IsSpeltAsOnTheWire) {
  EXPECT_EQ(to_string(Method::get), "GET");
  EXPECT_EQ(to_string(Method::post), "POST");
  EXPECT_EQ(to_string(Method::put), "PUT");
  EXPECT_EQ(to_string(Method::delete_), "DELETE");
}

TEST(Body, ViewsNothingWhenNull) {
  EXPECT_EQ(view(Body()), "");
  EXPECT_EQ(view(std::make_shared<const std::string>("x")), "x");
}

}  // namespace
}  // namespace tinker::http::headers_test
