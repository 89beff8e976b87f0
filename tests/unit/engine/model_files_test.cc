#include "engine/model_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/half.h"
#include "engine/random_model.h"
#include "formats/mapped_file.h"
#include "formats/safetensors.h"
#include "support/gguf_file.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_config.h"

namespace tinker::engine::model_files_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TemporaryFolder;
using Architecture = ModelConfig::Architecture;
using formats::Safetensors;

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

std::vector<float> row_of(const WeightTensor& tensor, std::size_t row) {
  std::vector<float> out(tensor.cols());
  tensor.read_row(row, out);
  return out;
}

/// A small model on disk, whose tensors can be changed before it is opened.
class ModelFilesTest : public ::testing::Test {
 protected:
  ModelFilesTest() {
    write_random_model(folder_.path(), small_config(), 1).value();
    content_ = folder_.read("model.safetensors");
    tensors_ = Safetensors::parse(content_).value().tensors();
  }
  Safetensors::Tensor& at(std::string_view name) {
    return *std::ranges::find(tensors_, name, &Safetensors::Tensor::name);
  }
  void write(const std::string& name, std::span<const Safetensors::Tensor> tensors) const {
    formats::write_safetensors(folder_.path(name), tensors).value();
  }
  Result<ModelFiles> open_changed() const {
    write("model.safetensors", tensors_);
    return ModelFiles::open(folder_.path());
  }

  TemporaryFolder folder_;
  std::string content_;
  std::vector<Safetensors::Tensor> tensors_;
};

TEST_F(ModelFilesTest, ReadsRows) {
  const auto model = ModelFiles::open(folder_.path()).value();

  const auto tensor = model.tensor("model.embed_tokens.weight", 11, 12).value();
  const auto vector = model.tensor("model.norm.weight", 1, 12).value();

  EXPECT_EQ(tensor.rows(), 11);
  EXPECT_EQ(tensor.cols(), 12);
  std::vector<float> expected(12);
  std::memcpy(expected.data(), at("model.embed_tokens.weight").data.substr(144).data(), 48);
  EXPECT_EQ(row_of(tensor, 3), expected);
  std::memcpy(expected.data(), at("model.norm.weight").data.data(), 48);
  EXPECT_EQ(row_of(vector, 0), expected);
}

TEST_F(ModelFilesTest, ReadsBf16) {
  const auto exact = ModelFiles::open(folder_.path()).value();
  const TemporaryFolder other;
  write_random_model(other.path(), small_config(), 1, Safetensors::Dtype::bf16).value();

  const auto rounded = ModelFiles::open(other.path()).value();

  auto expected = row_of(exact.tensor("model.embed_tokens.weight", 11, 12).value(), 10);
  for (float& value : expected) value = base::from_bf16(base::to_bf16(value));
  EXPECT_EQ(row_of(rounded.tensor("model.embed_tokens.weight", 11, 12).value(), 10), expected);
}

TEST_F(ModelFilesTest, ReadsF16) {
  // One, the most negative, the largest and the smallest of the subnormal ones, infinity, and so
  // on.
  const std::vector<std::uint16_t> bits = {0x3C00,
                                           0xFBFF,
                                           0x03FF,
                                           0x0001,
                                           0x7C00,
                                           0xFC00,
                                           0x0000,
                                           0x3555,
                                           0xC000,
                                           0x0400,
                                           0x8001,
                                           0x3BFF};
  auto& norm = at("model.norm.weight");
  norm.dtype = Safetensors::Dtype::f16;
  norm.data = {reinterpret_cast<const char*>(bits.data()), 2 * bits.size()};

  const auto model = open_changed().value();

  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(row_of(model.tensor("model.norm.weight", 1, 12).value(), 0),
              ElementsAre(1.0F,
                          -65504.0F,
                          1023 * 0x1p-24F,
                          0x1p-24F,
                          kInfinity,
                          -kInfinity,
                          0.0F,
                          0x1.554p-2F,
                          -2.0F,
                          0x1p-14F,
                          -0x1p-24F,
                          0x1.ffcp-1F));
}

TEST_F(ModelFilesTest, ReadsManyFiles) {
  const auto whole = ModelFiles::open(folder_.path()).value();
  const std::span all(tensors_);
  write("a.safetensors", all.first(5));
  write("b.safetensors", all.subspan(5));
  std::filesystem::remove(folder_.path("model.safetensors"));
  folder_.write("model.safetensors.index.json",
                R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"a.safetensors"}})");

  const auto model = ModelFiles::open(folder_.path()).value();

  EXPECT_EQ(row_of(model.tensor("model.norm.weight", 1, 12).value(), 0),
            row_of(whole.tensor("model.norm.weight", 1, 12).value(), 0));
}

TEST_F(ModelFilesTest, RefusesAnIndexThatIsWrong) {
  write("a.safetensors", tensors_);
  write("b.safetensors", std::span(tensors_).first(1));
  std::filesystem::remove(folder_.path("model.safetensors"));
  const auto opened = [this](const std::string& files) {
    folder_.write("model.safetensors.index.json", R"({"weight_map":{)" + files + "}}");
    return ModelFiles::open(folder_.path());
  };

  EXPECT_THAT(opened(R"("x":"a.safetensors")"), IsOk());
  EXPECT_THAT(opened(R"("x":"a.safetensors","y":"b.safetensors")"), invalid("is there twice"));
  EXPECT_THAT(opened(R"("x":"../a.safetensors")"), invalid("'x' is in no file of this folder"));
  EXPECT_THAT(opened(R"("x":"/etc/passwd")"), invalid("'x' is in no file"));
  EXPECT_THAT(opened(R"("x":1)"), invalid("'x' is in no file"));
  EXPECT_THAT(opened(R"("x":"..")"), invalid("it is no file"));
  EXPECT_THAT(opened(R"("x":"none")"), invalid("none: No such file"));
  EXPECT_THAT(opened(""), invalid("tensor 'model.embed_tokens.weight' is missing"));
}

TEST_F(ModelFilesTest, RefusesTensorsThatAreNotThoseOfItsConfig) {
  auto& norm = at("model.norm.weight");
  norm.name = "model.norm";
  EXPECT_THAT(open_changed(), invalid("tensor 'model.norm.weight' is missing"));
  norm.name = "model.norm.weight";
  norm.shape = {2, 6};
  EXPECT_THAT(open_changed(), invalid("'model.norm.weight' has the shape [2,6], expected [1,12]"));
  norm.shape = {1, 12};
  EXPECT_THAT(open_changed(), IsOk());
  norm.dtype = Safetensors::Dtype::i32;
  EXPECT_THAT(open_changed(), invalid("'model.norm.weight' is of type I32, which is not"));
  norm.dtype = Safetensors::Dtype::u32;
  EXPECT_THAT(open_changed(), invalid("'model.norm.weight' is of type U32, which is not"));
}

TEST_F(ModelFilesTest, RefusesTensorsThatItWouldNotUse) {
  tensors_.push_back({.name = "model.layers.0.self_attn.rotary_emb.inv_freq", .shape = {0}});
  tensors_.push_back({.name = "lm_head.weight", .shape = {0}});
  EXPECT_THAT(open_changed(), IsOk());
  tensors_.push_back({.name = "model.layers.0.self_attn.q_proj.bias", .shape = {0}});
  EXPECT_THAT(open_changed(), invalid("q_proj.bias' is not one of a llama model"));
}

TEST_F(ModelFilesTest, AnswersForOneTensor) {
  const auto model = ModelFiles::open(folder_.path()).value();

  EXPECT_THAT(model.tensor("none", 1, 12), invalid("tensor 'none' is missing"));
  EXPECT_THAT(model.tensor("model.norm.weight", 1, 13), invalid("[12], expected [13]"));
  EXPECT_THAT(model.tensor("model.norm.weight", 2, 12), invalid("[12], expected [2,12]"));
}

TEST_F(ModelFilesTest, TheGenerationConfigSaysWhatEndsAnAnswer) {
  folder_.write("generation_config.json", R"({"eos_token_id":[3,4]})");

  EXPECT_THAT(ModelFiles::open(folder_.path()).value().config().eos_ids, ElementsAre(3, 4));
}

TEST_F(ModelFilesTest, SaysWhatIsNotThere) {
  std::filesystem::remove(folder_.path("config.json"));
  EXPECT_THAT(ModelFiles::open(folder_.path()), invalid("config.json: No such file"));
  std::filesystem::remove(folder_.path("model.safetensors"));
  EXPECT_THAT(ModelFiles::open(folder_.path()), invalid("no single *.gguf"));
  EXPECT_THAT(ModelFiles::open(folder_.path("none")), invalid("none: No such file"));
  folder_.write("some", "text");
  EXPECT_THAT(ModelFiles::open(folder_.path("some")), invalid("'GGUF'"));
}

/// The GGUF file of a model whose values are the numbers of their rows.
std::string gguf_of(const ModelConfig& config, const std::string& more = {}) {
  GgufFile file;
  const std::string name(to_string(config.architecture));
  const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  file.add("general.architecture", name);
  file.add(name + ".vocab_size", number(config.vocab_size));
  file.add(name + ".embedding_length", number(config.hidden_size));
  file.add(name + ".feed_forward_length", number(config.ffn_size));
  file.add(name + ".block_count", number(config.layers));
  file.add(name + ".context_length", number(config.context_length));
  file.add(name + ".attention.head_count", number(config.heads));
  file.add(name + ".attention.head_count_kv", number(config.kv_heads));
  file.add(name + ".attention.key_length", number(config.head_dim));
  file.add_raw(name + ".attention.layer_norm_rms_epsilon", 6, std::string(4, '\0'));
  std::string data;
  const auto add = [&](const std::string& tensor, std::uint64_t cols, std::uint64_t rows) {
    data.resize((data.size() + 31) / 32 * 32);
    file.add_tensor(tensor, {cols, rows}, 0, data.size());
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t i = 0; i < cols; ++i) GgufFile::put_number(data, static_cast<float>(row));
    }
  };
  const auto hidden = config.hidden_size;
  add("token_embd.weight", hidden, config.vocab_size);
  add("output_norm.weight", hidden, 1);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add(layer + "attn_norm.weight", hidden, 1);
    add(layer + "attn_q.weight", hidden, config.q_size());
    add(layer + "attn_k.weight", hidden, config.kv_size());
    add(layer + "attn_v.weight", hidden, config.kv_size());
    add(layer + "attn_output.weight", config.q_size(), hidden);
    add(layer + "ffn_norm.weight", hidden, 1);
    add(layer + "ffn_gate.weight", hidden, config.ffn_size);
    add(layer + "ffn_up.weight", hidden, config.ffn_size);
    add(layer + "ffn_down.weight", config.ffn_size, hidden);
    if (config.has_qk_norm()) {
      add(layer + "attn_q_norm.weight", config.head_dim, 1);
      add(layer + "attn_k_norm.weight", config.head_dim, 1);
    }
    if (config.has_qkv_bias()) {
      add(layer + "attn_q.bias", config.q_size(), 1);
      add(layer + "attn_k.bias", config.kv_size(), 1);
      add(layer + "attn_v.bias", config.kv_size(), 1);
    }
  }
  if (!more.empty()) add(more, 1, 1);
  return file.bytes(data);
}

TEST(ModelFilesOfGguf, HasTheNamesOfHuggingFace) {
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    const TemporaryFolder folder;
    folder.write("some.gguf", gguf_of(small_config(architecture)));

    const auto by_file = ModelFiles::open(folder.path("some.gguf")).value();
    const auto by_folder = ModelFiles::open(folder.path()).value();

    EXPECT_EQ(by_file.config().architecture, architecture);
    EXPECT_EQ(by_folder.config(), by_file.config());
    EXPECT_EQ(row_of(by_file.tensor("model.layers.1.mlp.down_proj.weight", 12, 14).value(), 7),
              std::vector(14, 7.0F));
  }
}

TEST(ModelFilesOfGguf, HasTheRowsOfLlamaInHalves) {
  const TemporaryFolder folder;
  const auto rows_of = [&](Architecture architecture, const char* name, std::size_t rows) {
    folder.write("some.gguf", gguf_of(small_config(architecture)));
    const auto model = ModelFiles::open(folder.path("some.gguf")).value();
    const auto tensor =
        model.tensor("model.layers.0.self_attn." + std::string(name), rows, 12).value();
    std::vector<float> out;
    for (std::size_t row = 0; row < rows; ++row) out.push_back(row_of(tensor, row)[0]);
    return out;
  };

  EXPECT_THAT(rows_of(Architecture::llama, "k_proj.weight", 12),
              ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
  EXPECT_THAT(rows_of(Architecture::llama, "v_proj.weight", 12),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(rows_of(Architecture::qwen3, "k_proj.weight", 12),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(ModelFilesOfGguf, RefusesTensorsThatItWouldNotUse) {
  const TemporaryFolder folder;
  const auto opened_with = [&](const char* name) {
    folder.write("some.gguf", gguf_of(small_config(), name));
    return ModelFiles::open(folder.path("some.gguf"));
  };

  EXPECT_THAT(opened_with("blk.0.attn_q.bias"), invalid("0.self_attn.q_proj.bias' is not one of"));
  EXPECT_THAT(opened_with("blk.0.novel.weight"), invalid("'blk.0.novel.weight' is not one of"));
  EXPECT_THAT(opened_with("blk."), invalid("'blk.' is not one of"));
  EXPECT_THAT(opened_with("blk.0"), invalid("'blk.0' is not one of"));
  EXPECT_THAT(opened_with("output_norm.weight"), invalid("'model.norm.weight' is there twice"));
}

TEST(ModelFilesOfGguf, NeedsOneFileInAFolder) {
  const TemporaryFolder folder;
  folder.write("a.gguf", gguf_of(small_config()));
  folder.write("b.gguf", gguf_of(small_config()));

  EXPECT_THAT(ModelFiles::open(folder.path()), invalid("no single *.gguf"));
}

}  // namespace
}  // namespace tinker::engine::model_files_test
