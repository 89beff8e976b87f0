#include "engine/adapter_config.h"

#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::engine::adapter_config_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;

constexpr auto kAll =
    R"("target_modules":["v_proj","q_proj","k_proj","o_proj","up_proj","gate_proj","down_proj","lm_head"])";
constexpr auto kLora = R"("peft_type":"LORA","r":4,"lora_alpha":16,)";

Result<LoraShape> read(const std::string& members) {
  return read_adapter_config("{" + members + "}");
}

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

TEST(AdapterConfig, ReadsWhatPeftWrites) {
  // peft 0.21.2
  const auto shape = read_adapter_config(R"({
    "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null,
    "auto_mapping": null, "base_model_name_or_path": "some/model", "bias": "none",
    "corda_config": null, "ensure_weight_tying": false, "eva_config": null,
    "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
    "init_lora_weights": true, "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 32, "lora_bias": false,
    "lora_dropout": 0.0, "megatron_config": null, "megatron_core": "megatron.core",
    "modules_to_save": null, "peft_type": "LORA", "qalora_group_size": 16, "r": 4,
    "rank_pattern": {}, "revision": null, "target_modules": ["k_proj", "o_proj", "q_proj", "v_proj"],
    "target_parameters": null, "task_type": "CAUSAL_LM", "trainable_token_indices": null,
    "use_dora": false, "use_qalora": false, "use_rslora": false})");

  EXPECT_EQ(shape.value(),
            (LoraShape{.rank = 4, .alpha = 32, .train_mlp = false, .train_unembed = false}));
}

TEST(AdapterConfig, ReadsBackAsItIsWritten) {
  for (const LoraShape& shape :
       {LoraShape{},
        LoraShape{.rank = 7, .alpha = 0.1F, .train_attn = false},
        LoraShape{.rank = 1, .alpha = 1e-20F, .train_mlp = false},
        LoraShape{.rank = 4096, .alpha = 1e20F, .train_attn = false, .train_mlp = false}}) {
    EXPECT_EQ(read_adapter_config(to_json(shape, "a \"b\"\n\\")).value(), shape);
    EXPECT_EQ(read_adapter_config(to_json(shape, "\xff")).value(), shape);  // no text
  }
}

TEST(AdapterConfig, NamesTheRealModules) {
  const LoraShape attention = {.rank = 8, .train_mlp = false, .train_unembed = false};

  const auto json = to_json(attention, "some/model");

  EXPECT_THAT(json, HasSubstr(R"("target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"])"));
  EXPECT_THAT(json, HasSubstr(R"("base_model_name_or_path": "some/model")"));
  EXPECT_THAT(json, HasSubstr(R"("r": 8)"));
  EXPECT_THAT(json, HasSubstr(R"("lora_alpha": 32,)"));
}

TEST(AdapterConfig, IsRefusedForModulesThatAreNoUnionOfOurs) {
  const auto with = [](const std::string& modules) {
    return read(std::string(kLora) + R"("target_modules":)" + modules);
  };

  EXPECT_THAT(
      with(R"(["q_proj","v_proj"])"),
      invalid("'target_modules' lacks k_proj, expected all of q_proj, k_proj, v_proj, o_proj"));
  EXPECT_THAT(with(R"(["up_proj","down_proj"])"), invalid("lacks gate_proj"));
  EXPECT_THAT(with(R"(["lm_head","embed_tokens"])"), invalid(R"(is "embed_tokens")"));
  EXPECT_THAT(with(R"(["lm_head",3])"), invalid("'target_modules' is 3"));
  EXPECT_THAT(with("[]"), invalid("'target_modules' is empty"));
  EXPECT_THAT(with("null"), invalid("'target_modules' is missing or not an array"));
  EXPECT_THAT(with(R"("all-linear")"), invalid("'target_modules' is missing or not an array"));
}

TEST(AdapterConfig, IsRefusedForOtherKindsOfAdapters) {
  const auto with = [](const std::string& members) { return read(kLora + members + "," + kAll); };

  EXPECT_THAT(read(R"("peft_type":"LOHA")"), invalid("'peft_type' is LOHA"));
  EXPECT_THAT(read(R"("r":1)"), invalid("'peft_type' is missing"));
  EXPECT_THAT(with(R"("use_rslora":true)"), invalid("'use_rslora' is true"));
  EXPECT_THAT(with(R"("use_dora":true)"), invalid("'use_dora' is true"));
  EXPECT_THAT(with(R"("fan_in_fan_out":true)"), invalid("'fan_in_fan_out' is true"));
  EXPECT_THAT(with(R"("lora_bias":true)"), invalid("'lora_bias' is true"));
  EXPECT_THAT(with(R"("bias":"all")"), invalid("'bias' is all"));
  EXPECT_THAT(with(R"("rank_pattern":{"q_proj":8})"), invalid(R"('rank_pattern' is {"q_proj":8})"));
  EXPECT_THAT(with(R"("alpha_pattern":{"q_proj":8})"), invalid("'alpha_pattern'"));
  EXPECT_THAT(with(R"("modules_to_save":["lm_head"])"), invalid("'modules_to_save'"));
  EXPECT_THAT(with(R"("layers_to_transform":[0])"), invalid("'layers_to_transform' is [0]"));
  EXPECT_THAT(with(R"("exclude_modules":"x")"), invalid("'exclude_modules'"));
  EXPECT_THAT(with(R"("kasa_config":{"beta":1})"), invalid(R"('kasa_config' is {"beta":1})"));
  EXPECT_THAT(with(R"("use_bdlora":{"nblocks":2})"), invalid("'use_bdlora'"));
  EXPECT_THAT(with(R"("init_lora_weights":"pissa")"), invalid("'init_lora_weights' is pissa"));
  EXPECT_EQ(with(R"("init_lora_weights":"gaussian")").value(), (LoraShape{.rank = 4, .alpha = 16}));
}

TEST(AdapterConfig, IsRefusedForNumbersThatCannotBe) {
  const auto with = [](const std::string& rank, const std::string& alpha) {
    return read(R"("peft_type":"LORA","r":)" + rank + R"(,"lora_alpha":)" + alpha + "," + kAll);
  };

  EXPECT_THAT(with("0", "16"), invalid("'r' is 0, expected 1"));
  EXPECT_THAT(with("-1", "16"), invalid("'r' is -1"));
  EXPECT_THAT(with("1.5", "16"), invalid("'r' is missing or not an integer"));
  EXPECT_THAT(with("4", "0"), invalid("'lora_alpha' is 0"));
  EXPECT_THAT(with("4", "1e300"), invalid("'lora_alpha' is inf"));
  EXPECT_THAT(with("4", "1e-300"), invalid("'lora_alpha' is 0"));
  EXPECT_THAT(with("4", "true"), invalid("'lora_alpha' is missing or not a number"));
  EXPECT_THAT(read_adapter_config("[]"), invalid("'the file' is missing or not an object"));
  EXPECT_THAT(read_adapter_config("{"), invalid(""));
}

}  // namespace
}  // namespace tinker::engine::adapter_config_test
