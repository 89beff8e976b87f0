#include "render/qwen3_5.h"

#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/response.h"
#include "render/xml_call.h"

namespace tinker::render {

const std::string_view kXmlCallInstructions =
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"
    "</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\n"
    "that can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\n"
    "Reminder:\n- Function calls MUST follow the specified format: an inner <function=...>"
    "</function> block must be nested within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n- You may provide optional reasoning for your "
    "function call in natural language BEFORE the function call, but NOT after\n- If there is no "
    "function call available, answer the question like normal with your current knowledge and do "
    "not tell the user about function calls\n</IMPORTANT>";

namespace {

class Qwen35Variant final : public Qwen35Format {
 public:
  Qwen35Variant(Tokenizer tokenizer, Qwen35 variant)
      : Qwen35Format(std::move(tokenizer),
                     variant == Qwen35::no_thinking ? kEmptyThinking : "<think>\n"),
        variant_(variant) {}

  [[nodiscard]] bool disables_thinking() const override { return variant_ == Qwen35::no_thinking; }

 protected:
  [[nodiscard]] bool drops_thinking(const Message& message,
                                    const MessagePlace& place) const override {
    return variant_ != Qwen35::keeps_thinking && Qwen35Format::drops_thinking(message, place);
  }

 private:
  Qwen35 variant_;
};

/// Takes white space off the front of the visible texts up to the first one that has more.
void trim_front(std::span<ContentPart*> parts) {
  for (auto* part : parts) {
    auto* const text = std::get_if<TextPart>(part);
    if (!text) return;
    text->text = jinja::trim_left(text->text);
    if (!text->text.empty()) return;
  }
}

void trim_back(std::span<ContentPart*> parts) {
  for (std::size_t i = parts.size(); i-- > 0;) {
    auto* const text = std::get_if<TextPart>(parts[i]);
    if (!text) return;
    text->text = jinja::trim_right(text->text);
    if (!text->text.empty()) return;
  }
}

/// Takes white space off the reasoning, up to the text that follows it.
void trim_thinking(std::span<ContentPart> parts) {
  bool has_seen_thinking = false;
  for (auto& part : parts) {
    auto* const thinking = std::get_if<ThinkingPart>(&part);
    if (!thinking && has_seen_thinking) return;
    if (!thinking) continue;
    thinking->thinking = std::string(jinja::trim(thinking->thinking));
    has_seen_thinking = true;
  }
}

bool is_tool(const Message* message) {
  return message != nullptr && message->role == "tool";
}

}  // namespace

bool has_visible_content(const Content& content) {
  if (const auto* text = std::get_if<std::string>(&content)) return !jinja::trim(*text).empty();
  return std::ranges::any_of(
      std::get<std::vector<ContentPart>>(content), [](const ContentPart& part) {
        const auto* text = std::get_if<TextPart>(&part);
        return text ? !jinja::trim(text->text).empty() : std::holds_alternative<ImagePart>(part);
      });
}

Result<Message> Qwen35Format::trimmed(const Message& message, const MessagePlace& /*place*/) const {
  Message out = message;
  if (auto* text = std::get_if<std::string>(&out.content)) {
    *text = std::string(jinja::trim(*text));
    return out;
  }
  std::vector<ContentPart*> visible;
  for (auto& part : std::get<std::vector<ContentPart>>(out.content)) {
    if (!std::holds_alternative<ThinkingPart>(part)) visible.push_back(&part);
  }
  trim_front(visible);
  trim_back(visible);
  return out;
}

std::string Qwen35Format::header(const Message& message, const MessagePlace& place) const {
  if (is_tool(&message) && is_tool(place.previous)) return std::string(next_result_header());
  std::string out = QwenVlFormat::header(message, place);
  if (message.role == "assistant") out += header_end(message, place);
  return out;
}

std::string Qwen35Format::header_end(const Message& message, const MessagePlace& place) const {
  const bool is_current = !place.last_user || place.index > *place.last_user;
  return is_current && !has_thinking(message.content) ? std::string(kEmptyThinking) : std::string();
}

std::string Qwen35Format::thinking_text(std::string_view thinking) const {
  return base::concat("<think>\n", thinking, "\n</think>\n\n");
}

std::string Qwen35Format::end(const Message& message, const MessagePlace& place) const {
  if (is_tool(&message) && is_tool(place.next)) return {};
  return std::string(kImEnd);
}

std::pair<std::string, std::string> Qwen35Format::split_header(std::string header,
                                                               const Message& message,
                                                               const MessagePlace& place) const {
  if (message.role != "assistant" || !place.is_last) return {std::move(header), std::string()};
  auto given = base::concat(im_header(place, message.role), suffix_end());
  if (!header.starts_with(given)) return {std::move(header), std::string()};
  return {given, header.substr(given.size())};
}

Result<std::string> Qwen35Format::argument_text(const jinja::Value& value) const {
  if (value.is_dict() || value.is_sequence()) return dump_json(value, kAsciiJson);
  return value.is_none() ? std::string("None") : jinja::to_text(value);
}

Qwen35Format::CallSeams Qwen35Format::call_seams(const Message& message) const {
  return {.before = has_visible_content(message.content) ? "\n\n" : ""};
}

Result<std::string> Qwen35Format::calls_text(const Message& message) const {
  const auto seams = call_seams(message);
  std::string out(seams.before);
  bool is_first = true;
  for (const auto& call : *message.tool_calls) {
    if (!is_first) out += seams.between;
    is_first = false;
    out += base::concat("<tool_call>\n<function=", call.name, ">\n");
    jinja::Value arguments = jinja::Dict();
    if (!call.arguments.empty()) {
      TINKER_TRY(arguments, load_arguments(call));
    }
    if (!arguments.is_dict()) {
      return Error::invalid_argument(base::concat(
          "expected a JSON object as the arguments of '", call.name, "', found ", call.arguments));
    }
    for (const auto& [key, value] : arguments.dict()) {
      TINKER_TRY(const auto text, argument_text(value));
      out += base::concat("<parameter=", key.text(), ">\n", text, "\n</parameter>\n");
    }
    out += base::concat("</function>\n</tool_call>", seams.after);
  }
  return out;
}

Result<ParsedResponse> Qwen35Format::parse(std::span<const std::int32_t> tokens) const {
  const auto prefix = encode("<think>\n").tokens;
  const auto whole = with_prefix(tokens, prefix, token(kThinkEnd));
  TINKER_TRY(auto out, parse_qwen3(tokenizer(), whole, token(kImEnd), true));
  if (out.termination == ParseTermination::malformed) return out;
  if (auto* parts = std::get_if<std::vector<ContentPart>>(&out.message.content)) {
    trim_thinking(*parts);
  }
  std::vector<UnparsedToolCall> kept;
  for (auto& call : std::exchange(out.message.unparsed_tool_calls, {})) {
    const bool is_open = call.error.starts_with("unterminated");
    if (is_open || call.raw_text.find("<function=") == std::string::npos) {
      kept.push_back(std::move(call));
      continue;
    }
    auto parsed = parse_xml_call(call.raw_text);
    if (auto* unparsed = std::get_if<UnparsedToolCall>(&parsed)) {
      kept.push_back(std::move(*unparsed));
    } else {
      add_call(out.message, std::move(parsed));
    }
  }
  out.message.unparsed_tool_calls = std::move(kept);
  return out;
}

Result<std::vector<Message>> Qwen35Format::declare_tools(std::span<const ToolSpec> tools,
                                                         std::string_view system_prompt) const {
  if (tools.empty()) {
    return std::vector<Message>{{.role = "system", .content = std::string(system_prompt)}};
  }
  std::string text = "# Tools\n\nYou have access to the following functions:\n\n<tools>\n";
  for (const auto& tool : tools) {
    TINKER_TRY(const auto json, dump_json(tool.json(), kAsciiJson));
    text += json + "\n";
  }
  text += base::concat("</tools>\n\n", kXmlCallInstructions);
  if (!system_prompt.empty()) text += base::concat("\n\n", system_prompt);
  return std::vector<Message>{{.role = "system", .content = std::move(text)}};
}

Format make_qwen3_5(Tokenizer tokenizer, Qwen35 variant) {
  TINKER_TRY(require_tokens(tokenizer, {kImStart, kImEnd, kThinkEnd}));
  return shared<Qwen35Variant>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
