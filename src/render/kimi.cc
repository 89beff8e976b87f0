// Kimi K2: "<|im_user|>user<|im_middle|>hi<|im_end|>". Every conversation has a system message, and
// each answer a block of reasoning, which is empty for answers before the last turn. A turn begins
// behind the last answer that calls no tool. From K2.5 on, prompts open that block, or close it.
#include <memory>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/kimi_tools.h"
#include "render/python_json.h"
#include "render/response.h"

namespace tinker::render {

namespace {

using base::concat;

constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kMiddle = "<|im_middle|>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kSection = "<|tool_calls_section_begin|>";
constexpr std::string_view kSectionEnd = "<|tool_calls_section_end|>";
// Models write this, too.
constexpr std::string_view kOtherSection = "<|tool_call_section_begin|>";
constexpr std::string_view kOtherSectionEnd = "<|tool_call_section_end|>";
constexpr std::string_view kCall = "<|tool_call_begin|>";
constexpr std::string_view kArguments = "<|tool_call_argument_begin|>";
constexpr std::string_view kCallEnd = "<|tool_call_end|>";
constexpr std::string_view kSystemPrompt = "You are Kimi, an AI assistant created by Moonshot AI.";

Message system_message(std::string_view text) {
  return {.role = "system", .content = std::string(text)};
}

std::string header_of(const Message& message) {
  if (message.role == "user") return concat("<|im_user|>user", kMiddle);
  if (message.role == "assistant") return concat("<|im_assistant|>assistant", kMiddle);
  if (message.role != "tool") return concat("<|im_system|>", message.role, kMiddle);
  const auto name = message.name.value_or("");
  return concat("<|im_system|>",
                name.empty() ? "tool" : name,
                kMiddle,
                "## Return of ",
                message.tool_call_id.value_or(""),
                "\n");
}

std::string calls_text(const std::vector<ToolCall>& calls) {
  if (calls.empty()) return {};
  std::string out(kSection);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto id = calls[i].id.value_or("");
    if (id.empty()) id = concat("functions.", calls[i].name, ":", i);
    out += concat(kCall, id, kArguments, calls[i].arguments, kCallEnd);
  }
  return out + std::string(kSectionEnd);
}

/// Whether `id` is "NAME:7".
bool is_call_id(std::string_view id) {
  const auto colon = id.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == id.size()) return false;
  for (std::size_t at = colon + 1; at < id.size();) {
    if (!jinja::is_digit(jinja::next_code_point(id, at))) return false;
  }
  return true;
}

/// "functions.NAME:7" or "NAME:7"
std::string_view name_of(std::string_view id) {
  id = id.substr(0, id.find(':'));
  const auto dot = id.find('.');
  return dot == std::string_view::npos ? id : id.substr(dot + 1);
}

ParsedCall parsed_call(std::string_view id, std::string_view arguments, std::string_view raw) {
  const auto json = load_json(arguments);
  if (!json.ok()) {
    return UnparsedToolCall{.raw_text = std::string(raw), .error = json.error().message};
  }
  return ToolCall{
      .name = std::string(name_of(id)), .arguments = std::string(arguments), .id = std::string(id)};
}

void read_calls(Message& message, std::string_view section) {
  for (auto at = section.find(kCall); at != std::string_view::npos; at = section.find(kCall, at)) {
    const auto begin = at;
    at += kCall.size();
    const auto mark = section.find('<', at);
    if (mark == std::string_view::npos) return;
    const auto id = jinja::trim_right(section.substr(at, mark - at));
    if (!is_call_id(id) || !section.substr(mark).starts_with(kArguments)) continue;
    at = mark + kArguments.size();
    const auto end = section.find(kCallEnd, at);
    if (end == std::string_view::npos) return;
    const auto arguments = jinja::trim(section.substr(at, end - at));
    at = end + kCallEnd.size();
    add_call(message,
             parsed_call(jinja::trim_left(id), arguments, section.substr(begin, at - begin)));
  }
}

class KimiFormat final : public ChatFormat {
 public:
  KimiFormat(Tokenizer tokenizer, Kimi variant)
      : ChatFormat(std::move(tokenizer)), variant_(variant) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kEnd)}; }
  [[nodiscard]] bool disables_thinking() const override {
    return variant_ == Kimi::k25_no_thinking;
  }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    const bool has_tools = !messages.empty() && messages.front().role == "tool_declare";
    const std::size_t place = has_tools ? 1 : 0;
    if (messages.size() <= place || messages[place].role != "system") {
      messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(place),
                      system_message(kSystemPrompt));
    }
    return PreparedMessages{.messages = std::move(messages)};
  }

  [[nodiscard]] std::size_t turn_start(std::span<const Message> messages) const override {
    for (std::size_t i = messages.size(); i-- > 0;) {
      if (messages[i].role == "assistant" && calls_of(messages[i]).empty()) return i + 1;
    }
    return 0;
  }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    RenderedMessage out = {.header = {encode(header_of(message))}};
    if (message.role == "assistant") {
      TINKER_TRY(const auto text, answer(message, place));
      out.output = {encode(text)};
      return out;
    }
    const auto text = plain_text(message);
    if (text.ok()) {
      out.output = {encode(concat(*text, kEnd))};
      return out;
    }
    if (variant_ == Kimi::k2) return text.error();
    TINKER_TRY(out.output, parts(message));
    return out;
  }

  [[nodiscard]] std::string opening(const MessagePlace& /*place*/,
                                    std::string prefill) const override {
    if (variant_ == Kimi::k2) return prefill;
    return concat(kThink, disables_thinking() ? kThinkEnd : "", prefill);
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override;
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;

  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override {
    std::vector<Message> out;
    if (!tools.empty()) {
      TINKER_TRY(auto text, variant_ == Kimi::k2 ? json_tools(tools) : typescript_tools(tools));
      out.push_back({.role = "tool_declare", .content = std::move(text)});
    }
    out.push_back(system_message(system_prompt.empty() ? kSystemPrompt : system_prompt));
    return out;
  }

  /// An example for each message of the user: all up to the next one.
  [[nodiscard]] Result<std::vector<SupervisedExample>> split(const PreparedMessages& conversation,
                                                             TrainOnWhat mode) const override {
    if (mode == TrainOnWhat::customized) return ChatFormat::split(conversation, mode);
    const auto& messages = conversation.messages;
    const bool is_last =
        mode == TrainOnWhat::last_assistant_message || mode == TrainOnWhat::last_assistant_turn;
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < messages.size() && !is_last; ++i) {
      if (messages[i].role == "user") ends.push_back(i);
    }
    if (!ends.empty()) ends.erase(ends.begin());
    ends.push_back(messages.size());

    const auto each =
        mode == TrainOnWhat::all_assistant_messages ? TrainOnWhat::last_assistant_turn : mode;
    std::vector<SupervisedExample> out;
    for (const auto end : ends) {
      const auto begin = messages.begin();
      TINKER_TRY(auto example,
                 supervised({.messages = {begin, begin + static_cast<std::ptrdiff_t>(end)}}, each));
      out.push_back(std::move(example));
    }
    return out;
  }

 private:
  /// The reasoning, the text, and the calls of the assistant.
  [[nodiscard]] Result<std::string> answer(const Message& message,
                                           const MessagePlace& place) const {
    if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
      for (const auto& part : *parts) {
        if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
      }
    }
    const bool has_thinking = place.is_in_last_turn || variant_ == Kimi::k26_keeps_thinking;
    return concat(kThink,
                  has_thinking ? message.thinking() : "",
                  kThinkEnd,
                  message.text(),
                  calls_text(calls_of(message)),
                  kEnd);
  }

  /// Several texts and images, each encoded on its own.
  [[nodiscard]] Result<std::vector<ModelInputChunk>> parts(const Message& message) const {
    std::vector<ModelInputChunk> out;
    for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
      const auto* text = std::get_if<TextPart>(&part);
      const auto* image = std::get_if<ImagePart>(&part);
      if (!text && !image) return refused_part(message, part);
      if (text) {
        out.emplace_back(encode(text->text));
      } else {
        out.emplace_back(encode("<|media_begin|>image<|media_content|>"));
        out.emplace_back(image->image);
        out.emplace_back(encode("<|media_end|>\n"));
      }
    }
    out.emplace_back(encode(kEnd));
    return out;
  }

  static Result<std::string> json_tools(std::span<const ToolSpec> tools) {
    return dump_json(
        openai_tools(tools),
        {.is_ascii = true, .sorts_keys = true, .item_separator = ",", .key_separator = ":"});
  }

  Kimi variant_;
};

/// Behind the calls nothing counts.
ResponseSyntax KimiFormat::response_syntax() const {
  using State = ResponseSyntax::State;
  return {.marks = {{.text = kThink, .from = State::text, .to = State::thinking},
                    {.text = kThinkEnd, .from = State::thinking, .to = State::text},
                    {.text = kSection, .from = State::text, .to = State::hidden},
                    {.text = kOtherSection, .from = State::text, .to = State::hidden},
                    {.text = kCall, .from = State::hidden, .to = State::tool_call},
                    {.text = kCallEnd, .from = State::tool_call, .to = State::hidden}}};
}

Result<ParsedResponse> KimiFormat::parse(std::span<const std::int32_t> tokens) const {
  std::vector<std::int32_t> whole(tokens.begin(), tokens.end());
  if (variant_ != Kimi::k2) {
    const std::vector prefix = {token(kThink)};
    whole = with_prefix(tokens, prefix, token(kThinkEnd));
  }
  TINKER_TRY(const auto ended, text_before(tokenizer(), whole, token(kEnd)));
  auto out = ended.as_is();
  if (!ended.is_clean()) return out;
  const std::string_view text = ended.text;
  auto section = find_block(text, kSection, kSectionEnd);
  const auto other = find_block(text, kOtherSection, kOtherSectionEnd);
  if (other && (!section || other->begin < section->begin)) section = other;
  if (section) {
    out.message.content = std::string(text.substr(0, section->begin));
    read_calls(out.message, section->inside);
  }
  if (!note_dangling(out.message, text, kSection, kSectionEnd) &&
      !note_dangling(out.message, text, kOtherSection, kOtherSectionEnd)) {
    note_dangling(out.message, text, kCall, kCallEnd);
  }
  read_thinking(out.message);
  return out;
}

}  // namespace

Format make_kimi(Tokenizer tokenizer, Kimi variant) {
  TINKER_TRY(require_tokens(
      tokenizer,
      {"<|im_user|>", "<|im_assistant|>", "<|im_system|>", kMiddle, kEnd, kCall, kCallEnd}));
  if (variant != Kimi::k2) {
    TINKER_TRY(require_tokens(tokenizer, {kThink, kThinkEnd}));
  }
  return shared<KimiFormat>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
