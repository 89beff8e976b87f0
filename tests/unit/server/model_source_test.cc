#include "server/model_source.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "engine/random_model.h"
#include "support/gguf_file.h"
#include "support/hub_files.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::model_source_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::tinker::testing::IsError;
using ::tinker::testing::kTinyTokenizer;
using ::tinker::testing::put_into_cache;
using ::tinker::testing::TemporaryFolder;
using ::tinker::testing::tiny_llama_gguf;

auto refused(const char* what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

engine::ModelConfig small_config() {
  return {.architecture = engine::ModelConfig::Architecture::qwen2,
          .vocab_size = 3,
          .hidden_size = 8,
          .ffn_size = 8,
          .layers = 1,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 4,
          .context_length = 128,
          .tied_head = true};
}

class ModelSourceTest : public ::testing::Test {
 protected:
  /// A model in a folder of ours.
  void put_model(const std::string& name, bool has_tokenizer = true) {
    engine::write_random_model(files_.path(name), small_config(), 1).value();
    if (has_tokenizer) files_.write(name + "/tokenizer.json", kTinyTokenizer);
  }
  /// The same in the hub's cache, as Acme/Small.
  void put_cached_model() {
    put_model("small");
    for (const auto* const file : {"config.json", "model.safetensors", "tokenizer.json"}) {
      put_into_cache(
          cache_, "models--Acme--Small", "main", file, files_.read(std::string("small/") + file));
    }
  }
  [[nodiscard]] std::string real(const std::string& name) const {
    return fs::canonical(files_.path(name)).string();
  }

  TemporaryFolder files_;
  TemporaryFolder cache_;
  SourceFinder finder_ = SourceFinder(cache_.path());
};

TEST_F(ModelSourceTest, IsAFolderOfHuggingFace) {
  put_model("small");

  const auto found = finder_.find({.name = "tiny", .source = files_.path("small")}).value();

  EXPECT_EQ(found.path, real("small"));
  EXPECT_EQ(found.config, small_config());
  EXPECT_EQ(found.tokenizer, real("small"));
  EXPECT_EQ(found.tokenizer_id, real("small"));
}

TEST_F(ModelSourceTest, IsOneForAllNamesOfAFolder) {
  put_model("small");
  fs::create_directory_symlink(files_.path("small"), files_.path("link"));

  const auto first = finder_.find({.name = "a", .source = files_.path("small")}).value();
  const auto second = finder_.find({.name = "b", .source = files_.path("link/../link/.")}).value();

  EXPECT_EQ(first.key(), second.key());
}

TEST_F(ModelSourceTest, IsAnotherOneWithAnotherTokenizer) {
  put_model("small");
  files_.write("other/tokenizer.json", kTinyTokenizer);

  const auto own = finder_.find({.name = "a", .source = files_.path("small")}).value();
  const auto other = finder_.find({.name = "b",
                                   .source = files_.path("small"),
                                   .tokenizer = files_.path("other/tokenizer.json")});

  EXPECT_NE(own.key(), other.value().key());
  EXPECT_EQ(other.value().tokenizer_id, real("other"));
}

TEST_F(ModelSourceTest, IsAGgufFileWithItsOwnVocabulary) {
  files_.write("model.gguf", tiny_llama_gguf(true));

  const auto found = finder_.find({.name = "Acme/Small", .source = files_.path("model.gguf")});

  EXPECT_EQ(found.value().config.context_length, 77U);
  EXPECT_EQ(found.value().tokenizer, real("model.gguf"));
  EXPECT_EQ(found.value().tokenizer_id, "Acme/Small");  // transformers cannot read the file
}

TEST_F(ModelSourceTest, IsAFolderWithAGgufFile) {
  files_.write("folder/model.gguf", tiny_llama_gguf(true));

  const auto found = finder_.find({.name = "tiny", .source = files_.path("folder")}).value();

  EXPECT_EQ(found.tokenizer, real("folder/model.gguf"));
  EXPECT_EQ(found.tokenizer_id, real("folder/model.gguf"));  // no hub has a model "tiny"
}

TEST_F(ModelSourceTest, NamesNoGgufFileWhoseNameClientsWouldCut) {
  files_.write("a:b.gguf", tiny_llama_gguf(true));  // R16.1

  const auto found = finder_.find({.name = "tiny", .source = files_.path("a:b.gguf")}).value();

  EXPECT_EQ(found.tokenizer, real("a:b.gguf"));
  EXPECT_EQ(found.tokenizer_id, "");
}

TEST_F(ModelSourceTest, NamesAGgufFileThatWasChosenAsTokenizer) {
  put_model("bare", false);
  files_.write("model.gguf", tiny_llama_gguf(true));

  const auto found = finder_.find(
      {.name = "tiny", .source = files_.path("bare"), .tokenizer = files_.path("model.gguf")});

  EXPECT_EQ(found.value().tokenizer_id, real("model.gguf"));
}

TEST_F(ModelSourceTest, PrefersATokenizerBesideAGgufFile) {
  files_.write("folder/model.gguf", tiny_llama_gguf(true));
  files_.write("folder/tokenizer.json", kTinyTokenizer);

  const auto found = finder_.find({.name = "tiny", .source = files_.path("folder")}).value();

  EXPECT_EQ(found.tokenizer, real("folder"));
  EXPECT_EQ(found.tokenizer_id, real("folder"));
}

TEST_F(ModelSourceTest, TakesATokenizerByNameFromTheCache) {
  put_model("bare", false);
  put_into_cache(cache_, "models--Acme--Small");
  files_.write("model.gguf", tiny_llama_gguf(false));

  for (const auto* const source : {"bare", "model.gguf"}) {
    const auto found =
        finder_.find({.name = "Acme/Small/variant", .source = files_.path(source)}).value();

    EXPECT_THAT(found.tokenizer.string(), HasSubstr("models--Acme--Small/snapshots/"));
    EXPECT_EQ(found.tokenizer_id, "Acme/Small");  // R16.3
  }
}

TEST_F(ModelSourceTest, MayHaveNoTokenizer) {
  put_model("bare", false);

  const auto found = finder_.find({.name = "Acme/Small", .source = files_.path("bare")}).value();

  EXPECT_EQ(found.tokenizer, "");
  EXPECT_EQ(found.tokenizer_id, "Acme/Small");
}

TEST_F(ModelSourceTest, TellsNobodyOfAFolderWhoseNameClientsWouldCut) {
  put_model("a:b");  // R16.1

  const auto found = finder_.find({.name = "Acme/Small", .source = files_.path("a:b")}).value();

  EXPECT_EQ(found.tokenizer, real("a:b"));
  EXPECT_EQ(found.tokenizer_id, "Acme/Small");
}

TEST_F(ModelSourceTest, IsInTheCacheOfTheHub) {
  put_cached_model();

  const auto found = finder_.find({.name = "Acme/Small"}).value();

  EXPECT_THAT(found.path.string(), HasSubstr("models--Acme--Small/snapshots/cccc"));
  EXPECT_EQ(found.config, small_config());
  EXPECT_EQ(found.tokenizer, found.path);
  EXPECT_EQ(found.tokenizer_id, "Acme/Small");
}

TEST_F(ModelSourceTest, SaysWhereItLookedAndWhatHelps) {
  EXPECT_THAT(finder_.find({.name = "Acme/Small"}),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr(cache_.path()),
                            HasSubstr("--model Acme/Small=PATH"),
                            HasSubstr("huggingface-cli download Acme/Small"))));
}

TEST_F(ModelSourceTest, SaysThatTheCacheHasOnlyAPartOfIt) {
  put_cached_model();
  fs::remove(
      cache_.path("models--Acme--Small/snapshots/" + std::string(40, 'c') + "/model.safetensors"));

  EXPECT_THAT(finder_.find({.name = "Acme/Small"}), refused("huggingface-cli download Acme/Small"));
}

TEST_F(ModelSourceTest, LooksForNoNameThatNoHubHas) {
  EXPECT_THAT(finder_.find({.name = "../etc"}), refused("--model ../etc=PATH"));
}

TEST_F(ModelSourceTest, NamesTheModelThatCannotBeUsed) {
  files_.write("broken/config.json", "{}");
  files_.write("broken/model.safetensors", "");
  put_model("small");
  const auto find = [this](const ServedModel& model) {
    const auto found = finder_.find(model);
    return found.ok() ? std::string() : found.error().to_string();
  };

  EXPECT_THAT(find({.name = "Acme/X", .source = files_.path("none")}),
              AllOf(StartsWith("Acme/X: "), HasSubstr("No such file")));
  EXPECT_THAT(find({.name = "Acme/X", .source = files_.path("broken")}),
              AllOf(StartsWith("Acme/X: "), HasSubstr("broken")));
  EXPECT_THAT(find({.name = "Acme/X", .source = "random:2"}),
              AllOf(StartsWith("Acme/X: "), HasSubstr("LAYERSxDIM")));
  EXPECT_THAT(find({.name = "Acme/X",
                    .source = files_.path("small"),
                    .tokenizer = files_.path("no_tokenizer")}),
              AllOf(StartsWith("Acme/X: tokenizer "), HasSubstr("no_tokenizer")));
  EXPECT_THAT(find({.source = files_.path("small")}), HasSubstr("has no name"));
}

TEST_F(ModelSourceTest, OfRandomWeightsIsAFolderThatClientsCanReadAtOnce) {
  const auto found = finder_.find({.name = "tiny", .source = "random:2x32,vocab=300"}).value();

  EXPECT_EQ(found.config.vocab_size, 300U);
  EXPECT_TRUE(fs::exists(fs::path(found.tokenizer_id) / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(found.path / "model.safetensors"));  // not before it is needed
}

TEST_F(ModelSourceTest, OfRandomWeightsIsOneForTheSameSizes) {
  const auto first = finder_.find({.name = "a", .source = "random:2x32"}).value();
  const auto second = finder_.find({.name = "b", .source = "random:2x32,vocab=512"}).value();
  const auto third = finder_.find({.name = "c", .source = "random:2x32,seed=1"}).value();

  EXPECT_EQ(first.key(), second.key());
  EXPECT_NE(first.key(), third.key());
}

TEST(RandomModelFolder, GoesWithItsLastUser) {
  auto finder = std::make_unique<SourceFinder>("");
  auto found = finder->find({.name = "tiny", .source = "random:1x16"}).value();
  const auto folder = found.path;

  finder.reset();
  EXPECT_TRUE(fs::exists(folder));
  found = {};
  EXPECT_FALSE(fs::exists(folder.parent_path()));
}

}  // namespace
}  // namespace tinker::server::model_source_test
