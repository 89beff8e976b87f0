#include "tokenizer/hf_reader.h"

#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::tokenizer::hf_reader_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

/// A small file with one part replaced.
std::string file_with(const std::string& part, const std::string& json) {
  const auto pick = [&](const std::string& name, const std::string& otherwise) {
    return "\"" + name + "\":" + (part == name ? json : otherwise);
  };
  return "{" + pick("truncation", "null") + "," + pick("added_tokens", "[]") + "," +
         pick("normalizer", "null") + "," + pick("pre_tokenizer", "null") + "," +
         pick("post_processor", "null") + "," + pick("decoder", "null") + "," +
         pick("model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})") + "}";
}

TEST(HfReader, ReadsTheSmallestFile) {
  EXPECT_THAT(read_tokenizer_json(file_with("", "")), IsOk());
}

struct Refused {
  const char* part;
  const char* json;
  const char* why;
};
class HfReaderRefuses : public ::testing::TestWithParam<Refused> {};
TEST_P(HfReaderRefuses, ByName) {
  EXPECT_THAT(read_tokenizer_json(file_with(GetParam().part, GetParam().json)),
              IsError(ErrorCode::invalid_argument, HasSubstr(GetParam().why)));
}
INSTANTIATE_TEST_SUITE_P(
    All,
    HfReaderRefuses,
    ::testing::Values(
        Refused{"truncation", "{}", "truncation"},
        Refused{"normalizer", R"({"type":"NFKC"})", "a normalizer of type 'NFKC'"},
        Refused{"normalizer", "[]", "'normalizer' is missing or not an object"},
        Refused{"normalizer",
                R"({"type":"Replace","pattern":{"Regex":"a"},"content":""})",
                "regular expression"},
        Refused{"pre_tokenizer", R"({"type":"BertPreTokenizer"})", "'BertPreTokenizer'"},
        Refused{"pre_tokenizer",
                R"({"type":"Split","behavior":"Torn","invert":false,"pattern":{"String":"a"}})",
                "'Torn'"},
        Refused{"pre_tokenizer",
                R"({"type":"Split","behavior":"Removed","invert":false,"pattern":{"String":""}})",
                "empty"},
        Refused{"pre_tokenizer",
                R"({"type":"Split","behavior":"Removed","invert":false,"pattern":{"Regex":"\\w"}})",
                "'\\w'"},
        Refused{"pre_tokenizer", R"({"type":"Split","invert":false})", "'behavior'"},
        Refused{"pre_tokenizer",
                R"({"type":"Metaspace","replacement":"_","prepend_scheme":"last"})",
                "'last'"},
        Refused{
            "pre_tokenizer",
            R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},{"type":"WhitespaceSplit"}]})",
            "after ByteLevel"},
        Refused{"post_processor", R"({"type":"BertProcessing"})", "'BertProcessing'"},
        Refused{
            "post_processor",
            R"({"type":"TemplateProcessing","special_tokens":{},"single":[{"SpecialToken":{"id":"<s>"}}]})",
            "'<s>'"},
        Refused{"post_processor",
                R"({"type":"TemplateProcessing","special_tokens":{},"single":[]})",
                "without a sequence"},
        Refused{"decoder", R"({"type":"WordPiece"})", "'WordPiece'"},
        Refused{"decoder", R"({"type":"ByteLevel"})", "without its pre-tokenizer"},
        Refused{"added_tokens",
                R"([{"id":3,"content":"x","single_word":true}])",
                "single_word of token 'x'"},
        Refused{"added_tokens", R"([{"id":-1,"content":"x"}])", "-1"},
        Refused{"added_tokens", R"([{"content":"x"}])", "'id'"},
        Refused{"model", R"({"type":"Unigram","vocab":[]})", "a model of type 'Unigram'"},
        Refused{"model", R"({"vocab":{"a":0},"merges":[],"dropout":0.1})", "dropout"},
        Refused{"model", R"({"vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"})", "'</w>'"},
        Refused{"model", R"({"vocab":{"a":0},"merges":[],"unk_token":"?"})", "'?'"},
        Refused{"model", R"({"vocab":{"a":0},"merges":["ab"]})", "'ab'"},
        Refused{"model", R"({"vocab":{"a":0,"b":1},"merges":["a b"]})", "merge 0 ('a', 'b')"},
        Refused{"model", R"({"vocab":{"a":0},"merges":[["a"]]})", "merge 0"},
        Refused{"model", R"({"vocab":{"a":-1},"merges":[]})", "'a'"},
        Refused{"model", R"({"vocab":{"a":1e9},"merges":[]})", "'a'"},
        Refused{"model", R"({"vocab":{"a":0,"b":0},"merges":[]})", "given twice"},
        Refused{"model", R"({"vocab":[],"merges":[]})", "'vocab'"},
        Refused{"model", "null", "'model'"}));

TEST(HfReader, RefusesWhatIsNoJson) {
  EXPECT_THAT(read_tokenizer_json("{"),
              IsError(ErrorCode::invalid_argument, HasSubstr("tokenizer.json")));
  EXPECT_THAT(read_tokenizer_json(""),
              IsError(ErrorCode::invalid_argument, HasSubstr("tokenizer.json")));
  EXPECT_THAT(read_tokenizer_json("[]"), IsError(ErrorCode::invalid_argument, HasSubstr("object")));
}

TEST(HfReader, RefusesPartsNestedTooDeeply) {
  std::string deep = "null";
  for (int i = 0; i < 100; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";

  EXPECT_THAT(read_tokenizer_json(file_with("normalizer", deep)),
              IsError(ErrorCode::invalid_argument, HasSubstr("nested")));
}

}  // namespace
}  // namespace tinker::tokenizer::hf_reader_test
