#include "engine/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <type_traits>

#include <gmock/gmock.h>

#include "engine/counter_random.h"
#include "engine/training_run.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/missing_memory.h"
#include "unit/engine/small_model.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::optimizer_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::IsError;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// In [-1, 1).
std::vector<float> random_numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = 2 * uniform(3, stream, i) - 1;
  return out;
}

std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// An adapter of more parameters than one unit of work has, and its steps.
struct Training {
  explicit Training(std::size_t thread_count = 1) : threads(thread_count) {
    const auto layout = LoraLayout::create(model->config(), {.rank = 11}).value();
    adapter = Adapter::create(*model, layout, 1, threads);
  }

  [[nodiscard]] std::size_t size() const { return adapter->values().size(); }
  Result<StepReport> step(const std::vector<float>& gradients, const AdamParams& params) {
    auto report = adam_step(*model, threads, *adapter, gradients, params, state).run();
    if (report) adapter = report->adapter;
    return report;
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model = small_model(threads);
  std::shared_ptr<const Adapter> adapter;
  AdamState state;
};

/// The same, one parameter after the other, in double precision (SERVER 2.2).
struct PlainAdam {
  explicit PlainAdam(std::span<const float> initial)
      : values(initial.begin(), initial.end()), m(values.size()), v(values.size()) {}

  void step(const std::vector<float>& gradients, const AdamParams& params) {
    ++steps;
    double sum = 0;
    for (const float g : gradients) sum += double{g} * double{g};
    // As torch.nn.utils.clip_grad_norm_ does it.
    const double scale = params.grad_clip_norm > 0
                             ? std::min(1.0, params.grad_clip_norm / (std::sqrt(sum) + 1e-6))
                             : 1.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = scale * double{gradients[i]};
      m[i] = params.beta1 * m[i] + (1 - params.beta1) * g;
      v[i] = params.beta2 * v[i] + (1 - params.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(params.beta1, steps));
      const double v_hat = v[i] / (1 - std::pow(params.beta2, steps));
      values[i] -= params.learning_rate * params.weight_decay * values[i];
      values[i] -= params.learning_rate * m_hat / (std::sqrt(v_hat) + params.eps);
    }
  }

  std::vector<double> values;
  std::vector<double> m;
  std::vector<double> v;
  int steps = 0;
};

/// Relative to the largest number.
double difference(std::span<const float> found, const std::vector<double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double out = 0;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    out = std::max(out, std::abs(double{found[i]} - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return out / largest;
}

TEST(AdamStep, IsThatOfTorch) {
  const std::vector<AdamParams> settings = {
      {.learning_rate = 0.01},
      {.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.999},
      {.learning_rate = 0.01, .beta1 = 0.5, .beta2 = 0},
      {.learning_rate = 0.01, .eps = 0.1},
      {.learning_rate = 0.01, .weight_decay = 0.5},
      {.learning_rate = 0.01, .eps = 0.1, .grad_clip_norm = 0.25},
      {.learning_rate = 0.01, .eps = 0.1, .grad_clip_norm = 1e6},
  };
  for (std::size_t i = 0; i < settings.size(); ++i) {
    Training training;
    PlainAdam plain(training.adapter->values());
    for (std::uint64_t step = 0; step < 5; ++step) {
      const auto gradients = random_numbers(training.size(), step);

      training.step(gradients, settings[i]).value();

      plain.step(gradients, settings[i]);
      // Each of the few operations of a step rounds by 6e-8.
      EXPECT_LT(difference(training.adapter->values(), plain.values), 5e-7)
          << "settings " << i << ", step " << step;
      EXPECT_LT(difference(training.state.m.span(), plain.m), 5e-7);
      EXPECT_LT(difference(training.state.v.span(), plain.v), 5e-7);
    }
  }
}

TEST(AdamStep, TakesOtherSettingsEachTime) {
  Training training;
  PlainAdam plain(training.adapter->values());
  for (const AdamParams& params : {AdamParams{.learning_rate = 0.01, .weight_decay = 0.1},
                                   AdamParams{.learning_rate = 0.02, .beta1 = 0.5},
                                   AdamParams{.learning_rate = 0.005, .beta2 = 0.9}}) {
    const auto gradients = random_numbers(training.size(), 1);

    training.step(gradients, params).value();

    plain.step(gradients, params);
  }
  EXPECT_LT(difference(training.adapter->values(), plain.values), 5e-7);
}

TEST(AdamStep, HasTheDefaultsOfTheService) {
  EXPECT_EQ(AdamParams(),
            (AdamParams{.learning_rate = 1e-4,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-12,
                        .weight_decay = 0,
                        .grad_clip_norm = 0}));
}

TEST(AdamStep, LeavesTheAdapterThatItStartedFrom) {
  Training training;
  const auto before = training.adapter;
  const auto values = copy(before->values());

  training.step(random_numbers(training.size(), 1), {}).value();

  EXPECT_NE(training.adapter, before);
  EXPECT_THAT(before->values(), ElementsAreArray(values));
}

TEST(AdamStep, DoesNotMoveWhatNeverHadAGradient) {
  Training training;
  const auto before = copy(training.adapter->values());
  auto gradients = random_numbers(training.size(), 1);
  for (std::size_t i = 0; i < gradients.size(); i += 2) gradients[i] = 0;

  training.step(gradients, {.learning_rate = 0.1}).value();

  for (std::size_t i = 0; i < gradients.size(); ++i)
    ASSERT_EQ(training.adapter->values()[i] == before[i], i % 2 == 0) << i;
}

TEST(AdamStep, DoesNotMoveItByTheSmallestEpsEither) {
  Training training;
  const auto before = copy(training.adapter->values());

  training.step(std::vector<float>(training.size()), {.eps = std::numeric_limits<float>::min()})
      .value();

  EXPECT_THAT(training.adapter->values(), ElementsAreArray(before));
}

TEST(AdamStep, CountsWithoutGradientsAndLetsTheMomentsDecay) {
  Training training;
  const AdamParams params = {.learning_rate = 0.01};
  training.step(random_numbers(training.size(), 1), params).value();
  const auto m = copy(training.state.m.span());
  const auto v = copy(training.state.v.span());

  const auto report = training.step(std::vector<float>(training.size()), params).value();

  EXPECT_EQ(report.gradient_norm, 0);
  EXPECT_EQ(training.state.step, 2);
  for (std::size_t i = 0; i < m.size(); ++i) {
    ASSERT_FLOAT_EQ(training.state.m[i], 0.9F * m[i]);
    ASSERT_FLOAT_EQ(training.state.v[i], 0.95F * v[i]);
  }
}

TEST(AdamStep, ReportsTheNormBeforeClipping) {
  Training training;
  std::vector<float> gradients(training.size());
  gradients.front() = 3;
  gradients.back() = -4;

  const auto report = training.step(gradients, {.grad_clip_norm = 0.5}).value();

  EXPECT_EQ(report.gradient_norm, 5);
  EXPECT_FLOAT_EQ(training.state.m[0], 0.1F * 3 * 0.1F);
}

TEST(AdamStep, DoesNotDependOnTheNumberOfThreads) {
  Training one(1);
  Training three(3);
  const auto gradients = random_numbers(one.size(), 1);

  one.step(gradients, {.grad_clip_norm = 1}).value();
  three.step(gradients, {.grad_clip_norm = 1}).value();

  EXPECT_THAT(three.adapter->values(), ElementsAreArray(one.adapter->values()));
}

// ---- refusals

TEST(AdamStep, RefusesGradientsThatAreNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Training training;
    training.step(random_numbers(training.size(), 1), {}).value();
    const auto before = training.adapter;
    const auto m = copy(training.state.m.span());
    const auto v = copy(training.state.v.span());
    auto gradients = random_numbers(training.size(), 2);
    gradients.back() = bad;

    EXPECT_THAT(
        training.step(gradients, {}),
        IsError(ErrorCode::invalid_argument, HasSubstr("step 2: the norm of the gradients is ")));

    EXPECT_EQ(training.adapter, before);
    EXPECT_EQ(training.state.step, 1);
    EXPECT_THAT(training.state.m.span(), ElementsAreArray(m));
    EXPECT_THAT(training.state.v.span(), ElementsAreArray(v));
  }
}

TEST(AdamStep, RefusesSettingsThatMakeNoSense) {
  Training training;
  const std::vector<float> gradients(training.size(), 1.0F);
  const auto expect_refused = [&](const AdamParams& params, const char* message) {
    EXPECT_THAT(training.step(gradients, params),
                IsError(ErrorCode::invalid_argument, HasSubstr(message)));
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr double kEndless = std::numeric_limits<double>::infinity();

  expect_refused({.learning_rate = kNone}, "learning_rate is nan; expected a finite float32");
  expect_refused({.learning_rate = kEndless}, "learning_rate is inf; expected a finite float32");
  expect_refused({.learning_rate = -1e39}, "learning_rate is -1e+39; expected a finite float32");
  expect_refused({.learning_rate = -0.01},
                 "learning_rate is -0.01; expected a finite number of at least 0");
  expect_refused({.beta1 = -0.5}, "beta1 is -0.5; expected 0 <= beta1 < 1");
  expect_refused({.beta1 = 1}, "beta1 is 1; expected 0 <= beta1 < 1");
  expect_refused({.beta1 = kNone}, "beta1 is nan");
  expect_refused({.beta2 = -0.5}, "beta2 is -0.5; expected 0 <= beta2 < 1");
  expect_refused({.beta2 = 1.0000001}, "beta2 is 1.0000001; expected 0 <= beta2 < 1");
  expect_refused({.beta2 = kNone}, "beta2 is nan");
  expect_refused({.eps = -1e-12}, "eps is -1e-12; expected at least 1.1754943508222875e-38");
  expect_refused({.eps = 0}, "eps is 0; expected at least 1.17");
  expect_refused({.eps = 1e-38}, "eps is 1e-38; expected at least 1.17");
  expect_refused({.eps = kNone}, "eps is nan");
  expect_refused({.eps = kEndless}, "eps is inf");
  expect_refused({.eps = 1e39}, "eps is 1e+39; expected a finite float32");
  expect_refused({.weight_decay = kNone}, "weight_decay is nan; expected a finite float32");
  expect_refused({.weight_decay = -kEndless}, "weight_decay is -inf");
  expect_refused({.learning_rate = 1e20, .weight_decay = 1e20},
                 "learning_rate * weight_decay is 1e+40; expected a finite float32");
  expect_refused({.grad_clip_norm = -2}, "grad_clip_norm is -2; expected at least 0");
  expect_refused({.grad_clip_norm = kNone}, "grad_clip_norm is nan");
  EXPECT_EQ(training.state.step, 0);
}

// ---- in steps

/// Whatever it has done before it commits itself, a step that is dropped has changed nothing.
template <typename Begin, typename State>
void expect_dropped_without_a_trace(Begin begin, const State& state) {
  const auto m = copy(state.m.span());
  std::size_t taken = 0;
  for (;; ++taken) {
    auto steps = begin();
    for (std::size_t i = 0; i < taken; ++i) ASSERT_TRUE(steps.step());
    if (taken > 0 && steps.cut() == Cut::committed) break;
    ASSERT_EQ(state.step, 1);
    ASSERT_THAT(state.m.span(), ElementsAreArray(m));
  }
  EXPECT_GT(taken, 2U);
}

TEST(AdamStep, ChangesNothingWhenItIsDropped) {
  Training training;
  training.step(random_numbers(training.size(), 1), {}).value();
  const auto v = copy(training.state.v.span());
  const auto gradients = random_numbers(training.size(), 2);
  expect_dropped_without_a_trace(
      [&] {
        return adam_step(
            *training.model, training.threads, *training.adapter, gradients, {}, training.state);
      },
      training.state);
  // The loop above ends with a step that had begun to change them.
  EXPECT_THAT(training.state.v.span(), Not(ElementsAreArray(v)));
}

TEST(OptimizerState, IsCopied) {
  Training training(2);
  training.step(random_numbers(training.size(), 1), {}).value();
  OptimizerState state = AdamState{.m = Floats(2'500'001), .v = Floats(2'500'001), .step = 7};
  auto& adam = std::get<AdamState>(state);
  std::iota(adam.m.span().begin(), adam.m.span().end(), 1.0F);
  std::iota(adam.v.span().begin(), adam.v.span().end(), 5.0F);

  const auto copied = copy_of(state, training.threads).run().value();

  EXPECT_EQ(steps_of(copied), 7);
  EXPECT_TRUE(std::ranges::equal(std::get<AdamState>(copied).m.span(), adam.m.span()));
  EXPECT_TRUE(std::ranges::equal(std::get<AdamState>(copied).v.span(), adam.v.span()));
  EXPECT_EQ(bytes_of(state), sizeof(float) * 2 * 2'500'001);
}

// ---- without memory

/// Steps of two runs, of which one is short of memory at first, at every place where it could be.
template <typename State>
struct ShortOfMemory {
  template <typename Params>
  void step(const Params& params) {
    constexpr std::size_t kAll = std::size_t{1} << 20U;
    const auto loss = TokenLoss::create(LossFn::cross_entropy, {}).value();
    tried.run({&datum, 1}, loss, true).run().value();
    spared.run({&datum, 1}, loss, true).run().value();
    const auto before = tried.adapter();
    const auto steps = steps_of(tried.optimizer());
    for (std::size_t after = 0; tried.adapter() == before; ++after) {
      ASSERT_EQ(steps_of(tried.optimizer()), steps);
      try {
        const MissingMemory missing(after, kAll);
        failures += tried.step(params).run().ok() ? 0 : 1;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
    spared.step(params).run().value();
  }
  void expect_same() {
    EXPECT_GT(failures, 10);
    EXPECT_THAT(tried.adapter()->values(), ElementsAreArray(spared.adapter()->values()));
    const auto& state = std::get<State>(tried.optimizer());
    const auto& expected = std::get<State>(spared.optimizer());
    EXPECT_EQ(state.step, expected.step);
    EXPECT_THAT(state.m.span(), ElementsAreArray(expected.m.span()));
    if constexpr (std::is_same_v<State, AdamState>) {
      EXPECT_THAT(state.v.span(), ElementsAreArray(expected.v.span()));
    }
  }

  ThreadPool threads{1};  // memory is missing on one thread
  std::shared_ptr<const Model> model = tiny_model({.path = cpu_paths().back()}, threads);
  std::shared_ptr<const Adapter> adapter = tiny_adapter(*model, threads);
  std::shared_ptr<Compute> compute =
      std::make_shared<Compute>(std::make_unique<ThreadPool>(1), model);
  TrainingRun tried{compute, adapter, 0};
  TrainingRun spared{compute, adapter, 0};
  Datum datum = {.model_input = ModelInput::from_tokens({1, 2, 3}),
                 .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{2, 3, 4}}}};
  int failures = 0;
};

TEST(AdamStep, ChangesNothingWithoutMemory) {
  ShortOfMemory<AdamState> test;
  for (int i = 0; i < 2; ++i) test.step(AdamParams{.learning_rate = 0.01, .weight_decay = 0.1});

  test.expect_same();
}

TEST(MuonStep, ChangesNothingWithoutMemory) {
  ShortOfMemory<MuonState> test;
  for (int i = 0; i < 2; ++i) test.step(MuonParams{.learning_rate = 0.01, .weight_decay = 0.1});

  test.expect_same();
}

// ---- norms

TEST(Norm, IsTheRootOfTheSumOfSquares) {
  ThreadPool threads(1);
  for (const std::size_t size : {0U, 1U, 15U, 17U, 4095U, 4096U, 4097U, 20'000U}) {
    const auto values = random_numbers(size, 1);
    double sum = 0;
    for (const float value : values) sum += double{value} * double{value};

    const double found =
        norm_of(kernels_of(CpuPath::scalar, Precision::f32), threads, values).run().value();

    EXPECT_NEAR(found, std::sqrt(sum), 1e-6 * std::sqrt(sum)) << size;
  }
}

TEST(Norm, HasTheSameBitsForAnyNumberOfThreads) {
  const auto values = random_numbers(50'000, 1);
  std::vector<double> found;

  for (const std::size_t count : {1U, 2U, 3U, 8U}) {
    ThreadPool threads(count);
    found.push_back(
        norm_of(kernels_of(CpuPath::scalar, Precision::f32), threads, values).run().value());
  }

  EXPECT_THAT(found, Each(found.front()));
}

TEST(Norm, HasTheSameBitsOnEveryPath) {
  const auto values = random_numbers(50'001, 1);
  ThreadPool threads(2);
  std::vector<double> found;

  for (const auto path : cpu_paths())
    found.push_back(norm_of(kernels_of(path, Precision::f32), threads, values).run().value());

  EXPECT_THAT(found, Each(found.front()));
}

}  // namespace
}  // namespace tinker::engine::optimizer_test
