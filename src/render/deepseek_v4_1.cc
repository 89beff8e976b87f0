// DeepSeek V4.1: "<｜User｜>hi<｜Assistant｜><think>why</think>hello<｜end▁of▁sentence｜>".
//
// `prepare` makes turns of messages: those of users and tools in a row become one turn, which the
// first of them carries and the others have nothing to add to; tools that are declared become part
// of the system message. Reasoning before the last turn of the user is left out, unless tools are
// declared; which turn that is, the whole conversation decides.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/dsml.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/response.h"

namespace tinker::render {

namespace {

using base::concat;

constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kSystem = "<｜System｜>";
constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

/// The role of a message whose content is the list of tools in OpenAI's form.
constexpr std::string_view kToolDeclare = "tool_declare";

/// From 1 to 100; nothing for no reasoning at all.
std::optional<int> effort_of(DeepSeekV41 variant) {
  switch (variant) {
    case DeepSeekV41::low: return 50;
    case DeepSeekV41::max: return 100;
    case DeepSeekV41::no_thinking: return std::nullopt;
    case DeepSeekV41::high:
    case DeepSeekV41::keeps_thinking: break;
  }
  return 75;
}

/// Whether a message is told by the user.
bool is_of_user(const Message& message) {
  return message.role == "user" || message.role == "tool";
}

// ---- preparing ----

Result<std::string> declared_tools(const Message& message) {
  TINKER_TRY(const auto text, plain_text(message));
  const auto list = load_json(text);
  if (!list.ok()) return Error(list.error()).with_context("a message of 'tool_declare'");
  const auto refused = [&] {
    return Error::invalid_argument(concat(
        "expected a list of tools as the content of a message of 'tool_declare', found ", text));
  };
  if (!list->is_sequence()) return refused();
  jinja::List specs;
  for (const auto& tool : list->items()) {
    const auto* spec = tool.is_dict() ? tool.dict().member("function") : nullptr;
    if (!spec) return refused();
    specs.push_back(*spec);
  }
  return dsml_tools(specs);
}

/// Whether there were any.
Result<bool> fold_declarations(std::span<Message> messages) {
  bool has_tools = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto& message = messages[i];
    if (message.role != kToolDeclare) continue;
    if (i > 1 || (i == 1 && messages[0].role != "system")) return refused_role(message);
    has_tools = true;
    TINKER_TRY(const auto tools, declared_tools(message));
    std::string system;
    if (i == 0) {
      message.role = "system";
    } else {
      TINKER_TRY(system, plain_text(messages[0]));
      message.content = std::string();
    }
    messages[0].content = concat(system, "\n\n", tools);
  }
  return has_tools;
}

/// Which of `calls` a result answers; the first one where that is not clear.
std::size_t call_of(const Message& result, std::span<const ToolCall> calls) {
  if (!result.tool_call_id || result.tool_call_id->empty()) return 0;
  for (std::size_t i = calls.size(); i-- > 0;) {
    if (calls[i].id == result.tool_call_id) return i;
  }
  return 0;
}

/// What a turn of the user says: its results of tools are in the order of the calls.
Result<std::string> turn_text(std::span<const Message> turn, std::span<const ToolCall> calls) {
  std::vector<const Message*> results;
  for (const auto& message : turn) {
    if (message.role == "tool") results.push_back(&message);
  }
  std::ranges::stable_sort(
      results, {}, [&](const Message* result) { return call_of(*result, calls); });
  std::string out;
  auto next = results.begin();
  for (std::size_t i = 0; i < turn.size(); ++i) {
    const bool is_result = turn[i].role == "tool";
    TINKER_TRY(const auto text, plain_text(is_result ? **next++ : turn[i]));
    out += concat(i == 0 ? "" : "\n\n",
                  is_result ? "<tool_result>" : "",
                  text,
                  is_result ? "</tool_result>" : "");
  }
  return out;
}

/// The first message of a turn says all that is said in it.
Result<void> fold_turns(std::span<Message> messages) {
  std::span<const ToolCall> calls;
  for (auto begin = messages.begin(); begin != messages.end();) {
    if (!calls_of(*begin).empty()) calls = calls_of(*begin);
    const auto end = std::find_if_not(begin, messages.end(), is_of_user);
    if (begin == end) {
      ++begin;
      continue;
    }
    TINKER_TRY(auto text, turn_text({begin, end}, calls));
    for (auto& message : std::span(begin, end)) message.content = std::string();
    begin->content = std::move(text);
    begin = end;
  }
  return {};
}

/// The first message behind the last turn of the user, whom later system messages count as.
std::size_t after_last_turn(std::span<const Message> messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (is_of_user(messages[i]) || (messages[i].role == "system" && i > 0)) return i + 1;
  }
  return 0;
}

class DeepSeekV41Format final : public ChatFormat {
 public:
  DeepSeekV41Format(Tokenizer tokenizer, DeepSeekV41 variant)
      : ChatFormat(std::move(tokenizer)), variant_(variant), effort_(effort_of(variant)) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kEnd)}; }
  [[nodiscard]] bool has_extension_property() const override { return !drops_thinking(); }
  [[nodiscard]] std::vector<ModelInputChunk> begin() const override { return {encode(kBegin)}; }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    TINKER_TRY(const bool has_tools, fold_declarations(messages));
    TINKER_TRY(fold_turns(messages));
    const bool drops = drops_thinking() && !has_tools;
    const auto kept = drops ? after_last_turn(messages) : 0;
    return PreparedMessages{.messages = std::move(messages), .keeps_thinking_from = kept};
  }

  [[nodiscard]] Result<PreparedMessages> first_messages(const PreparedMessages& conversation,
                                                        std::size_t count) const override {
    const auto first = std::span(conversation.messages).first(count);
    // Where nothing is left out of the whole, nothing is left out of its beginning.
    const bool drops = conversation.keeps_thinking_from > 0;
    return PreparedMessages{.messages = {first.begin(), first.end()},
                            .keeps_thinking_from = drops ? after_last_turn(first) : 0};
  }

  /// The message after the last one of the user or of the system; results of tools do not count.
  [[nodiscard]] std::size_t turn_start(std::span<const Message> messages) const override {
    for (std::size_t i = messages.size(); i-- > 0;) {
      if (messages[i].role == "user" || (messages[i].role == "system" && i > 0)) return i + 1;
    }
    return 0;
  }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    const auto head = place.index == 0 ? head_before(message.role) : std::string();
    if (message.role == "assistant") return render_assistant(message, place, head);
    if (message.role == kToolDeclare) return RenderedMessage{};
    TINKER_TRY(const auto text, plain_text(message));
    if (message.role == "system") return encode_after(place.index == 0 ? head : kSystem, text);
    if (!is_of_user(message)) return refused_role(message);
    if (place.previous != nullptr && is_of_user(*place.previous)) return RenderedMessage{};
    return RenderedMessage{.header = {encode(concat(head, kUser))}, .output = {encode(text)}};
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override { return dsml_syntax(); }
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    std::vector<std::int32_t> prefix;
    if (effort_) prefix.push_back(token(kThink));
    const auto whole = with_prefix(tokens, prefix, token(kThinkEnd));
    TINKER_TRY(const auto ended, text_before(tokenizer(), whole, token(kEnd)));
    auto out = ended.as_is();
    if (!ended.is_clean()) return out;
    read_dsml(out.message);
    read_thinking(out.message);
    return out;
  }

  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override {
    std::vector<Message> out;
    if (!system_prompt.empty()) {
      out.push_back({.role = "system", .content = std::string(system_prompt)});
    }
    if (tools.empty()) return out;
    TINKER_TRY(auto json, dump_json(openai_tools(tools), kAsciiJson));
    out.push_back({.role = std::string(kToolDeclare), .content = std::move(json)});
    return out;
  }
  [[nodiscard]] ToolArguments template_arguments() const override {
    return ToolArguments::as_object;
  }

 private:
  /// Whether reasoning of earlier turns is left out.
  [[nodiscard]] bool drops_thinking() const {
    return effort_ && variant_ != DeepSeekV41::keeps_thinking;
  }

  /// What comes before the first message, of `role`.
  [[nodiscard]] std::string head_before(std::string_view role) const {
    if (!effort_) return role == "system" ? std::string(kSystem) : std::string();
    return concat(kSystem,
                  "Reasoning Effort: ",
                  *effort_,
                  " (range 1-100, the higher the value, the more thorough the reasoning)\n\n");
  }

  /// Encodes both as one text. A token that has a part in both belongs to the header.
  [[nodiscard]] RenderedMessage encode_after(std::string_view header, std::string_view text) const {
    const auto tokens = encode(concat(header, text)).tokens;
    const auto length = jinja::length_of(header);
    std::size_t count = 0;
    while (count < tokens.size() &&
           jinja::length_of(tokenizer().decode(std::span(tokens).first(count))) < length) {
      ++count;
    }
    const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(count);
    return {.header = {EncodedTextChunk{{tokens.begin(), middle}}},
            .output = {EncodedTextChunk{{middle, tokens.end()}}}};
  }

  [[nodiscard]] Result<RenderedMessage> render_assistant(const Message& message,
                                                         const MessagePlace& place,
                                                         std::string head) const {
    if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
      for (const auto& part : *parts) {
        if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
      }
    }
    const bool keeps_thinking = effort_ && place.index >= place.keeps_thinking_from;
    // The mark of the assistant ends a turn of the user, which the first system message is not.
    const bool follows_turn =
        place.previous != nullptr &&
        (is_of_user(*place.previous) || (place.previous->role == "system" && place.index > 1));
    if (follows_turn) head += concat(kAssistant, keeps_thinking ? kThink : kThinkEnd);
    TINKER_TRY(const auto calls, dsml_calls(calls_of(message)));
    const auto thinking = keeps_thinking ? concat(message.thinking(), kThinkEnd) : std::string();
    return RenderedMessage{.header = {encode(head)},
                           .output = {encode(concat(thinking, message.text(), calls)),
                                      EncodedTextChunk{{token(kEnd)}}}};
  }

  DeepSeekV41 variant_;
  std::optional<int> effort_;
};

}  // namespace

Format make_deepseek_v4_1(Tokenizer tokenizer, DeepSeekV41 variant) {
  TINKER_TRY(
      require_tokens(tokenizer, {kBegin, kEnd, kSystem, kUser, kAssistant, kThink, kThinkEnd}));
  return shared<DeepSeekV41Format>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
