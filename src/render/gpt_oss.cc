// gpt-oss, in OpenAI's Harmony format: "<|start|>user<|message|>hi<|end|>". The assistant speaks in
// channels: "analysis" is its reasoning, "final" its answer, "commentary" what it says beside a
// call. A call is a message to "functions.NAME". "<|return|>" ends what the model writes, and
// "<|call|>" if it waits for a result.
#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/gpt_oss_tools.h"
#include "render/python_json.h"
#include "render/response.h"

namespace tinker::render {

namespace {

using base::concat;

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kEnd = "<|end|>";
constexpr std::string_view kCall = "<|call|>";
constexpr std::string_view kReturn = "<|return|>";
constexpr std::string_view kNextMessage = "<|start|>assistant";
constexpr std::string_view kFunctions = "functions.";

/// OpenAI's own system message. "system" is what the format calls "developer".
constexpr std::string_view kSystemRole = "_gptoss_internal_system";
constexpr std::string_view kIdentity =
    "You are ChatGPT, a large language model trained by OpenAI.\n";

std::string_view effort_of(GptOss variant) {
  switch (variant) {
    case GptOss::low: return "low";
    case GptOss::medium: return "medium";
    case GptOss::high: return "high";
    case GptOss::no_system_prompt: break;
  }
  return {};
}

/// "2025-01-31"
std::string date_text(const std::optional<std::chrono::year_month_day>& date) {
  std::tm parts = {};
  if (date) {
    parts.tm_year = static_cast<int>(date->year()) - 1900;
    parts.tm_mon = static_cast<int>(static_cast<unsigned>(date->month())) - 1;
    parts.tm_mday = static_cast<int>(static_cast<unsigned>(date->day()));
  } else {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &parts);
  }
  std::array<char, 32> text = {};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts)};
}

/// The first word that stands behind `mark`: up to white space or '<'.
std::string_view word_after(std::string_view text, std::string_view mark) {
  for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    const auto rest = text.substr(at + mark.size());
    std::size_t end = 0;
    while (end < rest.size() && rest[end] != '<') {
      std::size_t next = end;
      if (jinja::is_space(jinja::next_code_point(rest, next))) break;
      end = next;
    }
    if (end > 0) return rest.substr(0, end);
  }
  return {};
}

/// One message of a response.
struct HarmonyMessage {
  std::string_view header = {};
  std::string_view body = {};
  std::string_view raw = {};
};

/// Where a body ends that begins at `at`, and where the mark behind it ends.
std::pair<std::size_t, std::size_t> find_end(std::string_view text, std::size_t at) {
  for (at = text.find("<|", at); at != std::string_view::npos; at = text.find("<|", at + 1)) {
    for (const auto mark : {kEnd, kCall, kReturn}) {
      if (text.substr(at).starts_with(mark)) return {at, at + mark.size()};
    }
  }
  return {text.size(), text.size()};
}

/// The first message from `at` on, which moves behind it.
std::optional<HarmonyMessage> next_message(std::string_view text, std::size_t& at) {
  const auto mark = text.find(kMessage, at);
  if (mark == std::string_view::npos) return std::nullopt;
  const auto start = text.substr(at, mark - at).rfind(kStart);
  const auto begin = start == std::string_view::npos ? at : at + start;
  const auto body = mark + kMessage.size();
  const auto [body_end, end] = find_end(text, body);
  at = end;
  return HarmonyMessage{.header = text.substr(begin, mark - begin),
                        .body = text.substr(body, body_end - body),
                        .raw = text.substr(begin, at - begin)};
}

void read_call(Message& out, std::string_view name, const HarmonyMessage& message) {
  const auto json = load_json(message.body);
  if (json.ok()) {
    add_call(
        out,
        ToolCall{.name = std::string(name), .arguments = std::string(jinja::trim(message.body))});
  } else {
    add_call(out,
             UnparsedToolCall{.raw_text = std::string(message.raw), .error = json.error().message});
  }
}

/// A header that names a function, of which no call has come.
void note_unfinished_call(Message& out, std::string_view text) {
  constexpr std::string_view kMark = "to=functions.";
  std::size_t count = 0;
  for (auto at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
    ++count;
  }
  if (count <= calls_of(out).size() + out.unparsed_tool_calls.size()) return;
  const auto start = text.rfind(kStart);
  out.unparsed_tool_calls.push_back(
      {.raw_text = std::string(text.substr(start == std::string_view::npos ? 0 : start)),
       .error = "unterminated tool block: 'to=functions.' tool-call header without a parsable "
                "arguments payload"});
}

Message read_messages(std::string_view text) {
  Message out = {.role = "assistant"};
  std::vector<ContentPart> parts;
  std::size_t at = 0;
  while (const auto message = next_message(text, at)) {
    if (jinja::trim(message->body).empty()) continue;
    const auto recipient = word_after(message->header, "to=");
    const auto channel = word_after(message->header, kChannel);
    if (recipient.starts_with(kFunctions)) {
      read_call(out, recipient.substr(kFunctions.size()), *message);
    } else if (channel == "analysis") {
      parts.emplace_back(ThinkingPart{std::string(message->body)});
    } else if (channel == "final" || channel == "commentary") {
      parts.emplace_back(TextPart{std::string(message->body)});
    }
  }
  note_unfinished_call(out, text);
  if (parts.empty()) {
    out.content = std::string(text);
  } else {
    out.content = std::move(parts);
  }
  return out;
}

class GptOssFormat final : public ChatFormat {
 public:
  GptOssFormat(Tokenizer tokenizer, GptOss variant, const RendererOptions& options)
      : ChatFormat(std::move(tokenizer)), variant_(variant), date_(options.date) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kReturn), token(kCall)}; }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    const bool is_prepared = !messages.empty() && messages.front().role == kSystemRole &&
                             messages.front().text().starts_with(kIdentity);
    if (variant_ != GptOss::no_system_prompt && !is_prepared) {
      messages.insert(messages.begin(),
                      {.role = std::string(kSystemRole), .content = system_prompt()});
    }
    return PreparedMessages{.messages = std::move(messages)};
  }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    if (message.role == "assistant") {
      TINKER_TRY(const auto text, assistant_text(message, place));
      return RenderedMessage{.header = {encode(kNextMessage)}, .output = {encode(text)}};
    }
    TINKER_TRY(const auto text, plain_text(message));
    if (message.role == "tool") {
      const auto header = concat(kStart, tool_name(message), " to=assistant");
      const auto output = concat(kChannel, "commentary", kMessage, text, kEnd);
      return RenderedMessage{.header = {encode(header)}, .output = {encode(output)}};
    }
    const bool is_system = message.role == "system";
    const std::string_view role = is_system                     ? std::string_view("developer")
                                  : message.role == kSystemRole ? std::string_view("system")
                                                                : message.role;
    const auto output = is_system ? concat(kMessage, "# Instructions\n\n", text, "\n\n", kEnd)
                                  : concat(kMessage, text, kEnd);
    return RenderedMessage{.header = {encode(concat(kStart, role))}, .output = {encode(output)}};
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override {
    using State = ResponseSyntax::State;
    const auto body = [](std::string_view header, State state) {
      return ResponseSyntax::Mark{
          .text = kMessage, .from = State::hidden, .to = state, .header = header};
    };
    ResponseSyntax out = {.first = State::hidden,
                          .marks = {body("to=functions.", State::tool_call),
                                    body("<|channel|>analysis", State::thinking),
                                    body("<|channel|>final", State::text),
                                    body("<|channel|>commentary", State::text),
                                    body({}, State::hidden)}};
    for (const auto state : {State::text, State::thinking, State::tool_call, State::hidden}) {
      out.marks.push_back({.text = kEnd, .from = state, .to = State::hidden});
    }
    return out;
  }
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    const std::array ends = {token(kReturn), token(kCall)};
    for (const auto end : ends) {
      if (const auto count = std::ranges::count(tokens, end); count > 1) {
        return Error::invalid_argument(concat(
            "a response ends once; this one has ", count, " tokens that end it, of the id ", end));
      }
    }
    const auto stop = std::ranges::find_first_of(tokens, ends);
    const auto text =
        tokenizer().decode(tokens.first(static_cast<std::size_t>(stop - tokens.begin())));
    if (stop == tokens.end()) {
      return EndedText{.text = text, .termination = ParseTermination::malformed}.as_is();
    }
    return ParsedResponse{.message = read_messages(text)};
  }

  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override {
    std::vector<Message> out;
    std::string text;
    if (!system_prompt.empty()) text = concat("# Instructions\n\n", system_prompt);
    if (!tools.empty()) {
      out.push_back({.role = std::string(kSystemRole),
                     .content = "Calls to these tools must go to the commentary channel: "
                                "'functions'."});
      TINKER_TRY(const auto declarations, gpt_oss_declarations(tools));
      text += concat(text.empty() ? "" : "\n\n",
                     "# Tools\n\n## functions\n\nnamespace functions {\n\n",
                     declarations,
                     "\n\n} // namespace functions");
    }
    if (!text.empty()) out.push_back({.role = "developer", .content = std::move(text)});
    return out;
  }

 private:
  [[nodiscard]] std::string system_prompt() const {
    return concat(kIdentity,
                  "Knowledge cutoff: 2024-06\nCurrent date: ",
                  date_text(date_),
                  "\n\nReasoning: ",
                  effort_of(variant_),
                  "\n\n# Valid channels: analysis, commentary, final. Channel must be included for "
                  "every message.");
  }

  /// What follows the header: several messages, if there is reasoning or a call.
  static Result<std::string> assistant_text(const Message& message, const MessagePlace& place) {
    if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
      for (const auto& part : *parts) {
        if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
      }
    }
    const auto text = message.text();
    const auto thinking = message.thinking();
    const auto& calls = calls_of(message);
    std::string out;
    if (!thinking.empty()) {
      out += concat(kChannel, "analysis", kMessage, thinking, kEnd, kNextMessage);
    }
    if (calls.empty()) {
      return out + concat(kChannel, "final", kMessage, text, place.is_last ? kReturn : kEnd);
    }
    if (!text.empty()) {
      out += concat(kChannel, "commentary", kMessage, text, kEnd, kNextMessage);
    }
    for (const auto& call : calls) {
      if (&call != calls.data()) out += kNextMessage;
      out += concat(" to=", kFunctions, call.name, kChannel, "commentary <|constrain|>json");
      out += concat(kMessage, call.arguments, kCall);
    }
    return out;
  }

  /// "functions.get_weather"
  static std::string tool_name(const Message& message) {
    std::string name = message.name.value_or("");
    if (name.starts_with(kFunctions)) return name;
    return concat(kFunctions, name.empty() ? "unknown" : name);
  }

  GptOss variant_;
  std::optional<std::chrono::year_month_day> date_;
};

}  // namespace

Format make_gpt_oss(Tokenizer tokenizer, GptOss variant, const RendererOptions& options) {
  TINKER_TRY(require_tokens(tokenizer, {kStart, kChannel, kMessage, kEnd, kCall, kReturn}));
  if (options.date && !options.date->ok()) {
    return Error::invalid_argument("RendererOptions::date is no day of the calendar");
  }
  return shared<GptOssFormat>(std::move(tokenizer), variant, options);
}

}  // namespace tinker::render
