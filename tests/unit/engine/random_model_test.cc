#include "engine/random_model.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/half.h"
#include "base/sha256.h"
#include "engine/model_files.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_config.h"

namespace tinker::engine::random_model_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using Architecture = ModelConfig::Architecture;
using Dtype = formats::Safetensors::Dtype;

TEST(RandomModel, IsAModelOfAnyKind) {
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    for (const bool is_tied : {true, false}) {
      const testing::TemporaryFolder folder;
      auto config = small_config(architecture);
      config.tied_head = is_tied;

      write_random_model(folder.path(), config, 1).value();

      EXPECT_EQ(ModelFiles::open(folder.path()).value().config(), config);
    }
  }
}

TEST(RandomModel, HasTheSameBytesEverywhere) {
  const testing::TemporaryFolder folder;
  const auto digest = [&](std::uint64_t seed, Dtype dtype) {
    write_random_model(folder.path(), small_config(), seed, dtype).value();
    return base::sha256_hex(folder.read("model.safetensors")).substr(0, 16);
  };

  EXPECT_EQ(digest(1, Dtype::f32), "972e646176dab042");
  EXPECT_EQ(digest(1, Dtype::bf16), "8a25a73926e5ee2f");
  EXPECT_NE(digest(2, Dtype::f32), digest(1, Dtype::f32));
}

TEST(RandomModel, HasWeightsThatMatter) {
  const testing::TemporaryFolder folder;
  auto config = small_config();
  config.vocab_size = 1000;
  config.hidden_size = 100;
  config.head_dim = 50;
  write_random_model(folder.path(), config, 1).value();
  const auto model = ModelFiles::open(folder.path()).value();
  const auto deviation = [&](const char* name, std::size_t rows, std::size_t cols) {
    const auto tensor = model.tensor(name, rows, cols).value();
    std::vector<float> values(cols);
    double sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      tensor.read_row(row, values);
      for (const float value : values) sum += double{value} * double{value};
    }
    return std::sqrt(sum / static_cast<double>(rows * cols));
  };

  EXPECT_NEAR(deviation("model.embed_tokens.weight", 1000, 100), 0.2, 0.004);
  EXPECT_NEAR(deviation("model.layers.0.self_attn.q_proj.weight", 200, 100), 0.1, 0.004);
  EXPECT_NEAR(deviation("model.norm.weight", 1, 100), 1.02, 0.05);
}

TEST(RandomModel, RefusesAConfigThatCannotBe) {
  const testing::TemporaryFolder folder;
  auto config = small_config();
  config.head_dim = 7;

  EXPECT_THAT(write_random_model(folder.path(), config, 1),
              IsError(ErrorCode::invalid_argument, HasSubstr("odd size 7")));
}

}  // namespace
}  // namespace tinker::engine::random_model_test
