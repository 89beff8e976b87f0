#include "tinker/response_stream.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/chat_tokenizer.h"
#include "tinker/rng.h"
#include "tinker/testing/matchers.h"
#include "wire/utf8.h"

namespace tinker::render::response_stream_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::chat_tokenizer;
using ::tinker::testing::IsOk;
using Kind = ResponseDelta::Kind;
using Tokens = std::vector<std::int32_t>;

const Tokenizer& tokenizer() {
  static const Tokenizer made = chat_tokenizer();
  return made;
}

Renderer renderer(std::string_view name) {
  return Renderer::create(name, tokenizer()).value();
}

Tokens tokens_of(std::string_view text) {
  return tokenizer().encode(text, {.parse_special = true});
}

/// What a stream tells of tokens, in as many deltas as there are parts.
std::vector<ResponseDelta> told(ResponseStream& stream, const Tokens& tokens) {
  std::vector<ResponseDelta> out;
  const auto add = [&out](const std::vector<ResponseDelta>& deltas) {
    for (const auto& delta : deltas) {
      EXPECT_FALSE(delta.text.empty());
      EXPECT_TRUE(wire::is_utf8(delta.text)) << delta.text;
      if (out.size() > 1 && out.back().part == delta.part) {
        EXPECT_EQ(out.back().kind, delta.kind);
        out.back().text += delta.text;
      } else {
        out.push_back(delta);
      }
    }
  };
  for (const auto token : tokens) add(stream.push(token));
  add(stream.finish());
  return out;
}

std::vector<ResponseDelta> told(std::string_view name, std::string_view text) {
  ResponseStream stream(renderer(name));
  return told(stream, tokens_of(text));
}

std::string joined(const std::vector<ResponseDelta>& deltas, Kind kind) {
  std::string out;
  for (const auto& delta : deltas) {
    if (delta.kind == kind) out += delta.text;
  }
  return out;
}

ResponseDelta header() {
  return {.kind = Kind::header, .text = "assistant"};
}

TEST(ResponseStream, TellsTheParts) {
  EXPECT_THAT(
      told("qwen3", "<think>\nHm.\n</think>\n\nSo:\n<tool_call>\n{}\n</tool_call><|im_end|>"),
      ElementsAre(header(),
                  ResponseDelta{Kind::thinking, "Hm.", 0},
                  ResponseDelta{Kind::text, "So:\n", 1},
                  ResponseDelta{Kind::tool_call, "\n{}\n", 2}));
  EXPECT_THAT(
      told("qwen3_5", "Hm.\n</think>\n\nSo<|im_end|>"),
      ElementsAre(
          header(), ResponseDelta{Kind::thinking, "Hm.", 0}, ResponseDelta{Kind::text, "So", 1}));
  EXPECT_THAT(told("kimi_k25",
                   "Hm.</think>So<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                   "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
                   "<|im_end|>"),
              ElementsAre(header(),
                          ResponseDelta{Kind::thinking, "Hm.", 0},
                          ResponseDelta{Kind::text, "So", 1},
                          ResponseDelta{
                              Kind::tool_call, "functions.f:0<|tool_call_argument_begin|>{}", 2}));
  EXPECT_THAT(told("deepseekv4_1", "Hm.</think>So\n\n<｜DSML｜ calls>x</｜DSML｜ calls>"),
              ElementsAre(header(),
                          ResponseDelta{Kind::thinking, "Hm.", 0},
                          ResponseDelta{Kind::text, "So", 1},
                          ResponseDelta{Kind::tool_call, "x", 2}));
  EXPECT_THAT(told("role_colon", " Hi\nUser\n\nUser: and"),
              ElementsAre(header(), ResponseDelta{Kind::text, "Hi\nUser", 0}));
}

TEST(ResponseStream, TellsTheChannelsOfGptOss) {
  EXPECT_THAT(
      told("gpt_oss_low_reasoning",
           "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
           "<|message|>So<|end|><|start|>assistant<|channel|>other<|message|>no<|end|><|start|>"
           "assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"),
      ElementsAre(header(),
                  ResponseDelta{Kind::thinking, "Hm.", 0},
                  ResponseDelta{Kind::text, "So", 1},
                  ResponseDelta{Kind::tool_call, "{}", 2}));
}

TEST(ResponseStream, TellsTheFramesOfInkling) {
  ResponseStream stream(renderer("tml_v0"));
  auto tokens = tokens_of(
      "<|message_model|><|content_thinking|>Hm.<|end_message|>"
      "<|message_model|><|content_text|>");
  // Text that looks like a mark.
  for (const auto token : tokenizer().encode("<|end_message|>")) tokens.push_back(token);
  for (const auto token : tokens_of("é<|end_message|><|content_model_end_sampling|>")) {
    tokens.push_back(token);
  }

  EXPECT_THAT(told(stream, tokens),
              ElementsAre(header(),
                          ResponseDelta{Kind::thinking, "Hm.", 0},
                          ResponseDelta{Kind::text, "<|end_message|>é", 1}));
  EXPECT_EQ(stream.response().value().message.text(), "<|end_message|>é");
}

TEST(ResponseStream, HoldsBackWhatMayBeAMark) {
  ResponseStream stream(renderer("qwen3"));
  const auto push = [&stream](std::string_view text) {
    std::string out;
    for (const auto token : tokenizer().encode(text)) {
      for (const auto& delta : stream.push(token)) {
        if (delta.kind != Kind::header) out += delta.text;
      }
    }
    return out;
  };

  EXPECT_EQ(push("a <thi"), "a ");
  EXPECT_EQ(push("s"), "<this");
  EXPECT_EQ(push("\xC3"), "");
  EXPECT_EQ(push("\xA9<<to"), "é<");
  const auto rest = stream.finish();
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_EQ(rest[0], (ResponseDelta{Kind::text, "<to", 0}));
}

TEST(ResponseStream, ForgivesReasoningThatIsOpenedTwice) {
  for (const char* name : {"qwen3_5", "deepseekv3_thinking", "glm5_3_max_reasoning", "nemotron3"}) {
    EXPECT_THAT(
        told(name, "<think>Hm.</think>So"),
        ElementsAre(
            header(), ResponseDelta{Kind::thinking, "Hm.", 0}, ResponseDelta{Kind::text, "So", 1}))
        << name;
  }
}

TEST(ResponseStream, LooksAtTheEndOfThePrompt) {
  const auto format = renderer("deepseekv3_thinking");
  const Message user = {.role = "user", .content = "?"};
  const Message call = {.role = "assistant",
                        .tool_calls = std::vector{ToolCall{.name = "f", .arguments = "{}"}}};
  const Message result = {.role = "tool", .content = "18C"};
  ResponseStream after_user(format, format.build_generation_prompt({user}).value());
  ResponseStream after_tool(format, format.build_generation_prompt({user, call, result}).value());

  EXPECT_EQ(joined(told(after_user, tokens_of("a")), Kind::thinking), "a");
  EXPECT_EQ(joined(told(after_tool, tokens_of("a")), Kind::text), "a");
}

TEST(ResponseStream, EndsOnce) {
  ResponseStream stream(renderer("llama3"));

  EXPECT_THAT(told(stream, tokens_of("a<|eot_id|>b")),
              ElementsAre(header(), ResponseDelta{Kind::text, "a", 0}));
  EXPECT_THAT(stream.finish(), IsEmpty());
  EXPECT_EQ(stream.response().value().message.text(), "a");
}

// ---- beside parse_response ----

/// Compares what is told of a response with what it is parsed to.
void compare(const Renderer& format, const ModelInput& prompt, const Tokens& tokens) {
  ResponseStream stream(format, prompt);
  const auto deltas = told(stream, tokens);
  const auto parsed = stream.response();
  const auto what = format.name() + ": " + tokenizer().decode(tokens);
  ASSERT_THAT(parsed, IsOk()) << what;
  EXPECT_EQ(joined(deltas, Kind::thinking), parsed->message.thinking()) << what;
  EXPECT_EQ(joined(deltas, Kind::text), parsed->message.text()) << what;
  const auto calls = std::ranges::count(deltas, Kind::tool_call, &ResponseDelta::kind);
  EXPECT_EQ(calls > 0, parsed->message.tool_calls.has_value()) << what;
}

/// What a format trains the model to write behind its prompt.
std::optional<Tokens> response_of(const Renderer& format, const Message& answer) {
  const Message user = {.role = "user", .content = "Hi"};
  const auto prompt = format.build_generation_prompt({user});
  const auto example = format.build_supervised_example({user, answer});
  if (!prompt.ok() || !example.ok()) return std::nullopt;
  auto tokens = example->input.to_tokens().value();
  const auto given = prompt->to_tokens().value();
  if (std::ranges::mismatch(given, tokens).in1 != given.end()) return std::nullopt;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(given.size()));
  // Of several calls, gpt-oss samples the first one.
  const auto stop = format.stop();
  if (const auto* ids = std::get_if<Tokens>(&stop)) {
    const auto end = std::ranges::find_first_of(tokens, *ids);
    if (end != tokens.end()) tokens.erase(end + 1, tokens.end());
  }
  return tokens;
}

TEST(ResponseStream, TellsWhatEveryFormatWrites) {
  const ContentPart thinking = ThinkingPart{"Grüße?\n\nJa <b>"};
  const ContentPart text = TextPart{"Grüße, 東京 🦄 < <t"};
  const std::vector<ToolCall> calls = {
      {.name = "f", .arguments = R"({"a": "b"})", .id = "functions.f:0"},
      {.name = "g", .arguments = "{}", .id = "functions.g:1"}};
  const std::vector<Message> answers = {
      {.role = "assistant", .content = "Grüße"},
      {.role = "assistant", .content = std::vector{text}},
      {.role = "assistant", .content = std::vector{thinking, text}},
      {.role = "assistant", .content = std::vector{text}, .tool_calls = calls},
      {.role = "assistant", .content = std::vector{thinking, text}, .tool_calls = calls}};

  for (const auto name : renderer_names()) {
    const auto format = renderer(name);
    const auto prompt = format.build_generation_prompt({{.role = "user", .content = "Hi"}}).value();
    std::size_t compared = 0;
    for (const auto& answer : answers) {
      const auto tokens = response_of(format, answer);
      if (!tokens) continue;
      compare(format, prompt, *tokens);
      ++compared;
    }
    EXPECT_GE(compared, 1U) << name;
  }
}

TEST(ResponseStream, TellsPartsInAnyOrder) {
  Rng rng(1);
  constexpr auto kPieces = std::to_array<std::string_view>({"Grüße",
                                                            "\n",
                                                            " <",
                                                            "</thin",
                                                            "<thi",
                                                            "🦄",
                                                            "<think>r</think>",
                                                            "<think>\nr\n</think>\n\n"});
  const auto opens_thinking = [](std::string_view name) {
    return name.find("disable") == std::string_view::npos && name != "kimi_k2" &&
           name != "deepseekv3" && !name.starts_with("qwen3_vl") && name != "qwen3" &&
           name != "qwen3_instruct";
  };
  for (const auto name : renderer_names()) {
    const auto format = renderer(name);
    const auto stop = format.stop();
    const auto* const ids = std::get_if<Tokens>(&stop);
    if (!ids || name == "tml_v0" || name == "llama3" || name.starts_with("gpt_oss")) continue;
    const auto prompt = format.build_generation_prompt({{.role = "user", .content = "Hi"}}).value();
    for (int i = 0; i < 50; ++i) {
      std::string text = opens_thinking(name) ? "r</think>" : "";
      for (auto left = rng.below(6); left > 0; --left)
        text += kPieces.at(rng.below(kPieces.size()));
      if (!opens_thinking(name) && text.find("</think>") != std::string::npos &&
          name.find("disable") != std::string_view::npos) {
        continue;  // read as if the prompt had opened it
      }
      auto tokens = tokens_of(text);
      tokens.push_back(ids->front());
      compare(format, prompt, tokens);
    }
  }
}

}  // namespace
}  // namespace tinker::render::response_stream_test
