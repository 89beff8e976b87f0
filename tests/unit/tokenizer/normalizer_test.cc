#include "tokenizer/normalizer.h"

#include <gmock/gmock.h>

namespace tinker::tokenizer::normalizer_test {
namespace {

std::string normalized(const TextStep& step, std::string_view text, bool is_first = true) {
  Normalizer normalizer;
  normalizer.add(step);
  AlignedText aligned(text, 0, false);
  normalizer.apply(aligned, is_first);
  return aligned.text();
}

TEST(Normalizer, PrependsToWhatIsNotEmpty) {
  EXPECT_EQ(normalized(Prepend{.content = "▁"}, "a"), "▁a");
  EXPECT_EQ(normalized(Prepend{.content = "▁"}, ""), "");
}

TEST(Normalizer, ReplacesEverywhere) {
  EXPECT_EQ(normalized(Replace{.from = " ", .to = "▁"}, " a  b "), "▁a▁▁b▁");
  EXPECT_EQ(normalized(Replace{.from = "aa", .to = "b"}, "aaa"), "ba");
}

TEST(Normalizer, StripsWhiteSpaceOfAnyKind) {
  EXPECT_EQ(normalized(Strip{.left = true, .right = true}, " \u3000a b\n"), "a b");
  EXPECT_EQ(normalized(Strip{.left = true}, " a "), "a ");
  EXPECT_EQ(normalized(Strip{.right = true}, " a "), " a");
  EXPECT_EQ(normalized(Strip{.left = true, .right = true}, "  "), "");
}

TEST(Normalizer, PutsASpaceFirstUnlessThereIsOne) {
  EXPECT_EQ(normalized(PrefixSpace(), "a"), " a");
  EXPECT_EQ(normalized(PrefixSpace(), " a"), " a");
  EXPECT_EQ(normalized(PrefixSpace(), ""), "");
}

TEST(Normalizer, MetaspaceComesFirstAsItsSchemeSays) {
  using enum Metaspace::Scheme;
  EXPECT_EQ(normalized(Metaspace{.scheme = always}, "a b", false), "▁a▁b");
  EXPECT_EQ(normalized(Metaspace{.scheme = first}, "a b", true), "▁a▁b");
  EXPECT_EQ(normalized(Metaspace{.scheme = first}, "a b", false), "a▁b");
  EXPECT_EQ(normalized(Metaspace{.scheme = never}, " a", true), "▁a");
}

TEST(Normalizer, KnowsWhatEachByteStandsFor) {
  Normalizer normalizer;
  normalizer.add(NormalForm::nfc);
  normalizer.add(Prepend{.content = "▁"});
  normalizer.add(Replace{.from = " ", .to = "▁"});
  AlignedText text("e\xCC\x81 x", 10, true);

  normalizer.apply(text, true);

  ASSERT_EQ(text.text(), "▁é▁x");
  EXPECT_EQ(text.origin(0, 3).begin, 10);
  EXPECT_EQ(text.origin(0, 3).end, 10);
  EXPECT_EQ(text.origin(3, 5).begin, 10);
  EXPECT_EQ(text.origin(3, 5).end, 13);
  EXPECT_EQ(text.origin(5, 9).begin, 13);
  EXPECT_EQ(text.origin(5, 9).end, 15);
}

TEST(Normalizer, SaysWhenItIsSureToChangeNothing) {
  Normalizer nfc;
  nfc.add(NormalForm::nfc);
  EXPECT_TRUE(nfc.is_identity_for("é"));
  EXPECT_FALSE(nfc.is_identity_for("e\xCC\x81"));
  EXPECT_TRUE(Normalizer().is_identity_for("e\xCC\x81"));
  nfc.add(Prepend{.content = "x"});
  EXPECT_FALSE(nfc.is_identity_for("é"));
}

}  // namespace
}  // namespace tinker::tokenizer::normalizer_test
