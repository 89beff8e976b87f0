#include "engine/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "engine/counter_random.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_model.h"

namespace tinker::engine::muon_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::tinker::testing::IsError;

constexpr std::size_t kRank = 5;

/// In [-1, 1).
std::vector<float> random_numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = 2 * uniform(3, stream, i) - 1;
  return out;
}

std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

struct Training {
  explicit Training(std::size_t thread_count = 1, std::size_t rank = kRank)
      : threads(thread_count) {
    const auto layout = LoraLayout::create(model->config(), {.rank = rank}).value();
    adapter = Adapter::create(*model, layout, 1, threads);
  }

  [[nodiscard]] std::size_t size() const { return adapter->values().size(); }
  Result<StepReport> step(const std::vector<float>& gradients, const MuonParams& params) {
    auto report = muon_step(*model, threads, *adapter, gradients, params, state).run();
    if (report) adapter = report->adapter;
    return report;
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model = small_model(threads);
  std::shared_ptr<const Adapter> adapter;
  MuonState state;
};

/// Of doubles, row by row.
struct Matrix {
  Matrix(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  double& at(std::size_t i, std::size_t j) { return values[i * cols + j]; }
  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return values[i * cols + j]; }

  std::size_t rows;
  std::size_t cols;
  std::vector<double> values;
};

Matrix turned(const Matrix& x) {
  Matrix out(x.cols, x.rows);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) out.at(j, i) = x.at(i, j);
  }
  return out;
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix out(x.rows, y.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) {
      for (std::size_t k = 0; k < x.cols; ++k) out.at(i, j) += x.at(i, k) * y.at(k, j);
    }
  }
  return out;
}

/// Five steps of the iteration as it is published, on the whole matrix.
Matrix orthogonal(Matrix x) {
  double sum = 0;
  for (const double value : x.values) sum += value * value;
  if (sum == 0) return x;
  for (double& value : x.values) value /= std::sqrt(sum);
  for (int i = 0; i < 5; ++i) {
    const auto s = product(x, turned(x));
    auto by = product(s, s);
    for (std::size_t k = 0; k < by.values.size(); ++k)
      by.values[k] = 2.0315 * by.values[k] - 4.7750 * s.values[k];
    const auto next = product(by, x);
    for (std::size_t k = 0; k < x.values.size(); ++k)
      x.values[k] = 3.4445 * x.values[k] + next.values[k];
  }
  return x;
}

/// The same, with A: (rank, in) and B: (out, rank) as they are meant.
struct PlainMuon {
  explicit PlainMuon(const Adapter& adapter)
      : layout(adapter.shared_layout()),
        values(adapter.values().begin(), adapter.values().end()),
        m(values.size()) {}

  void step(const std::vector<float>& gradients, const MuonParams& params) {
    double sum = 0;
    for (const float g : gradients) sum += double{g} * double{g};
    const double scale = params.grad_clip_norm > 0
                             ? std::min(1.0, params.grad_clip_norm / (std::sqrt(sum) + 1e-6))
                             : 1.0;
    std::vector<double> u(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = scale * double{gradients[i]};
      m[i] = params.momentum * m[i] + (1 - params.momentum) * g;
      u[i] = params.momentum * m[i] + (1 - params.momentum) * g;
      values[i] -= params.learning_rate * params.weight_decay * values[i];
    }
    const std::size_t rank = layout->config().rank;
    for (const auto& module : layout->modules()) {
      Matrix a(rank, module.in);
      for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] = u[module.a + i];
      move(orthogonal(a), module.a, params);
      Matrix b(module.out, rank);
      for (std::size_t o = 0; o < module.out; ++o) {
        for (std::size_t r = 0; r < rank; ++r) b.at(o, r) = u[module.b + r * module.out + o];
      }
      move(turned(orthogonal(b)), module.b, params);
    }
  }
  void move(const Matrix& by, std::size_t first, const MuonParams& params) {
    const double size = 0.2 * std::sqrt(static_cast<double>(std::max(by.rows, by.cols)));
    for (std::size_t i = 0; i < by.values.size(); ++i)
      values[first + i] -= params.learning_rate * size * by.values[i];
  }

  std::shared_ptr<const LoraLayout> layout;
  std::vector<double> values;
  std::vector<double> m;
};

/// Relative to the largest number.
double difference(std::span<const float> found, const std::vector<double>& expected) {
  double out = 0;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    out = std::max(out, std::abs(double{found[i]} - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return out / largest;
}

TEST(MuonStep, IsThatOfTheMatrices) {
  const std::vector<MuonParams> settings = {
      {.learning_rate = 0.01},
      {.learning_rate = 0.01, .momentum = 0},
      {.learning_rate = 0.01, .momentum = 0.5, .weight_decay = 0.5},
      {.learning_rate = 0.01, .grad_clip_norm = 0.25},
  };
  for (const std::size_t rank : {1U, 5U, 12U}) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      Training training(1, rank);
      PlainMuon plain(*training.adapter);
      for (std::uint64_t step = 0; step < 5; ++step) {
        auto gradients = random_numbers(training.size(), step);
        for (float& g : gradients) g *= step == 2 ? 100.0F : 1.0F;  // clipping matters

        training.step(gradients, settings[i]).value();

        plain.step(gradients, settings[i]);
        // Floats in what is added, doubles in what it is made of.
        EXPECT_LT(difference(training.adapter->values(), plain.values), 2e-6)
            << "rank " << rank << ", settings " << i << ", step " << step;
        EXPECT_LT(difference(training.state.m.span(), plain.m), 1e-6);
      }
    }
  }
}

/// The roots of the eigenvalues of a symmetric matrix, by Jacobi's rotations.
std::vector<double> roots_of_eigenvalues(Matrix s) {
  for (int sweep = 0; sweep < 20; ++sweep) {
    for (std::size_t p = 0; p < s.rows; ++p) {
      for (std::size_t q = p + 1; q < s.rows; ++q) {
        const double angle = 0.5 * std::atan2(2 * s.at(p, q), s.at(q, q) - s.at(p, p));
        Matrix turn(s.rows, s.rows);
        for (std::size_t i = 0; i < s.rows; ++i) turn.at(i, i) = 1;
        turn.at(p, p) = turn.at(q, q) = std::cos(angle);
        turn.at(p, q) = std::sin(angle);
        turn.at(q, p) = -std::sin(angle);
        s = product(turned(turn), product(s, turn));
      }
    }
  }
  std::vector<double> out;
  for (std::size_t i = 0; i < s.rows; ++i) out.push_back(std::sqrt(s.at(i, i)));
  return out;
}

TEST(MuonStep, MovesEachFactorByAMatrixThatIsNearlyOrthogonal) {
  Training training;
  const auto before = copy(training.adapter->values());

  training.step(random_numbers(training.size(), 1), {.learning_rate = 1}).value();

  const auto singular_values = [&](std::size_t at, std::size_t columns) {
    Matrix moved(kRank, columns);
    const double size = 0.2 * std::sqrt(static_cast<double>(columns));
    for (std::size_t i = 0; i < moved.values.size(); ++i) {
      moved.values[i] =
          (double{before[at + i]} - double{training.adapter->values()[at + i]}) / size;
    }
    return roots_of_eigenvalues(product(moved, turned(moved)));
  };
  // That is how far the quintic goes.
  const auto are_near_one = Each(AllOf(Gt(0.65), Lt(1.25)));
  for (const auto& module : training.adapter->layout().modules()) {
    EXPECT_THAT(singular_values(module.a, module.in), are_near_one) << module.name;
    EXPECT_THAT(singular_values(module.b, module.out), are_near_one) << module.name;
  }
}

TEST(MuonStep, DoesNotDependOnTheNumberOfThreads) {
  Training one(1);
  Training two(2);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto gradients = random_numbers(one.size(), step);
    one.step(gradients, {.learning_rate = 0.1, .grad_clip_norm = 1}).value();
    two.step(gradients, {.learning_rate = 0.1, .grad_clip_norm = 1}).value();
  }

  EXPECT_THAT(two.adapter->values(), ElementsAreArray(one.adapter->values()));
}

TEST(MuonStep, DoesNotMoveWhatNeverHadAGradient) {
  Training training;
  const auto before = copy(training.adapter->values());

  const auto report =
      training.step(std::vector<float>(training.size()), {.learning_rate = 1}).value();

  EXPECT_EQ(report.gradient_norm, 0);
  EXPECT_EQ(training.state.step, 1);
  EXPECT_THAT(training.adapter->values(), ElementsAreArray(before));
}

TEST(MuonStep, TakesTheSmallestGradients) {
  Training training;
  Training large;
  auto gradients = random_numbers(training.size(), 1);
  large.step(gradients, {.learning_rate = 1}).value();
  for (float& g : gradients) g *= 0x1p-80F;

  training.step(gradients, {.learning_rate = 1}).value();

  // Their size does not matter, only their direction.
  std::vector<double> expected(large.adapter->values().begin(), large.adapter->values().end());
  EXPECT_LT(difference(training.adapter->values(), expected), 1e-6);
}

TEST(MuonStep, GoesOnByItsMomentumWithoutGradients) {
  Training training;
  training.step(random_numbers(training.size(), 1), {.learning_rate = 0.1}).value();
  const auto before = copy(training.adapter->values());
  const auto m = copy(training.state.m.span());

  training.step(std::vector<float>(training.size()), {.learning_rate = 0.1}).value();

  EXPECT_NE(training.adapter->values()[0], before[0]);
  for (std::size_t i = 0; i < m.size(); ++i) ASSERT_FLOAT_EQ(training.state.m[i], 0.95F * m[i]);
}

TEST(MuonStep, LeavesTheAdapterThatItStartedFrom) {
  Training training;
  const auto before = training.adapter;
  const auto values = copy(before->values());

  training.step(random_numbers(training.size(), 1), {}).value();

  EXPECT_THAT(before->values(), ElementsAreArray(values));
}

TEST(MuonStep, RefusesGradientsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Training training;
    training.step(random_numbers(training.size(), 1), {}).value();
    const auto before = training.adapter;
    const auto m = copy(training.state.m.span());
    auto gradients = random_numbers(training.size(), 2);
    gradients.back() = bad;

    EXPECT_THAT(
        training.step(gradients, {}),
        IsError(ErrorCode::invalid_argument, HasSubstr("step 2: the norm of the gradients is ")));

    EXPECT_EQ(training.adapter, before);
    EXPECT_EQ(training.state.step, 1);
    EXPECT_THAT(training.state.m.span(), ElementsAreArray(m));
  }
}

TEST(MuonStep, RefusesSettingsThatMakeNoSense) {
  Training training;
  const std::vector<float> gradients(training.size(), 1.0F);
  const auto expect_refused = [&](const MuonParams& params, const char* message) {
    EXPECT_THAT(training.step(gradients, params),
                IsError(ErrorCode::invalid_argument, HasSubstr(message)));
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  expect_refused({.learning_rate = kNone}, "learning_rate is nan; expected a finite float32");
  expect_refused({.learning_rate = 1e39}, "learning_rate is 1e+39; expected a finite float32");
  expect_refused({.learning_rate = -0.01},
                 "learning_rate is -0.01; expected a finite number of at least 0");
  expect_refused({.momentum = 1}, "momentum is 1; expected 0 <= momentum < 1");
  expect_refused({.momentum = -0.5}, "momentum is -0.5");
  expect_refused({.momentum = kNone}, "momentum is nan");
  expect_refused({.weight_decay = kNone}, "weight_decay is nan; expected a finite float32");
  expect_refused({.learning_rate = 1e20, .weight_decay = -1e20},
                 "learning_rate * weight_decay is -1e+40");
  expect_refused({.grad_clip_norm = -2}, "grad_clip_norm is -2; expected at least 0");
  EXPECT_EQ(training.state.step, 0);
}

}  // namespace
}  // namespace tinker::engine::muon_test
