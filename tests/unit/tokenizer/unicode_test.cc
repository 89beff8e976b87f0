#include "tokenizer/unicode.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>

namespace tinker::tokenizer::unicode_test {
namespace {

using ::testing::SizeIs;

std::size_t count(const CodePointSet& set) {
  std::size_t out = 0;
  for (const auto& [first, last] : set.ranges()) out += last - first + 1;
  return out;
}

TEST(DecodeAt, ReadsCodePointsOfEveryLength) {
  const std::string_view text = "a\xC3\xA9\xE4\xB8\x96\xF0\x9F\x8C\x8D";

  EXPECT_EQ(decode_at(text, 0).code_point, U'a');
  EXPECT_EQ(decode_at(text, 1).code_point, U'é');
  EXPECT_EQ(decode_at(text, 3).code_point, U'世');
  EXPECT_EQ(decode_at(text, 6).code_point, U'🌍');
  EXPECT_EQ(decode_at(text, 6).size, 4);
}

TEST(DecodeAt, TakesWhatIsNotUtf8ByteForByte) {
  for (const std::string_view bad : {"\x80",
                                     "\xC0\x80",
                                     "\xC3",
                                     "\xE0\x80\x80",
                                     "\xED\xA0\x80",
                                     "\xF4\x90\x80\x80",
                                     "\xF8\x88\x80\x80",
                                     "\xFF",
                                     "\xE4\xB8",
                                     "\xE4\x41\x42"}) {
    EXPECT_EQ(decode_at(bad, 0).code_point, kNoCodePoint);
    EXPECT_EQ(decode_at(bad, 0).size, 1);
  }
}

TEST(AppendUtf8, IsTheInverse) {
  for (char32_t c = 0; c < kNoCodePoint; c += c < 0x3000 ? 1 : 251) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(decode_at(text, 0).code_point, c);
    ASSERT_EQ(decode_at(text, 0).size, text.size());
  }
}

TEST(CodePointSet, KnowsTheCategoriesOfUnicode16) {
  EXPECT_EQ(count(*CodePointSet::property("L")), 141'028);
  EXPECT_EQ(count(*CodePointSet::property("N")), 1'911);
  EXPECT_EQ(count(*CodePointSet::property("Lu")), 1'858);
  EXPECT_EQ(count(*CodePointSet::property("M")), 2'501);
  EXPECT_EQ(count(*CodePointSet::property("P")), 855);
  EXPECT_EQ(count(*CodePointSet::property("S")), 8'514);
  EXPECT_EQ(count(*CodePointSet::property("Han")), 99'030);
  EXPECT_EQ(count(CodePointSet::space()), 25);
  EXPECT_FALSE(CodePointSet::property("Greek"));
  EXPECT_FALSE(CodePointSet::property(""));
}

TEST(CodePointSet, UnitesWhatTouches) {
  CodePointSet set;
  set.add({.first = 10, .last = 20});
  set.add({.first = 30, .last = 40});
  set.add({.first = 21, .last = 29});

  EXPECT_THAT(set.ranges(), SizeIs(1));
  EXPECT_TRUE(set.contains(10) && set.contains(25) && set.contains(40));
  EXPECT_FALSE(set.contains(9) || set.contains(41));
}

TEST(CodePointSet, TheComplementIsAllTheRest) {
  const auto letters = *CodePointSet::property("L");
  const auto others = letters.complement();

  EXPECT_EQ(count(letters) + count(others), kNoCodePoint + 1);
  EXPECT_TRUE(letters.intersection(others).empty());
  EXPECT_TRUE(others.contains(kNoCodePoint));
  EXPECT_TRUE(CodePointSet::all().complement().empty());
}

TEST(CodePointTable, AnswersAsTheSetDoes) {
  for (const char* const name : {"L", "N", "M", "Zs", "Cn"}) {
    const auto set = *CodePointSet::property(name);
    const CodePointTable table(set);
    for (char32_t c = 0; c <= kNoCodePoint; ++c)
      ASSERT_EQ(table.contains(c), set.contains(c)) << static_cast<std::uint32_t>(c);
    EXPECT_EQ(table.has_ascii('a'), set.contains('a'));
    EXPECT_FALSE(table.has_ascii('\xC3'));
  }
}

TEST(Normalize, ComposesAndDecomposes) {
  EXPECT_EQ(normalize("e\xCC\x81", NormalForm::nfc), "é");
  EXPECT_EQ(normalize("é", NormalForm::nfd), "e\xCC\x81");
  EXPECT_EQ(normalize("한", NormalForm::nfd), "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB");
  EXPECT_EQ(normalize("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", NormalForm::nfc), "한");
  EXPECT_EQ(normalize("\xE2\x84\xAB", NormalForm::nfc), "Å");  // the sign for Angstrom
}

TEST(Normalize, OrdersMarksByTheirClass) {
  // Dot below (220) comes before acute (230), whichever was written first.
  EXPECT_EQ(normalize("q\xCC\x81\xCC\xA3", NormalForm::nfc), "q\xCC\xA3\xCC\x81");
  EXPECT_EQ(normalize("a\xCC\x81\xCC\xA3", NormalForm::nfc), "\xE1\xBA\xA1\xCC\x81");
}

TEST(Normalize, LeavesBytesThatAreNotUtf8) {
  EXPECT_EQ(normalize("\xFF"
                      "e\xCC\x81\xC3",
                      NormalForm::nfc),
            "\xFFé\xC3");
}

TEST(Normalize, SaysWhichBytesEachStandsFor) {
  std::vector<Origin> origins;
  const auto text = normalize("xe\xCC\x81y", NormalForm::nfc, &origins);

  ASSERT_EQ(text, "xéy");
  ASSERT_THAT(origins, SizeIs(text.size()));
  EXPECT_EQ(origins[1].begin, 1);
  EXPECT_EQ(origins[1].end, 4);
  EXPECT_EQ(origins[2].begin, 1);
  EXPECT_EQ(origins[3].begin, 4);
}

TEST(IsSurelyNormalized, IsNeverWrong) {
  for (char32_t c = 0; c < kNoCodePoint; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "a";
    append_utf8(text, c);
    for (const auto form : {NormalForm::nfc, NormalForm::nfd}) {
      if (is_surely_normalized(text, form)) {
        ASSERT_EQ(normalize(text, form), text) << static_cast<std::uint32_t>(c);
      }
    }
  }
  EXPECT_TRUE(is_surely_normalized("Größe 世界 Привет", NormalForm::nfc));
  EXPECT_FALSE(is_surely_normalized("Größe", NormalForm::nfd));
}

}  // namespace
}  // namespace tinker::tokenizer::unicode_test
