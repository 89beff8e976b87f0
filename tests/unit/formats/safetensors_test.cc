#include "formats/safetensors.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/safetensors_file.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::formats::safetensors_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::safetensors_file;
using Dtype = Safetensors::Dtype;
using Tensor = Safetensors::Tensor;

auto invalid(const char* what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

/// A file of one tensor 'w', by its description.
std::string file_of(const std::string& dtype,
                    const std::string& shape,
                    const std::string& place,
                    std::size_t bytes) {
  return safetensors_file(
      R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + place + "}}",
      std::string(bytes, 'x'));
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const auto file = safetensors_file(
      R"({"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"},)"
      R"("\u0061":{"dtype":"I64","shape":[],"data_offsets":[4,12]},)"
      R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}}   )",
      "bbbbaaaaaaaa");

  const auto found = Safetensors::parse(file).value();

  ASSERT_EQ(found.tensors().size(), 3);
  EXPECT_EQ(found.find("a")->data, "aaaaaaaa");
  EXPECT_EQ(found.find("a")->dtype, Dtype::i64);
  EXPECT_THAT(found.find("a")->shape, IsEmpty());
  EXPECT_EQ(found.find("b")->data, "bbbb");
  EXPECT_THAT(found.find("b")->shape, ElementsAre(2, 1));
  EXPECT_EQ(to_string(found.find("b")->dtype), "BF16");
  EXPECT_EQ(found.find("none")->data, "");
  EXPECT_EQ(found.find("c"), nullptr);
  EXPECT_THAT(found.metadata(), ElementsAre(Pair("format", "pt")));
}

TEST(Safetensors, RefusesWhatIsCutOffAnywhere) {
  const auto file = file_of("F32", "[2]", "[0,8]", 8);
  ASSERT_THAT(Safetensors::parse(file), IsOk());

  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(Safetensors::parse(std::string_view(file).substr(0, size)),
                invalid("safetensors file: "));
  }
  EXPECT_THAT(Safetensors::parse(file + "y"), invalid("1 bytes at its end belong to no tensor"));
}

TEST(Safetensors, RefusesHeadersThatAreNone) {
  EXPECT_THAT(Safetensors::parse(std::string(8, '\xFF') + "{}"),
              invalid("a header of 18446744073709551615 bytes, where 2 follow"));
  EXPECT_THAT(Safetensors::parse(safetensors_file(" {}", "")), invalid("begin with '{'"));
  EXPECT_THAT(Safetensors::parse(safetensors_file("{]", "")), invalid("safetensors file: "));
  EXPECT_THAT(Safetensors::parse(safetensors_file(R"({"w":1})", "")), invalid("'w': 'it'"));
  EXPECT_THAT(Safetensors::parse(safetensors_file(R"({"w":{}})", "")), invalid("'w': 'dtype'"));
  EXPECT_THAT(Safetensors::parse(safetensors_file(R"({"__metadata__":{"a":1}})", "")),
              invalid("metadata 'a' is no string"));
}

TEST(Safetensors, RefusesTensorsThatCannotBe) {
  const auto parsed = [](const char* dtype, const char* shape, const char* place) {
    return Safetensors::parse(file_of(dtype, shape, place, 8));
  };

  EXPECT_THAT(parsed("F31", "[2]", "[0,8]"), invalid("'w': values of unknown type 'F31'"));
  EXPECT_THAT(parsed("F32", "[3]", "[0,8]"), invalid("'w': F32 of shape [3] does not take 8"));
  EXPECT_THAT(parsed("F32", "[4294967296,4294967296]", "[0,0]"), invalid("does not take 0 bytes"));
  EXPECT_THAT(parsed("F32", "[-2]", "[0,8]"), invalid("'shape' holds what is no size"));
  EXPECT_THAT(parsed("F32", "[2.0]", "[0,8]"), invalid("'shape' holds what is no size"));
  EXPECT_THAT(parsed("F32", "[2]", "[8,16]"), invalid("'w': its place [8,16] is not in the file"));
  EXPECT_THAT(parsed("F32", "[2]", "[8,0]"), invalid("[8,0] is not in the file"));
  EXPECT_THAT(parsed("F32", "[2]", "[0,8,8]"), invalid("is not in the file"));
  EXPECT_THAT(parsed("F32", "[1]", "[4,8]"), invalid("'w': it follows a hole"));
  EXPECT_THAT(parsed("F32", "[1]", "[0,4]"), invalid("4 bytes at its end"));
}

TEST(Safetensors, RefusesTensorsThatAreInEachOthersWay) {
  const auto two = [](const char* name, const char* place) {
    return Safetensors::parse(safetensors_file(
        R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},")" + std::string(name) +
            R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + place + "}}",
        "xxxxxxxxxxxx"));
  };

  EXPECT_THAT(two("b", "[8,12]"), IsOk());
  EXPECT_THAT(two("b", "[4,8]"), invalid("'b': it overlaps another"));
  EXPECT_THAT(two("a", "[8,12]"), invalid("'a': it is there twice"));
}

TEST(WriteSafetensors, WritesTheBytesOfTheOfficialLibrary) {
  const testing::TemporaryFolder folder;
  const std::vector<Tensor> tensors = {
      {.name = "t", .dtype = Dtype::boolean, .shape = {1}, .data = "t"},
      {.name = "n\"\n\u00e9\x01\x7f//", .dtype = Dtype::i8, .shape = {1}, .data = "n"},
      {.name = "h", .dtype = Dtype::f16, .shape = {2, 2}, .data = "hhhhhhhh"},
      {.name = "i16", .dtype = Dtype::i16, .shape = {1}, .data = "ii"},
      {.name = "b", .dtype = Dtype::f32, .shape = {2}, .data = "bbbbbbbb"},
      {.name = "a", .dtype = Dtype::f32, .shape = {3}, .data = "aaaaaaaaaaaa"},
      {.name = "e", .dtype = Dtype::f32, .shape = {0, 3}, .data = ""},
      {.name = "s", .dtype = Dtype::f64, .shape = {}, .data = "ssssssss"},
  };

  write_safetensors(folder.path("some"), tensors, {{"format", "pt"}}).value();

  // By safetensors 0.8.0 of Python.
  EXPECT_EQ(
      folder.read("some"),
      safetensors_file(
          R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
          R"("a":{"dtype":"F32","shape":[3],"data_offsets":[8,20]},)"
          R"("b":{"dtype":"F32","shape":[2],"data_offsets":[20,28]},)"
          R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[28,28]},)"
          R"("h":{"dtype":"F16","shape":[2,2],"data_offsets":[28,36]},)"
          R"("i16":{"dtype":"I16","shape":[1],"data_offsets":[36,38]},)"
          "\"n\\\"\\n\u00e9\\u0001\x7f//\":"
          R"({"dtype":"I8","shape":[1],"data_offsets":[38,39]},)"
          R"("t":{"dtype":"BOOL","shape":[1],"data_offsets":[39,40]}}       )",
          "ssssssssaaaaaaaaaaaabbbbbbbbhhhhhhhhiint"));
}

TEST(WriteSafetensors, WritesWhatIsReadBack) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder.path("none"), {}).value();
  write_safetensors(folder.path("metadata"), {}, {{"a", "\t"}, {"b", ""}}).value();

  const auto none = folder.read("none");
  const auto metadata = folder.read("metadata");

  EXPECT_THAT(Safetensors::parse(none).value().tensors(), IsEmpty());
  EXPECT_THAT(Safetensors::parse(metadata).value().metadata(),
              ElementsAre(Pair("a", "\t"), Pair("b", "")));
}

TEST(WriteSafetensors, TakesDataPieceByPiece) {
  const testing::TemporaryFolder folder;
  const std::vector<Safetensors::Tensor> tensors = {
      {.name = "b", .dtype = Safetensors::Dtype::u8, .shape = {2, 2}, .data = "abcd"},
      {.name = "a", .dtype = Safetensors::Dtype::u8, .shape = {3}, .data = "efg"}};
  auto without_data = tensors;
  for (auto& tensor : without_data) tensor.data = {};
  write_safetensors(folder.path("whole"), tensors, {{"a", "b"}}).value();

  write_safetensors(folder.path("pieces"),
                    without_data,
                    {{"a", "b"}},
                    [&](std::size_t index, const WriteBytes& write) -> Result<void> {
                      for (const char c : tensors[index].data) write({&c, 1}).value();
                      return {};
                    })
      .value();

  EXPECT_EQ(folder.read("pieces"), folder.read("whole"));
}

TEST(WriteSafetensors, LeavesNoFileWhenDataCannotBeMade) {
  const testing::TemporaryFolder folder;
  const Safetensors::Tensor tensor = {.name = "a", .dtype = Safetensors::Dtype::u8, .shape = {3}};

  const auto done = write_safetensors(
      folder.path("some"), {&tensor, 1}, {}, [](std::size_t, const WriteBytes&) -> Result<void> {
        return Error{.code = ErrorCode::internal, .message = "no more"};
      });

  EXPECT_THAT(done, IsError(ErrorCode::internal, HasSubstr("no more")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WriteSafetensors, RefusesWhatNoFileCanHold) {
  const testing::TemporaryFolder folder;
  const Tensor good = {.name = "w", .dtype = Dtype::u8, .shape = {1}, .data = "x"};
  const auto written = [&](const Tensor& tensor, const Safetensors::Metadata& metadata = {}) {
    return write_safetensors(folder.path("some"), std::vector{good, tensor}, metadata);
  };
  const auto named = [&](const char* name) {
    return Tensor{.name = name, .dtype = Dtype::u16, .shape = {1}, .data = "xx"};
  };

  EXPECT_THAT(written(named("w")), invalid("'w': it is there twice"));
  EXPECT_THAT(written(named("\xFF")), invalid("not UTF-8"));
  EXPECT_THAT(written(named("__metadata__")), invalid("'__metadata__': its name"));
  EXPECT_THAT(written({.name = "v", .shape = {1}, .data = "x"}), invalid("'v': F32 of shape [1]"));
  EXPECT_THAT(written(named("v"), {{"a", "\xFF"}}), invalid("metadata 'a' is not UTF-8"));
  EXPECT_EQ(folder.read("some"), "");
  EXPECT_THAT(write_safetensors(folder.path("none/some"), {}),
              IsError(ErrorCode::io_error, HasSubstr("none")));
}

}  // namespace
}  // namespace tinker::formats::safetensors_test
