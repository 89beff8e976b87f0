// Every operation against PyTorch: graphs that torch.fx traced and the official SDK encoded, with
// the loss, metrics and gradient that PyTorch computed; and against finite differences.
#include "unit/loss/golden.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>

#include "loss/program.h"
#include "tinker/testing/matchers.h"

namespace tinker::loss::golden_test {
namespace {

using eval::Program;
using testing::IsOk;

/// Casts to float32 inside a loss round in PyTorch and do not here.
constexpr double kTolerance = 2e-6;

void expect_close(double found, double expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what << ": found " << found;
  } else {
    EXPECT_NEAR(found, expected, kTolerance * (1.0 + std::abs(expected))) << what;
  }
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, AgreesWithPyTorch) {
  const auto& golden = GetParam();

  const auto program = Program::compile(golden.inputs, golden.graph);
  ASSERT_THAT(program, IsOk());
  const auto outcome = program->run(golden.tensors);

  ASSERT_THAT(outcome, IsOk());
  expect_close(outcome->loss, golden.loss, "loss");
  ASSERT_EQ(outcome->metrics.size(), golden.metrics.size());
  for (const auto& [name, value] : golden.metrics) {
    ASSERT_TRUE(outcome->metrics.contains(name)) << name;
    expect_close(outcome->metrics.at(name), value, name);
  }
  ASSERT_EQ(outcome->gradient.size(), golden.gradient.size());
  for (std::size_t i = 0; i < golden.gradient.size(); ++i) {
    expect_close(outcome->gradient[i], golden.gradient[i], "gradient " + std::to_string(i));
  }
}

class Smooth : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Smooth, AgreesWithFiniteDifferences) {
  const auto& golden = GetParam();
  const auto program = Program::compile(golden.inputs, golden.graph);
  ASSERT_THAT(program, IsOk());
  const auto outcome = program->run(golden.tensors);
  ASSERT_THAT(outcome, IsOk());

  constexpr double kStep = 1e-5;  // its error is the step squared times the third derivative
  for (std::size_t i = 0; i < golden.gradient.size(); ++i) {
    auto up = golden.tensors;
    auto down = golden.tensors;
    up[0].values[i] += kStep;
    down[0].values[i] -= kStep;
    const auto above = program->run(up);
    const auto below = program->run(down);
    ASSERT_THAT(above, IsOk());
    ASSERT_THAT(below, IsOk());
    const double slope = (above->loss - below->loss) / (2.0 * kStep);
    EXPECT_NEAR(outcome->gradient[i], slope, 1e-6 * (1.0 + std::abs(slope))) << "element " << i;
  }
}

/// Cases whose loss has a derivative at their inputs.
std::vector<GoldenCase> smooth_cases() {
  auto cases = read_golden();
  std::erase_if(cases, [](const GoldenCase& golden) { return golden.kind != "smooth"; });
  return cases;
}

std::string test_name(const ::testing::TestParamInfo<GoldenCase>& found) {
  std::string name = found.param.name;
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Traced, Golden, ::testing::ValuesIn(read_golden()), test_name);
INSTANTIATE_TEST_SUITE_P(Traced, Smooth, ::testing::ValuesIn(smooth_cases()), test_name);

TEST(GoldenFile, HasACaseForEveryOperatorOfTheProtocol) {
  std::set<std::string> seen;
  for (const auto& golden : read_golden()) {
    for (const auto& node : golden.graph.nodes) seen.insert(node.target);
  }
  for (const auto* name : {"add",
                           "sub",
                           "mul",
                           "truediv",
                           "floordiv",
                           "mod",
                           "pow",
                           "neg",
                           "matmul",
                           "getitem",
                           "gt",
                           "ge",
                           "lt",
                           "le",
                           "eq",
                           "ne",
                           "and_",
                           "or_",
                           "invert"}) {
    EXPECT_TRUE(seen.contains(std::string("operator.") + name)) << name;
  }
  EXPECT_TRUE(seen.contains("torch._C._nn.log_sigmoid"));
  EXPECT_TRUE(seen.contains("torch._C._special.special_expit"));
}

}  // namespace
}  // namespace tinker::loss::golden_test
