// Gradients of every loss by every factor against central differences of the loss itself, summed in
// double from the logprobs.

#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/counter_random.h"
#include "engine/losses.h"
#include "engine/trainer.h"
#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::finite_difference_test {
namespace {

using Logprobs = std::vector<std::vector<float>>;
using Numbers = std::vector<float>;

/// The loss of a datum as a function of its logprobs.
struct Objective {
  std::string name = {};
  /// Writes the derivatives that go into the backward pass.
  std::function<void(std::size_t datum, std::span<const float>, std::span<float>)> differentiate =
      {};
  /// What they are the derivatives of.
  std::function<double(std::size_t datum, std::span<const float>)> value = {};
};

/// A model is one of these.
struct Kind {
  ModelConfig::Architecture architecture = {};
  bool is_tied = true;  ///< Its head.
};

class FiniteDifferences : public ::testing::TestWithParam<Kind> {
 protected:
  FiniteDifferences()
      : threads(2), model(make_model(threads)), trainer(model, threads, {}), base(make_adapter()) {}

  static std::shared_ptr<const Model> make_model(ThreadPool& threads) {
    auto config = tiny_config(GetParam().architecture);
    config.tied_head = GetParam().is_tied;
    return random_model(config, kernels_of(cpu_paths().back(), Precision::f32), threads);
  }
  std::shared_ptr<const Adapter> make_adapter() {
    const auto layout = LoraLayout::create(model->config(), {.rank = 3}).value();
    const auto fresh = Adapter::create(*model, layout, 5, threads);
    Floats values(layout->parameters());
    std::ranges::copy(fresh->values(), values.data());
    for (const auto& module : layout->modules()) {
      for (std::size_t i = 0; i < 3 * module.out; ++i)
        values[module.b + i] = 0.04F * (2 * uniform(9, module.b, i) - 1);
    }
    return Adapter::with_values(*model, layout, std::move(values), threads);
  }

  /// Sequences of 41 and 9 tokens with so many targets at each position.
  [[nodiscard]] std::vector<ScoredSequence> sequences(std::size_t targets) const {
    std::vector<ScoredSequence> out;
    for (const std::size_t length : {41U, 9U}) {
      out.push_back({.tokens = some_tokens(*model, length, length),
                     .targets = some_tokens(*model, length * targets, length + 1)});
      if (targets == 1) continue;
      for (std::size_t i = 0; i <= length; ++i) out.back().offsets.push_back(i * targets);
    }
    return out;
  }
  /// The same as a datum without other inputs.
  static Datum datum(const ScoredSequence& sequence) {
    const auto n = static_cast<std::int64_t>(sequence.tokens.size());
    const auto all = static_cast<std::int64_t>(sequence.targets.size());
    const TensorData::Shape shape = all == n ? TensorData::Shape{n} : TensorData::Shape{n, all / n};
    return {
        .model_input = ModelInput::from_tokens(sequence.tokens),
        .loss_fn_inputs = {
            {"target_tokens",
             TensorData(Buffer<std::int64_t>({sequence.targets.begin(), sequence.targets.end()}),
                        shape)}}};
  }

  Logprobs score(const Adapter& adapter, std::span<const ScoredSequence> data) {
    Logprobs out(data.size());
    const auto done =
        trainer
            .forward(&adapter,
                     data,
                     [&](std::size_t i, std::span<const float> logprobs, auto) -> Result<void> {
                       out[i].assign(logprobs.begin(), logprobs.end());
                       return {};
                     })
            .run();
    EXPECT_THAT(done, testing::IsOk());
    return out;
  }
  Floats gradients(const Objective& objective, std::span<const ScoredSequence> data) {
    Floats out(base->layout().parameters());
    const auto done = trainer
                          .forward_backward(
                              *base,
                              data,
                              [&](std::size_t i,
                                  std::span<const float> logprobs,
                                  std::span<float> d) -> Result<void> {
                                objective.differentiate(i, logprobs, d);
                                return {};
                              },
                              out.span())
                          .run();
    EXPECT_THAT(done, testing::IsOk());
    return out;
  }

  /// A built-in loss over data whose targets are those of the sequences.
  static Objective built_in(std::string name,
                            LossFn kind,
                            std::vector<Datum> data,
                            const LossFnConfig& config = {}) {
    const auto loss = TokenLoss::create(kind, config).value();
    std::vector<TokenLoss::Inputs> inputs;
    for (const auto& datum : data) inputs.push_back(loss.read(datum).value());
    const auto evaluate = [=](std::size_t i, std::span<const float> logprobs, std::span<float> d) {
      Numbers elementwise(inputs[i].sequence.tokens.size());
      return loss.evaluate(inputs[i], logprobs, elementwise, d);
    };
    return {.name = std::move(name),
            .differentiate = evaluate,
            .value = [=](std::size_t i, auto logprobs) { return evaluate(i, logprobs, {}); }};
  }
  static Objective custom(std::string name, const loss::Formula& formula, std::vector<Datum> data) {
    const auto evaluate = [=](std::size_t i, std::span<const float> logprobs) {
      const auto& targets = data[i].loss_fn_inputs.at("target_tokens");
      return formula
          .evaluate(shaped_like(targets, {logprobs.begin(), logprobs.end()}),
                    data[i].loss_fn_inputs)
          .value();
    };
    return {.name = std::move(name),
            .differentiate =
                [=](std::size_t i, auto logprobs, auto d) {
                  std::ranges::copy(evaluate(i, logprobs).gradient, d.begin());
                },
            .value = [=](std::size_t i, auto logprobs) { return evaluate(i, logprobs).loss; }};
  }

  void expect_derivatives(std::span<const Objective> objectives,
                          std::span<const ScoredSequence> data);

  ThreadPool threads;
  std::shared_ptr<const Model> model;
  Trainer trainer;
  std::shared_ptr<const Adapter> base;
};

double norm(std::span<const double> v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// Compares the derivatives along directions within each factor. A direction is a random one with
/// something of every gradient in it, lest the derivative be lost in the rounding of float sums.
/// The difference of fourth order allows steps so large that rounding (1e-6 of a logprob) does not
/// matter; together the errors are 3.2e-4 of the gradient's length at most.
void FiniteDifferences::expect_derivatives(std::span<const Objective> objectives,
                                           std::span<const ScoredSequence> data) {
  std::vector<Floats> all;
  for (const auto& objective : objectives) all.push_back(gradients(objective, data));
  const auto losses = [&](std::size_t begin, std::span<const double> direction, double step) {
    Floats values(base->values().size());
    std::ranges::copy(base->values(), values.data());
    for (std::size_t i = 0; i < direction.size(); ++i)
      values[begin + i] += static_cast<float>(step * direction[i]);
    const auto moved =
        Adapter::with_values(*model, base->shared_layout(), std::move(values), threads);
    const auto logprobs = score(*moved, data);
    std::vector<double> out(objectives.size());
    for (std::size_t o = 0; o < out.size(); ++o) {
      for (std::size_t i = 0; i < data.size(); ++i) out[o] += objectives[o].value(i, logprobs[i]);
    }
    return out;
  };
  for (const auto& module : base->layout().modules()) {
    for (const bool is_a : {true, false}) {
      const std::size_t begin = is_a ? module.a : module.b;
      const std::size_t size = 3 * (is_a ? module.in : module.out);
      std::vector<std::vector<double>> slopes;
      for (const auto& of_loss : all) {
        const auto part = of_loss.span().subspan(begin, size);
        slopes.emplace_back(part.begin(), part.end());
      }
      for (const std::uint64_t seed : {1U, 2U}) {
        std::vector<double> direction(size);
        for (std::size_t i = 0; i < size; ++i)
          direction[i] =
              (2 * uniform_double(seed, begin, i) - 1) / std::sqrt(static_cast<double>(size));
        for (const auto& slope : slopes) {
          for (std::size_t i = 0; i < size; ++i) direction[i] += slope[i] / norm(slope);
        }
        const double length = norm(direction);
        for (auto& x : direction) x /= length;

        const double step = is_a ? 0.005 : 0.001;
        const auto up = losses(begin, direction, step);
        const auto down = losses(begin, direction, -step);
        const auto far_up = losses(begin, direction, 2 * step);
        const auto far_down = losses(begin, direction, -2 * step);

        for (std::size_t o = 0; o < objectives.size(); ++o) {
          const double expected = (8 * (up[o] - down[o]) - (far_up[o] - far_down[o])) / (12 * step);
          const double found =
              std::inner_product(slopes[o].begin(), slopes[o].end(), direction.begin(), 0.0);
          EXPECT_NEAR(found, expected, 1e-3 * norm(slopes[o]))
              << objectives[o].name << ", " << module.name << (is_a ? ".A" : ".B");
        }
      }
    }
  }
}

/// Numbers that repeat.
Numbers cycle(std::span<const float> values, std::size_t size) {
  Numbers out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = values[i % values.size()];
  return out;
}
constexpr std::array kWeights = {1.0F, 0.5F, 0.0F, -0.75F, 2.0F};
constexpr std::array kAdvantages = {1.0F, -0.5F, 0.0F, 2.0F, -1.5F, 0.7F, -1.0F};
// Far from the thresholds 0.8 and 1.2, on all sides of them.
constexpr std::array kRatios = {0.5F, 0.95F, 1.05F, 1.6F};

TEST_P(FiniteDifferences, OfLossesWithOneTarget) {
  const auto scored = sequences(1);
  const auto logprobs = score(*base, scored);
  std::vector<Datum> weighted;
  std::vector<Datum> tokens;     // ratios of tokens on all sides of the clip
  std::vector<Datum> sequences;  // of sequences: within, and below
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const std::size_t n = scored[i].tokens.size();
    const auto datum_with = [&](const Numbers& ratios) {
      auto out = datum(scored[i]);
      Numbers sampled = logprobs[i];
      for (std::size_t t = 0; t < n; ++t) sampled[t] -= std::log(ratios[t]);
      out.loss_fn_inputs["logprobs"] = std::move(sampled);
      out.loss_fn_inputs["advantages"] = cycle(kAdvantages, n);
      return out;
    };
    weighted.push_back(datum(scored[i]));
    weighted.back().loss_fn_inputs["weights"] = cycle(kWeights, n);
    tokens.push_back(datum_with(cycle(kRatios, n)));
    sequences.push_back(
        datum_with(cycle(i == 0 ? std::array{0.9F, 1.2F} : std::array{0.5F, 0.7F}, n)));
  }
  // The ratio of cispo is a constant.
  auto cispo = built_in("cispo", LossFn::cispo, tokens);
  cispo.value = [&](std::size_t i, std::span<const float> at) {
    double out = 0;
    for (std::size_t t = 0; t < at.size(); ++t) {
      const double ratio = std::exp(double{logprobs[i][t]} -
                                    double{tokens[i].loss_fn_inputs.at("logprobs").floats()[t]});
      out -= std::clamp(ratio, 0.0, 4.0) * double{at[t]} *
             double{tokens[i].loss_fn_inputs.at("advantages").floats()[t]};
    }
    return out;
  };
  // So is the ratio of a sequence; a token's own one moves with its logprob.
  auto gspo = built_in("gspo", LossFn::gspo, sequences);
  gspo.value = [&](std::size_t i, std::span<const float> at) {
    const auto sampled = sequences[i].loss_fn_inputs.at("logprobs").floats();
    const auto advantages = sequences[i].loss_fn_inputs.at("advantages").floats();
    double sum = 0;
    double counted = 0;
    for (std::size_t t = 0; t < at.size(); ++t) {
      if (advantages[t] == 0) continue;
      sum += double{logprobs[i][t]} - double{sampled[t]};
      ++counted;
    }
    double out = 0;
    for (std::size_t t = 0; t < at.size(); ++t) {
      const double ratio = std::exp(sum / counted + double{at[t]} - double{logprobs[i][t]});
      const double advantage{advantages[t]};
      out -= std::min(ratio * advantage, std::clamp(ratio, 0.8, 1.2) * advantage);
    }
    return out;
  };
  const auto focal =
      loss::Formula::define("focal", {{"logprobs", 1}, {"weights", 1}}, [](const auto& in) {
        return -sum(in["weights"] * square(1.0 - exp(0.3 * in["logprobs"])) * in["logprobs"]);
      }).value();
  const std::vector objectives = {
      built_in("cross_entropy", LossFn::cross_entropy, weighted),
      built_in("importance_sampling", LossFn::importance_sampling, tokens),
      built_in("ppo", LossFn::ppo, tokens),
      cispo,
      built_in("dro", LossFn::dro, tokens, {{"beta", 0.4}}),
      gspo,
      custom("focal", focal, weighted)};

  expect_derivatives(objectives, scored);
}

TEST_P(FiniteDifferences, OfLossesWithSeveralTargets) {
  const auto scored = sequences(3);
  std::vector<Datum> dense;
  std::vector<Datum> sparse;
  for (const auto& sequence : scored) {
    const auto n = static_cast<std::int64_t>(sequence.tokens.size());
    dense.push_back(datum(sequence));
    dense.back().loss_fn_inputs["weights"] = TensorData(
        Buffer<float>(cycle(kWeights, sequence.targets.size())), TensorData::Shape{n, 3});
    // None, one, two and three targets in turns; what is not listed has no weight.
    std::vector<std::int64_t> crow = {0};
    std::vector<std::int64_t> col;
    std::vector<std::int64_t> ids;
    Numbers weights;
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t k = 0; k < row % 4; ++k) {
        col.push_back(k);
        ids.push_back(sequence.targets[static_cast<std::size_t>(row * 3 + k)]);
        weights.push_back(kWeights[static_cast<std::size_t>(row + k) % kWeights.size()]);
      }
      crow.push_back(static_cast<std::int64_t>(col.size()));
    }
    const CsrIndices where = {.crow = crow, .col = col};
    sparse.push_back(datum(sequence));
    auto& inputs = sparse.back().loss_fn_inputs;
    inputs["target_tokens"] = TensorData(Buffer<std::int64_t>(ids), TensorData::Shape{n, 3}, where);
    inputs["weights"] = TensorData(Buffer<float>(weights), TensorData::Shape{n, 3}, where);
  }
  const auto best =
      loss::Formula::define("best", {{"logprobs", 2}, {"weights", 2}}, [](const auto& in) {
        return -sum(logsumexp(in["logprobs"], 1)) - sum(in["weights"] * in["logprobs"]);
      }).value();
  const std::vector objectives = {built_in("dense", LossFn::cross_entropy, dense),
                                  custom("formula", best, dense)};
  expect_derivatives(objectives, scored);

  // The targets of sparse rows are others: those not listed are token 0.
  std::vector<ScoredSequence> listed;
  const auto loss = TokenLoss::create(LossFn::cross_entropy, {}).value();
  for (const auto& datum : sparse) listed.push_back(loss.read(datum).value().sequence);
  expect_derivatives(std::array{built_in("sparse", LossFn::cross_entropy, sparse)}, listed);
}

TEST_P(FiniteDifferences, AreZeroWhereEverythingIsClipped) {
  const auto scored = sequences(1);
  const auto logprobs = score(*base, scored);
  std::vector<Datum> data;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const std::size_t n = scored[i].tokens.size();
    // Good tokens that have become likely enough, and bad ones that have become unlikely enough.
    const float sign = i == 0 ? 1.0F : -1.0F;
    auto sampled = logprobs[i];
    for (auto& q : sampled) q -= sign * 0.5F;
    data.push_back(datum(scored[i]));
    data.back().loss_fn_inputs["logprobs"] = std::move(sampled);
    data.back().loss_fn_inputs["advantages"] = Numbers(n, sign);
  }

  for (const auto kind : {LossFn::ppo, LossFn::gspo}) {
    const auto found = gradients(built_in("clipped", kind, data), scored);

    EXPECT_THAT(found.span(), ::testing::Each(0.0F));
  }
}

std::vector<Kind> kinds() {
  using Architecture = ModelConfig::Architecture;
  std::vector<Kind> out;
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    for (const bool is_tied : {true, false})
      out.push_back({.architecture = architecture, .is_tied = is_tied});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, FiniteDifferences, ::testing::ValuesIn(kinds()), [](const auto& of) {
  return std::string(to_string(of.param.architecture)) + (of.param.is_tied ? "_tied" : "_untied");
});

}  // namespace
}  // namespace tinker::engine::finite_difference_test
