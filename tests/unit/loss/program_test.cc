// What a graph may not be, what it may not do, and operations that torch.fx 1.13 cannot trace.
#include "loss/program.h"

#include <limits>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "unit/loss/graphs.h"

namespace tinker::loss::program_test {
namespace {

using eval::Outcome;
using eval::Program;
using eval::Tensor;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

const std::vector<CustomLossInput> kLogprobs = {{"logprobs", 1}};

Tensor vector(std::vector<double> values) {
  return {.shape = {static_cast<std::int64_t>(values.size())}, .values = std::move(values)};
}

Result<Outcome> run(const CustomLossGraph& graph,
                    std::vector<double> logprobs = {-1.0, -2.0, -3.0}) {
  TINKER_TRY(const Program program, Program::compile(kLogprobs, graph));
  return program.run({vector(std::move(logprobs))});
}

Result<Outcome> run_node(CustomLossNode node) {
  return run(summed({std::move(node)}));
}

auto is_refusal(const std::string& text) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(text));
}

TEST(Program, RunsTheExampleOfTheProtocol) {
  const std::vector<CustomLossInput> inputs = {{"logprobs", 1}, {"weights", 1}};
  const CustomLossGraph graph = {
      .nodes = {placeholder("logprobs"),
                placeholder("weights"),
                function("mul", "operator.mul", {ref("logprobs"), ref("weights")}),
                method("sum_1", "sum", {ref("mul")}),
                function("neg", "operator.neg", {ref("sum_1")}),
                output("neg", {{"custom/neg_ll:sum", ref("neg")}})}};

  const auto program = Program::compile(inputs, graph);
  ASSERT_THAT(program, IsOk());
  const auto outcome = program->run({vector({-1.0, -2.0}), vector({0.5, 2.0})});

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->loss, 4.5);
  EXPECT_EQ(outcome->metrics.at("custom/neg_ll:sum"), 4.5);
  EXPECT_THAT(outcome->gradient, ElementsAre(-0.5, -2.0));
}

TEST(Program, RefusesUnknownFunctionsByNameAndNode) {
  EXPECT_THAT(run_node(function("evil", "os.system", {"rm"})),
              is_refusal("node 'evil' (os.system): unknown function"));
  EXPECT_THAT(run_node(function("e", "torch.functional.einsum", {"i,i", ref("logprobs")})),
              is_refusal("node 'e' (torch.functional.einsum): unknown function"));
  EXPECT_THAT(run_node(function("s", "operator.setitem", {ref("logprobs"), 0, 1})),
              is_refusal("operator.setitem"));
}

TEST(Program, RefusesUnknownMethods) {
  for (const auto* name : {"backward", "item", "numpy", "tolist", "exp_", "__class__"}) {
    EXPECT_THAT(run_node(method("m", name, {ref("logprobs")})),
                is_refusal(std::string("(") + name + "): unknown method"));
  }
}

TEST(Program, RefusesModulesAndCapturedTensors) {
  auto node = function("m", "linear", {ref("logprobs")});
  node.op = CustomLossOp::call_module;
  EXPECT_THAT(run_node(node), is_refusal("call_module"));
  node.op = CustomLossOp::get_attr;
  EXPECT_THAT(run_node(node), is_refusal("get_attr"));
}

TEST(Program, RefusesReferencesForwardAndToItself) {
  EXPECT_THAT(run(summed({function("a", "torch.exp", {ref("b")}),
                          function("b", "torch.exp", {ref("logprobs")})})),
              is_refusal("'b' is not the name of an earlier node"));
  EXPECT_THAT(run_node(function("a", "torch.exp", {ref("a")})),
              is_refusal("'a' is not the name of an earlier node"));
}

TEST(Program, RefusesNamesThatComeTwice) {
  EXPECT_THAT(run(summed({function("a", "torch.exp", {ref("logprobs")}),
                          function("a", "torch.exp", {ref("logprobs")})})),
              is_refusal("comes twice"));
}

TEST(Program, RefusesWrongInputs) {
  const auto graph = summed({function("a", "torch.exp", {ref("logprobs")})});
  const auto compile = [&](std::vector<CustomLossInput> inputs) {
    return Program::compile(inputs, graph);
  };
  EXPECT_THAT(compile({}), is_refusal("'logprobs'"));
  EXPECT_THAT(compile({{"weights", 1}}), is_refusal("'weights'"));
  EXPECT_THAT(compile({{"logprobs", 0}}), is_refusal("rank 1 to 2 of input 'logprobs', found 0"));
  EXPECT_THAT(compile({{"logprobs", 3}}), is_refusal("found 3"));
  EXPECT_THAT(compile({{"logprobs", 1}, {"a", -1}}), is_refusal("found -1"));
  EXPECT_THAT(compile({{"logprobs", 1}, {"Weights", 1}}), is_refusal("'Weights'"));
  EXPECT_THAT(compile({{"logprobs", 1}, {"1a", 1}}), is_refusal("'1a'"));
  EXPECT_THAT(compile({{"logprobs", 1}, {std::string(65, 'a'), 1}}), is_refusal("aaaa"));
  EXPECT_THAT(compile({{"logprobs", 1}, {"logprobs", 1}}), is_refusal("twice"));
  EXPECT_THAT(compile({{"logprobs", 1}, {"weights", 1}}),
              is_refusal("expected 2 placeholders, found 1"));
}

TEST(Program, RefusesSeventeenInputs) {
  std::vector<CustomLossInput> inputs = kLogprobs;
  while (inputs.size() < 17) inputs.push_back({"a" + std::to_string(inputs.size()), 1});
  EXPECT_THAT(Program::compile(inputs, {}), is_refusal("at most 16 inputs, found 17"));
}

TEST(Program, RefusesMetricNamesOutsideThePattern) {
  for (const auto* name : {"loss:sum",
                           "custom/:sum",
                           "custom/a",
                           "custom/a:max",
                           "custom/A:sum",
                           "custom/a:sum:",
                           "custom/a b:mean"}) {
    auto graph = summed({function("a", "torch.exp", {ref("logprobs")})});
    graph.nodes.back() = output("loss", {{name, ref("loss")}});
    EXPECT_THAT(run(graph), is_refusal(std::string("'") + name + "'")) << name;
  }
  EXPECT_TRUE(eval::is_metric_name("custom/" + std::string(64, 'a') + ":mean"));
  EXPECT_FALSE(eval::is_metric_name("custom/" + std::string(65, 'a') + ":mean"));
}

TEST(Program, RefusesOutputsThatAreNoPair) {
  auto graph = summed({function("a", "torch.exp", {ref("logprobs")})});
  graph.nodes.back().args = {ref("loss")};
  EXPECT_THAT(run(graph), is_refusal("pair of loss and metrics"));
  graph.nodes.pop_back();
  EXPECT_THAT(run(graph), is_refusal("output node at the end"));
  EXPECT_THAT(run({}), is_refusal("output node at the end"));
}

TEST(Program, RefusesALossThatIsNoScalarOrHasNoGradient) {
  auto graph = summed({function("a", "torch.exp", {ref("logprobs")})});
  graph.nodes.back() = output("a");
  EXPECT_THAT(run(graph), is_refusal("a scalar loss, found shape [3]"));
  EXPECT_THAT(run_node(method("d", "detach", {ref("logprobs")})), is_refusal("does not depend"));
}

TEST(Program, NamesNodeOperationAndShapesOfAMismatch) {
  EXPECT_THAT(run(summed({function("a",
                                   "operator.getitem",
                                   {ref("logprobs"),
                                    Json::Object{{"slice", Json::Array{1, nullptr, nullptr}}}}),
                          function("b", "operator.add", {ref("logprobs"), ref("a")})})),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("node 'b' (operator.add of float32[3], float32[2])"),
                            HasSubstr("[3] and [2] do not broadcast"))));
}

TEST(Program, RefusesIndicesOutOfRange) {
  EXPECT_THAT(run_node(function("a", "operator.getitem", {ref("logprobs"), 3})),
              is_refusal("index 3 is out of range for size 3"));
  EXPECT_THAT(run_node(function("a", "operator.getitem", {ref("logprobs"), -4})),
              is_refusal("index -4"));
  EXPECT_THAT(run_node(function("a", "operator.getitem", {ref("logprobs"), Json::Array{0, 7}})),
              is_refusal("index 7"));
}

TEST(Program, RefusesWrongArguments) {
  EXPECT_THAT(run_node(function("a", "torch.exp", {})), is_refusal("'input' is missing"));
  EXPECT_THAT(run_node(function("a", "torch.exp", {ref("logprobs"), 1})), is_refusal("too many"));
  auto node = function("a", "torch.exp", {ref("logprobs")});
  node.kwargs["speed"] = 1;
  EXPECT_THAT(run_node(node), is_refusal("unexpected argument 'speed'"));
  EXPECT_THAT(run_node(function("a", "torch.exp", {Json::Object{{"code", "x"}}})),
              is_refusal("'code'"));
  EXPECT_THAT(run_node(function("a", "torch.exp", {Json::Object{}})), is_refusal("one member"));
  EXPECT_THAT(run_node(function("a", "torch.exp", {"x"})),
              is_refusal("expected a tensor for 'input'"));
  EXPECT_THAT(run_node(function("a", "getattr", {ref("logprobs"), "grad_fn"})),
              is_refusal("'grad_fn'"));
}

TEST(Program, StopsGraphsThatWouldTakeTooMuchMemory) {
  EXPECT_THAT(run_node(function("a", "torch.zeros", {std::int64_t{1} << 39})),
              is_refusal("more memory"));
  EXPECT_THAT(run_node(function("a", "torch.zeros", {std::int64_t{1} << 62, 1 << 20})),
              is_refusal("fewer elements"));
  std::vector<CustomLossNode> doubling = {method("x0", "expand", {ref("logprobs"), 1 << 20, 3})};
  for (int i = 1; i < 40; ++i) {
    const auto last = ref("x" + std::to_string(i - 1));
    doubling.push_back(function("x" + std::to_string(i), "torch.cat", {Json::Array{last, last}}));
  }
  EXPECT_THAT(run(summed(std::move(doubling))), is_refusal("more memory"));
}

TEST(Program, StopsGraphsThatAreTooLargeOrTooDeep) {
  CustomLossGraph large = {.nodes = std::vector<CustomLossNode>(5000)};
  EXPECT_THAT(Program::compile(kLogprobs, large), is_refusal("at most 4096 nodes, found 5000"));
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::Array{std::move(deep)};
  EXPECT_THAT(run_node(function("a", "torch.exp", {deep})), is_refusal("nested deeper"));
}

TEST(Program, LetsNanThrough) {
  const auto outcome = run(summed({function("a", "torch.log", {ref("logprobs")})}));
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(std::isnan(outcome->loss));
}

// arange(3) + arange(1, 4) + ones(3) * 2 + full: what the tracer of torch 1.13 folds away.
TEST(Program, MakesTensorsFromNumbers) {
  auto range = function("range", "torch.arange", {1, ref("size")});
  range.kwargs["dtype"] = Json::Object{{"dtype", "float32"}};
  const auto outcome = run(summed({
      function("shape", "getattr", {ref("logprobs"), "shape"}),
      function("n", "operator.getitem", {ref("shape"), 0}),
      function("size", "operator.add", {ref("n"), 1}),
      range,
      function("ones", "torch.ones", {ref("shape")}),
      function("full", "torch.full", {Json::Object{{"tuple", Json::Array{ref("n")}}}, 2.0}),
      function("zeros", "torch.zeros", {ref("n")}),
      function("a", "operator.mul", {ref("range"), ref("full")}),
      function("b", "operator.add", {ref("a"), ref("ones")}),
      function("c", "operator.add", {ref("b"), ref("zeros")}),
      function("d", "operator.mul", {ref("c"), ref("logprobs")}),
  }));
  ASSERT_THAT(outcome, IsOk());
  EXPECT_THAT(outcome->gradient, ElementsAre(3.0, 5.0, 7.0));
}

TEST(Program, RefusesIntegerDivisionByZero) {
  EXPECT_THAT(run_node(function("a", "operator.floordiv", {1, 0})), is_refusal("division by zero"));
  EXPECT_THAT(run_node(function("a", "operator.truediv", {1.0, 0})),
              is_refusal("division by zero"));
}

TEST(Program, TreatsTheHomesOfAFunctionAlike) {
  for (const auto* target : {"torch.sigmoid",
                             "torch.special.expit",
                             "torch._C._special.special_expit",
                             "torch.nn.functional.sigmoid"}) {
    const auto outcome = run_node(function("a", target, {ref("logprobs")}));
    ASSERT_THAT(outcome, IsOk()) << target;
    EXPECT_NEAR(outcome->loss, 0.26894142 + 0.11920292 + 0.04742587, 1e-7) << target;
  }
}

}  // namespace
}  // namespace tinker::loss::program_test
