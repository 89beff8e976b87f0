// What Hugging Face's libraries compute, within the tolerances that come with it. Every sub-folder
// of $TINKER_ENGINE_GOLDENS is read; what a folder lacks is left out, with a message.

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/losses.h"
#include "engine/optimizer.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/distributions.h"
#include "unit/engine/golden_folder.h"

namespace tinker::engine::engine_golden_test {
namespace {

using simdjson::dom::element;

constexpr double kLossTolerance = 1e-5;      // relative to the sum of |terms|
constexpr float kGradientTolerance = 1e-4F;  // relative to the largest of a tensor
constexpr float kParameterTolerance = 2e-5F;

/// Which loss a name in the goldens means: "cispo_tight" is cispo, with other settings.
std::optional<LossFn> loss_named(std::string_view name) {
  for (const auto kind : {LossFn::cross_entropy,
                          LossFn::importance_sampling,
                          LossFn::ppo,
                          LossFn::cispo,
                          LossFn::dro,
                          LossFn::gspo}) {
    const auto known = tinker::detail::kEnumNames<LossFn>[static_cast<std::size_t>(kind)];
    if (name == known || name.starts_with(std::string(known) + "_")) return kind;
  }
  return std::nullopt;
}

/// A datum of batch.json as the loss called `name` wants it.
Datum datum_for(const std::string& name, element item) {
  Datum datum = {.model_input = ModelInput::from_tokens(numbers<std::int32_t>(item["tokens"]))};
  auto& inputs = datum.loss_fn_inputs;
  if (name == "cross_entropy_topk") {
    const auto n = static_cast<std::int64_t>(item["tokens"].get_array().size());
    auto targets = numbers<std::int64_t>(item["topk_target_tokens"]);
    auto weights = numbers<float>(item["topk_weights"]);
    const TensorData::Shape shape = {n, static_cast<std::int64_t>(targets.size()) / n};
    inputs["target_tokens"] = TensorData(Buffer<std::int64_t>(std::move(targets)), shape);
    inputs["weights"] = TensorData(Buffer<float>(std::move(weights)), shape);
    return datum;
  }
  inputs["target_tokens"] = numbers<std::int64_t>(item["target_tokens"]);
  const auto take = [&](std::string_view input) {
    if (const auto found = member(item, input)) inputs[std::string(input)] = numbers<float>(*found);
  };
  const auto kind = loss_named(name);
  if (kind == LossFn::cross_entropy) {
    take("weights");
  } else {
    take("logprobs");
    take("advantages");
    if (kind == LossFn::gspo) take("sequence_ratio_mask");
  }
  return datum;
}

LossFnConfig config_of(element loss) {
  LossFnConfig out;
  const auto given = member(loss, "config");
  if (!given) return out;
  for (const auto [setting, value] : given->get_object()) {
    if (value.is_string()) {
      out[std::string(setting)] = std::string(value.get_string().value());
    } else {
      out[std::string(setting)] = value.get_double().value();
    }
  }
  return out;
}

/// What one pass gave.
struct Pass {
  double loss = 0;
  std::vector<std::vector<float>> logprobs = {};
  std::vector<std::vector<float>> elementwise = {};
  std::vector<std::vector<float>> derivatives = {};
  Floats gradients = {};
};

Pass run(Golden& golden,
         const Adapter& adapter,
         const std::string& name,
         const LossFnConfig& config) {
  const auto loss = TokenLoss::create(loss_named(name).value(), config).value();
  const Json batch(golden.folder / "batch.json");
  std::vector<TokenLoss::Inputs> inputs;
  std::vector<ScoredSequence> sequences;
  for (const element item : (*batch).get_array()) {
    inputs.push_back(loss.read(datum_for(name, item)).value());
    sequences.push_back(inputs.back().sequence);
  }
  Pass out;
  out.gradients = Floats(adapter.layout().parameters());
  const auto done = golden.trainer
                        .forward_backward(
                            adapter,
                            sequences,
                            [&](std::size_t i,
                                std::span<const float> logprobs,
                                std::span<float> derivatives) -> Result<void> {
                              std::vector<float> elementwise(inputs[i].sequence.tokens.size());
                              out.loss +=
                                  loss.evaluate(inputs[i], logprobs, elementwise, derivatives);
                              out.logprobs.emplace_back(logprobs.begin(), logprobs.end());
                              out.elementwise.push_back(elementwise);
                              out.derivatives.emplace_back(derivatives.begin(), derivatives.end());
                              return {};
                            },
                            out.gradients.span())
                        .run();
  EXPECT_THAT(done, testing::IsOk());
  return out;
}

float largest(std::span<const float> a) {
  float out = 0;
  for (const float x : a) out = std::max(out, std::abs(x));
  return out;
}

/// Terms of both signs cancel: their sum is known only as well as they are.
void expect_loss(const Pass& pass, double expected) {
  double terms = 0;
  for (const auto& datum : pass.elementwise) {
    for (const float term : datum) terms += std::abs(static_cast<double>(term));
  }
  EXPECT_NEAR(pass.loss, expected, kLossTolerance * terms);
}

/// The gradient or moment of a factor in PEFT's shape.
std::vector<float> factor(const LoraLayout& layout,
                          const LoraModule& module,
                          std::span<const float> values,
                          bool is_a) {
  const std::size_t rank = layout.config().rank;
  if (is_a) {
    const auto a = values.subspan(module.a, rank * module.in);
    return {a.begin(), a.end()};
  }
  std::vector<float> out(rank * module.out);
  for (std::size_t i = 0; i < module.out; ++i) {
    for (std::size_t r = 0; r < rank; ++r)
      out[i * rank + r] = values[module.b + r * module.out + i];
  }
  return out;
}

/// As `expect_near`; the tolerance is relative to the largest value, where that is above 1.
void expect_near_relative(element expected,
                          std::string_view name,
                          std::span<const float> ours,
                          float tolerance) {
  if (const auto theirs = member(expected, name))
    expect_near(expected, name, ours, tolerance * std::max(1.0F, largest(numbers<float>(*theirs))));
}

/// Compares all factors; a tolerance below 0 is one relative to the largest value of the tensor.
void expect_factors(const LoraLayout& layout,
                    std::span<const float> values,
                    const Tensors& expected,
                    const std::string& prefix,
                    float tolerance) {
  const std::string begin = prefix + "base_model.model.";
  EXPECT_EQ(expected.count(begin), 2 * layout.modules().size()) << prefix;
  for (const auto& module : layout.modules()) {
    for (const bool is_a : {true, false}) {
      const std::string key = begin + module.name + (is_a ? ".lora_A" : ".lora_B") + ".weight";
      const auto theirs = expected.floats(key);
      const float allowed = tolerance < 0 ? -tolerance * largest(theirs) : tolerance;
      EXPECT_LE(largest_difference(factor(layout, module, values, is_a), theirs), allowed) << key;
    }
  }
}

/// Of the logits of one adapter, or of none, for every datum.
void compare_logits(Golden& golden,
                    const Tensors& expected,
                    const Adapter* adapter,
                    const std::string& prefix) {
  if (!expected.has_some(prefix + ".logits.")) return;
  const std::size_t vocabulary = golden.model->config().vocab_size;
  const Json batch(golden.folder / "batch.json");
  std::size_t i = 0;
  for (const element item : (*batch).get_array()) {
    const auto ours =
        distributions(golden.trainer, vocabulary, adapter, numbers<std::int32_t>(item["tokens"]));
    const std::string number = std::to_string(i++);
    SCOPED_TRACE(prefix + " datum " + number);
    auto theirs = expected.floats(prefix + ".logits." + number);
    ASSERT_EQ(theirs.size(), ours.size() * vocabulary);
    // Logits are known up to their common offset.
    for (std::size_t row = 0; row < ours.size(); ++row) {
      const auto logits = std::span(theirs).subspan(row * vocabulary, vocabulary);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
      EXPECT_LE(largest_difference(ours[row], logits), kLogitTolerance) << "row " << row;
    }
    const std::string logprobs = prefix + ".logprobs." + number;
    if (!expected.contains(logprobs)) continue;
    std::vector<float> of_targets;
    const auto targets = numbers<std::size_t>(item["target_tokens"]);
    for (std::size_t row = 0; row < ours.size(); ++row)
      of_targets.push_back(ours[row].at(targets.at(row)));
    EXPECT_LE(largest_difference(of_targets, expected.floats(logprobs)), kLogitTolerance);
  }
}

TEST(engine_golden, logits) {
  for_goldens({"batch.json", "logits.safetensors"}, [](Golden& golden) {
    const Tensors expected(golden.folder / "logits.safetensors");
    compare_logits(golden, expected, nullptr, "base");
    for (const std::string kind : {"lora", "lora_unembed"}) {
      const auto adapter = golden.adapter(kind);
      if (adapter) compare_logits(golden, expected, adapter.get(), kind);
    }
  });
}

/// What a loss of an adapter gave, against what the goldens say of it.
void compare_pass(Golden& golden, const Pass& pass, element expected) {
  std::size_t i = 0;
  for (const element datum : expected["datums"].get_array()) {
    ASSERT_LT(i, pass.logprobs.size());
    SCOPED_TRACE("datum " + std::to_string(i));
    expect_near(datum, "logprobs", pass.logprobs[i], kLogitTolerance);
    expect_near_relative(datum, "dloss_dlogprob", pass.derivatives[i], kGradientTolerance);
    expect_near_relative(datum, "elementwise_loss", pass.elementwise[i], kGradientTolerance);
    ++i;
  }
  EXPECT_EQ(i, pass.logprobs.size());
  expect_loss(pass, expected["loss_sum"].get_double());
  if (const auto norm = member(expected, "grad_l2")) {
    EXPECT_NEAR(
        norm_of(golden.model->kernels(), golden.threads, pass.gradients.span()).run().value(),
        norm->get_double().value(),
        static_cast<double>(kGradientTolerance) * norm->get_double().value());
  }
}

TEST(engine_golden, losses_and_gradients) {
  for_goldens({"batch.json"}, [](Golden& golden) {
    for (const std::string kind : {"lora", "lora_unembed"}) {
      const auto losses_file = golden.folder / ("losses_" + kind + ".json");
      const auto gradients_file = golden.folder / ("gradients_" + kind + ".safetensors");
      const auto adapter = golden.adapter(kind);
      if (!adapter || !has(losses_file)) continue;
      std::optional<Tensors> gradients;
      if (has(gradients_file)) gradients.emplace(gradients_file);
      const Json losses(losses_file);
      for (const auto [key, expected] : (*losses).get_object()) {
        const std::string name(key);
        SCOPED_TRACE(kind + " " + name);
        if (!loss_named(name)) {
          ADD_FAILURE() << "no loss is called " << name;
          continue;
        }
        const auto pass = run(golden, *adapter, name, config_of(expected));
        compare_pass(golden, pass, expected);
        if (!gradients || !gradients->has_some(name + "/")) continue;
        expect_factors(
            adapter->layout(), pass.gradients.span(), *gradients, name + "/", -kGradientTolerance);
      }
    }
  });
}

AdamParams adam_params_of(element given) {
  constexpr std::array<std::pair<std::string_view, double AdamParams::*>, 6> kFields = {
      {{"learning_rate", &AdamParams::learning_rate},
       {"beta1", &AdamParams::beta1},
       {"beta2", &AdamParams::beta2},
       {"eps", &AdamParams::eps},
       {"weight_decay", &AdamParams::weight_decay},
       {"grad_clip_norm", &AdamParams::grad_clip_norm}}};
  AdamParams out;
  for (const auto& [name, field] : kFields) {
    if (const auto value = member(given, name)) out.*field = value->get_double().value();
  }
  return out;
}

/// The steps of one variant in adam.json, and where they lead.
void compare_adam(Golden& golden,
                  std::shared_ptr<const Adapter> adapter,
                  const std::string& name,
                  element variant,
                  const Tensors* tensors) {
  const auto params = adam_params_of(variant["adam_params"]);
  const auto losses = numbers<double>(variant["loss_sum"]);
  const auto norms = member(variant, "unclipped_grad_l2");
  const auto expected_norms = norms ? numbers<double>(*norms) : std::vector<double>();
  AdamState state;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE("after " + std::to_string(i) + " steps");
    const auto pass = run(golden, *adapter, "cross_entropy", {});
    expect_loss(pass, losses[i]);
    const auto step =
        adam_step(*golden.model, golden.threads, *adapter, pass.gradients.span(), params, state)
            .run()
            .value();
    adapter = step.adapter;
    if (!norms) continue;
    EXPECT_NEAR(step.gradient_norm,
                expected_norms.at(i),
                static_cast<double>(kGradientTolerance) * expected_norms.at(i));
  }
  EXPECT_EQ(state.step, static_cast<std::int64_t>(losses.size()));
  if (const auto after = member(variant, "loss_sum_after"))
    expect_loss(run(golden, *adapter, "cross_entropy", {}), after->get_double());
  if (tensors == nullptr || !tensors->has_some(name + "/")) return;
  const auto& layout = adapter->layout();
  expect_factors(layout, adapter->values(), *tensors, name + "/", kParameterTolerance);
  if (!tensors->has_some(name + "/m.")) return;
  expect_factors(layout, state.m.span(), *tensors, name + "/m.", -kGradientTolerance);
  expect_factors(layout, state.v.span(), *tensors, name + "/v.", -kGradientTolerance);
}

TEST(engine_golden, twenty_steps_of_adam) {
  for_goldens({"batch.json", "adam.json"}, [](Golden& golden) {
    const auto adapter = golden.adapter("lora");
    if (!adapter) return;
    const auto file = golden.folder / "adam.safetensors";
    std::optional<Tensors> tensors;
    if (has(file)) tensors.emplace(file);
    const Json expected(golden.folder / "adam.json");
    for (const auto [key, variant] : (*expected).get_object()) {
      SCOPED_TRACE(key);
      compare_adam(golden, adapter, std::string(key), variant, tensors ? &*tensors : nullptr);
    }
  });
}

}  // namespace
}  // namespace tinker::engine::engine_golden_test
