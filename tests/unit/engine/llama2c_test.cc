#include "engine/llama2c.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "engine/model_files.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::engine::llama2c_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using Header = std::array<std::int32_t, 7>;

// dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
constexpr Header kSmall = {8, 3, 2, 2, 1, 5, 4};
constexpr std::size_t kWeights = 5 * 8 + 2 * (8 + 64 + 32 + 32 + 64 + 8 + 24 + 24 + 24) + 8;
constexpr std::size_t kTables = 16;

auto invalid(const char* what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

/// Weights that say where they were.
std::string file_of(const Header& header, std::size_t weights) {
  std::string out(reinterpret_cast<const char*>(header.data()), sizeof(header));
  for (std::size_t i = 0; i < weights; ++i) {
    const auto value = static_cast<float>(i);
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return out;
}

TEST(Llama2c, BecomesAModel) {
  const testing::TemporaryFolder folder;
  const auto file = file_of(kSmall, kWeights + kTables);

  Llama2c::parse(file).value().write(folder.path("some/model")).value();

  const auto model = ModelFiles::open(folder.path("some/model")).value();
  EXPECT_EQ(model.config(),
            (ModelConfig{.vocab_size = 5,
                         .hidden_size = 8,
                         .ffn_size = 3,
                         .layers = 2,
                         .heads = 2,
                         .kv_heads = 1,
                         .head_dim = 4,
                         .context_length = 4,
                         .rms_eps = 1e-5F,
                         .tied_head = true,
                         .eos_ids = {2},
                         .bos_id = 1}));
  const auto first_of_rows = [&](const char* name, std::size_t rows, std::size_t cols) {
    const auto tensor = model.tensor(name, rows, cols).value();
    std::vector<float> row(cols);
    std::vector<float> out;
    for (std::size_t i = 0; i < rows; ++i) {
      tensor.read_row(i, row);
      out.push_back(row[0]);
    }
    return out;
  };
  EXPECT_THAT(first_of_rows("model.embed_tokens.weight", 5, 8), ElementsAre(0, 8, 16, 24, 32));
  EXPECT_THAT(first_of_rows("model.layers.0.self_attn.q_proj.weight", 8, 8),
              ElementsAre(56, 72, 64, 80, 88, 104, 96, 112));
  EXPECT_THAT(first_of_rows("model.layers.1.self_attn.k_proj.weight", 4, 8),
              ElementsAre(216, 232, 224, 240));
  EXPECT_THAT(first_of_rows("model.layers.1.self_attn.v_proj.weight", 4, 8),
              ElementsAre(280, 288, 296, 304));
  EXPECT_THAT(first_of_rows("model.norm.weight", 1, 8), ElementsAre(kWeights - 8));
}

TEST(Llama2c, WithANegativeVocabularyHasAHeadOfItsOwn) {
  const testing::TemporaryFolder folder;
  auto header = kSmall;
  header[5] = -5;
  const auto file = file_of(header, kWeights + kTables + 40);

  Llama2c::parse(file).value().write(folder.path()).value();

  const auto model = ModelFiles::open(folder.path()).value();
  EXPECT_FALSE(model.config().tied_head);
  std::vector<float> row(8);
  model.tensor("lm_head.weight", 5, 8).value().read_row(0, row);
  EXPECT_EQ(row[0], kWeights + kTables);
}

TEST(Llama2c, RefusesFilesOfAnotherLength) {
  const auto file = file_of(kSmall, kWeights + kTables);
  ASSERT_THAT(Llama2c::parse(file), IsOk());

  EXPECT_THAT(Llama2c::parse(file + "x"), invalid("bytes of weights"));
  EXPECT_THAT(Llama2c::parse(file.substr(0, file.size() - 1)), invalid("bytes of weights"));
  EXPECT_THAT(Llama2c::parse(file.substr(0, 28)), invalid("its 0 bytes of weights"));
  EXPECT_THAT(Llama2c::parse(file.substr(0, 27)), invalid("shorter than its header"));
}

TEST(Llama2c, RefusesSizesThatCannotBe) {
  const auto parsed = [](std::size_t place, std::int32_t value) {
    auto header = kSmall;
    header.at(place) = value;
    return Llama2c::parse(file_of(header, kWeights + kTables));
  };

  EXPECT_THAT(parsed(0, 0), invalid("'dim' is 0"));
  EXPECT_THAT(parsed(0, 9), invalid("'dim' 9 is not a multiple of 'n_heads' 2"));
  EXPECT_THAT(parsed(0, 6), invalid("odd size 3"));
  EXPECT_THAT(parsed(1, -1), invalid("'hidden_dim' is -1"));
  EXPECT_THAT(parsed(2, 5000), invalid("'n_layers' is 5000"));
  EXPECT_THAT(parsed(3, 0), invalid("'n_heads' is 0"));
  EXPECT_THAT(parsed(4, 3), invalid("2 attention heads are no multiple of 3 kv heads"));
  EXPECT_THAT(parsed(5, 0), invalid("'vocab_size' is 0"));
  EXPECT_THAT(parsed(5, INT32_MIN), invalid("'vocab_size' is 2147483648"));
  EXPECT_THAT(parsed(5, 2), invalid("no token of 2"));
  EXPECT_THAT(parsed(6, 16'777'217), invalid("'seq_len' is 16777217"));
  EXPECT_THAT(parsed(1, 16'777'216), invalid("bytes of weights"));
}

}  // namespace
}  // namespace tinker::engine::llama2c_test
