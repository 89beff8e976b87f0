// What Hugging Face's libraries compute, within the tolerances that come with it. Every sub-folder
// of $TINKER_ENGINE_GOLDENS is read.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/losses.h"
#include "engine/optimizer.h"
#include "engine/peft.h"
#include "engine/sampler.h"
#include "engine/trainer.h"
#include "formats/mapped_file.h"
#include "formats/safetensors.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/distributions.h"
#include "unit/engine/goldens.h"

namespace tinker::engine {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

std::vector<fs::path> folders() {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(goldens(), none)) {
    if (entry.is_directory()) out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

/// Tensors of a file, as floats.
class Tensors {
 public:
  explicit Tensors(const fs::path& path)
      : file_(formats::MappedFile::open(path).value()),
        parsed_(formats::Safetensors::parse(file_.bytes()).value()) {}
  [[nodiscard]] const formats::Safetensors& operator*() const { return parsed_; }
  [[nodiscard]] std::vector<float> floats(const std::string& name) const {
    const auto* tensor = parsed_.find(name);
    if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
    std::vector<float> out(tensor->data.size() / sizeof(float));
    std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
    return out;
  }

 private:
  formats::MappedFile file_;
  formats::Safetensors parsed_;
};

/// One folder, on one path of kernels.
struct Golden {
  Golden(const fs::path& from, CpuPath path)
      : folder(from),
        threads(2),
        model(Model::load(ModelFiles::open(from / "model").value(),
                          kernels_of(path, Precision::f32),
                          threads)
                  .value()),
        trainer(model, threads, {.micro_batch_tokens = 40}),
        batch(from / "batch.json") {}

  std::shared_ptr<const Adapter> adapter(bool with_head) {
    const LoraShape config = {.rank = 4, .alpha = 32, .train_unembed = with_head};
    const auto layout = LoraLayout::create(model->config(), config).value();
    const Tensors tensors(with_head ? folder / "adapter_unembed.safetensors"
                                    : folder / "adapter" / "adapter_model.safetensors");
    return Adapter::with_values(
        *model, layout, read_peft_tensors(*tensors, *layout).value(), threads);
  }

  /// As the loss named `name` in the goldens wants them.
  [[nodiscard]] std::vector<Datum> data(const std::string& name) const {
    std::vector<Datum> out;
    for (const element item : (*batch).get_array()) {
      Datum datum = {.model_input = ModelInput::from_tokens(numbers<std::int32_t>(item["tokens"]))};
      auto& inputs = datum.loss_fn_inputs;
      const auto n = static_cast<std::int64_t>(numbers<int>(item["tokens"]).size());
      if (name == "cross_entropy_topk") {
        auto targets = numbers<std::int64_t>(item["topk_target_tokens"]);
        auto weights = numbers<float>(item["topk_weights"]);
        const TensorData::Shape shape = {n, static_cast<std::int64_t>(targets.size()) / n};
        inputs["target_tokens"] = TensorData(Buffer<std::int64_t>(std::move(targets)), shape);
        inputs["weights"] = TensorData(Buffer<float>(std::move(weights)), shape);
      } else {
        inputs["target_tokens"] = numbers<std::int64_t>(item["target_tokens"]);
        if (name == "cross_entropy") {
          inputs["weights"] = numbers<float>(item["weights"]);
        } else {
          inputs["logprobs"] = numbers<float>(item["logprobs"]);
          inputs["advantages"] = numbers<float>(item["advantages"]);
        }
      }
      out.push_back(std::move(datum));
    }
    return out;
  }

  fs::path folder;
  ThreadPool threads;
  std::shared_ptr<const Model> model;
  Trainer trainer;
  Json batch;
};

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
  const std::map<std::string, LossFn> kinds = {{"cross_entropy", LossFn::cross_entropy},
                                               {"cross_entropy_topk", LossFn::cross_entropy},
                                               {"importance_sampling", LossFn::importance_sampling},
                                               {"ppo", LossFn::ppo},
                                               {"cispo", LossFn::cispo},
                                               {"cispo_tight", LossFn::cispo},
                                               {"dro", LossFn::dro}};
  const auto loss = TokenLoss::create(kinds.at(name), config).value();
  std::vector<TokenLoss::Inputs> inputs;
  std::vector<ScoredSequence> sequences;
  for (const auto& datum : golden.data(name)) {
    inputs.push_back(loss.read(datum).value());
    sequences.push_back(inputs.back().sequence);
  }
  Pass out;
  out.gradients = Floats(adapter.layout().parameters());
  const auto done = golden.trainer.forward_backward(
      adapter,
      sequences,
      [&](std::size_t i,
          std::span<const float> logprobs,
          std::span<float> derivatives) -> Result<void> {
        std::vector<float> elementwise(inputs[i].sequence.tokens.size());
        out.loss += loss.evaluate(inputs[i], logprobs, elementwise, derivatives);
        out.logprobs.emplace_back(logprobs.begin(), logprobs.end());
        out.elementwise.push_back(elementwise);
        out.derivatives.emplace_back(derivatives.begin(), derivatives.end());
        return {};
      },
      out.gradients.span());
  EXPECT_THAT(done, testing::IsOk());
  return out;
}

float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float out = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= out)) out = difference;
  }
  return out;
}
float largest(std::span<const float> a) {
  float out = 0;
  for (const float x : a) out = std::max(out, std::abs(x));
  return out;
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

/// Compares all factors; a tolerance below 0 is one relative to the largest value of the tensor.
void expect_factors(const LoraLayout& layout,
                    std::span<const float> values,
                    const Tensors& expected,
                    const std::string& prefix,
                    float tolerance) {
  for (const auto& module : layout.modules()) {
    for (const bool is_a : {true, false}) {
      const std::string key =
          prefix + "base_model.model." + module.name + (is_a ? ".lora_A" : ".lora_B") + ".weight";
      const auto theirs = expected.floats(key);
      const float allowed = tolerance < 0 ? -tolerance * largest(theirs) : tolerance;
      EXPECT_LE(largest_difference(factor(layout, module, values, is_a), theirs), allowed) << key;
    }
  }
}

/// Runs `body` for every folder on every path of kernels.
template <typename F>
void for_goldens(F body) {
  const auto found = folders();
  if (found.empty()) GTEST_SKIP() << "no goldens in " << goldens();
  for (const auto& folder : found) {
    for (const auto path : cpu_paths()) {
      SCOPED_TRACE(folder.filename().string() + " on " + std::string(to_string(path)));
      Golden golden(folder, path);
      body(golden);
    }
  }
}

TEST(engine_golden, logits) {
  for_goldens([](Golden& golden) {
    const Tensors expected(golden.folder / "logits.safetensors");
    const std::size_t vocabulary = golden.model->config().vocab_size;
    const auto compare = [&](const Adapter* adapter, const std::string& prefix) {
      std::size_t i = 0;
      for (const element item : (*golden.batch).get_array()) {
        const auto ours = distributions(
            golden.trainer, vocabulary, adapter, numbers<std::int32_t>(item["tokens"]));
        auto theirs = expected.floats(prefix + ".logits." + std::to_string(i));
        ASSERT_EQ(theirs.size(), ours.size() * vocabulary);
        // Logits are known up to their common offset.
        for (std::size_t row = 0; row < ours.size(); ++row) {
          const auto logits = std::span(theirs).subspan(row * vocabulary, vocabulary);
          double sum = 0;
          for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
          for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
          EXPECT_LE(largest_difference(ours[row], logits), 5e-5F)
              << prefix << " datum " << i << " row " << row;
        }
        ++i;
      }
    };
    compare(nullptr, "base");
    compare(golden.adapter(false).get(), "lora");
    compare(golden.adapter(true).get(), "lora_unembed");
  });
}

TEST(engine_golden, losses_and_gradients) {
  for_goldens([](Golden& golden) {
    for (const bool with_head : {false, true}) {
      const std::string suffix = with_head ? "lora_unembed" : "lora";
      const auto adapter = golden.adapter(with_head);
      const Json losses(golden.folder / ("losses_" + suffix + ".json"));
      const Tensors gradients(golden.folder / ("gradients_" + suffix + ".safetensors"));
      for (const auto [key, expected] : (*losses).get_object()) {
        const std::string name(key);
        SCOPED_TRACE(suffix + " " + name);
        LossFnConfig config;
        for (const auto [setting, value] : expected["config"].get_object()) {
          config[std::string(setting)] = value.get_double().value();
        }
        const auto pass = run(golden, *adapter, name, config);
        const double loss = expected["loss_sum"].get_double();
        double terms = 0;  // without their signs, which may cancel
        std::size_t i = 0;
        for (const element datum : expected["datums"].get_array()) {
          EXPECT_LE(largest_difference(pass.logprobs[i], numbers<float>(datum["logprobs"])), 5e-5F);
          const auto derivatives = numbers<float>(datum["dloss_dlogprob"]);
          EXPECT_LE(largest_difference(pass.derivatives[i], derivatives),
                    1e-4F * std::max(1.0F, largest(derivatives)));
          const auto elementwise = numbers<float>(datum["elementwise_loss"]);
          EXPECT_LE(largest_difference(pass.elementwise[i], elementwise),
                    1e-4F * std::max(1.0F, largest(elementwise)));
          for (const float term : elementwise) terms += std::abs(static_cast<double>(term));
          ++i;
        }
        EXPECT_EQ(i, pass.logprobs.size());
        EXPECT_NEAR(pass.loss, loss, 1e-5 * terms);
        const double norm = expected["grad_l2"].get_double();
        EXPECT_NEAR(norm_of(golden.model->kernels(), golden.threads, pass.gradients.span()),
                    norm,
                    1e-4 * norm);
        expect_factors(adapter->layout(), pass.gradients.span(), gradients, name + "/", -1e-4F);
      }
    }
  });
}

TEST(engine_golden, twenty_steps_of_adam) {
  for_goldens([](Golden& golden) {
    const Json expected(golden.folder / "adam.json");
    const Tensors tensors(golden.folder / "adam.safetensors");
    for (const auto [key, variant] : (*expected).get_object()) {
      const std::string name(key);
      SCOPED_TRACE(name);
      const element given = variant["adam_params"];
      const AdamParams params = {.learning_rate = given["learning_rate"].get_double().value(),
                                 .beta1 = given["beta1"].get_double().value(),
                                 .beta2 = given["beta2"].get_double().value(),
                                 .eps = given["eps"].get_double().value(),
                                 .weight_decay = given["weight_decay"].get_double().value(),
                                 .grad_clip_norm = given["grad_clip_norm"].get_double().value()};
      const auto losses = numbers<double>(variant["loss_sum"]);
      auto adapter = golden.adapter(false);
      AdamState state;
      for (const double loss : losses) {
        const auto pass = run(golden, *adapter, "cross_entropy", {});
        EXPECT_NEAR(pass.loss, loss, 1e-5 * std::abs(loss)) << "step " << state.step + 1;
        adapter =
            adam_step(*golden.model, golden.threads, *adapter, pass.gradients.span(), params, state)
                .value()
                .adapter;
      }
      EXPECT_EQ(state.step, static_cast<std::int64_t>(losses.size()));
      expect_factors(adapter->layout(), adapter->values(), tensors, name + "/", 2e-5F);
    }
  });
}

/// The tokens after a prompt, the most likely ones, and their logprobs.
SampledSequence greedy(const std::shared_ptr<const Model>& model,
                       ThreadPool& threads,
                       const std::shared_ptr<const Adapter>& adapter,
                       std::vector<std::int32_t> prompt,
                       std::size_t count) {
  Sampler sampler(model, threads, {});
  SampleJob job = {.adapter = adapter};
  job.request.prompt = ModelInput::from_tokens(std::move(prompt));
  job.request.sampling_params = {.max_tokens = static_cast<std::int64_t>(count),
                                 .stop = std::vector<std::int32_t>(),
                                 .temperature = 0};
  SampledSequence out;
  const auto id = sampler.submit(std::move(job), [&](Result<SampleResponse> response) {
    out = response.value().sequences.at(0);
  });
  EXPECT_THAT(id, testing::IsOk());
  while (sampler.step()) {
  }
  return out;
}

TEST(engine_golden, greedy_texts) {
  for_goldens([](Golden& golden) {
    const Json summary(golden.folder / "summary.json");
    for (const bool with_adapter : {false, true}) {
      const element expected = (*summary)[with_adapter ? "greedy_lora" : "greedy_base"];
      const auto tokens = numbers<std::int32_t>(expected["tokens"]);
      const auto adapter = with_adapter ? golden.adapter(false) : nullptr;
      const auto sampled = greedy(golden.model,
                                  golden.threads,
                                  adapter,
                                  numbers<std::int32_t>(expected["prompt"]),
                                  tokens.size());
      EXPECT_EQ(sampled.tokens, tokens);
      EXPECT_LE(largest_difference(sampled.logprobs, numbers<float>(expected["logprobs"])), 5e-5F);
    }
  });
}

TEST(engine_golden, smollm2) {
  const char* const file = std::getenv("TINKER_SMOLLM2");
  const auto path = goldens() / "smollm2.json";
  if (file == nullptr || !fs::exists(path)) {
    GTEST_SKIP() << "needs " << path << " and the model's .gguf, named by TINKER_SMOLLM2";
  }
  ThreadPool threads(2);
  const auto model =
      Model::load(
          ModelFiles::open(file).value(), kernels_of(cpu_paths().back(), Precision::f32), threads)
          .value();
  const Json expected(path);
  for (const element text : (*expected)["greedy"].get_array()) {
    const auto tokens = numbers<std::int32_t>(text["tokens"]);
    const auto sampled =
        greedy(model, threads, nullptr, numbers<std::int32_t>(text["prompt"]), tokens.size());
    EXPECT_EQ(sampled.tokens, tokens);
    EXPECT_LE(largest_difference(sampled.logprobs, numbers<float>(text["logprobs"])), 2e-4F);
  }
}

}  // namespace
}  // namespace tinker::engine
