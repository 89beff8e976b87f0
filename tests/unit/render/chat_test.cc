#include "tinker/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "wire/json.h"

namespace tinker::render::chat_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

Json json_of(std::string_view text) {
  return wire::decode_json<Json>(text).value();
}

Result<Message> message_of(std::string_view text) {
  return Message::from_json(json_of(text));
}

std::string text_of(const Json& json) {
  return wire::encode_json(json).value();
}

auto is_refused(std::string_view why) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(std::string(why)));
}

constexpr std::string_view kCallMessage =
    R"({"role":"assistant","content":"So:","tool_calls":[{"type":"function","id":"c1",)"
    R"("function":{"name":"f","arguments":"{\"a\": 1}"}}]})";

TEST(Message, ReadsTheFormsOfOpenAiAndOfTheCookbook) {
  const auto plain = message_of(R"({"role":"user","content":"Hi"})");
  const auto result =
      message_of(R"({"role":"tool","content":"18C","tool_call_id":"c1","name":"get_weather"})");
  const auto call = message_of(kCallMessage);

  EXPECT_THAT(plain, IsOkAndHolds(Message{.role = "user", .content = "Hi"}));
  EXPECT_THAT(result,
              IsOkAndHolds(Message{
                  .role = "tool", .content = "18C", .tool_call_id = "c1", .name = "get_weather"}));
  ASSERT_THAT(call, IsOk());
  EXPECT_THAT(call->tool_calls,
              ::testing::Optional(
                  ElementsAre(ToolCall{.name = "f", .arguments = R"({"a": 1})", .id = "c1"})));
}

TEST(Message, TakesNullForWhatIsNotThere) {
  const auto message = message_of(
      R"({"role":"assistant","content":null,"tool_calls":null,"name":null,"refusal":null,)"
      R"("trainable":null,"reasoning_content":null})");

  EXPECT_THAT(message, IsOkAndHolds(Message{.role = "assistant"}));
}

TEST(Message, KeepsAnEmptyListOfCalls) {
  EXPECT_THAT(message_of(R"({"role":"assistant","content":"","tool_calls":[]})")->tool_calls,
              ::testing::Optional(IsEmpty()));
}

TEST(Message, ReadsArgumentsThatAreAnObject) {
  const auto message =
      message_of(R"({"role":"assistant","tool_calls":[{"type":null,"id":null,)"
                 R"("function":{"name":"f","arguments":{"city":"Zürich","n":[1,2.0]}}}]})");

  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(message->tool_calls->front().arguments, R"({"city": "Z\u00fcrich", "n": [1, 2.0]})");
  EXPECT_EQ(message->tool_calls->front().id, std::nullopt);
}

TEST(Message, PutsReasoningBeforeTheContent) {
  const auto text = message_of(R"({"role":"assistant","reasoning_content":"Hm.","content":"Yes"})");
  const auto parts = message_of(
      R"({"role":"assistant","content":[{"type":"text","text":"Yes"}],"reasoning_content":"Hm."})");
  const auto nothing_said = message_of(R"({"role":"assistant","reasoning_content":"Hm."})");

  const std::vector<ContentPart> both = {ThinkingPart{"Hm."}, TextPart{"Yes"}};
  EXPECT_EQ(text->content, Content(both));
  EXPECT_EQ(parts->content, Content(both));
  EXPECT_EQ(nothing_said->content, Content(std::vector<ContentPart>{ThinkingPart{"Hm."}}));
  EXPECT_EQ(text->thinking(), "Hm.");
  EXPECT_EQ(text->text(), "Yes");
}

TEST(Message, ReadsImages) {
  const auto message =
      message_of(R"({"role":"user","content":[{"type":"image_url","image_url":)"
                 R"({"url":"data:image/jpeg;base64,aGk="}},{"type":"image","image":)"
                 R"("data:image/png;base64,aG8="},{"type":"text","text":"?"}]})");

  ASSERT_THAT(message, IsOk());
  EXPECT_EQ(message->content,
            Content(std::vector<ContentPart>{
                ImagePart{{.data = "hi", .format = ImageFormat::jpeg}},
                ImagePart{{.data = "ho", .format = ImageFormat::png}},
                TextPart{"?"},
            }));
}

TEST(Message, RefusesWhatItHasNoPlaceForByName) {
  const auto refusals = std::to_array<std::pair<std::string_view, std::string_view>>({
      {R"([])", "a message: expected an object"},
      {R"({"content":"Hi"})", "'role' of a message is missing"},
      {R"({"role":null})", "role: expected a string"},
      {R"({"role":"user","contents":"Hi"})", "no member 'contents'"},
      {R"({"role":"user","content":7})", "a text or a list of parts: expected a list"},
      {R"({"role":"user","content":["Hi"]})", "content[0]: 'type' is missing"},
      {R"({"role":"user","content":[{"type":"audio"}]})", "found 'audio'"},
      {R"({"role":"user","content":[{"type":"image","image":"http://x/y.png"}]})", "'http://x/y"},
      {R"({"role":"user","content":[{"type":"image_url"}]})", "content[0]: 'url' is missing"},
      {R"({"role":"user","trainable":1})", "trainable: expected true or false"},
      {R"({"role":"assistant","tool_calls":{}})", "tool_calls: expected a list"},
      {R"({"role":"assistant","tool_calls":[{"id":"x"}]})", "tool_calls[0]: 'function'"},
      {R"({"role":"assistant","tool_calls":[{"type":"custom"}]})", "must be 'function'"},
      {R"({"role":"assistant","tool_calls":[{"index":0}]})", "found 'index'"},
      {R"({"role":"assistant","tool_calls":[{"function":{"name":"f"}}]})", "'arguments'"},
      {R"({"role":"assistant","function_call":{}})", "'function_call'"},
      {R"({"role":"assistant","unparsed_tool_calls":[{}]})", "'raw_text' is missing"},
  });

  for (const auto& [text, why] : refusals) {
    EXPECT_THAT(message_of(text), is_refused(why)) << text;
  }
}

TEST(Message, ComesBackFromTheFormOfTheCookbook) {
  const Message message = {
      .role = "assistant",
      .content = std::vector<ContentPart>{ThinkingPart{"Hm."},
                                          TextPart{"é\n"},
                                          ImagePart{{.data = "hi", .format = ImageFormat::png}}},
      .tool_calls = std::vector{ToolCall{.name = "f", .arguments = "{}", .id = "c"},
                                ToolCall{.name = "g", .arguments = "no JSON"}},
      .unparsed_tool_calls = {{.raw_text = "<tool_call>", .error = "unterminated"}},
      .tool_call_id = "c",
      .name = "f",
      .trainable = true,
  };

  EXPECT_THAT(Message::from_json(to_json(message)), IsOkAndHolds(message));
  EXPECT_THAT(Message::from_json(to_json(Message{.role = "user"})),
              IsOkAndHolds(Message{.role = "user"}));
}

TEST(Message, IsWrittenAsOpenAiHasIt) {
  const Message message = {
      .role = "assistant",
      .content = std::vector<ContentPart>{TextPart{"a"}, ThinkingPart{"Hm."}, TextPart{"b"}},
      .tool_calls = std::vector{ToolCall{.name = "f", .arguments = R"({"a": 1})", .id = "c"}},
  };

  EXPECT_EQ(text_of(to_openai_json(message, ToolArguments::as_text).value()),
            R"({"role":"assistant","content":"ab","reasoning_content":"Hm.","tool_calls":)"
            R"([{"type":"function","id":"c","function":{"name":"f","arguments":"{\"a\": 1}"}}]})");
  EXPECT_THAT(text_of(to_openai_json(message, ToolArguments::as_object).value()),
              HasSubstr(R"("arguments":{"a":1})"));
}

TEST(Message, CannotBeWrittenWithArgumentsThatAreNoObject) {
  const Message message = {.role = "assistant",
                           .tool_calls = std::vector{ToolCall{.name = "f", .arguments = "{"}}};

  EXPECT_THAT(to_openai_json(message, ToolArguments::as_object), is_refused("'f'"));
  EXPECT_THAT(to_openai_json(message, ToolArguments::as_text), IsOk());
}

TEST(ToolSpec, IsWrappedOrNot) {
  const auto wrapped = ToolSpec::from_json(json_of(
      R"({"type":"function","function":{"name":"f","description":"Does.","parameters":{"type":"object"}}})"));
  const auto bare = ToolSpec::from_json(
      json_of(R"({"name":"f","description":"Does.","parameters":{"type":"object"}})"));
  const auto least = ToolSpec::from_json(json_of(R"({"name":"f"})"));

  ASSERT_THAT(wrapped, IsOk());
  EXPECT_EQ(*wrapped, *bare);
  EXPECT_EQ(wrapped->name(), "f");
  EXPECT_EQ(wrapped->description(), "Does.");
  EXPECT_EQ(text_of(wrapped->parameters()), R"({"type":"object"})");
  EXPECT_EQ(least->description(), "");
  EXPECT_EQ(text_of(least->parameters()), "{}");
}

TEST(ToolSpec, KeepsOtherMembersAndOfEqualOnesTheLast) {
  const auto tool =
      ToolSpec::from_json(json_of(R"({"name":1,"strict":true,"name":"f","parameters":{}})"));

  ASSERT_THAT(tool, IsOk());
  EXPECT_EQ(text_of(tool->json()), R"({"name":"f","strict":true,"parameters":{}})");
}

TEST(ToolSpec, RefusesWhatIsNoFunction) {
  const auto refusals = std::to_array<std::pair<std::string_view, std::string_view>>({
      {R"([])", "'name' is missing"},
      {R"({"type":"web_search"})", "type of a tool must be 'function'"},
      {R"({"type":"function"})", "'name' is missing"},
      {R"({"type":"function","function":7})", "'name' is missing"},
      {R"({"name":7})", "name: expected a string"},
      {R"({"name":"f","description":[]})", "description: expected a string"},
      {R"({"name":"f","parameters":"x"})", "parameters: expected an object"},
  });

  for (const auto& [text, why] : refusals) {
    EXPECT_THAT(ToolSpec::from_json(json_of(text)), is_refused(why)) << text;
  }
}

TEST(Conversation, IsAListOrAnObject) {
  const auto list = Conversation::parse(R"([{"role":"user","content":"Hi"}])");
  const auto object = Conversation::parse(
      R"({"id":7,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f"}]})");
  const auto without = Conversation::parse(R"({"messages":[],"tools":null})");

  ASSERT_THAT(list, IsOk());
  ASSERT_THAT(object, IsOk());
  EXPECT_THAT(list->messages, ElementsAre(Message{.role = "user", .content = "Hi"}));
  EXPECT_EQ(object->messages, list->messages);
  EXPECT_THAT(object->tools, SizeIs(1));
  EXPECT_THAT(without, IsOkAndHolds(Conversation{}));
}

TEST(Conversation, SaysWhereItIsWrong) {
  EXPECT_THAT(Conversation::parse("{"), IsError(ErrorCode::invalid_argument, HasSubstr("")));
  EXPECT_THAT(Conversation::parse("7"), is_refused("a conversation: expected an object"));
  EXPECT_THAT(Conversation::parse("{}"), is_refused("'messages' is missing"));
  EXPECT_THAT(Conversation::parse(R"([{"role":"user"},{"role":"user","x":1}])"),
              is_refused("messages[1]: a message has no member 'x'"));
  EXPECT_THAT(Conversation::parse(R"({"messages":[],"tools":[{}]})"),
              is_refused("tools[0]: 'name' is missing"));
}

}  // namespace
}  // namespace tinker::render::chat_test
