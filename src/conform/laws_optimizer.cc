#include <array>
#include <cmath>

#include "conform/lab.h"

// AdamW by what its steps do (SERVER 2.2). With an eps above all gradients it is gradient descent,
// which shows gradients, momentum and clipping in proportion; with a small one it shows the
// normalisation.

namespace tinker::conform {

namespace {

ForwardBackwardRequest gradient(double weight = 1.0) {
  return {.data = {weighted(weight)}};
}

/// What each of these steps does to the logprobs, one after the other on one model. A weight of 0
/// stands for no gradient at all.
struct Move {
  double weight = 1.0;
  AdamParams params = {};
};

Result<std::vector<Numbers>> moves(Probe& probe, const std::vector<Move>& steps) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(auto before, fresh_logprobs(probe));
  std::vector<Numbers> out;
  for (const auto& step : steps) {
    if (step.weight != 0) {
      TINKER_TRY(model.run(gradient(step.weight)));
    }
    TINKER_TRY(model.step(step.params));
    TINKER_TRY(auto after, model.logprobs(reference_text()));
    out.push_back(difference(after, before));
    before = std::move(after);
  }
  return out;
}

/// How much of `reference` is in `found`.
double share(const Numbers& found, const Numbers& reference) {
  return dot(found, reference) / dot(reference, reference);
}

Evidence zero_rate(Probe& probe) {
  TINKER_TRY(const auto moved, moves(probe, {{.params = {.learning_rate = 0}}}));
  TINKER_TRY(expect_same(probe,
                         "a step with a learning rate of 0 moved the logprobs",
                         moved[0],
                         Numbers(moved[0].size(), 0.0)));
  return held();
}

Evidence cleared(Probe& probe) {
  TINKER_TRY(const auto params, descent(probe));  // no momentum
  TINKER_TRY(const auto moved, moves(probe, {{.params = params}, {.weight = 0, .params = params}}));
  TINKER_TRY(expect_same(probe,
                         "a step without gradients and momentum moved the logprobs",
                         moved[1],
                         Numbers(moved[1].size(), 0.0)));
  return held();
}

Evidence equal_steps(Probe& probe) {
  TINKER_TRY(auto params, descent(probe));
  params.learning_rate /= 2;
  TINKER_TRY(const auto moved, moves(probe, {{.params = params}, {.params = params}}));
  TINKER_TRY(expect_near("the second of two equal steps of gradient descent, by the first",
                         share(moved[1], moved[0]),
                         1,
                         0.35));
  return base::concat("share ", share(moved[1], moved[0]));
}

Evidence normalised(Probe& probe) {
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(const auto small, moves(probe, {{.weight = 0.125, .params = params}}));
  TINKER_TRY(const auto big, moves(probe, {{.weight = 8, .params = params}}));
  TINKER_TRY(expect_same_effect(
      "a first step on a gradient 64 times as large", big[0], small[0], probe.tolerance()));
  return held();
}

Evidence eps(Probe& probe) {
  TINKER_TRY(auto params, adam(probe));
  params.eps = 1e6;
  TINKER_TRY(const auto moved, moves(probe, {{.params = params}}));
  TINKER_TRY(expect_same(probe,
                         "a step with an eps of 1e6 moved the logprobs",
                         moved[0],
                         Numbers(moved[0].size(), 0.0)));
  return held();
}

Evidence momentum(Probe& probe) {
  // m after an empty step is 0.09 g, its bias correction 1 - 0.81.
  TINKER_TRY(auto params, descent(probe));
  params.beta1 = 0.9;
  TINKER_TRY(const auto moved, moves(probe, {{.params = params}, {.weight = 0, .params = params}}));
  TINKER_TRY(expect_near("an empty step with beta1 0.9, by the step before it",
                         share(moved[1], moved[0]),
                         0.09 / 0.19,
                         0.25));
  return base::concat("share ", share(moved[1], moved[0]), ", expected ", 0.09 / 0.19);
}

Evidence second_moment(Probe& probe) {
  // v after g and g / 10: 0.95 * 0.05 g^2 + 0.05 * 0.01 g^2, its bias correction 1 - 0.9025.
  TINKER_TRY(auto params, adam(probe));
  params.beta1 = 0;
  params.beta2 = 0.95;
  TINKER_TRY(const auto moved,
             moves(probe, {{.params = params}, {.weight = 0.1, .params = params}}));
  const double expected = 0.1 / std::sqrt((0.95 * 0.05 + 0.05 * 0.01) / (1 - 0.9025));
  TINKER_TRY(expect_near("a step on a tenth of the gradient, by the step before it",
                         share(moved[1], moved[0]),
                         expected,
                         0.5));
  return base::concat("share ", share(moved[1], moved[0]), ", expected ", expected);
}

Evidence weight_decay(Probe& probe) {
  // A decay of learning_rate * weight_decay = 1 leaves nothing of the adapter.
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(const auto moved,
             moves(probe,
                   {{.params = params},
                    {.weight = 0, .params = {.learning_rate = 1e-6, .weight_decay = 1e6}}}));
  Numbers back = moved[0];
  for (double& each : back) each = -each;
  TINKER_TRY(expect_same_effect(
      "a step with learning_rate * weight_decay = 1", moved[1], back, probe.tolerance()));
  return held();
}

/// The norm that a step reports.
Result<double> reported_norm(Probe& probe, double weight, double clip) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.run(gradient(weight)));
  TINKER_TRY(const auto answer, model.step({.learning_rate = 0, .grad_clip_norm = clip}));
  if (answer.metrics) {
    const auto found = answer.metrics->find("unclipped_grad_l2:mean");
    if (found != answer.metrics->end() && found->second > 0) return found->second;
  }
  return broken("optim_step with grad_clip_norm > 0 has no metric unclipped_grad_l2:mean above 0");
}

Evidence gradient_norm(Probe& probe) {
  TINKER_TRY(const double one, reported_norm(probe, 1, 1e9));
  TINKER_TRY(const double three, reported_norm(probe, 3, 1e-3));
  TINKER_TRY(expect_near("unclipped_grad_l2:mean of 3 times the gradient", three, 3 * one, 0.02));
  return base::concat("unclipped_grad_l2:mean ", one, " and ", three);
}

Evidence clipping(Probe& probe) {
  TINKER_TRY(auto params, descent(probe));
  TINKER_TRY(const double norm, reported_norm(probe, 1, 1e9));
  TINKER_TRY(const auto whole, moves(probe, {{.params = params}}));
  params.grad_clip_norm = norm;
  TINKER_TRY(const auto clipped, moves(probe, {{.weight = 4, .params = params}}));
  TINKER_TRY(expect_same_effect(
      "a gradient of 4 times the norm, clipped to it", clipped[0], whole[0], probe.tolerance()));
  params.grad_clip_norm = 0;
  params.learning_rate /= 4;
  TINKER_TRY(const auto unclipped, moves(probe, {{.weight = 4, .params = params}}));
  TINKER_TRY(expect_same_effect("the same without clipping, at a quarter of the rate",
                                unclipped[0],
                                whole[0],
                                probe.tolerance()));
  return held();
}

Evidence models_are_apart(Probe& probe) {
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(auto first, Trainee::create(probe));
  TINKER_TRY(auto second, Trainee::create(probe));
  TINKER_TRY(first.run(gradient()));
  TINKER_TRY(second.step(params));
  TINKER_TRY(const auto untouched, second.logprobs(reference_text()));
  TINKER_TRY(const auto fresh, fresh_logprobs(probe));
  TINKER_TRY(expect_same(probe, "logprobs of a model beside one that trains", untouched, fresh));
  TINKER_TRY(first.step(params));
  TINKER_TRY(const auto trained, first.logprobs(reference_text()));
  TINKER_TRY(const auto expected, effect(probe, {gradient()}));
  TINKER_TRY(expect_same_effect("a model's step behind another model's step",
                                difference(trained, fresh),
                                expected,
                                probe.tolerance()));
  return held();
}

Evidence adapter_seed(Probe& probe) {
  TINKER_TRY(const auto params, descent(probe));
  std::array<Numbers, 3> after;
  const std::array<std::int64_t, 3> seeds = {7, 7, 8};
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    TINKER_TRY(auto model, Trainee::create(probe, seeds[i]));
    TINKER_TRY(model.run(gradient()));
    TINKER_TRY(model.step(params));
    TINKER_TRY(after[i], model.logprobs(reference_text()));
  }
  TINKER_TRY(
      expect_same(probe, "logprobs after a step on two models of seed 7", after[1], after[0]));
  return base::concat("another seed differs by ", largest(difference(after[2], after[0])));
}

Evidence learns(Probe& probe) {
  constexpr int kSteps = 12;
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  std::vector<double> losses;
  for (int i = 0; i <= kSteps; ++i) {
    TINKER_TRY(const auto output, model.run(gradient()));
    TINKER_TRY(const double loss, output.loss());
    losses.push_back(loss);
    TINKER_TRY(model.step(params));
  }
  if (losses.back() < 0.8 * losses.front()) return text_of(losses);
  return broken(base::concat("losses of ",
                             kSteps,
                             " steps of AdamW on one text: ",
                             text_of(losses),
                             ", expected the last below 80 % of the first"));
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "optimizer.zero_rate",
     .sentence = "A learning rate of 0 changes nothing",
     .check = zero_rate},
    {.id = "optimizer.cleared", .sentence = "A step uses its gradients up", .check = cleared},
    {.id = "optimizer.equal_steps",
     .sentence = "Without momentum and normalisation, equal gradients make equal steps",
     .check = equal_steps},
    {.id = "optimizer.normalised",
     .sentence = "The first step does not depend on the gradient's size",
     .check = normalised},
    {.id = "optimizer.eps",
     .sentence = "eps is added to the root of the second moment",
     .check = eps},
    {.id = "optimizer.momentum",
     .sentence = "beta1 keeps a bias-corrected mean of the gradients",
     .check = momentum},
    {.id = "optimizer.second_moment",
     .sentence = "beta2 keeps a bias-corrected mean of their squares",
     .check = second_moment},
    {.id = "optimizer.weight_decay",
     .sentence = "Weight decay is decoupled: weights shrink by learning_rate * "
                 "weight_decay",
     .check = weight_decay},
    {.id = "optimizer.gradient_norm",
     .sentence = "Clipping reports unclipped_grad_l2:mean, in proportion to the "
                 "gradient",
     .check = gradient_norm},
    {.id = "optimizer.clipping",
     .sentence = "grad_clip_norm scales the whole gradient down to that norm, 0 does not",
     .check = clipping},
    {.id = "optimizer.models_are_apart",
     .sentence = "Gradients and steps of one model leave others alone",
     .check = models_are_apart},
    {.id = "optimizer.adapter_seed",
     .sentence = "Models of the same seed start alike",
     .check = adapter_seed},
    {.id = "optimizer.learns",
     .sentence = "Training on a text makes it likelier",
     .check = learns,
     .cost = Cost::slow},
});

}  // namespace

std::span<const Law> optimizer_laws() {
  return kLaws;
}

}  // namespace tinker::conform
