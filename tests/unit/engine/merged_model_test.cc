#include "engine/merged_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "engine/model_writer.h"
#include "engine/random_model.h"
#include "engine/rope_rows.h"
#include "support/gguf_file.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_config.h"

namespace tinker::merged_model_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;
using Architecture = engine::ModelConfig::Architecture;
using engine::ModelConfig;
using engine::ModelFiles;

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

ModelConfig config_of(Architecture architecture, bool tied_head) {
  auto out = engine::small_config(architecture);
  out.vocab_size = 101;
  out.hidden_size = 20;
  out.tied_head = tied_head;
  return out;
}

Datum datum(const std::vector<std::int32_t>& text) {
  return {.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
          .loss_fn_inputs = {
              {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
}

/// A model, and what becomes of it.
class MergedModelTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const char* name) const { return folder.path(name); }
  void write(const ModelConfig& config) const {
    engine::write_random_model(path("model"), config, 3).value();
  }
  [[nodiscard]] Engine load(const char* name,
                            EnginePrecision precision = EnginePrecision::f32) const {
    return Engine::load(path(name), {.precision = precision, .threads = 2}).value();
  }
  /// An adapter that makes a difference.
  static AdapterSnapshot trained(const Engine& engine, const LoraConfig& config) {
    const auto trainer = engine.create_trainer(config).value();
    for (int i = 0; i < 4; ++i) {
      trainer.forward_backward(std::vector{datum({1, 5, 9, 17, 33})}, LossFn::cross_entropy)
          .value();
      trainer.optim_step({.learning_rate = 0.02}).value();
    }
    return trainer.snapshot().value();
  }
  static std::vector<float> logprobs(const Engine& engine, const AdapterSnapshot& from) {
    const auto prompt = ModelInput::from_tokens({1, 5, 9, 17, 33, 2, 3, 4});
    const SampleOptions options = {.include_prompt_logprobs = true};
    const auto answer = engine.sample(prompt, {.max_tokens = 1, .seed = 1}, from, options);
    const auto& out = answer.value().prompt_logprobs;
    return {out.begin() + 1, out.end()};
  }
  static float difference(const std::vector<float>& x, const std::vector<float>& y) {
    float out = 0;
    for (std::size_t i = 0; i < x.size(); ++i) out = std::max(out, std::abs(x[i] - y[i]));
    return out;
  }
  /// The model as a GGUF file, with the rows of Llama as llama.cpp has them.
  void write_gguf(const ModelConfig& config) const;

  testing::TemporaryFolder folder;
};

void MergedModelTest::write_gguf(const ModelConfig& config) const {
  const std::string name(to_string(config.architecture));
  GgufFile file;
  const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  file.add("general.architecture", name);
  file.add(name + ".embedding_length", number(config.hidden_size));
  file.add(name + ".feed_forward_length", number(config.ffn_size));
  file.add(name + ".block_count", number(config.layers));
  file.add(name + ".context_length", number(config.context_length));
  file.add(name + ".attention.head_count", number(config.heads));
  file.add(name + ".attention.head_count_kv", number(config.kv_heads));
  file.add(name + ".attention.key_length", number(config.head_dim));
  std::string eps;
  GgufFile::put_number(eps, config.rms_eps);
  file.add_raw(name + ".attention.layer_norm_rms_epsilon", 6, eps);
  const auto files = ModelFiles::open(path("model")).value();
  std::string data;
  const auto add = [&](const std::string& to, const std::string& from, const auto& shape) {
    const auto tensor = files.tensor(from, shape.rows, shape.cols).value();
    const bool turns = config.architecture == Architecture::llama &&
                       (to.ends_with("attn_q.weight") || to.ends_with("attn_k.weight"));
    data.resize((data.size() + 31) / 32 * 32);
    file.add_tensor(to, {shape.cols, shape.rows}, 0, data.size());
    const std::size_t begin = data.size();
    data.resize(begin + shape.rows * shape.cols * sizeof(float));
    std::vector<float> row(shape.cols);
    for (std::size_t i = 0; i < shape.rows; ++i) {
      tensor.read_row(i, row);
      const std::size_t at = turns ? engine::side_by_side_row(i, config.head_dim) : i;
      std::memcpy(data.data() + begin + at * row.size() * sizeof(float),
                  row.data(),
                  row.size() * sizeof(float));
    }
  };
  const std::vector<std::pair<std::string, std::string>> names = {
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"post_attention_layernorm", "ffn_norm"},
      {"input_layernorm", "attn_norm"},
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."}};
  for (const auto& shape : tensors_of(config)) {
    auto to = shape.name;
    for (const auto& [from, with] : names) {
      if (const auto at = to.find(from); at != std::string::npos) to.replace(at, from.size(), with);
    }
    add(to, shape.name, shape);
  }
  folder.write("model.gguf", file.bytes(data));
}

// Rounding differs, nothing else: W x + B (A x) here, (W + B A) x there.
constexpr float kTolerance = 2e-5F;

TEST_F(MergedModelTest, ComputesWhatBaseAndAdapterDo) {
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    for (const bool is_tied : {true, false}) {
      for (const bool with_head : {true, false}) {
        write(config_of(architecture, is_tied));
        const auto base = load("model");
        const auto adapter = trained(base, {.rank = 3, .seed = 1, .train_unembed = with_head});
        base.export_merged(adapter, path("merged")).value();

        const auto merged = load("merged");

        const auto expected = logprobs(base, adapter);
        EXPECT_LT(difference(logprobs(merged, {}), expected), kTolerance);
        EXPECT_GT(difference(logprobs(base, {}), expected), 0.1F);
        EXPECT_EQ(ModelFiles::open(path("merged"))->config().tied_head, is_tied && !with_head);
        fs::remove_all(path("merged"));
      }
    }
  }
}

TEST_F(MergedModelTest, OfAGgufFileIsThatOfItsModel) {
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    const auto config = config_of(architecture, architecture == Architecture::qwen2);
    write(config);
    write_gguf(config);
    const auto of_folder = load("model");
    const auto of_file = load("model.gguf");
    const LoraConfig lora = {.rank = 3, .seed = 1};

    of_folder.export_merged(trained(of_folder, lora), path("expected")).value();
    of_file.export_merged(trained(of_file, lora), path("merged")).value();

    EXPECT_TRUE(folder.read("merged/model.safetensors") ==
                folder.read("expected/model.safetensors"));
    fs::remove_all(path("expected"));
    fs::remove_all(path("merged"));
  }
}

TEST_F(MergedModelTest, WithoutAnAdapterIsTheBase) {
  write(config_of(Architecture::qwen3, true));

  load("model").export_merged({}, path("copy")).value();

  EXPECT_TRUE(folder.read("copy/model.safetensors") == folder.read("model/model.safetensors"));
  EXPECT_EQ(folder.read("copy/config.json"), folder.read("model/config.json"));
}

TEST_F(MergedModelTest, IsMadeOfTheOriginalWeights) {
  write(config_of(Architecture::llama, false));
  const auto rounded = load("model", EnginePrecision::bf16);

  rounded.export_merged({}, path("f32"), {.precision = EnginePrecision::f32}).value();
  rounded.export_merged({}, path("default")).value();

  // Not of those that the engine computes with.
  EXPECT_TRUE(folder.read("f32/model.safetensors") == folder.read("model/model.safetensors"));
  EXPECT_THAT(folder.read("default/config.json"), HasSubstr("\"torch_dtype\": \"bfloat16\""));
  const auto exact = ModelFiles::open(path("model")).value();
  const auto bf16 = ModelFiles::open(path("default")).value();
  std::vector<float> expected(20);
  std::vector<float> found(20);
  exact.tensor("lm_head.weight", 101, 20)->read_row(7, expected);
  bf16.tensor("lm_head.weight", 101, 20)->read_row(7, found);
  for (float& value : expected) value = base::from_bf16(base::to_bf16(value));
  EXPECT_EQ(found, expected);
}

TEST_F(MergedModelTest, HasTheTokenizerOfTheBase) {
  write(config_of(Architecture::llama, true));
  folder.write("model/tokenizer.json", "{}");
  folder.write("model/chat_template.jinja", "hello");
  folder.write("model/notes.txt", "mine");
  const auto engine = load("model");

  engine.export_merged({}, path("merged")).value();

  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path("merged")))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names,
              UnorderedElementsAre(
                  "config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"));
  EXPECT_EQ(folder.read("merged/chat_template.jinja"), "hello");
}

TEST_F(MergedModelTest, IsRefusedWhereSomethingIs) {
  write(config_of(Architecture::llama, true));
  const auto engine = load("model");

  EXPECT_THAT(engine.export_merged({}, path("model")),
              invalid("model is there and not empty; it is not replaced"));
  fs::create_directory(path("empty"));
  engine.export_merged({}, path("empty")).value();
  EXPECT_TRUE(fs::exists(path("empty/config.json")));
}

TEST_F(MergedModelTest, IsRefusedForTheAdapterOfAnotherModel) {
  write(config_of(Architecture::llama, true));
  const auto engine = load("model");
  auto other = config_of(Architecture::llama, true);
  other.ffn_size = 22;
  engine::write_random_model(path("other"), other, 3).value();
  const auto adapter = trained(load("other"), {.rank = 3});

  EXPECT_THAT(engine.export_merged(adapter, path("merged")),
              invalid("the adapter is that of another model"));
  EXPECT_FALSE(fs::exists(path("merged")));
}

TEST_F(MergedModelTest, IsRefusedIfTheBaseIsNoLongerThere) {
  write(config_of(Architecture::llama, true));
  const auto engine = load("model");
  write(config_of(Architecture::qwen2, true));

  EXPECT_THAT(engine.export_merged({}, path("merged")),
              invalid("model is no longer the model that was loaded"));
  fs::remove_all(path("model"));
  EXPECT_THAT(engine.export_merged({}, path("merged")), invalid("model: No such file"));
}

// ---- factors of GGUF files

ModelConfig config_of_llama_3_2() {
  return {.vocab_size = 128'256,
          .hidden_size = 2048,
          .ffn_size = 8192,
          .layers = 16,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 64,
          .context_length = 131'072,
          .rms_eps = 1e-5F,
          .rope_theta = 500'000};
}

TEST(InWordsOfConfigJson, FactorsAreTheScalingThatTheyCameFrom) {
  auto config = config_of_llama_3_2();
  config.rope_factors.assign(32, 32.0F);
  std::fill_n(config.rope_factors.begin(), 15, 1.0F);
  config.rope_factors[15] = 1.65132925F;
  config.rope_factors[16] = 3.2922621F;
  config.rope_factors[17] = 9.66672898F;
  auto expected = config_of_llama_3_2();
  expected.rope_scaling = engine::Llama3RopeScaling{.factor = 32};

  EXPECT_EQ(engine::in_words_of_config_json(config).value(), expected);
  EXPECT_EQ(engine::in_words_of_config_json(expected).value(), expected);
  config.rope_factors[16] = 3.3F;
  EXPECT_THAT(engine::in_words_of_config_json(config), invalid("rope factor 16 is 3.29"));
}

}  // namespace
}  // namespace tinker::merged_model_test
