#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>

#include "tinker/loss.h"
#include "tinker/testing/matchers.h"
#include "unit/loss/golden.h"
#include "unit/loss/graphs.h"

namespace tinker::loss::formula_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Pointwise;

const std::vector<CustomLossInput> kPolicy = {{"logprobs", 1}, {"q", 1}, {"a", 1}};

Result<Formula> clipped() {
  return Formula::define("clipped", kPolicy, [](const Inputs& in) {
    auto ratio = exp(in["logprobs"] - in["q"]);
    return Output(-sum(min(ratio * in["a"], clamp(ratio, 0.8, 1.2) * in["a"])),
                  {{"custom/ratio:mean", mean(ratio)},
                   {"custom/clipped:sum", sum(to_float((ratio < 0.8) | (ratio > 1.2)))}});
  });
}

GoldenCase golden(std::string_view name) {
  for (auto& found : read_golden()) {
    if (found.name == name) return found;
  }
  return {};
}

TensorData floats(const eval::Tensor& tensor) {
  return {std::vector<float>(tensor.values.begin(), tensor.values.end())};
}

TEST(Formula, GivesTheNumbersOfTheSameLossTracedByTorch) {
  const auto traced = golden("clipped");
  const auto formula = clipped();
  ASSERT_THAT(formula, IsOk());

  const auto found =
      formula->evaluate(floats(traced.tensors[0]),
                        {{"q", floats(traced.tensors[1])}, {"a", floats(traced.tensors[2])}});

  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, traced.loss, 1e-9);
  EXPECT_NEAR(found->metrics.at("custom/ratio:mean"), traced.metrics.at("custom/ratio:mean"), 1e-9);
  EXPECT_EQ(found->metrics.at("custom/clipped:sum"), traced.metrics.at("custom/clipped:sum"));
  EXPECT_THAT(found->gradient, Pointwise(FloatNear(1e-6F), traced.gradient));
  EXPECT_THAT(found->shape, ElementsAre(5));
}

TEST(Formula, ComesBackFromItsGraph) {
  const auto formula = clipped();
  ASSERT_THAT(formula, IsOk());
  const auto again = Formula::from_graph("again", formula->inputs(), formula->graph());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->key(), formula->key());
  EXPECT_EQ(again->name(), "again");
}

TEST(Formula, HasAKeyThatTellsFormulasApart) {
  const auto one = Formula::define(
      "f", {{"logprobs", 1}}, [](const Inputs& in) { return sum(in["logprobs"] * 1); });
  const auto same = Formula::define(
      "g", {{"logprobs", 1}}, [](const Inputs& in) { return sum(in["logprobs"] * 1); });
  const auto real = Formula::define(
      "f", {{"logprobs", 1}}, [](const Inputs& in) { return sum(in["logprobs"] * 1.0); });
  const auto rank = Formula::define(
      "f", {{"logprobs", 2}}, [](const Inputs& in) { return sum(in["logprobs"] * 1); });
  EXPECT_EQ(one->key().size(), 64U);
  EXPECT_EQ(one->key(), same->key());
  EXPECT_NE(one->key(), real->key());
  EXPECT_NE(one->key(), rank->key());
}

TEST(Formula, WritesNodesAsTheOfficialTracerDoes) {
  const auto formula = Formula::define("neg", {{"logprobs", 1}, {"w", 1}}, [](const Inputs& in) {
    return -sum(in["logprobs"] * in["w"]);
  });
  ASSERT_THAT(formula, IsOk());
  const CustomLossGraph expected = {
      .nodes = {placeholder("logprobs"),
                placeholder("w"),
                function("mul", "operator.mul", {ref("logprobs"), ref("w")}),
                method("sum_1", "sum", {ref("mul")}),
                function("neg", "operator.neg", {ref("sum_1")}),
                output("neg")}};
  EXPECT_EQ(formula->graph(), expected);
}

TEST(Formula, EncodesInfinity) {
  const auto formula = Formula::define("f", {{"logprobs", 1}}, [](const Inputs& in) {
    return sum(exp(where(in["logprobs"] > -2.5, in["logprobs"], -INFINITY)));
  });
  ASSERT_THAT(formula, IsOk());
  const auto found = formula->evaluate(std::vector<float>{-1.0F, -3.0F}, {});
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, std::exp(-1.0), 1e-12);
}

TEST(Formula, IndexesSlicesAndColumns) {
  const auto formula = Formula::define("f", {{"logprobs", 2}}, [](const Inputs& in) {
    const auto x = in["logprobs"];
    return sum(x[0]) * 10 + sum(slice(x, -1, 2)) * 100 + sum(column(x, 1)) * 1000;
  });
  ASSERT_THAT(formula, IsOk());
  const auto found = formula->evaluate(
      TensorData(Buffer<float>({1.0F, 2.0F, 3.0F, 4.0F}), TensorData::Shape{2, 2}), {});
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->gradient, ElementsAre(10.0F, 1010.0F, 100.0F, 1100.0F));
}

TEST(Formula, ReachesAnyOperationByName) {
  const auto formula = Formula::define("f", {{"logprobs", 1}}, [](const Inputs& in) {
    return sum(call("torch.xlogy", {in["logprobs"], 2.0}));
  });
  ASSERT_THAT(formula, IsOk());
  const auto found = formula->evaluate(std::vector<float>{3.0F}, {});
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, 3.0 * std::log(2.0), 1e-12);
  EXPECT_THAT(supported_operations(), Contains("torch.xlogy"));
}

TEST(Formula, TurnsMisuseIntoTheErrorOfDefine) {
  const auto define = [](const std::function<Output(const Inputs&)>& body) {
    return Formula::define("f", {{"logprobs", 1}}, body);
  };
  EXPECT_THAT(define([](const Inputs& in) { return sum(in["advantages"]); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("no input 'advantages'")));
  EXPECT_THAT(define([](const Inputs&) { return Value(1.0); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("the loss is not made of")));
  EXPECT_THAT(define([](const Inputs& in) { return sum(in["logprobs"] * exp(Value(2.0))); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("plain numbers")));
  EXPECT_THAT(define([](const Inputs& in) { return sum(call("torch.fft", {in["logprobs"]})); }),
              IsError(ErrorCode::invalid_argument, HasSubstr("(torch.fft): unknown function")));
  EXPECT_THAT(define([](const Inputs&) -> Output { throw std::runtime_error("oops"); }),
              IsError(ErrorCode::internal, HasSubstr("oops")));
  EXPECT_THAT(define([](const Inputs& in) {
                return Output(sum(in["logprobs"]), {{"accuracy", sum(in["logprobs"])}});
              }),
              IsError(ErrorCode::invalid_argument, HasSubstr("'accuracy'")));
}

TEST(Formula, RefusesValuesOfAnotherFormula) {
  std::optional<Value> stray;
  const auto first = Formula::define("a", {{"logprobs", 1}}, [&](const Inputs& in) {
    stray = in["logprobs"];
    return sum(in["logprobs"]);
  });
  ASSERT_THAT(first, IsOk());
  const auto second = Formula::define(
      "b", {{"logprobs", 1}}, [&](const Inputs& in) { return sum(in["logprobs"] + *stray); });
  EXPECT_THAT(second, IsError(ErrorCode::invalid_argument, HasSubstr("two formulas")));
}

TEST(Formula, NamesAnInputThatIsMissingOrHasAnotherRank) {
  const auto formula = clipped();
  ASSERT_THAT(formula, IsOk());
  const TensorData x = std::vector<float>{-1.0F};
  EXPECT_THAT(formula->evaluate(x, {{"q", x}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("input 'a' is missing")));
  const TensorData matrix(Buffer<float>({1.0F}), TensorData::Shape{1, 1});
  EXPECT_THAT(formula->evaluate(x, {{"q", x}, {"a", matrix}}),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("input 'a': expected rank 1, found shape [1, 1]")));
}

TEST(Formula, TakesIntegersAndSparseInputs) {
  const auto formula = Formula::define("f", {{"logprobs", 2}, {"w", 2}}, [](const Inputs& in) {
    return sum(in["logprobs"] * in["w"]);
  });
  ASSERT_THAT(formula, IsOk());
  const TensorData logprobs(Buffer<float>({1.0F, 1.0F, 1.0F, 1.0F}), TensorData::Shape{2, 2});
  const TensorData sparse(
      Buffer<std::int64_t>({7}),
      TensorData::Shape{2, 2},
      {.crow = std::vector<std::int64_t>{0, 0, 1}, .col = std::vector<std::int64_t>{1}});
  const auto found = formula->evaluate(logprobs, {{"w", sparse}});
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->gradient, ElementsAre(0.0F, 0.0F, 0.0F, 7.0F));
}

}  // namespace
}  // namespace tinker::loss::formula_test
