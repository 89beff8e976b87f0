#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/chunks.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::combine_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using Metrics = std::map<std::string, double, std::less<>>;

ForwardBackwardOutput part(std::size_t data, Metrics metrics) {
  ForwardBackwardOutput out = {.loss_fn_output_type = "scalar", .metrics = std::move(metrics)};
  out.loss_fn_outputs.resize(data);
  return out;
}

/// Two chunks with one and two data.
Result<ForwardBackwardOutput> combined(const std::string& key, double first, double second) {
  return combine({part(1, {{key, first}}), part(2, {{key, second}})});
}

TEST(Combine, IsEmptyForNoResults) {  // R8.1
  EXPECT_EQ(combine({}).value(), ForwardBackwardOutput());
}

TEST(Combine, JoinsOutputsInOrder) {  // R8.1
  auto first = part(1, {});
  first.loss_fn_outputs[0] = {{"logprobs", std::vector<float>{1.0F}}};
  auto second = part(1, {});
  second.loss_fn_output_type = "other";
  second.loss_fn_outputs[0] = {{"logprobs", std::vector<float>{2.0F}}};

  const auto out = combine({first, second}).value();

  EXPECT_EQ(out.loss_fn_output_type, "scalar");
  ASSERT_THAT(out.loss_fn_outputs, SizeIs(2));
  EXPECT_EQ(out.loss_fn_outputs[0], first.loss_fn_outputs[0]);
  EXPECT_EQ(out.loss_fn_outputs[1], second.loss_fn_outputs[0]);
}

TEST(Combine, ReducesByTheSecondPartOfTheName) {  // R8.5
  EXPECT_THAT(combined("x:mean", 1, 4).value().metrics, ElementsAre(Pair("x:mean", 3)));
  EXPECT_THAT(combined("x:sum", 1, 4).value().metrics, ElementsAre(Pair("x:sum", 5)));
  EXPECT_THAT(combined("x:min", 1, 4).value().metrics, ElementsAre(Pair("x:min", 1)));
  EXPECT_THAT(combined("x:max", 1, 4).value().metrics, ElementsAre(Pair("x:max", 4)));
  EXPECT_THAT(combined("x:slack", 1, 4).value().metrics, ElementsAre(Pair("x:slack", 1)));
  EXPECT_THAT(combined("clock:unique", 1, 4).value().metrics,
              ElementsAre(Pair("clock:unique", 1), Pair("clock:unique_1", 4)));
}

TEST(Combine, HashesModulo64Bits) {  // R8.6
  const auto hash = [](std::vector<double> values) {
    std::vector<ForwardBackwardOutput> parts;
    for (const double value : values) parts.push_back(part(1, {{"h:hash2", value}}));
    return combine(std::move(parts)).value().hashes.at("h:hash2");
  };

  EXPECT_EQ(hash({5}), 5U);
  EXPECT_EQ(hash({3, 5}), 8U);
  EXPECT_EQ(hash({-1}), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(hash({-1, 2.9}), 1U);
  EXPECT_EQ(hash({-1, 3}), 2U);
  EXPECT_EQ(hash({0x1.0p64 + 0x1.0p12}), 4096U);
  EXPECT_EQ(combined("h:hash2", -1, 3).value().metrics.at("h:hash2"), 2.0);
}

TEST(Combine, RefusesWhatCannotBeHashed) {  // R8.6
  EXPECT_THAT(combined("h:hash2", 1, std::numeric_limits<double>::infinity()),
              IsError(ErrorCode::invalid_response, AllOf(HasSubstr("h:hash2"), HasSubstr("inf"))));
}

TEST(Combine, KeepsWhatAllResultsHave) {  // R8.2
  const auto out =
      combine({part(1, {{"a:sum", 1}, {"b:sum", 2}}), part(1, {{"a:sum", 3}, {"c:sum", 4}})});

  EXPECT_THAT(out.value().metrics, ElementsAre(Pair("a:sum", 4)));
}

TEST(Combine, DropsReductionsItDoesNotKnow) {  // R8.4
  EXPECT_THAT(combine({part(1, {{"x:hash_unordered", 1}})}).value().metrics, IsEmpty());
}

TEST(Combine, NamesAMetricThatSaysNotHowToReduceIt) {  // R8.3
  EXPECT_THAT(combine({part(1, {{"loss", 1}})}),
              IsError(ErrorCode::invalid_response, HasSubstr("\"loss\"")));
  EXPECT_THAT(combine({part(1, {{"a:b:sum", 1}})}),
              IsError(ErrorCode::invalid_response, HasSubstr("\"a:b:sum\"")));
}

TEST(Combine, HasNoMeanOfNothing) {  // R8.5
  EXPECT_THAT(combine({part(0, {{"x:mean", 1}})}),
              IsError(ErrorCode::invalid_response, HasSubstr("x:mean")));
}

}  // namespace
}  // namespace tinker::client::combine_test
