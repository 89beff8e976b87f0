#include "formats/tar.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/gunzip.h"
#include "support/tar_archive.h"
#include "tinker/testing/matchers.h"

namespace tinker::formats::tar_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::TarArchive;

/// Keeps what an archive holds.
struct Collector final : TarSink {
  Result<void> begin(const TarEntry& entry) override {
    entries.emplace_back(entry.name + (entry.kind == TarEntry::Kind::folder ? "/" : ""), "");
    return {};
  }
  Result<void> write(std::string_view piece) override {
    entries.back().second += piece;
    return {};
  }
  Result<void> end() override {
    ++ended;
    return {};
  }
  std::vector<std::pair<std::string, std::string>> entries = {};
  std::size_t ended = 0;
};
using Entries = std::vector<std::pair<std::string, std::string>>;

Result<Entries> read(std::string_view archive,
                     std::size_t piece = SIZE_MAX,
                     TarLimits limits = TarLimits()) {
  Collector collector;
  TarReader reader(collector, limits);
  while (!archive.empty()) {
    TINKER_TRY(reader.put(archive.substr(0, piece)));
    archive.remove_prefix(std::min(piece, archive.size()));
  }
  TINKER_TRY(reader.finish());
  EXPECT_EQ(collector.ended, collector.entries.size());
  return collector.entries;
}

Result<std::string> gunzip(std::string_view packed, std::size_t piece = SIZE_MAX) {
  std::string out;
  Gunzip unpacking([&out](std::string_view bytes) -> Result<void> {
    out += bytes;
    return {};
  });
  while (!packed.empty()) {
    TINKER_TRY(unpacking.put(packed.substr(0, piece)));
    packed.remove_prefix(std::min(piece, packed.size()));
  }
  TINKER_TRY(unpacking.finish());
  return out;
}

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(TAR_ARCHIVES) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ForeignArchives : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(TarReader,
                         ForeignArchives,
                         ::testing::Values("tar_gnu",
                                           "tar_ustar",
                                           "tar_pax",
                                           "python_gnu",
                                           "python_ustar",
                                           "python_pax"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ForeignArchives, AreRead) {  // as make_archives.py packed them
  const auto packed = read_file(std::string(GetParam()) + ".tar.gz");
  ASSERT_TRUE(is_gzip(packed));
  std::string name = "model/";
  for (int i = 0; i < 5; ++i) name += "a-rather-long-folder-name/";
  std::string bytes;
  for (int i = 0; i < 5 * 256; ++i) bytes += static_cast<char>(i % 256);

  const auto archive = gunzip(packed);
  ASSERT_THAT(archive, IsOk());
  for (const std::size_t piece : {1UL, 511UL, 512UL, 10'000UL}) {
    auto entries = read(*archive, piece);
    ASSERT_THAT(entries, IsOk());
    std::erase_if(*entries, [](const auto& entry) { return entry.first.ends_with('/'); });
    EXPECT_THAT(
        *entries,
        ::testing::UnorderedElementsAre(Pair("adapter_config.json", "{\"r\":32}\n"),
                                        Pair("empty", ""),
                                        Pair(name + "adapter_model.safetensors", bytes),
                                        Pair("checkpoint_complete", std::string(512, 'x'))));
  }
}

TEST(TarReader, TakesOldArchivesWithoutMagic) {
  TarArchive archive;
  archive.add({.name = "folder/", .type = '\0', .magic = ""});
  archive.add({.name = "folder/a", .type = '\0', .magic = ""}, "text");

  EXPECT_THAT(read(archive.bytes()),
              IsOkAndHolds(ElementsAre(Pair("folder/", ""), Pair("folder/a", "text"))));
}

TEST(TarReader, TakesSizesInBinary) {
  TarArchive archive;
  archive.add({.name = "a", .size = std::string("\x80\0\0\0\0\0\0\0\0\0\0\4", 12)}, "text");
  EXPECT_THAT(read(archive.bytes()), IsOkAndHolds(ElementsAre(Pair("a", "text"))));

  TarArchive negative;
  negative.add({.name = "a", .size = std::string(12, '\xff')});
  EXPECT_THAT(read(negative.bytes()), IsError(ErrorCode::invalid_response, HasSubstr("size")));
}

TEST(TarReader, PaxHeadersRule) {
  TarArchive archive;
  archive.pax("path", "long/name").file("short", "text");
  archive.add({.name = "global", .type = 'g'}, "18 comment=by git\n");
  archive.file("b", "");
  EXPECT_THAT(read(archive.bytes()),
              IsOkAndHolds(ElementsAre(Pair("long/name", "text"), Pair("b", ""))));

  EXPECT_THAT(read(TarArchive().pax("path", "../b").file("a", "").bytes()),
              IsError(ErrorCode::invalid_response, HasSubstr("../b")));
  EXPECT_THAT(read(TarArchive().pax("size", "x").file("a", "").bytes()),
              IsError(ErrorCode::invalid_response, HasSubstr("\"x\"")));
  EXPECT_THAT(read(TarArchive().pax("GNU.sparse.major", "1").file("a", "").bytes()),
              IsError(ErrorCode::invalid_response, HasSubstr("sparse")));
  for (const char* bad : {"", "5", "99 path=a\n", "9 path=ab", "1 =", "4 x\n"}) {
    if (*bad == '\0') continue;
    EXPECT_THAT(read(TarArchive().add({.name = "pax", .type = 'x'}, bad).file("a", "").bytes()),
                IsError(ErrorCode::invalid_response, HasSubstr("pax")))
        << bad;
  }
}

TEST(TarReader, RefusesWhatIsNeitherFileNorFolderByName) {
  const auto refuses = [](char type, const std::string& why) {
    TarArchive archive;
    archive.file("good", "text").add({.name = "bad", .type = type, .link = "/etc/passwd"});
    EXPECT_THAT(read(archive.bytes()),
                IsError(ErrorCode::invalid_response,
                        ::testing::AllOf(HasSubstr("\"bad\""), HasSubstr(why))))
        << type;
  };
  refuses('1', "hard link");
  refuses('2', "symbolic link");
  refuses('3', "device");
  refuses('4', "device");
  refuses('6', "pipe");
  refuses('S', "sparse");
  refuses('D', "unknown kind");
}

TEST(TarReader, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"/etc/passwd", "../a", "a/../../b", "a\\b", ""}) {
    EXPECT_THAT(read(TarArchive().file(name, "").bytes()),
                IsError(ErrorCode::invalid_response, HasSubstr("unsafe")))
        << name;
  }
  TarArchive prefixed;
  prefixed.add({.name = "passwd", .prefix = "/etc"});
  EXPECT_THAT(read(prefixed.bytes()),
              IsError(ErrorCode::invalid_response, HasSubstr("/etc/passwd")));
  TarArchive long_name;
  long_name.add({.name = "././@LongLink", .type = 'L'}, "../../b").file("a", "");
  EXPECT_THAT(read(long_name.bytes()), IsError(ErrorCode::invalid_response, HasSubstr("../../b")));
}

TEST(TarReader, RefusesToReplaceWhatIsThere) {
  const auto refuses = [](const TarArchive& archive, const std::string& why) {
    EXPECT_THAT(read(archive.bytes()), IsError(ErrorCode::invalid_response, HasSubstr(why)));
  };
  refuses(TarArchive().file("a", "1").file("./a", "2"), "\"a\", which is there twice");
  refuses(TarArchive().file("a", "1").file("a/b", "2"), "below a file");
  refuses(TarArchive().file("a/b", "1").file("a", "2"), "twice");
  refuses(TarArchive().file("a", "1").add({.name = "a", .type = '5'}), "twice");
  EXPECT_THAT(read(TarArchive()
                       .add({.name = "./", .type = '5'})
                       .add({.name = "a", .type = '5'})
                       .add({.name = "a/", .type = '5'})
                       .file("a/b", "1")
                       .bytes()),
              IsOkAndHolds(ElementsAre(Pair("a/", ""), Pair("a/", ""), Pair("a/b", "1"))));
}

TEST(TarReader, EveryCutIsNoticed) {
  const auto archive = TarArchive().file("a", std::string(700, 'x')).file("b", "text").bytes();
  for (std::size_t size = 0; size < archive.size(); ++size) {
    ASSERT_THAT(read(std::string_view(archive).substr(0, size)),
                IsError(ErrorCode::invalid_response, HasSubstr("cut short")))
        << size;
  }
  EXPECT_THAT(read(archive + std::string(9000, '\0')), IsOk());  // tar pads to its records
}

TEST(TarReader, DamageIsNoticed) {
  auto archive = TarArchive().file("a", "text").bytes();
  archive[10] = 'x';
  EXPECT_THAT(read(archive), IsError(ErrorCode::invalid_response, HasSubstr("checksum")));
  EXPECT_THAT(read(std::string(2000, 'x')), IsError(ErrorCode::invalid_response, HasSubstr("tar")));
  EXPECT_THAT(read(TarArchive().bytes() + "x"),
              IsError(ErrorCode::invalid_response, HasSubstr("follows its end")));
  const auto lone = std::string(512, '\0') + TarArchive().file("a", "").bytes();
  EXPECT_THAT(read(lone), IsError(ErrorCode::invalid_response, HasSubstr("follows its end")));
  EXPECT_THAT(read(TarArchive().pax("path", "a").bytes()),
              IsError(ErrorCode::invalid_response, HasSubstr("announced")));
  TarArchive folder;
  folder.add({.name = "a", .type = '5'}, "text");
  EXPECT_THAT(read(folder.bytes()), IsError(ErrorCode::invalid_response, HasSubstr("folder")));
}

TEST(TarReader, KeepsToItsLimits) {
  const auto archive = TarArchive().file("a/b", "text").file("c", "text").bytes();
  EXPECT_THAT(read(archive, 512, {.max_bytes = archive.size()}), IsOk());
  EXPECT_THAT(read(archive, 512, {.max_bytes = archive.size() - 1}),
              IsError(ErrorCode::invalid_response, HasSubstr("limit")));
  EXPECT_THAT(read(archive, 512, {.max_entries = 3}), IsOk());
  EXPECT_THAT(read(archive, 512, {.max_entries = 2}),
              IsError(ErrorCode::invalid_response, HasSubstr("more than 2 entries")));
  TarArchive absurd;
  absurd.add({.name = "a", .size = "77777777777"});
  EXPECT_THAT(read(absurd.bytes(), 512, {.max_bytes = 1'000'000}),
              IsError(ErrorCode::invalid_response, HasSubstr("8589934591 bytes")));
  TarArchive meta;
  meta.add({.name = "x", .type = 'x', .size = "00010000000"});
  EXPECT_THAT(read(meta.bytes()), IsError(ErrorCode::invalid_response, HasSubstr("too long")));
}

TEST(TarReader, ErrorsOfTheSinkEndIt) {
  struct Full final : TarSink {
    Result<void> begin(const TarEntry&) override { return {}; }
    Result<void> write(std::string_view) override {
      return Error{.code = ErrorCode::io_error, .message = "full"};
    }
    Result<void> end() override { return {}; }
  } sink;
  TarReader reader(sink, {});

  EXPECT_THAT(reader.put(TarArchive().file("a", "text").bytes()),
              IsError(ErrorCode::io_error, "full"));
}

TEST(Gunzip, DoesNotDependOnThePieces) {
  const auto packed = read_file("tar_pax.tar.gz");
  const auto whole = gunzip(packed);
  ASSERT_THAT(whole, IsOk());

  EXPECT_THAT(gunzip(packed, 1), IsOkAndHolds(*whole));
  EXPECT_THAT(gunzip(packed, 100), IsOkAndHolds(*whole));
  EXPECT_THAT(gunzip(packed + packed), IsOkAndHolds(*whole + *whole));  // RFC 1952, section 2.2
}

TEST(Gunzip, NoticesDamage) {
  auto packed = read_file("tar_pax.tar.gz");
  EXPECT_THAT(gunzip(packed.substr(0, packed.size() - 1)),
              IsError(ErrorCode::invalid_response, HasSubstr("cut short")));
  EXPECT_THAT(gunzip(""), IsError(ErrorCode::invalid_response, HasSubstr("cut short")));
  EXPECT_THAT(gunzip(packed + "garbage"), IsError(ErrorCode::invalid_response, HasSubstr("gzip")));
  packed[packed.size() / 2] ^= 1;
  EXPECT_THAT(gunzip(packed), IsError(ErrorCode::invalid_response, HasSubstr("gzip")));
}

}  // namespace
}  // namespace tinker::formats::tar_test
