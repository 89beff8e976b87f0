#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/tokenizer.h"
#include "tokenizer/decoder.h"

namespace tinker::tokenizer::decode_stream_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> pieces_of(const Decoder& decoder, const std::vector<std::string>& tokens) {
  TokenStream stream(decoder);
  std::vector<std::string> out;
  for (const auto& token : tokens) stream.push(token, out.emplace_back());
  stream.finish(out.emplace_back());
  return out;
}

Decoder decoder_of(std::vector<Decoder::Step> steps) {
  Decoder decoder;
  for (auto& step : steps) decoder.add(std::move(step));
  return decoder;
}

TEST(TokenStream, HoldsBytesBackUntilTheyAreACharacter) {
  const auto decoder = decoder_of({Decoder::Bytes()});

  EXPECT_THAT(pieces_of(decoder,
                        {"a\xF0\x9F",
                         "\x8C",
                         "\x8D"
                         "b"}),
              ElementsAre("a", "", "🌍b", ""));
}

TEST(TokenStream, ReplacesWhatNeverBecomesACharacter) {
  const auto decoder = decoder_of({Decoder::Bytes()});

  EXPECT_THAT(pieces_of(decoder, {"\xF0\x9F", "x"}), ElementsAre("", "\uFFFDx", ""));
  EXPECT_THAT(pieces_of(decoder, {"\x80\xFF"}), ElementsAre("\uFFFD\uFFFD", ""));
  EXPECT_THAT(pieces_of(decoder, {"\xE4\xB8"}), ElementsAre("", "\uFFFD"));
}

TEST(TokenStream, ByteTokensSpellTextOrNothing) {
  const auto decoder = decoder_of({Decoder::ByteFallback(), Decoder::Fuse()});

  EXPECT_THAT(pieces_of(decoder, {"<0xC3>", "<0xA9>", "x"}), ElementsAre("", "", "éx", ""));
  EXPECT_THAT(pieces_of(decoder, {"<0xC3>", "<0xA9>"}), ElementsAre("", "", "é"));
  EXPECT_THAT(pieces_of(decoder, {"<0xC3>", "<0xA9>", "<0xFF>"}),
              ElementsAre("", "", "", "\uFFFD\uFFFD\uFFFD"));
  EXPECT_THAT(pieces_of(decoder, {"<0xG1>"}), ElementsAre("<0xG1>", ""));
}

TEST(TokenStream, StripsTheBeginningOfTheWhole) {
  const auto decoder = decoder_of(
      {Decoder::ReplaceIn{.from = "▁", .to = " "}, Decoder::Fuse(), Decoder::StripFrom{.left = 1}});

  EXPECT_THAT(pieces_of(decoder, {"▁a", "▁b"}), ElementsAre("a", " b", ""));
  EXPECT_THAT(pieces_of(decoder, {"", "▁", "▁b"}), ElementsAre("", "", " b", ""));
}

TEST(TokenStream, StripsTheEndOfTheWhole) {
  const auto decoder =
      decoder_of({Decoder::Fuse(), Decoder::StripFrom{.character = "-", .right = 2}});

  EXPECT_THAT(pieces_of(decoder, {"a-", "--", "-b-"}), ElementsAre("a", "-", "---b", ""));
}

TEST(TokenStream, WithoutFuseEachTokenIsStripped) {
  const auto decoder = decoder_of({Decoder::StripFrom{.left = 1, .right = 1}});

  EXPECT_THAT(pieces_of(decoder, {" a ", "  b"}), ElementsAre("a", " b", ""));
}

TEST(TokenStream, TheFirstTokenGoesWithoutItsSpace) {
  const auto decoder = decoder_of({Decoder::MetaspaceBack()});

  EXPECT_THAT(pieces_of(decoder, {"▁a", "▁b"}), ElementsAre("a", " b", ""));
}

TEST(TokenStream, WithoutADecoderTokensAreJoinedBySpaces) {
  EXPECT_THAT(pieces_of(Decoder(), {"a", "b"}), ElementsAre("a", " b", ""));
}

TEST(TokenStream, BeginsAnewAfterItsEnd) {
  const auto decoder = decoder_of({Decoder::MetaspaceBack()});
  TokenStream stream(decoder);
  std::string out;
  stream.push("▁a", out);
  stream.finish(out);

  stream.push("▁b", out);

  EXPECT_EQ(out, "ab");
}

TEST(UnfinishedBytes, CountsWhatMayBecomeACharacter) {
  EXPECT_EQ(unfinished_bytes(""), 0);
  EXPECT_EQ(unfinished_bytes("a"), 0);
  EXPECT_EQ(unfinished_bytes("é"), 0);
  EXPECT_EQ(unfinished_bytes("a\xC3"), 1);
  EXPECT_EQ(unfinished_bytes("\xE4\xB8"), 2);
  EXPECT_EQ(unfinished_bytes("\xF0\x9F\x8C"), 3);
  EXPECT_EQ(unfinished_bytes("\xE0\x80"), 0);  // overlong: never one
  EXPECT_EQ(unfinished_bytes("\xFF"), 0);
  EXPECT_EQ(unfinished_bytes("\x80\x80\x80"), 0);
}

TEST(ToUtf8, AnyCutGivesTheSameText) {
  std::mt19937 random(1);
  const auto decoder = decoder_of({Decoder::Bytes()});
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) {
      constexpr std::string_view kBytes =
          "a\xC3\xA9\xE4\xB8\x96\xF0\x9F\x8C\x8D\xED\xA0\x80\xFF\xF4";
      bytes += kBytes[random() % kBytes.size()];
    }
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      std::string text;
      for (const auto& piece : pieces_of(decoder, {bytes.substr(0, cut), bytes.substr(cut)})) {
        text += piece;
      }
      ASSERT_EQ(text, to_utf8(bytes));
    }
  }
}

}  // namespace
}  // namespace tinker::tokenizer::decode_stream_test
