#include "http/content_coding.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tinker/testing/matchers.h"

namespace tinker::http::content_coding_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;

constexpr auto kBroken = ErrorCode::invalid_response;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr int kGzip = MAX_WBITS + 16;
constexpr int kZlib = MAX_WBITS;
constexpr int kRaw = -MAX_WBITS;

std::string deflated(std::string text, int window_bits) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view text) {
  return zstd_compress(text, 3).value();
}

/// Text that compresses, but not to nothing.
std::string sample_text(std::size_t bytes) {
  std::string out;
  for (unsigned i = 0; out.size() < bytes; ++i) out += std::to_string(i * 2654435761U) + " and ";
  out.resize(bytes);
  return out;
}

struct Coding {
  const char* name;
  std::string (*encode)(std::string);
};

class EveryCoding : public ::testing::TestWithParam<Coding> {};

INSTANTIATE_TEST_SUITE_P(
    ContentCoding,
    EveryCoding,
    ::testing::Values(
        Coding{"gzip", [](std::string text) { return deflated(std::move(text), kGzip); }},
        Coding{"deflate", [](std::string text) { return deflated(std::move(text), kZlib); }},
        Coding{"deflate", [](std::string text) { return deflated(std::move(text), kRaw); }},
        Coding{"zstd", [](std::string text) { return zstd(text); }}));

TEST_P(EveryCoding, GivesBackTheText) {
  for (const std::size_t bytes : {0U, 1U, 1000U, 300'000U}) {
    const auto text = sample_text(bytes);
    EXPECT_EQ(decode_content(GetParam().name, GetParam().encode(text), kNoLimit).value(), text)
        << bytes;
  }
}

TEST_P(EveryCoding, AllowsExactlyTheLimit) {
  for (const std::size_t bytes : {0U, 1U, 1023U, 1024U, 1025U, 300'000U}) {
    const auto text = sample_text(bytes);
    EXPECT_EQ(decode_content(GetParam().name, GetParam().encode(text), bytes).value(), text)
        << bytes;
  }
}

TEST_P(EveryCoding, RefusesOneByteMore) {
  for (const std::size_t bytes : {1U, 1024U, 1025U, 300'000U}) {
    EXPECT_THAT(decode_content(GetParam().name, GetParam().encode(sample_text(bytes)), bytes - 1),
                IsError(kBroken, HasSubstr("longer than the limit of")))
        << bytes;
  }
}

TEST_P(EveryCoding, StopsEarlyOnABomb) {
  const auto bomb = GetParam().encode(std::string(std::size_t{16} << 20U, '\0'));
  ASSERT_LT(bomb.size(), 100'000U);

  EXPECT_THAT(decode_content(GetParam().name, bomb, 1000),
              IsError(kBroken, HasSubstr("longer than the limit of 1000 bytes")));
}

TEST_P(EveryCoding, AllocatesNoMoreThanTheLimit) {
  for (const std::size_t bytes : {100'000U, 1'000'000U, 3'000'000U}) {
    const auto text =
        decode_content(GetParam().name, GetParam().encode(std::string(bytes, '\0')), bytes);
    ASSERT_TRUE(text.ok());
    EXPECT_LE(text->capacity(), bytes) << bytes;
  }
}

TEST_P(EveryCoding, RefusesEveryTruncation) {
  const auto whole = GetParam().encode(sample_text(500));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(decode_content(GetParam().name, whole.substr(0, size), kNoLimit),
                IsError(kBroken, HasSubstr("cannot decode a ")))
        << size;
  }
}

TEST_P(EveryCoding, RefusesWhatFollowsTheEnd) {
  for (const auto* garbage : {"x", "garbage after the end"}) {
    EXPECT_THAT(decode_content(GetParam().name, GetParam().encode("text") + garbage, kNoLimit),
                IsError(kBroken, HasSubstr("cannot decode a ")))
        << garbage;
  }
}

TEST_P(EveryCoding, TakesAnEmptyBodyAsEmpty) {
  EXPECT_THAT(decode_content(GetParam().name, "", 0), IsOkAndHolds(""));
}

TEST(ContentCoding, LeavesIdentityAlone) {
  EXPECT_THAT(decode_content("", "text", 4), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content("identity", "text", 4), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content(" , ", "text", 4), IsOkAndHolds("text"));
}

TEST(ContentCoding, HoldsIdentityToTheLimit) {
  EXPECT_THAT(decode_content("", "text", 3), IsError(kBroken, HasSubstr("limit of 3 bytes")));
  EXPECT_THAT(decode_content("identity", "text", 3),
              IsError(kBroken, HasSubstr("limit of 3 bytes")));
}

TEST(ContentCoding, ReadsNamesWithoutCase) {
  EXPECT_THAT(decode_content(" GZip ", deflated("text", kGzip), 4), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content("X-GZIP", deflated("text", kGzip), 4), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content("ZSTD", zstd("text"), 4), IsOkAndHolds("text"));
}

TEST(ContentCoding, UndoesAListFromItsEnd) {
  const auto body = zstd(deflated("text", kGzip));

  EXPECT_THAT(decode_content("gzip, zstd", body, 100), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content("gzip,identity,,zstd", body, 100), IsOkAndHolds("text"));
  EXPECT_THAT(decode_content("zstd, gzip", body, 100), IsError(kBroken, HasSubstr("gzip")));
}

TEST(ContentCoding, HoldsEveryStepOfAListToTheLimit) {
  const auto body = zstd(deflated("text", kGzip));

  EXPECT_THAT(decode_content("gzip, zstd", body, 4),
              IsError(kBroken, HasSubstr("limit of 4 bytes")));
}

TEST(ContentCoding, RefusesLongLists) {
  EXPECT_THAT(decode_content("identity,identity,identity,identity", "x", 1), IsOkAndHolds("x"));
  EXPECT_THAT(decode_content("identity,identity,identity,identity,identity", "x", 1),
              IsError(kBroken, HasSubstr("more than 4")));
}

TEST(ContentCoding, NamesACodingItDoesNotKnow) {
  EXPECT_THAT(decode_content("gzip, br", "text", 4),
              IsError(kBroken, HasSubstr("unknown content coding 'br'")));
  EXPECT_THAT(decode_content("a\nb", "text", 4),
              IsError(kBroken, AllOf(HasSubstr("a%0Ab"), Not(HasSubstr("\n")))));
}

TEST(ContentCoding, RefusesDamagedData) {
  for (const auto* coding : {"gzip", "deflate", "zstd"}) {
    EXPECT_THAT(decode_content(coding, "\x07 this is no compressed text", 1000),
                IsError(kBroken, HasSubstr(std::string("cannot decode a ") + coding)))
        << coding;
  }
}

TEST(ContentCoding, ChecksTheSumOfGzip) {
  auto body = deflated(sample_text(1000), kGzip);
  body[body.size() - 8] = static_cast<char>(body[body.size() - 8] ^ 1);

  EXPECT_THAT(decode_content("gzip", body, kNoLimit),
              IsError(kBroken, HasSubstr("incorrect data check")));
}

TEST(ContentCoding, ChecksTheSumOfAZlibFrame) {
  auto body = deflated(sample_text(1000), kZlib);
  body.back() = static_cast<char>(body.back() ^ 1);

  EXPECT_THAT(decode_content("deflate", body, kNoLimit),
              IsError(kBroken, HasSubstr("incorrect data check")));
}

TEST(ContentCoding, JoinsTheMembersOfGzip) {
  const auto body = deflated("one ", kGzip) + deflated("", kGzip) + deflated("two", kGzip);

  EXPECT_THAT(decode_content("gzip", body, 7), IsOkAndHolds("one two"));
  EXPECT_THAT(decode_content("gzip", body, 6), IsError(kBroken, HasSubstr("limit of 6")));
}

TEST(ContentCoding, JoinsTheFramesOfZstd) {
  const std::string skippable(
      "\x50\x2A\x4D\x18\x03\x00\x00\x00"
      "abc",
      11);

  EXPECT_THAT(decode_content("zstd", zstd("one ") + skippable + zstd("two") + skippable, 7),
              IsOkAndHolds("one two"));
}

TEST(ContentCoding, ReadsRawDataThatStartsLikeAZlibFrame) {
  // 0x78 0x01 passes the check of a zlib frame and is also an unfinished stored block of one byte,
  // given zero padding bits are not looked at; an empty last block follows.
  const std::string body("\x78\x01\x00\xFE\xFFx\x03\x00", 8);

  EXPECT_THAT(decode_content("deflate", body, 10), IsOkAndHolds("x"));
}

TEST(ContentCoding, RefusesAZlibFrameThatNeedsADictionary) {
  const std::string body("\x78\x20\x00\x00\x00\x01\x03\x00", 8);

  EXPECT_THAT(decode_content("deflate", body, 10), IsError(kBroken, HasSubstr("deflate")));
}

TEST(ContentCoding, RefusesAZstdWindowOutOfProportion) {
  // A frame that asks for 128 MiB, for at most 1000 bytes of text.
  const std::string frame("\x28\xB5\x2F\xFD\x00\x88\x01\x00\x00", 9);

  EXPECT_THAT(decode_content("zstd", frame, 1000), IsError(kBroken, HasSubstr("zstd")));
  EXPECT_THAT(decode_content("zstd", frame, kNoLimit), IsOkAndHolds(""));
}

TEST(ZstdCompress, MakesOneFrameThatTellsItsSize) {
  const auto text = sample_text(10'000);

  const auto frame = zstd_compress(text, 1);

  ASSERT_TRUE(frame.ok());
  EXPECT_LT(frame->size(), text.size());
  EXPECT_EQ(ZSTD_getFrameContentSize(frame->data(), frame->size()), text.size());
  EXPECT_EQ(ZSTD_findFrameCompressedSize(frame->data(), frame->size()), frame->size());
}

TEST(ZstdCompress, RefusesLevelsThatDoNotExist) {
  EXPECT_THAT(zstd_compress("x", 23),
              IsError(ErrorCode::invalid_argument, HasSubstr("no level 23")));
  EXPECT_THAT(zstd_compress("x", std::numeric_limits<int>::min()),
              IsError(ErrorCode::invalid_argument, HasSubstr("no level -2147483648")));
}

TEST(ContentCoding, WritesGzipThatItReads) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += std::to_string(i * 7919 % 1000);
  for (const std::string& data : {std::string(), std::string("a"), text}) {
    for (const int level : {1, 6, 9}) {
      const auto packed = gzip_compress(data, level);
      ASSERT_THAT(packed, IsOk());
      EXPECT_THAT(decode_content("gzip", *packed, data.size()), IsOkAndHolds(data));
    }
  }
  EXPECT_LT(gzip_compress(text, 6)->size(), text.size());
}

TEST(ContentCoding, SaysWhichLevelsGzipHas) {
  EXPECT_THAT(gzip_compress("a", 0), IsError(ErrorCode::invalid_argument, HasSubstr("level 0")));
  EXPECT_THAT(gzip_compress("a", 10), IsError(ErrorCode::invalid_argument, HasSubstr("1 to 9")));
}

TEST(ContentCoding, FailsWithTheCodeThatIsWanted) {
  EXPECT_THAT(decode_content("gzip", "no gzip", 100, ErrorCode::bad_request),
              IsError(ErrorCode::bad_request, HasSubstr("gzip")));
}

}  // namespace
}  // namespace tinker::http::content_coding_test
