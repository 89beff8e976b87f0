// Qwen3. The last message of the assistant has a frame around its reasoning, which is empty where
// there was none; reasoning of earlier messages is left out. What people write is encoded as plain
// text: it cannot end a turn.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/qwen.h"
#include "render/response.h"

namespace tinker::render {

namespace {

std::string_view without_leading_newlines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

bool is_empty(const Content& content) {
  return std::visit([](const auto& text_or_parts) { return text_or_parts.empty(); }, content);
}

/// "<think>\n…\n</think>\n\n"
std::string framed(std::string_view thinking) {
  thinking = without_leading_newlines(thinking);
  thinking = thinking.substr(0, thinking.find_last_not_of('\n') + 1);
  return base::concat("<think>\n", thinking, "\n</think>\n\n");
}

class Qwen3Format final : public ChatFormat {
 public:
  Qwen3Format(Tokenizer tokenizer, Qwen3 variant)
      : ChatFormat(std::move(tokenizer)), variant_(variant) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kImEnd)}; }
  [[nodiscard]] bool has_extension_property() const override { return variant_ == Qwen3::instruct; }
  [[nodiscard]] bool disables_thinking() const override { return variant_ == Qwen3::no_thinking; }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    const bool is_assistant = message.role == "assistant";
    if (disables_thinking() && is_assistant && place.is_last && !place.last_user &&
        !is_empty(message.content)) {
      return Error::invalid_argument(
          "without a message of the user, the last message of the assistant has no empty frame "
          "around its reasoning, and the prompt of this renderer has one");
    }
    const bool has_frame =
        variant_ != Qwen3::instruct && is_assistant && place.last_user && place.is_last;
    TINKER_TRY(std::string text, content(message, is_assistant && !place.is_last, has_frame));
    const bool has_text = !text.empty();
    if (has_frame && !has_thinking(message.content)) {
      text = framed({}) + std::string(without_leading_newlines(text));
    }
    if (message.role == "tool") {
      text = base::concat("<tool_response>\n", text, "\n</tool_response>");
    }
    if (message.tool_calls) {
      TINKER_TRY(const auto calls, json_calls(*message.tool_calls));
      text += base::concat(has_text ? "\n" : "", calls);
    }
    return RenderedMessage{
        .header = {encode(im_header(place, im_role(message)))},
        .output = {encode_plain(text), EncodedTextChunk{{token(kImEnd)}}},
    };
  }

  [[nodiscard]] Result<std::vector<ModelInputChunk>> suffix(
      const std::string& role, const MessagePlace& place) const override {
    if (!disables_thinking()) return ChatFormat::suffix(role, place);
    const auto closed = base::concat(im_header(place, role), kEmptyThinking);
    return std::vector<ModelInputChunk>{encode(closed)};
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override {
    return qwen3_syntax(variant_ != Qwen3::instruct);
  }
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    return parse_qwen3(tokenizer(), tokens, token(kImEnd), variant_ != Qwen3::instruct);
  }
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override {
    return qwen3_tools(tools, system_prompt);
  }

 private:
  static Result<std::string> content(const Message& message, bool drops_thinking, bool has_frame) {
    if (const auto* text = std::get_if<std::string>(&message.content)) {
      return has_frame ? reframed(*text) : *text;
    }
    std::string out;
    bool follows_frame = false;
    for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
      if (const auto* thinking = std::get_if<ThinkingPart>(&part)) {
        if (drops_thinking) continue;
        out += has_frame ? framed(thinking->thinking)
                         : base::concat(kThink, thinking->thinking, kThinkEnd);
        follows_frame = has_frame;
      } else if (const auto* text = std::get_if<TextPart>(&part)) {
        out += follows_frame ? without_leading_newlines(text->text) : std::string_view(text->text);
        follows_frame = false;
      } else {
        return refused_part(message, part);
      }
    }
    return out;
  }

  /// A plain text that has its reasoning inside.
  static std::string reframed(std::string_view text) {
    const auto end = text.find(kThinkEnd);
    if (end == std::string_view::npos) return std::string(text);
    std::string_view thinking = text.substr(0, end);
    if (const auto begin = thinking.rfind(kThink); begin != std::string_view::npos) {
      thinking.remove_prefix(begin + kThink.size());
    }
    return framed(thinking) +
           std::string(without_leading_newlines(text.substr(end + kThinkEnd.size())));
  }

  Qwen3 variant_;
};

}  // namespace

std::string im_header(const MessagePlace& place, std::string_view role) {
  return base::concat(place.index > 0 ? "\n" : "", kImStart, role, "\n");
}

std::string_view im_role(const Message& message) {
  return message.role == "tool" ? std::string_view("user") : message.role;
}

Result<std::string> json_calls(const std::vector<ToolCall>& calls) {
  std::string out;
  for (const auto& call : calls) {
    TINKER_TRY(auto arguments, load_arguments(call));
    jinja::Dict payload;
    payload.set("name", call.name);
    payload.set("arguments", std::move(arguments));
    TINKER_TRY(const auto json, dump_json(std::move(payload), kAsciiJson));
    out += base::concat(out.empty() ? "" : "\n", "<tool_call>\n", json, "\n</tool_call>");
  }
  return out;
}

Result<std::vector<Message>> qwen3_tools(std::span<const ToolSpec> tools,
                                         std::string_view system_prompt) {
  std::string text(system_prompt);
  if (!text.empty()) text += "\n\n";
  if (!tools.empty()) {
    text +=
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n";
    const jinja::Value listed = openai_tools(tools);
    for (const auto& tool : listed.items()) {
      TINKER_TRY(const auto json, dump_json(tool, kAsciiJson));
      text += json + "\n";
    }
    text +=
        "</tools>\n\nFor each function call, return a json object with function name and arguments "
        "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
        "\"arguments\": <args-json-object>}\n</tool_call>";
  }
  return std::vector<Message>{{.role = "system", .content = std::move(text)}};
}

ResponseSyntax qwen3_syntax(bool unframes_thinking) {
  auto out = think_syntax("<tool_call>", "</tool_call>");
  out.trims_newlines = unframes_thinking;
  return out;
}

Result<ParsedResponse> parse_qwen3(const Tokenizer& tokenizer,
                                   std::span<const std::int32_t> tokens,
                                   std::int32_t end,
                                   bool unframes_thinking) {
  TINKER_TRY(const auto ended, text_before(tokenizer, tokens, end));
  auto out = ended.as_is();
  if (!ended.is_clean()) return out;
  read_blocks(out.message);
  if (unframes_thinking) unframe_thinking(out.message);
  note_dangling(out.message, ended.text, "<tool_call>", "</tool_call>");
  return out;
}

Format make_qwen3(Tokenizer tokenizer, Qwen3 variant) {
  TINKER_TRY(require_tokens(tokenizer, {kImStart, kImEnd}));
  TINKER_TRY(require_plain_tokens(tokenizer, {kThink, kThinkEnd}));
  return shared<Qwen3Format>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
