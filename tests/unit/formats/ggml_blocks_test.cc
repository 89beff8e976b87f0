#include "formats/ggml_blocks.h"

#include <bit>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/strings.h"

namespace tinker::formats::ggml_blocks_test {
namespace {

std::string from_hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    out += static_cast<char>(byte);
  }
  return out;
}

TEST(GgmlBlocks, HaveTheValuesOfThePythonPackage) {
  std::ifstream file(GGML_GOLDEN);
  std::string line;
  std::getline(file, line);
  int types = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::string blocks;
    std::string expected;
    words >> name >> blocks >> expected;
    const auto* const type = find_ggml_type(name);
    ASSERT_NE(type, nullptr) << name;
    std::vector<float> values(expected.size() / (2 * sizeof(float)));

    type->dequantise(from_hex(blocks), values);

    EXPECT_EQ(base::to_hex({reinterpret_cast<const char*>(values.data()), expected.size() / 2}),
              expected)
        << name;
    ++types;
  }
  EXPECT_EQ(types, 8);
}

TEST(GgmlBlocks, AreFoundByNumberAndByName) {
  EXPECT_EQ(find_ggml_type(12)->name, "Q4_K");
  EXPECT_EQ(find_ggml_type("Q4_K")->number, 12);
  EXPECT_EQ(find_ggml_type("Q5_K")->block_bytes, 176);
  EXPECT_EQ(find_ggml_type("Q5_K")->dequantise, nullptr);
  EXPECT_EQ(find_ggml_type(4), nullptr);
  EXPECT_EQ(find_ggml_type("MXFP4"), nullptr);
}

TEST(GgmlBlocks, OfNothingHaveNoValues) {
  find_ggml_type("F32")->dequantise({}, {});
  find_ggml_type("Q6_K")->dequantise({}, {});
}

TEST(GgmlBlocksDeathTest, MustBeAsManyAsTheirValues) {
  std::vector<float> values(32);

  EXPECT_DEATH(find_ggml_type("F32")->dequantise("1234", values), "blocks.size");
  EXPECT_DEATH(find_ggml_type("Q8_0")->dequantise("1234", values), "blocks.size");
}

}  // namespace
}  // namespace tinker::formats::ggml_blocks_test
