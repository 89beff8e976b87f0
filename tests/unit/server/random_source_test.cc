#include "server/random_source.h"

#include <gmock/gmock.h>

#include "engine/model_files.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"

namespace tinker::server::random_source_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::TemporaryFolder;

RandomSource parsed(std::string_view text) {
  return parse_random_source(text).value();
}

TEST(RandomSourceText, SaysSizesAndSettings) {
  EXPECT_THAT(
      parse_random_source("random:2x64,vocab=300,heads=8,seed=7"),
      IsOkAndHolds(RandomSource{.layers = 2, .dim = 64, .vocab = 300, .heads = 8, .seed = 7}));
}

TEST(RandomSourceText, HasDefaultsForAllButTheSize) {
  EXPECT_EQ(parsed("random:1x32"),
            (RandomSource{.layers = 1, .dim = 32, .vocab = 512, .heads = 4}));
}

TEST(RandomSourceText, MakesHeadsOf64InLargeModels) {
  EXPECT_EQ(parsed("random:1x512").heads, 8U);
  EXPECT_EQ(parsed("random:1x12").heads, 2U);
  EXPECT_EQ(parsed("random:1x6").heads, 1U);
}

TEST(RandomSourceText, IsRefusedByTheNameOfItsPart) {
  const auto refused = [](std::string_view text, const char* what) {
    EXPECT_THAT(parse_random_source(text), IsError(ErrorCode::invalid_argument, HasSubstr(what)))
        << text;
  };
  refused("random:", "the size is \"\"; expected LAYERSxDIM");
  refused("random:7", "the size is \"7\"; expected LAYERSxDIM");
  refused("random:0x32", "LAYERS is \"0\"; expected a number from 1");
  refused("random:2x", "DIM is \"\"");
  refused("random:2x32x4", "DIM is \"32x4\"");
  refused("random:2x99999", "DIM is \"99999\"; expected a number from 2 to 16384");
  refused("random:2x33", "DIM is \"33\"; expected a multiple of 2");
  refused("random:2x32,heads=3", "DIM is \"32\"; expected a multiple of 6");
  refused("random:2x32,vocab=260", "vocab is \"260\"; expected a number from 261");
  refused("random:2x32,seed=-1", "seed is \"-1\"");
  refused("random:2x32,depth=3", "a setting is \"depth=3\"; expected vocab=N, heads=N or seed=N");
  refused("random:2x32,,", "a setting is \"\"");
}

TEST(RandomSource, IsAModelOfItsSizes) {
  const TemporaryFolder folder;
  const auto source = parsed("random:3x32,vocab=300,heads=2");

  ASSERT_THAT(make_random_model(folder.path(), source), IsOk());

  const auto config = engine::ModelFiles::open(folder.path()).value().config();
  EXPECT_EQ(config, config_of(source));
  EXPECT_EQ(config.layers, 3U);
  EXPECT_EQ(config.hidden_size, 32U);
  EXPECT_EQ(config.vocab_size, 300U);
  EXPECT_EQ(config.heads, 2U);
}

TEST(RandomSource, IsTheSameModelForTheSameSeedOnly) {
  const TemporaryFolder folder;
  ASSERT_THAT(make_random_model(folder.path("a"), parsed("random:1x16")), IsOk());
  ASSERT_THAT(make_random_model(folder.path("b"), parsed("random:1x16")), IsOk());
  ASSERT_THAT(make_random_model(folder.path("c"), parsed("random:1x16,seed=1")), IsOk());

  EXPECT_EQ(folder.read("a/model.safetensors"), folder.read("b/model.safetensors"));
  EXPECT_NE(folder.read("a/model.safetensors"), folder.read("c/model.safetensors"));
}

TEST(RandomSource, IsNotMadeTwice) {
  const TemporaryFolder folder;
  folder.write("config.json", "there already");

  ASSERT_THAT(make_random_model(folder.path(), parsed("random:1x16")), IsOk());

  EXPECT_EQ(folder.read("config.json"), "there already");
}

TEST(RandomSource, SaysThatItsFolderCannotBeWritten) {
  const TemporaryFolder folder;
  folder.write("file", "");

  EXPECT_THAT(write_random_tokenizer(folder.path("file/below"), parsed("random:1x16")),
              IsError(ErrorCode::io_error, HasSubstr("file/below")));
}

TEST(RandomSource, HasAFolderNameForEachModelWithoutAColon) {
  const auto name = folder_name(parsed("random:2x32,seed=5"));

  EXPECT_EQ(name, "random-2x32-vocab512-heads4-seed5");
  EXPECT_THAT(folder_name(parsed("random:2x32,seed=6")), ::testing::Ne(name));
}

class RandomTokenizerTest : public ::testing::Test {
 protected:
  static Tokenizer made(std::string_view source) {
    const TemporaryFolder folder;
    EXPECT_THAT(write_random_tokenizer(folder.path(), parsed(source)), IsOk());
    return Tokenizer::load(folder.path()).value();
  }
};

TEST_F(RandomTokenizerTest, HasATokenForEachByte) {
  const auto tokenizer = made("random:1x16,vocab=261");

  EXPECT_EQ(tokenizer.vocab_size(), 261U);
  EXPECT_THAT(tokenizer.encode("ab \n\xff"), ElementsAre('a', 'b', ' ', '\n', 0xff));
  const std::string text = "Grüße, 世界!\n";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(RandomTokenizerTest, HasControlTokensOfChats) {
  const auto tokenizer = made("random:1x16");

  EXPECT_THAT(tokenizer.encode("<|im_end|>", {.parse_special = true}), ElementsAre(260));
  EXPECT_TRUE(tokenizer.is_special(258));
  EXPECT_EQ(config_of(parsed("random:1x16")).eos_ids, std::vector<std::int32_t>{258});
}

TEST_F(RandomTokenizerTest, HasPairsOfLettersWhileThereIsRoom) {
  const auto tokenizer = made("random:1x16,vocab=263");

  EXPECT_EQ(tokenizer.vocab_size(), 263U);
  EXPECT_THAT(tokenizer.encode("aaabac"), ElementsAre(261, 262, 'a', 'c'));
  EXPECT_EQ(made("random:1x16,vocab=5000").vocab_size(), 261U + 26U * 26U);
}

// Hugging Face's library numbers added tokens that its vocabulary lacks by itself.
TEST_F(RandomTokenizerTest, HasItsControlTokensInTheVocabulary) {
  const TemporaryFolder folder;
  ASSERT_THAT(write_random_tokenizer(folder.path(), parsed("random:1x16")), IsOk());

  EXPECT_THAT(folder.read("tokenizer.json"),
              AllOf(HasSubstr(R"("<|pad|>":256)"), HasSubstr(R"("<|im_end|>":260)")));
}

TEST_F(RandomTokenizerTest, IsSaidToBeFastForTransformers) {
  const TemporaryFolder folder;
  ASSERT_THAT(write_random_tokenizer(folder.path(), parsed("random:1x16")), IsOk());

  EXPECT_THAT(folder.read("tokenizer_config.json"),
              AllOf(HasSubstr("PreTrainedTokenizerFast"), HasSubstr(R"("eos_token":"<|eos|>")")));
}

}  // namespace
}  // namespace tinker::server::random_source_test
