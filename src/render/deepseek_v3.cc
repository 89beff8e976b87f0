// DeepSeek V3.1: "<｜User｜>hi<｜Assistant｜></think>hello<｜end▁of▁sentence｜>". An assistant that
// goes on after the result of a tool has no header. Reasoning of earlier messages is left out,
// unless they call a tool.
#include <optional>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/response.h"

namespace tinker::render {

namespace {

using base::concat;

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCalls = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kCall = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kArguments = "<｜tool▁sep｜>";
constexpr std::string_view kResult = "<｜tool▁output▁begin｜>";
constexpr std::string_view kResultEnd = "<｜tool▁output▁end｜>";

constexpr std::string_view kToolsHead = "\n\n## Tools\nYou have access to the following tools:\n";
constexpr std::string_view kToolsRules =
    "\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>\n\nWhere:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters "
    "Schema\n"
    "- For multiple tool calls, chain them directly without separators or spaces";

bool follows_tool(const MessagePlace& place) {
  return place.previous != nullptr && place.previous->role == "tool";
}

/// Whether there is a text or a part, though it be empty.
bool has_content(const Content& content) {
  return std::visit([](const auto& value) { return !value.empty(); }, content);
}

std::string without_think_blocks(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (const auto block = find_block(text, kThink, kThinkEnd, at)) {
    out += text.substr(at, block->begin - at);
    at = block->end;
  }
  return out += text.substr(at);
}

Result<std::string> joined(const Message& message, bool drops_thinking) {
  std::string out;
  for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
    if (const auto* text = std::get_if<TextPart>(&part)) {
      out += text->text;
    } else if (const auto* thinking = std::get_if<ThinkingPart>(&part)) {
      if (!drops_thinking) out += concat(kThink, thinking->thinking, kThinkEnd);
    } else {
      return refused_part(message, part);
    }
  }
  return out;
}

/// Arguments stay as they were given, JSON or not.
std::string calls_text(const Message& message) {
  if (calls_of(message).empty()) return {};
  std::string out(kCalls);
  for (const auto& call : *message.tool_calls) {
    out += concat(kCall, call.name, kArguments, call.arguments, kCallEnd);
  }
  return out += kCallsEnd;
}

// ---- reading ----

/// The next "NAME<｜tool▁sep｜>ARGUMENTS" between the marks of a call; a name is a word.
struct Call {
  std::string_view raw = {};
  std::string_view name = {};
  std::string_view arguments = {};
  std::size_t end = 0;
};
std::optional<Call> next_call(std::string_view text, std::size_t from) {
  for (auto begin = text.find(kCall, from); begin != std::string_view::npos;
       begin = text.find(kCall, begin + kCall.size())) {
    std::string_view rest = text.substr(begin + kCall.size());
    const auto name = rest.substr(0, word_size(rest));
    rest.remove_prefix(name.size());
    if (name.empty() || !rest.starts_with(kArguments)) continue;
    rest.remove_prefix(kArguments.size());
    const auto size = rest.find(kCallEnd);
    if (size == std::string_view::npos) return std::nullopt;
    const auto end = text.size() - rest.size() + size + kCallEnd.size();
    return Call{.raw = text.substr(begin, end - begin),
                .name = name,
                .arguments = jinja::trim(rest.substr(0, size)),
                .end = end};
  }
  return std::nullopt;
}

void read_calls(Message& message, std::string_view text) {
  const auto section = find_block(text, kCalls, kCallsEnd);
  if (!section) return;
  for (auto call = next_call(section->inside, 0); call;
       call = next_call(section->inside, call->end)) {
    const auto value = load_json(call->arguments);
    if (value.ok()) {
      add_call(
          message,
          ToolCall{.name = std::string(call->name), .arguments = std::string(call->arguments)});
    } else {
      add_call(
          message,
          UnparsedToolCall{.raw_text = std::string(call->raw), .error = value.error().message});
    }
  }
}

std::string without_calls(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (const auto block = find_block(text, kCalls, kCallsEnd, at)) {
    out += jinja::trim_right(text.substr(at, block->begin - at));
    at = block->end;
  }
  out += text.substr(at);
  return std::string(jinja::trim(out));
}

class DeepSeekV3Format final : public ChatFormat {
 public:
  DeepSeekV3Format(Tokenizer tokenizer, DeepSeekV3 variant)
      : ChatFormat(std::move(tokenizer)), thinks_(variant == DeepSeekV3::thinking) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kEnd)}; }
  [[nodiscard]] bool has_extension_property() const override { return !thinks_; }
  [[nodiscard]] std::vector<ModelInputChunk> begin() const override { return {encode(kBegin)}; }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    if (message.role == "assistant") return render_assistant(message, place);
    TINKER_TRY(std::string text, plain_text(message));
    std::string_view header;
    if (message.role == "system" && place.index == 0) {
      // The system message has no header.
    } else if (message.role == "user") {
      header = kUser;
    } else if (message.role == "tool") {
      header = kResult;
      text += kResultEnd;
    } else {
      return refused_role(message);
    }
    return RenderedMessage{.header = {encode(header)},
                           .output = {encode(text + calls_text(message))}};
  }

  /// Behind the result of a tool there is no reasoning.
  [[nodiscard]] std::string opening(const MessagePlace& place, std::string prefill) const override {
    return thinks_ && !follows_tool(place) ? concat(kThink, prefill) : prefill;
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override {
    return think_syntax(kCalls, kCallsEnd);
  }
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    std::vector<std::int32_t> prefix;
    if (thinks_) prefix.push_back(token(kThink));
    const auto whole = with_prefix(tokens, prefix, token(kThinkEnd));
    TINKER_TRY(const auto ended, text_before(tokenizer(), whole, token(kEnd)));
    auto out = ended.as_is();
    if (!ended.is_clean()) return out;
    auto& message = out.message;
    read_calls(message, ended.text);
    if (!note_dangling(message, ended.text, kCalls, kCallsEnd)) {
      note_dangling(message, ended.text, kCall, kCallEnd);
    }
    const bool has_calls = message.tool_calls || !message.unparsed_tool_calls.empty();
    if (has_calls) message.content = without_calls(ended.text);
    read_thinking(message);
    return out;
  }

  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override {
    std::string text(system_prompt);
    if (!tools.empty()) {
      text += kToolsHead;
      for (const auto& tool : tools) {
        TINKER_TRY(const auto schema, dump_json(tool.parameters(), kAsciiJson));
        text += concat("\n### ",
                       tool.name(),
                       "\nDescription: ",
                       tool.description(),
                       "\n\nParameters: ",
                       schema);
      }
      text += kToolsRules;
    }
    return std::vector<Message>{{.role = "system", .content = std::move(text)}};
  }

 private:
  [[nodiscard]] Result<RenderedMessage> render_assistant(const Message& message,
                                                         const MessagePlace& place) const {
    const bool has_header = !follows_tool(place);
    const bool removes_thinking = !thinks_ && has_header;
    std::string text;
    bool has_end = has_content(message.content);
    if (const auto* plain = std::get_if<std::string>(&message.content)) {
      text = removes_thinking ? without_think_blocks(*plain) : *plain;
    } else {
      const bool is_history = calls_of(message).empty() && !place.is_last;
      TINKER_TRY(text, joined(message, removes_thinking || is_history));
    }
    if (removes_thinking) has_end = !text.empty();

    std::string header;
    if (has_header) header = kAssistant;
    if (has_header && (!thinks_ || !place.is_last)) header += kThinkEnd;
    if (has_header && thinks_ && place.is_last && has_end && !has_thinking(message.content)) {
      text.insert(0, concat(kThink, kThinkEnd));
    }
    text += calls_text(message);
    if (has_end) text += kEnd;
    return RenderedMessage{.header = {encode(header)}, .output = {encode(text)}};
  }

  bool thinks_;
};

}  // namespace

Format make_deepseek_v3(Tokenizer tokenizer, DeepSeekV3 variant) {
  TINKER_TRY(require_tokens(tokenizer, {kBegin, kEnd, kUser, kAssistant, kThink, kThinkEnd}));
  return shared<DeepSeekV3Format>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
