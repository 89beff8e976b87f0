#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "conform/lab.h"

// Losses by their values, gradients by what they do to the model (SERVER 2): a step of gradient
// descent moves logprobs in proportion to the gradient, so two gradients are the same when the
// logprobs move alike.

namespace tinker::conform {

namespace {

using Requests = std::vector<ForwardBackwardRequest>;

ForwardBackwardRequest cross_entropy(std::vector<Datum> data) {
  return {.data = std::move(data)};
}

/// "loss:sum" of a request on a fresh model, and its logprobs.
struct Evaluated {
  double loss = 0;
  Numbers logprobs = {};
};

Result<Evaluated> evaluate(Probe& probe, const ForwardBackwardRequest& request) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest forward = request;
  forward.forward_only = true;
  TINKER_TRY(const auto answer, model.post(forward));
  TINKER_TRY(const auto handle, probe.accepted(answer));
  TINKER_TRY(const auto output, probe.proto_result<ForwardBackwardOutput>(handle.request_id));
  TINKER_TRY(auto logprobs, output_of(output, 0));
  TINKER_TRY(const double loss, output.loss());
  return Evaluated{.loss = loss, .logprobs = std::move(logprobs)};
}

Result<void> expect_loss(const Probe& probe, double found, double expected, double size) {
  if (std::abs(found - expected) <= probe.tolerance() * std::max(size, 1.0)) return {};
  return broken(base::concat("loss:sum is ", found, ", expected ", expected));
}

// ---- cross entropy ----------------------------------------------------------------------------

const Numbers& mixed_weights() {
  static const Numbers weights = {0, 1, 0.5, -1, 2, 0, 1, 0.25};
  return weights;
}

Evidence cross_entropy_value(Probe& probe) {
  TINKER_TRY(const auto found, evaluate(probe, cross_entropy({weighted(mixed_weights())})));
  TINKER_TRY(expect_loss(probe, found.loss, -dot(mixed_weights(), found.logprobs), 6));
  return base::concat("loss:sum ", found.loss);
}

Evidence weights_default(Probe& probe) {
  Datum plain = weighted(1.0);
  plain.loss_fn_inputs.erase("weights");
  TINKER_TRY(const auto found, evaluate(probe, cross_entropy({plain})));
  TINKER_TRY(expect_loss(probe,
                         found.loss,
                         -dot(Numbers(reference_positions(), 1.0), found.logprobs),
                         static_cast<double>(reference_positions())));
  return held();
}

Evidence values_are_sums(Probe& probe) {
  TINKER_TRY(const auto one, evaluate(probe, cross_entropy({weighted(1.0)})));
  TINKER_TRY(const auto two, evaluate(probe, cross_entropy({weighted(1.0), weighted(1.0)})));
  TINKER_TRY(expect_near("loss:sum of a datum that is there twice", two.loss, 2 * one.loss, 0.01));
  return base::concat(one.loss, " and ", two.loss);
}

/// Checks that two sets of gradients do the same.
Evidence same(Probe& probe, std::string_view what, Requests found, Requests expected) {
  TINKER_TRY(const auto b, effect(probe, std::move(expected)));
  TINKER_TRY(const auto a, effect(probe, std::move(found)));
  TINKER_TRY(expect_same_effect(what, a, b, probe.tolerance()));
  return text_of(a);
}

/// Checks that gradients do nothing.
Evidence nothing(Probe& probe, std::string_view what, Requests gradients) {
  TINKER_TRY(const auto found, effect(probe, std::move(gradients)));
  TINKER_TRY(expect_same_effect(what, found, Numbers(found.size(), 0.0), probe.tolerance()));
  return held();
}

Evidence direction(Probe& probe) {
  TINKER_TRY(const auto moved, effect(probe, {cross_entropy({weighted(1.0)})}));
  double sum = 0;
  for (const double each : moved) sum += each;
  if (!(sum > 0)) {
    return broken(base::concat("a step on cross_entropy moved the logprobs of its targets by ",
                               text_of(moved),
                               ", expected them to rise in sum"));
  }
  return text_of(moved);
}

Evidence gradients_are_sums(Probe& probe) {
  return same(probe,
              "a datum that is there twice, beside one of weight 2",
              {cross_entropy({weighted(1.0), weighted(1.0)})},
              {cross_entropy({weighted(2.0)})});
}

Evidence tokens_are_summed(Probe& probe) {
  // The same targets, beside positions that do not count.
  Numbers half(reference_positions(), 0.0);
  std::fill_n(half.begin(), half.size() / 2, 1.0);
  const auto rest = [&] {
    Numbers out = half;
    for (double& each : out) each = 1 - each;
    return out;
  }();
  return same(probe,
              "the two halves of a datum, beside the whole",
              {cross_entropy({weighted(half)}), cross_entropy({weighted(rest)})},
              {cross_entropy({weighted(1.0)})});
}

Evidence accumulation(Probe& probe) {
  return same(probe,
              "two calls, beside one with both of their data",
              {cross_entropy({weighted(1.0)}), cross_entropy({weighted(mixed_weights())})},
              {cross_entropy({weighted(1.0), weighted(mixed_weights())})});
}

Evidence negative_weights(Probe& probe) {
  return nothing(probe,
                 "a gradient and the same with negative weights",
                 {cross_entropy({weighted(1.0)}), cross_entropy({weighted(-1.0)})});
}

Evidence zero_weights(Probe& probe) {
  return nothing(probe, "weights of 0", {cross_entropy({weighted(0.0)})});
}

Evidence forward_only(Probe& probe) {
  ForwardBackwardRequest request = cross_entropy({weighted(1.0)});
  request.forward_only = true;
  return nothing(probe, "a forward pass", {request});
}

Evidence neighbours(Probe& probe) {
  Tokens longer = reference_text();
  longer.insert(longer.end(), {44, 45, 46, 47, 48, 49, 50, 51});
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto output,
             model.run({.data = {weighted(1.0), Datum::next_token(longer)}, .forward_only = true}));
  TINKER_TRY(const auto beside, output_of(output, 0));
  TINKER_TRY(const auto alone, fresh_logprobs(probe));
  TINKER_TRY(expect_same(probe, "logprobs of a datum beside a longer one", beside, alone));
  return base::concat("largest difference ", largest(difference(beside, alone)));
}

Evidence causal(Probe& probe) {
  Tokens other = reference_text();
  other.back() = 33;
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(auto found, model.logprobs(other));
  TINKER_TRY(auto expected, fresh_logprobs(probe));
  found.pop_back();
  expected.pop_back();
  TINKER_TRY(expect_same(probe, "logprobs before a token that changed", found, expected));
  return held();
}

Evidence several_targets(Probe& probe) {
  // Each position scores its own next token, and a second one with another weight.
  const Tokens& text = reference_text();
  const auto rows = static_cast<std::int64_t>(reference_positions());
  std::vector<std::int64_t> targets;
  std::vector<float> weights;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    targets.insert(targets.end(), {text[i + 1], 40});
    weights.insert(weights.end(), {1.0F, 0.5F});
  }
  Datum wide = weighted(1.0);
  const TensorData::Shape shape = {rows, 2};
  wide.loss_fn_inputs.insert_or_assign("target_tokens", TensorData(Buffer(targets), shape));
  wide.loss_fn_inputs.insert_or_assign("weights", TensorData(Buffer(weights), shape));
  // A step first: in a model that has learned something, no two targets are alike.
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.run(cross_entropy({weighted(1.0)})));
  TINKER_TRY(model.step(params));
  TINKER_TRY(const auto plain, model.logprobs(text));
  TINKER_TRY(const auto output, model.run(cross_entropy({wide})));
  TINKER_TRY(const auto found, output_of(output, 0));
  if (found.size() != targets.size()) {
    return broken(
        base::concat("target_tokens of shape [", rows, ", 2] gave ", found.size(), " logprobs"));
  }
  Numbers first;
  for (std::size_t i = 0; i < found.size(); i += 2) first.push_back(found[i]);
  TINKER_TRY(expect_same(probe, "logprobs of the first of two targets", first, plain));
  TINKER_TRY(const double loss, output.loss());
  const Numbers all(weights.begin(), weights.end());
  TINKER_TRY(expect_loss(probe, loss, -dot(all, found), 12));
  return base::concat("loss:sum ", loss);
}

// ---- policy losses ----------------------------------------------------------------------------

/// A policy loss on a ratio that is the same at every position, by what it should be.
struct PolicyCase {
  LossFn loss = LossFn::importance_sampling;
  LossFnConfig config = {};
  double log_ratio = 0;  // l - q
  Numbers advantages = {};
  double (*value)(double logprob, double advantage) = nullptr;  // of one position
  double (*weight)(double advantage) = nullptr;  // of the cross entropy with its gradient
};

Result<ForwardBackwardRequest> request_of(Probe& probe, const PolicyCase& c) {
  TINKER_TRY(auto q, fresh_logprobs(probe));
  for (double& each : q) each -= c.log_ratio;
  return ForwardBackwardRequest{
      .data = {policy(q, c.advantages)}, .loss_fn = c.loss, .loss_fn_config = c.config};
}

/// Losses that only some servers have: whether this one answers it with its user's error.
Evidence expect_served(Probe& probe, const ForwardBackwardRequest& request) {
  TINKER_TRY(auto model, Trainee::create(probe));
  if (const auto refusal = refused_or_failed(probe, model.post(request))) {
    return undecided("the server refuses this loss: " + *refusal);
  }
  return held();
}

Evidence check_policy(Probe& probe, const PolicyCase& c) {
  TINKER_TRY(const auto request, request_of(probe, c));
  TINKER_TRY(expect_served(probe, request));
  TINKER_TRY(const auto found, evaluate(probe, request));
  double expected = 0;
  Numbers weights;
  for (std::size_t i = 0; i < c.advantages.size(); ++i) {
    expected += c.value(found.logprobs[i], c.advantages[i]);
    weights.push_back(c.weight(c.advantages[i]));
  }
  TINKER_TRY(expect_loss(probe, found.loss, expected, 16));
  return same(
      probe,
      base::concat(to_string(c.loss), " beside cross_entropy with the weights ", text_of(weights)),
      {request},
      {cross_entropy({weighted(weights)})});
}

const Numbers& advantages() {
  static const Numbers values = {0, 1, 0.5, -1, 2, 0, 1, -0.5};
  return values;
}

Evidence importance_sampling(Probe& probe) {
  return check_policy(probe,
                      {.log_ratio = 0,
                       .advantages = advantages(),
                       .value = [](double, double a) { return -a; },
                       .weight = [](double a) { return a; }});
}

Evidence importance_ratio(Probe& probe) {
  return check_policy(probe,
                      {.log_ratio = std::log(1.5),
                       .advantages = advantages(),
                       .value = [](double, double a) { return -1.5 * a; },
                       .weight = [](double a) { return 1.5 * a; }});
}

Evidence ppo_inside(Probe& probe) {
  return check_policy(probe,
                      {.loss = LossFn::ppo,
                       .log_ratio = std::log(1.1),
                       .advantages = advantages(),
                       .value = [](double, double a) { return -1.1 * a; },
                       .weight = [](double a) { return 1.1 * a; }});
}

Evidence ppo_clip(Probe& probe) {
  // Of a ratio of 1.5, gains count as 1.2 and pull no further; losses count in full.
  return check_policy(probe,
                      {.loss = LossFn::ppo,
                       .log_ratio = std::log(1.5),
                       .advantages = advantages(),
                       .value = [](double, double a) { return -std::min(1.5 * a, 1.2 * a); },
                       .weight = [](double a) { return a < 0 ? 1.5 * a : 0.0; }});
}

Evidence ppo_thresholds(Probe& probe) {
  return check_policy(probe,
                      {.loss = LossFn::ppo,
                       .config = {{"clip_low_threshold", 0.9}, {"clip_high_threshold", 2.0}},
                       .log_ratio = std::log(0.5),
                       .advantages = advantages(),
                       .value = [](double, double a) { return -std::min(0.5 * a, 0.9 * a); },
                       .weight = [](double a) { return a > 0 ? 0.5 * a : 0.0; }});
}

Evidence cispo(Probe& probe) {
  return check_policy(probe,
                      {.loss = LossFn::cispo,
                       .config = {{"clip_low_threshold", 0.0}, {"clip_high_threshold", 1.25}},
                       .log_ratio = std::numbers::ln2,
                       .advantages = advantages(),
                       .value = [](double logprob, double a) { return -1.25 * logprob * a; },
                       .weight = [](double a) { return 1.25 * a; }});
}

Evidence dro(Probe& probe) {
  // beta 0.5, l - q 0.4
  return check_policy(
      probe,
      {.loss = LossFn::dro,
       .config = {{"beta", 0.5}},
       .log_ratio = 0.4,
       .advantages = advantages(),
       .value = [](double logprob, double a) { return -(logprob * a - 0.5 * 0.5 * 0.4 * 0.4); },
       .weight = [](double a) { return a - 0.5 * 0.4; }});
}

Evidence gspo(Probe& probe) {
  // One ratio for the sequence: its gains are clipped, its losses are not. Every position counts
  // in the mean, those without advantage too or not: the ratio is the same.
  return check_policy(probe,
                      {.loss = LossFn::gspo,
                       .config = {{"clip_low_threshold", 0.8}, {"clip_high_threshold", 1.2}},
                       .log_ratio = std::log(1.5),
                       .advantages = advantages(),
                       .value = [](double, double a) { return -std::min(1.5 * a, 1.2 * a); },
                       .weight = [](double a) { return a < 0 ? 1.5 * a : 0.0; }});
}

Evidence unknown_settings(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto q, fresh_logprobs(probe));
  return failed_as_users(probe,
                         model.post({.data = {policy(q, advantages())},
                                     .loss_fn = LossFn::ppo,
                                     .loss_fn_config = {{"clip_hihg_threshold", 1.2}}}));
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "losses.cross_entropy",
     .sentence = "The loss of cross_entropy is the sum of -weight * logprob",
     .check = cross_entropy_value},
    {.id = "losses.weights_default",
     .sentence = "Without weights, all are 1",
     .check = weights_default},
    {.id = "losses.values_are_sums",
     .sentence = "Losses add up over data",
     .check = values_are_sums},
    {.id = "losses.direction",
     .sentence = "A step on cross_entropy makes its targets likelier",
     .check = direction},
    {.id = "losses.gradients_are_sums",
     .sentence = "Gradients add up over data, without an average",
     .check = gradients_are_sums},
    {.id = "losses.tokens_are_summed",
     .sentence = "Gradients add up over tokens, without an average",
     .check = tokens_are_summed},
    {.id = "losses.accumulation",
     .sentence = "Gradients of several calls add up until the step",
     .check = accumulation},
    {.id = "losses.negative_weights",
     .sentence = "Weights may be negative: a gradient and its opposite cancel",
     .check = negative_weights},
    {.id = "losses.zero_weights",
     .sentence = "Positions of weight 0 have no gradient",
     .check = zero_weights},
    {.id = "losses.forward_only",
     .sentence = "forward_only leaves no gradient behind",
     .check = forward_only},
    {.id = "losses.neighbours",
     .sentence = "A datum's logprobs do not depend on the rest of the batch",
     .check = neighbours},
    {.id = "losses.causal", .sentence = "Logprobs do not depend on later tokens", .check = causal},
    {.id = "losses.several_targets",
     .sentence = "A position may have several targets, each with its weight",
     .check = several_targets},
    {.id = "losses.importance_sampling",
     .sentence = "importance_sampling on the model's own logprobs has the "
                 "gradient of cross_entropy weighted by advantage",
     .check = importance_sampling},
    {.id = "losses.importance_ratio",
     .sentence = "importance_sampling weighs by the ratio of probabilities",
     .check = importance_ratio},
    {.id = "losses.ppo_inside",
     .sentence = "ppo inside of its clip range is importance_sampling",
     .check = ppo_inside},
    {.id = "losses.ppo_clip",
     .sentence = "ppo clips at 1.2 by default: gains beyond have no gradient, losses do",
     .check = ppo_clip},
    {.id = "losses.ppo_thresholds",
     .sentence = "ppo takes clip_low_threshold and clip_high_threshold as ratios",
     .check = ppo_thresholds},
    {.id = "losses.cispo",
     .sentence = "cispo weighs the logprob by the clipped ratio, which has no gradient",
     .check = cispo},
    {.id = "losses.dro", .sentence = "dro is l * A - beta / 2 * (l - q)^2", .check = dro},
    {.id = "losses.gspo",
     .sentence = "gspo has one ratio for the sequence, clipped as ppo clips",
     .check = gspo},
    {.id = "losses.unknown_settings",
     .sentence = "A setting that the loss does not have is refused",
     .check = unknown_settings},
});

}  // namespace

std::span<const Law> losses_laws() {
  return kLaws;
}

}  // namespace tinker::conform
