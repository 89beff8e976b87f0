#include "formats/gguf.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/gguf_file.h"
#include "tinker/testing/matchers.h"

namespace tinker::formats::gguf_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

auto invalid(const char* what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

TEST(Gguf, ReadsItsMetadata) {
  GgufFile file;
  file.add("name", "a model");
  file.add("layers", std::uint32_t{30});
  file.add("tied", true);
  file.add("tokens", std::vector<std::string>{"a", "", "bc"});
  file.add("types", std::vector<std::int32_t>{1, -3});
  file.add("scores", std::vector<float>{0.5F, -1});
  const auto bytes = file.bytes();

  const auto gguf = Gguf::parse(bytes).value();

  EXPECT_THAT(gguf.string("name"), Optional(std::string_view("a model")));
  EXPECT_THAT(gguf.integer("layers"), Optional(30));
  EXPECT_THAT(gguf.number("layers"), Optional(30.0));
  EXPECT_THAT(gguf.boolean("tied"), Optional(true));
  EXPECT_THAT(gguf.strings("tokens"), Optional(ElementsAre("a", "", "bc")));
  EXPECT_THAT(gguf.integers("types"), Optional(ElementsAre(1, -3)));
  EXPECT_THAT(gguf.numbers("scores"), Optional(ElementsAre(0.5, -1)));
  EXPECT_TRUE(gguf.has("name"));
}

TEST(Gguf, AValueOfAnotherKindIsNone) {
  GgufFile file;
  file.add("name", "a model");
  file.add("tokens", std::vector<std::string>{"a"});
  const auto bytes = file.bytes();

  const auto gguf = Gguf::parse(bytes).value();

  EXPECT_FALSE(gguf.integer("name"));
  EXPECT_FALSE(gguf.string("tokens"));
  EXPECT_FALSE(gguf.strings("name"));
  EXPECT_FALSE(gguf.integers("tokens"));
  EXPECT_FALSE(gguf.numbers("tokens"));
  EXPECT_FALSE(gguf.boolean("nothing"));
}

TEST(Gguf, ReadsIntegersOfEveryWidth) {
  GgufFile file;
  file.add_raw("u8", 0, "\xFF");
  file.add_raw("i8", 1, "\xFF");
  file.add_raw("u16", 2, "\xFF\xFF");
  file.add_raw("i16", 3, "\xFE\xFF");
  file.add_raw("i32", 5, "\xFD\xFF\xFF\xFF");
  file.add_raw("u64", 10, std::string("\x01\0\0\0\0\0\0\0", 8));
  file.add_raw("i64", 11, "\xFC\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
  file.add_raw("huge", 10, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
  const auto bytes = file.bytes();

  const auto gguf = Gguf::parse(bytes).value();

  EXPECT_THAT(gguf.integer("u8"), Optional(255));
  EXPECT_THAT(gguf.integer("i8"), Optional(-1));
  EXPECT_THAT(gguf.integer("u16"), Optional(65'535));
  EXPECT_THAT(gguf.integer("i16"), Optional(-2));
  EXPECT_THAT(gguf.integer("i32"), Optional(-3));
  EXPECT_THAT(gguf.integer("u64"), Optional(1));
  EXPECT_THAT(gguf.integer("i64"), Optional(-4));
  EXPECT_FALSE(gguf.integer("huge"));
}

TEST(Gguf, FindsTheDataOfItsTensors) {
  GgufFile file;
  file.add_tensor("norm", {4}, 0, 0);
  file.add_tensor("embedding", {32, 2}, 8, 32);
  file.add_tensor("exotic", {3}, 77, 0);
  const std::string data = std::string(32, 'n') + std::string(68, 'e');
  const auto bytes = file.bytes(data);

  const auto gguf = Gguf::parse(bytes).value();

  ASSERT_EQ(gguf.tensors().size(), 3);
  EXPECT_EQ(gguf.find_tensor("norm")->data, std::string(16, 'n'));
  EXPECT_EQ(gguf.find_tensor("embedding")->data, std::string(68, 'e'));
  EXPECT_THAT(gguf.find_tensor("embedding")->shape, ElementsAre(32, 2));
  EXPECT_THAT(gguf.find_tensor("exotic")->data, IsEmpty());
  EXPECT_EQ(gguf.find_tensor("none"), nullptr);
}

TEST(Gguf, RefusesWhatIsCutOffAnywhere) {
  GgufFile file;
  file.add("tokens", std::vector<std::string>{"a", "bc"});
  file.add("layers", std::uint32_t{30});
  file.add_tensor("norm", {4}, 0, 0);
  const auto bytes = file.bytes(std::string(16, 'n'));
  ASSERT_THAT(Gguf::parse(bytes), IsOk());

  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Gguf::parse(std::string_view(bytes).substr(0, size)), invalid("GGUF file: "));
  }
}

TEST(Gguf, RefusesAbsurdCounts) {
  const std::string huge = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
  const auto array = [&](std::uint32_t type) {
    GgufFile file;
    file.add_raw("key", 9, GgufFile::array_head(type, ~std::uint64_t{0}));
    return file.bytes();
  };
  GgufFile text;
  text.add_raw("key", 8, huge);

  EXPECT_THAT(Gguf::parse(array(0)), invalid("'key' announces 18446744073709551615 values"));
  EXPECT_THAT(Gguf::parse(array(8)), invalid("'key' announces"));
  EXPECT_THAT(Gguf::parse(text.bytes()), invalid("'key'"));
  EXPECT_THAT(Gguf::parse(std::string("GGUF\x03\0\0\0", 8) + huge + huge),
              invalid("ends at byte 24"));
}

TEST(Gguf, RefusesTensorsThatCannotBe) {
  const auto tensor =
      [](const std::vector<std::uint64_t>& shape, std::uint32_t type, std::uint64_t offset) {
        GgufFile file;
        file.add_tensor("w", shape, type, offset);
        return file.bytes(std::string(64, 'x'));
      };

  EXPECT_THAT(Gguf::parse(tensor({8}, 0, 64)), invalid("'w' ends beyond"));
  EXPECT_THAT(Gguf::parse(tensor({8}, 0, ~std::uint64_t{0})), invalid("'w' ends beyond"));
  EXPECT_THAT(Gguf::parse(tensor({33}, 8, 0)), invalid("'w' has rows of broken blocks"));
  EXPECT_THAT(Gguf::parse(tensor({1ULL << 63U, 1ULL << 63U}, 0, 0)), invalid("'w' is larger"));
  EXPECT_THAT(Gguf::parse(tensor(std::vector<std::uint64_t>(9, 1), 0, 0)), invalid("9 dimensions"));
}

TEST(Gguf, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(Gguf::parse("PK\x03\x04"), invalid("'GGUF'"));
  EXPECT_THAT(Gguf::parse(GgufFile().bytes({}, 1)), invalid("version 1"));
  EXPECT_THAT(Gguf::parse(GgufFile().bytes({}, 2)), IsOk());
  GgufFile unknown;
  unknown.add_raw("key", 13, "");
  EXPECT_THAT(Gguf::parse(unknown.bytes()), invalid("'key' has values of unknown type 13"));
  GgufFile nested;
  nested.add_raw("key", 9, GgufFile::array_head(9, 0));
  EXPECT_THAT(Gguf::parse(nested.bytes()), invalid("type 9"));
  GgufFile twice;
  twice.add("key", true);
  twice.add("key", false);
  EXPECT_THAT(Gguf::parse(twice.bytes()), invalid("'key' is there twice"));
}

TEST(Gguf, RefusesAnAlignmentThatIsNone) {
  for (const std::uint32_t alignment : {0U, 3U, 1U << 31U}) {
    GgufFile file;
    file.add("general.alignment", alignment);
    file.add_tensor("w", {1}, 0, 0);
    EXPECT_THAT(Gguf::parse(file.bytes(std::string(64, 'x'))), invalid("alignment"));
  }
}

}  // namespace
}  // namespace tinker::formats::gguf_test
