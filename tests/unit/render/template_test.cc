// Renderers from chat templates: what is trained, where one example is not enough, and what a
// template leaves open.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/gguf_file.h"
#include "support/temporary_folder.h"
#include "tinker/renderer.h"
#include "tinker/testing/matchers.h"
#include "tinker/training_data.h"
#include "wire/json.h"

namespace tinker::render::template_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;
using ::tinker::testing::TemporaryFolder;

constexpr std::string_view kChatMl =
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\\n' + message.content + '<|end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}";

/// Texts are trimmed; the date is in the header of the conversation.
constexpr std::string_view kLlama =
    "{{- bos_token }}{{- '[' + strftime_now('%d %b %Y') + ']' }}"
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\\n\\n' + message.content | trim + '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n\\n' }}{%- endif %}";

/// Reasoning is in the last message alone.
constexpr std::string_view kThinking =
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\\n' }}"
    "{%- if loop.last and message.reasoning_content %}"
    "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{{- message.content + '<|end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}";

/// Prompts open the reasoning, messages have none.
constexpr std::string_view kOpened =
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\\n' + message.content + '<|end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n<think>\\n' }}{%- endif %}";

constexpr std::string_view kNoSystem =
    "{%- for message in messages %}"
    "{%- if message.role == 'system' %}{{- raise_exception('no system messages') }}{%- endif %}"
    "{{- '<|start|>' + message.role + '\\n' + message.content + '<|end|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}";

constexpr std::string_view kTools =
    "{%- if tools %}{{- '<|start|>tools\\n' + (tools | tojson) + '<|end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\\n' + message.content }}"
    "{%- for call in message.tool_calls %}"
    "{{- '<tool_call>' + ({'name': call.function.name, 'arguments': call.function.arguments} | "
    "tojson) + '</tool_call>' }}"
    "{%- endfor %}"
    "{{- '<|end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}";

Tokenizer tokenizer_of(std::string_view name) {
  return Tokenizer::load(std::string(TOKENIZER_GOLDEN "/") + std::string(name)).value();
}

Renderer renderer_of(std::string_view source) {
  return Renderer::from_template(source, tokenizer_of("qwen.json")).value();
}

std::vector<Message> two_turns() {
  return {{.role = "user", .content = "Hi"},
          {.role = "assistant", .content = "Hello!"},
          {.role = "user", .content = "Again"},
          {.role = "assistant", .content = "Yes?"}};
}

std::vector<std::int32_t> encoded(const Renderer& renderer, std::string_view text) {
  return renderer.tokenizer().encode(text, {.add_special_tokens = false, .parse_special = true});
}

/// The texts of tokens that have the same weight.
std::vector<std::pair<float, std::string>> runs(const Renderer& renderer,
                                                const SupervisedExample& example) {
  const auto tokens = example.input.to_tokens().value();
  std::vector<std::pair<float, std::string>> out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float weight = example.weights.at(i);
    if (out.empty() || out.back().first != weight) out.emplace_back(weight, "");
    out.back().second += renderer.tokenizer().decode({&tokens.at(i), 1});
  }
  return out;
}

TEST(TemplateRenderer, PromptsAreWhatTheTemplateRenders) {
  const auto renderer = renderer_of(kChatMl);

  const auto prompt = renderer.build_generation_prompt({{.role = "user", .content = "Hi"}}).value();

  const auto tokens = prompt.to_tokens().value();
  EXPECT_EQ(tokens, encoded(renderer, "<|start|>user\nHi<|end|>\n<|start|>assistant\n"));
  EXPECT_EQ(tokens.front(), 1);
  EXPECT_EQ(renderer.name(), "template");
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(renderer.stop()), std::vector<std::int32_t>{0});
}

TEST(TemplateRenderer, PromptsBeginAsTheAssistantAlone) {
  const auto renderer = renderer_of(kChatMl);
  const std::vector<Message> messages = {{.role = "user", .content = "Hi"}};

  const auto prompt = renderer.build_generation_prompt(messages, "assistant", "Sure").value();

  EXPECT_EQ(prompt.to_tokens().value(),
            encoded(renderer, "<|start|>user\nHi<|end|>\n<|start|>assistant\nSure"));
  EXPECT_THAT(renderer.build_generation_prompt(messages, "user", ""),
              IsError(ErrorCode::invalid_argument, HasSubstr("not for 'user'")));
}

TEST(TemplateRenderer, TrainsWhatFollowsThePromptUpToTheEndOfTheMessage) {
  const auto renderer = renderer_of(kChatMl);

  const auto example =
      renderer.build_supervised_example(two_turns(), TrainOnWhat::all_assistant_messages).value();

  EXPECT_THAT(runs(renderer, example),
              ElementsAre(Pair(0, "<|start|>user\nHi<|end|>\n<|start|>assistant\n"),
                          Pair(1, "Hello!<|end|>"),
                          Pair(0, "\n<|start|>user\nAgain<|end|>\n<|start|>assistant\n"),
                          Pair(1, "Yes?<|end|>"),
                          Pair(0, "\n")));
  EXPECT_EQ(example.input.to_tokens().value(),
            encoded(renderer,
                    "<|start|>user\nHi<|end|>\n<|start|>assistant\nHello!<|end|>\n"
                    "<|start|>user\nAgain<|end|>\n<|start|>assistant\nYes?<|end|>\n"));
}

TEST(TemplateRenderer, TrainsTheMessagesThatTheModeNames) {
  const auto renderer = renderer_of(kChatMl);
  const auto trained = [&](std::vector<Message> messages, TrainOnWhat mode) {
    std::string out;
    const auto example = renderer.build_supervised_example(std::move(messages), mode).value();
    for (const auto& [weight, text] : runs(renderer, example)) out += weight > 0 ? text : "";
    return out;
  };
  auto custom = two_turns();
  for (auto& message : custom) message.trainable = message.text() == "Hello!";

  EXPECT_EQ(trained(two_turns(), TrainOnWhat::last_assistant_message), "Yes?<|end|>");
  EXPECT_EQ(trained(two_turns(), TrainOnWhat::last_assistant_turn), "Yes?<|end|>");
  EXPECT_EQ(trained(custom, TrainOnWhat::customized), "Hello!<|end|>");
  EXPECT_THAT(trained(two_turns(), TrainOnWhat::all_tokens), HasSubstr("<|start|>user\nHi"));
}

TEST(TemplateRenderer, RefusesModesThatNeedHeaders) {
  const auto renderer = renderer_of(kChatMl);
  auto custom = two_turns();
  for (auto& message : custom) message.trainable = message.role == "user";

  EXPECT_THAT(renderer.build_supervised_example(two_turns(), TrainOnWhat::all_messages),
              IsError(ErrorCode::invalid_argument, HasSubstr("'all_messages'")));
  EXPECT_THAT(renderer.build_supervised_example(custom, TrainOnWhat::customized),
              IsError(ErrorCode::invalid_argument, HasSubstr("'customized'")));
}

TEST(TemplateRenderer, MakesOneExampleWhereTurnsStayAsTheyWere) {
  const auto renderer = renderer_of(kChatMl);

  const auto examples =
      renderer.build_supervised_examples(two_turns(), TrainOnWhat::all_assistant_messages).value();

  ASSERT_THAT(examples, SizeIs(1));
  EXPECT_THAT(runs(renderer, examples[0]), SizeIs(5));
}

TEST(TemplateRenderer, TellsTheTemplateTokensAndDate) {
  const auto renderer =
      Renderer::from_template(
          kLlama,
          tokenizer_of("deepseek.json"),
          {.bos_token = "<s>", .date = std::chrono::year(2025) / std::chrono::January / 2})
          .value();
  std::vector<Message> messages = {{.role = "user", .content = " Hi "},
                                   {.role = "assistant", .content = " Hello "}};

  const auto some = renderer.build_supervised_example(messages).value();
  const auto all = renderer.build_supervised_example(messages, TrainOnWhat::all_tokens).value();

  EXPECT_THAT(
      runs(renderer, some),
      ElementsAre(Pair(0, "<s>[02 Jan 2025]<|start|>user\n\nHi<|end|><|start|>assistant\n\n"),
                  Pair(1, "Hello<|end|>")));
  EXPECT_EQ(runs(renderer, all).front(), std::pair(0.0F, std::string("<s>")));
}

TEST(TemplateRenderer, SplitsWhereReasoningIsTakenOutOfHistory) {
  const auto renderer = renderer_of(kThinking);
  auto messages = two_turns();
  messages[1].content = std::vector<ContentPart>{ThinkingPart{"greet"}, TextPart{"Hello!"}};

  const auto examples =
      renderer.build_supervised_examples(messages, TrainOnWhat::all_assistant_messages).value();

  ASSERT_THAT(examples, SizeIs(2));
  EXPECT_THAT(runs(renderer, examples[0]),
              ElementsAre(Pair(0, "<|start|>user\nHi<|end|>\n<|start|>assistant\n"),
                          Pair(1, "<think>\ngreet\n</think>\n\nHello!<|end|>"),
                          Pair(0, "\n")));
  EXPECT_THAT(runs(renderer, examples[1]),
              ElementsAre(Pair(0,
                               "<|start|>user\nHi<|end|>\n<|start|>assistant\nHello!<|end|>\n"
                               "<|start|>user\nAgain<|end|>\n<|start|>assistant\n"),
                          Pair(1, "Yes?<|end|>"),
                          Pair(0, "\n")));
  EXPECT_THAT(renderer.build_supervised_example(messages, TrainOnWhat::all_assistant_messages),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("messages[1] is written differently once others follow")));
}

TEST(TemplateRenderer, RefusesReasoningThatTheTemplateLeavesOut) {
  const auto renderer = renderer_of(kChatMl);

  EXPECT_THAT(
      renderer.build_supervised_example(
          {{.role = "user", .content = "Hi"},
           {.role = "assistant",
            .content = std::vector<ContentPart>{ThinkingPart{"greet"}, TextPart{"Hello!"}}}}),
      IsError(ErrorCode::invalid_argument, HasSubstr("messages[1] has reasoning")));
}

TEST(TemplateRenderer, RefusesCallsThatTheTemplateLeavesOut) {
  const auto messages = std::vector<Message>{
      {.role = "user", .content = "Hi"},
      {.role = "assistant", .tool_calls = {{{.name = "weather", .arguments = "{}"}}}}};

  const auto refused =
      renderer_of(kChatMl).build_supervised_example(messages, TrainOnWhat::last_assistant_message);
  const auto written =
      renderer_of(kTools).build_supervised_example(messages, TrainOnWhat::last_assistant_message);

  EXPECT_THAT(refused,
              IsError(ErrorCode::invalid_argument, HasSubstr("messages[1] calls 'weather'")));
  EXPECT_TRUE(written.ok());
}

TEST(TemplateRenderer, SplitsWhatSaysItselfWhatIsTrained) {
  auto messages = two_turns();
  for (auto& message : messages) message.trainable = message.role == "assistant";
  messages[1].content =
      std::vector<ContentPart>{ThinkingPart{"So."}, TextPart{"Hello!"}};  // gone from history
  const auto renderer = renderer_of(kThinking);

  const auto examples = renderer.build_supervised_examples(messages, TrainOnWhat::customized);
  messages[0].trainable = true;
  const auto refused = renderer.build_supervised_examples(messages, TrainOnWhat::customized);

  ASSERT_TRUE(examples.ok()) << examples.error();
  EXPECT_THAT(*examples, SizeIs(2));
  EXPECT_THAT(
      refused,
      IsError(ErrorCode::invalid_argument, HasSubstr("messages[0] of 'user' is trainable")));
}

TEST(TemplateRenderer, SaysWhatIsWrongWithTheTemplate) {
  const auto refused = Renderer::from_template("{{ messages | foo }}", tokenizer_of("qwen.json"));

  EXPECT_THAT(refused, IsError(ErrorCode::invalid_argument, HasSubstr("no filter is named 'foo'")));
}

TEST(TemplateRenderer, SaysWhereAMessageDoesNotGoOnFromItsPrompt) {
  const auto renderer = renderer_of(kOpened);

  const auto example = renderer.build_supervised_example(two_turns());

  EXPECT_THAT(example,
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("messages[3] does not go on where its prompt ends")));
  EXPECT_THAT(example, IsError(ErrorCode::invalid_argument, HasSubstr("<think>\\x0a")));
}

TEST(TemplateRenderer, BeginsExamplesWithTheTokensOfThePrompt) {
  const auto renderer = renderer_of(kChatMl);
  auto messages = two_turns();
  messages[1].content = "\nHello!";  // its newline and the header's are one token in a whole text
  messages[3].content = "\nYes?";

  const auto examples =
      renderer.build_supervised_examples(messages, TrainOnWhat::all_assistant_messages).value();

  ASSERT_THAT(examples, SizeIs(2));
  const auto prompt = renderer.build_generation_prompt({messages[0]}).value().to_tokens().value();
  auto begin = examples[0].input.to_tokens().value();
  begin.resize(prompt.size());
  EXPECT_EQ(begin, prompt);
  EXPECT_THAT(runs(renderer, examples[1])[1], Pair(1, "\nYes?<|end|>"));
}

TEST(TemplateRenderer, PassesOnWhatTheTemplateRaises) {
  const auto renderer = renderer_of(kNoSystem);

  EXPECT_THAT(renderer.build_generation_prompt({{.role = "system", .content = "Be kind"}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("no system messages")));
}

TEST(TemplateRenderer, ShowsToolsAndCallsAsObjects) {
  const auto renderer = renderer_of(kTools);
  const auto tool = ToolSpec::from_json(
      wire::decode_json<Json>(R"({"name": "add", "parameters": {"type": "object"}})").value());
  auto messages = renderer.create_conversation_prefix_with_tools({{tool.value()}}).value();
  messages.push_back({.role = "user", .content = "Hi"});
  messages.push_back(
      {.role = "assistant",
       .tool_calls = std::vector{ToolCall{.name = "add", .arguments = R"({"a":1,"b":2})"}}});

  const auto example = renderer.build_supervised_example(messages).value();

  EXPECT_THAT(
      runs(renderer, example),
      ElementsAre(
          Pair(0,
               "<|start|>tools\n[{\"type\": \"function\", \"function\": {\"name\": \"add\", "
               "\"parameters\": {\"type\": \"object\"}}}]<|end|>\n<|start|>user\nHi<|end|>\n"
               "<|start|>assistant\n"),
          Pair(1,
               "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}</tool_call>"
               "<|end|>"),
          Pair(0, "\n")));
  EXPECT_THAT(renderer_of(kChatMl).create_conversation_prefix_with_tools({{tool.value()}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("no place for tools")));
}

TEST(TemplateRenderer, RefusesImages) {
  EXPECT_THAT(
      renderer_of(kChatMl).build_generation_prompt(
          {{.role = "user", .content = std::vector<ContentPart>{ImagePart{{.data = "x"}}}}}),
      IsError(ErrorCode::invalid_argument, HasSubstr("messages[0]")));
}

TEST(TemplateRenderer, ParsesReasoningThatThePromptOpened) {
  const auto renderer = renderer_of(kOpened);

  const auto clean =
      renderer.parse_response(encoded(renderer, "greet\n</think>\n\nHello!<|end|>")).value();
  const auto cut = renderer.parse_response(encoded(renderer, "Hello")).value();

  EXPECT_EQ(clean.message.thinking(), "greet");
  EXPECT_EQ(clean.message.text(), "Hello!");
  EXPECT_EQ(clean.termination, ParseTermination::stop_sequence);
  EXPECT_EQ(cut.termination, ParseTermination::malformed);
}

TEST(TemplateRenderer, ParsesCallsAndTheEndOfTheSequence) {
  const auto renderer =
      Renderer::from_template(kChatMl, tokenizer_of("qwen.json"), {.eos_token = "<|start|>"})
          .value();

  const auto parsed = renderer.parse_response(encoded(
      renderer, R"(<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><|start|>)"));

  EXPECT_EQ(parsed.value().termination, ParseTermination::eos);
  ASSERT_THAT(parsed.value().message.tool_calls.value(), SizeIs(1));
  EXPECT_EQ(parsed.value().message.tool_calls->front().name, "add");
}

TEST(TemplateRenderer, EndsAMessageWhereAnotherMayFollow) {
  constexpr std::string_view kClosed =
      "{%- for message in messages %}"
      "{{- message.role + message.content + '<|end|>\n' }}"
      "{%- endfor %}"
      "{{- 'assistant' if add_generation_prompt else '<|start|>' }}";
  const auto renderer =
      Renderer::from_template(kClosed, tokenizer_of("qwen.json"), {.eos_token = "<|start|>"})
          .value();

  const auto examples =
      renderer.build_supervised_examples(two_turns(), TrainOnWhat::all_assistant_messages).value();

  EXPECT_THAT(std::get<std::vector<std::int32_t>>(renderer.stop()), ElementsAre(0, 1));
  ASSERT_THAT(examples, SizeIs(1));
  EXPECT_THAT(runs(renderer, examples[0])[1], Pair(1, "Hello!<|end|>"));
}

TEST(TemplateRenderer, RefusesMessagesWithoutAnEnd) {
  const auto renderer =
      Renderer::from_template("{% for m in messages %}{{ m.content }}{% endfor %}",
                              tokenizer_of("qwen.json"),
                              {.eos_token = "<|end|>"})
          .value();

  EXPECT_THAT(renderer.build_supervised_example(two_turns()),
              IsError(ErrorCode::invalid_argument, HasSubstr("messages[3] ends with no control")));
}

TEST(TemplateRenderer, SplitsToNothingWithoutAMessageToTrain) {
  const auto examples = renderer_of(kChatMl).build_supervised_examples(
      {{.role = "user", .content = "Hi"}}, TrainOnWhat::all_assistant_messages);

  EXPECT_THAT(examples.value(), IsEmpty());
}

TEST(TemplateRenderer, RefusesWhatItCannotUse) {
  const auto from = [](std::string_view source, const TemplateOptions& options) {
    return Renderer::from_template(source, tokenizer_of("qwen.json"), options);
  };

  EXPECT_THAT(from("{% if %}", {}), IsError(ErrorCode::invalid_argument, HasSubstr("template")));
  EXPECT_THAT(from("{{ messages[0].content }}", {}),
              IsError(ErrorCode::invalid_argument, HasSubstr("eos_token")));
  EXPECT_THAT(from(kChatMl, {.eos_token = "<|no|>"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("<|no|>")));
}

TEST(TemplateFolder, ReadsTheTemplateAndItsTokens) {
  const TemporaryFolder folder;
  std::filesystem::copy(TOKENIZER_GOLDEN "/deepseek.json", folder.path("tokenizer.json"));
  const auto source = wire::encode_json(Json(kLlama)).value();
  folder.write("tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": null, \"chat_template\": ["
               "{\"name\": \"rag\", \"template\": \"{{ 1 }}\"}, "
               "{\"name\": \"default\", \"template\": " +
                   source + "}]}");

  const auto listed = Renderer::from_folder(folder.path()).value();
  folder.write("chat_template.jinja", std::string(kChatMl));
  const auto own_file = Renderer::from_folder(folder.path("tokenizer.json")).value();

  const std::vector<Message> messages = {{.role = "user", .content = "Hi"}};
  EXPECT_EQ(listed.build_generation_prompt(messages).value().to_tokens().value().front(), 601);
  EXPECT_NE(own_file.build_generation_prompt(messages).value().to_tokens().value().front(), 601);
}

TEST(TemplateFolder, SaysThatThereIsNoTemplate) {
  const TemporaryFolder folder;
  std::filesystem::copy(TOKENIZER_GOLDEN "/qwen.json", folder.path("tokenizer.json"));

  EXPECT_THAT(Renderer::from_folder(folder.path()),
              IsError(ErrorCode::not_found, HasSubstr("chat_template.jinja")));
}

TEST(TemplateFolder, ReadsTheMetadataOfGguf) {
  GgufFile file;
  file.add("tokenizer.ggml.model", "gpt2");
  file.add("tokenizer.ggml.pre", "smollm");
  file.add("tokenizer.ggml.tokens", std::vector<std::string>{"<|end|>", "a", "b"});
  file.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{3, 1, 1});
  file.add("tokenizer.ggml.merges", std::vector<std::string>{});
  file.add("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  file.add("tokenizer.chat_template", "{% for m in messages %}{{ m.content + 'b' }}{% endfor %}");
  const TemporaryFolder folder;
  folder.write("model.gguf", file.bytes());

  const auto renderer = Renderer::from_folder(folder.path()).value();

  const auto prompt = renderer.build_generation_prompt({{.role = "user", .content = "a"}}).value();
  EXPECT_THAT(prompt.to_tokens().value(), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<std::int32_t>>(renderer.stop()), ElementsAre(0));
}

}  // namespace
}  // namespace tinker::render::template_test
