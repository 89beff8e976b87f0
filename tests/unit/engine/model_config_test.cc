#include "engine/model_config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/gguf_file.h"
#include "tinker/testing/matchers.h"

namespace tinker::engine::model_config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using Architecture = ModelConfig::Architecture;

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

/// A small Llama with other members.
Result<ModelConfig> read_with(const std::string& members, const std::string& type = "llama") {
  return read_model_config(
      R"({"model_type":")" + type +
      R"(","vocab_size":259,"hidden_size":48,"intermediate_size":80,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"eos_token_id":2)" +
      members + "}");
}

TEST(ModelConfig, HasTheDefaultsOfLlama) {
  const auto config = read_model_config(R"({"model_type":"llama"})").value();

  EXPECT_EQ(config,
            (ModelConfig{.architecture = Architecture::llama,
                         .vocab_size = 32'000,
                         .hidden_size = 4096,
                         .ffn_size = 11'008,
                         .layers = 32,
                         .heads = 32,
                         .kv_heads = 32,
                         .head_dim = 128,
                         .context_length = 2048,
                         .rms_eps = 1e-6F,
                         .rope_theta = 10'000,
                         .tied_head = false,
                         .eos_ids = {2},
                         .bos_id = 1}));
  EXPECT_FALSE(config.has_qkv_bias());
  EXPECT_FALSE(config.has_qk_norm());
}

TEST(ModelConfig, HasTheDefaultsOfQwen) {
  ModelConfig expected = {.architecture = Architecture::qwen2,
                          .vocab_size = 151'936,
                          .hidden_size = 4096,
                          .ffn_size = 22'016,
                          .layers = 32,
                          .heads = 32,
                          .kv_heads = 32,
                          .head_dim = 128,
                          .context_length = 32'768};

  const auto qwen2 = read_model_config(R"({"model_type":"qwen2"})").value();
  const auto qwen3 = read_model_config(R"({"model_type":"qwen3"})").value();

  EXPECT_EQ(qwen2, expected);
  EXPECT_TRUE(qwen2.has_qkv_bias());
  expected.architecture = Architecture::qwen3;
  EXPECT_EQ(qwen3, expected);
  EXPECT_TRUE(qwen3.has_qk_norm());
}

TEST(ModelConfig, DerivesTheSizeOfHeadsUnlessItIsQwen3) {
  EXPECT_EQ(read_with("").value().head_dim, 12);
  EXPECT_EQ(read_with(R"(,"head_dim":null)").value().head_dim, 12);
  EXPECT_EQ(read_with(R"(,"head_dim":16)").value().head_dim, 16);
  EXPECT_EQ(read_with("", "qwen2").value().head_dim, 12);
  EXPECT_EQ(read_with("", "qwen3").value().head_dim, 128);
}

TEST(ModelConfig, ReadsRopeOfBothStyles) {
  const std::string members =
      R"("factor":8,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":32)";
  const Llama3RopeScaling expected = {.factor = 8, .original_context = 32};

  const auto old_style =
      read_with(R"(,"rope_theta":5e5,"rope_scaling":{"type":"llama3",)" + members + "}").value();
  const auto new_style =
      read_with(R"(,"rope_parameters":{"rope_type":"llama3","rope_theta":5e5,)" + members + "}")
          .value();
  const auto plain = read_with(R"(,"rope_parameters":{"rope_type":"default","rope_theta":7})");

  EXPECT_EQ(old_style.rope_theta, 5e5);
  EXPECT_THAT(old_style.rope_scaling, Optional(expected));
  EXPECT_EQ(new_style, old_style);
  EXPECT_EQ(plain.value().rope_theta, 7);
  EXPECT_FALSE(plain.value().rope_scaling);
}

TEST(ModelConfig, ReadsWhatEndsAnAnswer) {
  EXPECT_THAT(read_with("").value().eos_ids, ElementsAre(2));
  EXPECT_THAT(read_model_config(R"({"model_type":"llama","eos_token_id":[5,6]})").value().eos_ids,
              ElementsAre(5, 6));
  EXPECT_THAT(read_model_config(R"({"model_type":"llama","eos_token_id":null,"bos_token_id":null})")
                  .value(),
              AllOf(Field(&ModelConfig::eos_ids, IsEmpty()),
                    Field(&ModelConfig::bos_id, ::testing::Eq(std::nullopt))));
}

TEST(ModelConfig, TheGenerationConfigWins) {
  const std::string config = R"({"model_type":"llama","eos_token_id":5})";

  EXPECT_THAT(read_model_config(config, R"({"eos_token_id":[8,9]})").value().eos_ids,
              ElementsAre(8, 9));
  EXPECT_THAT(read_model_config(config, R"({"eos_token_id":null})").value().eos_ids,
              ElementsAre(5));
  EXPECT_THAT(read_model_config(config, R"({"eos_token_id":-1})"), invalid("'eos_token_id' is -1"));
  EXPECT_THAT(read_model_config(config, "["), invalid("JSON"));
}

TEST(ModelConfig, RefusesWhatIsNotSupported) {
  const auto refused = [](const char* members, const char* what, const char* type = "llama") {
    EXPECT_THAT(read_with(members, type), invalid(what));
  };

  refused("", "'model_type' is gemma3, which is not supported", "gemma3");
  refused(R"(,"hidden_act":"gelu")", "'hidden_act' is gelu");
  refused(R"(,"attention_bias":true)", "'attention_bias' is true");
  refused(R"(,"attention_bias":true)", "'attention_bias' is true", "qwen3");
  refused(R"(,"mlp_bias":true)", "'mlp_bias' is true");
  refused(R"(,"quantization_config":{})", "'quantization_config' is there");
  refused(R"(,"partial_rotary_factor":0.5)", "'partial_rotary_factor' is 0.5");
  refused(R"(,"rope_parameters":{"partial_rotary_factor":0.5})", "'partial_rotary_factor' is 0.5");
  refused(R"(,"rope_scaling":{"type":"yarn"})", "'rope_type' is yarn");
  refused(R"(,"rope_parameters":{"rope_type":"linear"})", "'rope_type' is linear");
  refused(R"(,"use_sliding_window":true,"max_window_layers":1)", "'use_sliding_window' is true");
  refused(R"(,"layer_types":["full_attention","sliding_attention"])",
          R"('layer_types' is "sliding_attention")");
  EXPECT_THAT(read_with(R"(,"attention_bias":true)", "qwen2"), IsOk());
  EXPECT_THAT(read_with(R"(,"use_sliding_window":true,"max_window_layers":2)", "qwen2"), IsOk());
  EXPECT_THAT(
      read_with(R"(,"use_sliding_window":true,"max_window_layers":0,"sliding_window":null)"),
      IsOk());
}

TEST(ModelConfig, RefusesValuesThatCannotBe) {
  const auto refused = [](const char* config, const char* what) {
    EXPECT_THAT(read_model_config(std::string(R"({"model_type":"llama",)") + config + "}"),
                invalid(what));
  };

  refused(R"("hidden_size":0)", "'hidden_size' is 0, expected 1 to 16777216");
  refused(R"("vocab_size":-5)", "'vocab_size' is -5");
  refused(R"("intermediate_size":16777217)", "'intermediate_size' is 16777217");
  refused(R"("num_hidden_layers":5000)", "'num_hidden_layers' is 5000, expected 1 to 4096");
  refused(R"("hidden_size":"4096")", "'hidden_size' is missing or not an integer");
  refused(R"("hidden_size":100)",
          "'hidden_size' 100 is not a multiple of 'num_attention_heads' 32");
  refused(R"("num_key_value_heads":5)", "32 attention heads are no multiple of 5 kv heads");
  refused(R"("head_dim":13)", "heads of odd size 13");
  refused(R"("head_dim":1000000)", "'heads * head_dim' is 32000000");
  refused(R"("rms_norm_eps":-1)", "'rms_norm_eps' is -1");
  refused(R"("rope_theta":0)", "'rope_theta' is 0, expected a positive number");
  refused(R"("eos_token_id":32000)", "'eos_token_id' is 32000, no token of 32000");
  refused(R"("eos_token_id":[1,"a"])", R"('eos_token_id' is "a")");
  refused(R"("bos_token_id":-1)", "'bos_token_id' is -1");
  refused(R"("rope_scaling":{"type":"llama3"})", "'factor' is missing");
  refused(R"("rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})",
          "'low_freq_factor' 4 is not below");
  EXPECT_THAT(read_model_config("{"), invalid("JSON"));
  EXPECT_THAT(read_model_config("[]"), invalid("the file"));
  EXPECT_THAT(read_model_config("{}"), invalid("'model_type' is missing"));
  EXPECT_THAT(read_model_config("{}").error().context, ElementsAre("config.json"));
}

TEST(ModelConfig, ReadsBackWhatItWrote) {
  const ModelConfig full = {.architecture = Architecture::qwen3,
                            .vocab_size = 259,
                            .hidden_size = 48,
                            .ffn_size = 80,
                            .layers = 2,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 16,
                            .context_length = 256,
                            .rms_eps = 1e-5F,
                            .rope_theta = 500'000,
                            .rope_scaling = Llama3RopeScaling{.factor = 32},
                            .tied_head = true,
                            .eos_ids = {257, 258},
                            .bos_id = 256};
  auto plain = full;
  plain.architecture = Architecture::llama;
  plain.rope_scaling.reset();
  plain.eos_ids.clear();
  plain.bos_id.reset();

  EXPECT_EQ(read_model_config(to_json(full, "float32")).value(), full);
  EXPECT_EQ(read_model_config(to_json(plain, "bfloat16")).value(), plain);
}

TEST(ModelConfig, ListsItsTensors) {
  auto config = read_with(R"(,"num_key_value_heads":2,"head_dim":16)").value();
  const auto names = [&config] {
    std::vector<std::string> out;
    for (const auto& tensor : tensors_of(config)) out.push_back(tensor.name);
    return out;
  };

  EXPECT_EQ(names().size(), 1 + 2 * 9 + 2);
  EXPECT_EQ(tensors_of(config)[2].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(tensors_of(config)[2].rows, 64);
  EXPECT_EQ(tensors_of(config)[2].cols, 48);
  EXPECT_EQ(names().back(), "lm_head.weight");
  config.tied_head = true;
  EXPECT_EQ(names().back(), "model.norm.weight");
  config.architecture = Architecture::qwen2;
  EXPECT_THAT(names(), ::testing::Contains("model.layers.1.self_attn.v_proj.bias"));
  config.architecture = Architecture::qwen3;
  EXPECT_THAT(names(), ::testing::Contains("model.layers.1.self_attn.k_norm.weight"));
}

/// The metadata of a small model.
GgufFile gguf_of(const std::string& architecture) {
  GgufFile file;
  file.add("general.architecture", architecture);
  file.add(architecture + ".embedding_length", 48U);
  file.add(architecture + ".feed_forward_length", 80U);
  file.add(architecture + ".block_count", 2U);
  file.add(architecture + ".context_length", 256U);
  file.add(architecture + ".attention.head_count", 4U);
  file.add(architecture + ".attention.head_count_kv", 2U);
  file.add_raw(architecture + ".attention.layer_norm_rms_epsilon", 6, "\xac\xc5\x27\x37");
  return file;
}

Result<ModelConfig> read_gguf(const GgufFile& file, const std::string& data = {}) {
  const auto bytes = file.bytes(data);
  return read_model_config(formats::Gguf::parse(bytes).value());
}

TEST(ModelConfig, ReadsGguf) {
  auto file = gguf_of("qwen3");
  file.add("qwen3.vocab_size", 259U);
  file.add("qwen3.attention.key_length", 16U);
  file.add_raw("qwen3.rope.freq_base", 6, std::string("\0\x24\x74\x49", 4));
  file.add("tokenizer.ggml.bos_token_id", 1U);
  file.add("tokenizer.ggml.eos_token_id", 2U);
  file.add("tokenizer.ggml.eot_token_id", 2U);
  file.add("tokenizer.ggml.eom_token_id", 3U);
  file.add_tensor("output.weight", {1}, 0, 0);

  EXPECT_EQ(read_gguf(file, "1234").value(),
            (ModelConfig{.architecture = Architecture::qwen3,
                         .vocab_size = 259,
                         .hidden_size = 48,
                         .ffn_size = 80,
                         .layers = 2,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .context_length = 256,
                         .rms_eps = 1e-5F,
                         .rope_theta = 1'000'000,
                         .tied_head = false,
                         .eos_ids = {2, 3},
                         .bos_id = 1}));
}

TEST(ModelConfig, OfGgufTakesWhatTheTensorsSay) {
  auto file = gguf_of("llama");
  file.add_tensor("token_embd.weight", {48, 7}, 77, 0);
  file.add_tensor("rope_freqs.weight", {6}, 0, 0);
  const std::vector<float> factors = {1, 1, 2, 4, 8, 8};

  const auto config = read_gguf(file, {reinterpret_cast<const char*>(factors.data()), 24}).value();

  EXPECT_EQ(config.vocab_size, 7);
  EXPECT_EQ(config.head_dim, 12);
  EXPECT_EQ(config.rope_factors, factors);
  EXPECT_TRUE(config.tied_head);
  EXPECT_THAT(config.eos_ids, IsEmpty());
}

TEST(ModelConfig, OfGgufRefusesWhatItDoesNotKnow) {
  const auto refused = [](auto change, const char* what) {
    auto file = gguf_of("llama");
    file.add_tensor("token_embd.weight", {48, 7}, 77, 0);
    change(file);
    EXPECT_THAT(read_gguf(file, std::string(24, '\0')), invalid(what));
  };

  EXPECT_THAT(read_gguf(gguf_of("gemma3")), invalid("'general.architecture' is gemma3"));
  EXPECT_THAT(read_gguf(GgufFile()), invalid("'general.architecture' is missing"));
  EXPECT_THAT(read_gguf(gguf_of("llama")), invalid("'llama.vocab_size' is missing"));
  refused([](GgufFile& file) { file.add("llama.rope.scaling.type", "yarn"); },
          "'llama.rope.scaling.type' is yarn");
  refused([](GgufFile& file) { file.add("llama.expert_count", 8U); }, "'llama.expert_count' is 8");
  refused([](GgufFile& file) { file.add("llama.vocab_size", 0U); }, "'llama.vocab_size' is 0");
  refused([](GgufFile& file) { file.add("llama.vocab_size", "many"); }, "'llama.vocab_size'");
  refused([](GgufFile& file) { file.add("llama.rope.dimension_count", 6U); },
          "'llama.rope.dimension_count' is 6");
  refused([](GgufFile& file) { file.add("tokenizer.ggml.eos_token_id", 7U); },
          "'tokenizer.ggml.eos_token_id' is 7");
  refused([](GgufFile& file) { file.add_tensor("rope_freqs.weight", {5}, 0, 0); },
          "'rope_freqs.weight' of shape [5] is not 6 numbers");
  refused([](GgufFile& file) { file.add_tensor("rope_freqs.weight", {6}, 0, 0); },
          "'rope_freqs.weight' is 0, expected a positive number");
}

}  // namespace
}  // namespace tinker::engine::model_config_test
