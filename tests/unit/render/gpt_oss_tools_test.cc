#include "render/gpt_oss_tools.h"

#include <array>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/json.h"

namespace tinker::render {
namespace {

Result<std::string> declared(std::string_view tool) {
  const std::array tools = {ToolSpec::from_json(wire::decode_json<Json>(tool).value()).value()};
  return gpt_oss_declarations(tools);
}

TEST(GptOssTools, WritesAPropertyALine) {
  EXPECT_EQ(declared(R"({
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {
      "type": "object",
      "description": "where and when",
      "properties": {
        "city": {"type": "string", "title": "City", "description": "A name.", "examples": ["é"]},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c", "nullable": true},
        "days": {"type": ["integer", "null"]},
        "near": {"type": "object", "properties": {"lat": {"type": "number"}, "on": {}},
                 "required": ["lat"]},
        "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}
      },
      "required": ["city"]
    }
  })")
                .value(),
            "// The weather.\n"
            "type get_weather = (_: // where and when\n"
            "{\n"
            "// City\n"
            "// \n"
            "// A name.\n"
            "// Examples:\n"
            "// - \"\\u00e9\"\n"
            "city: string,\n"
            "unit?: \"c\" | \"f\", // default: \"c\"\n"
            "days?: number | any,\n"
            "near?: { lat: number, on?: any },\n"
            "tags?: string | boolean[],\n"
            "}) => any;");
}

TEST(GptOssTools, WritesAFunctionWithoutParameters) {
  EXPECT_EQ(declared(R"({"name": "now", "parameters": {"type": "object"}})").value(),
            "type now = () => any;");
}

TEST(GptOssTools, RefusesWhatIsNoSchema) {
  const auto refused =
      declared(R"({"name": "f", "parameters": {"type": "object", "properties": {"a": 7}}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().to_string(), ::testing::HasSubstr("parameters of 'f'"));
}

}  // namespace
}  // namespace tinker::render
