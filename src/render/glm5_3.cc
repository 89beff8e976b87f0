// GLM-5.3: "<|user|>hi<|assistant|><think></think>hello<|user|>". A message ends where the next
// role begins, and the model writes that token, so it belongs to the message of the assistant, and
// the next message goes without. Reasoning of all messages is kept.
#include <algorithm>
#include <array>
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

constexpr std::string_view kSystem = "<|system|>";
constexpr std::string_view kUser = "<|user|>";
constexpr std::string_view kAssistant = "<|assistant|>";
constexpr std::string_view kObservation = "<|observation|>";
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kKey = "<arg_key>";
constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValue = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";

std::string_view effort_of(Glm53 variant) {
  constexpr std::array<std::string_view, 3> kNames = {"Max", "High", "Low"};
  return kNames.at(static_cast<std::size_t>(variant));
}

/// What a role writes before its content; nothing for a role that there is not.
std::optional<std::string_view> mark_of(std::string_view role) {
  if (role == "system") return kSystem;
  if (role == "user") return kUser;
  if (role == "assistant") return kAssistant;
  if (role == "tool") return kObservation;
  return std::nullopt;
}

/// What the model writes at the end of a message: the mark of who is to answer. Nothing if `next`
/// is somebody else.
std::string_view end_of(const Message& message, const Message* next) {
  const bool is_call = !calls_of(message).empty();
  if (next && next->role != (is_call ? "tool" : "user")) return {};
  return is_call ? kObservation : kUser;
}

Result<std::string> visible_text(const Message& message) {
  if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
    for (const auto& part : *parts) {
      if (!std::holds_alternative<TextPart>(part)) return refused_part(message, part);
    }
  }
  return message.text();
}

struct Answer {
  std::string thinking = {};
  std::string text = {};
};
/// A plain text may have its reasoning inside.
Result<Answer> answer_of(const Message& message) {
  const auto* content = std::get_if<std::string>(&message.content);
  if (!content) {
    for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
      if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
    }
    return Answer{.thinking = message.thinking(), .text = message.text()};
  }
  const auto end = content->find(kThinkEnd);
  if (end == std::string::npos) return Answer{.text = *content};
  std::string thinking = content->substr(0, end);
  if (const auto begin = thinking.rfind(kThink); begin != std::string::npos) {
    thinking.erase(0, begin + kThink.size());
  }
  return Answer{.thinking = std::move(thinking),
                .text = content->substr(content->rfind(kThinkEnd) + kThinkEnd.size())};
}

Result<std::string> call_text(const ToolCall& call) {
  std::string out = concat(kCall, call.name);
  if (call.arguments.empty()) return out += kCallEnd;
  TINKER_TRY(const auto arguments, load_arguments(call));
  if (!arguments.is_dict()) {
    return Error::invalid_argument(concat(
        "expected a JSON object as the arguments of '", call.name, "', found ", call.arguments));
  }
  for (const auto& [key, value] : arguments.dict()) {
    std::string text;
    if (value.is_string()) {
      text = value.text();
    } else {
      TINKER_TRY(text, dump_json(value, kUnicodeJson));
    }
    out += concat(kKey, key.text(), kKeyEnd, kValue, text, kValueEnd);
  }
  return out += kCallEnd;
}

// ---- results of tools in the order of the calls ----

/// All of them, if each is there once and none is empty; nothing otherwise.
std::optional<std::vector<std::string_view>> unique_ids(std::vector<std::string_view> ids) {
  auto sorted = ids;
  std::ranges::sort(sorted);
  const bool has_twins = std::ranges::adjacent_find(sorted) != sorted.end();
  if (has_twins || (!sorted.empty() && sorted.front().empty())) return std::nullopt;
  return ids;
}

/// Sorts the results that follow `caller`, if it is clear which call each of them answers.
void sort_results(const Message& caller, std::span<Message> results) {
  if (caller.role != "assistant") return;
  std::vector<std::string_view> of_calls;
  for (const auto& call : calls_of(caller)) {
    of_calls.push_back(call.id ? std::string_view(*call.id) : std::string_view());
  }
  std::vector<std::string_view> of_results;
  for (const auto& result : results) {
    of_results.push_back(result.tool_call_id ? std::string_view(*result.tool_call_id)
                                             : std::string_view());
  }
  const auto calls = unique_ids(std::move(of_calls));
  const auto answered = unique_ids(std::move(of_results));
  if (!calls || !answered) return;
  const auto call_of = [&](std::string_view id) { return std::ranges::find(*calls, id); };
  const bool are_known = std::ranges::all_of(
      *answered, [&](std::string_view id) { return call_of(id) != calls->end(); });
  if (!are_known) return;
  std::vector<Message> sorted(results.begin(), results.end());
  std::ranges::sort(
      sorted, {}, [&](const Message& result) { return call_of(*result.tool_call_id); });
  std::ranges::move(sorted, results.begin());
}

// ---- reading ----

UnparsedToolCall refused_call(std::string_view raw, std::string_view error) {
  return {.raw_text = std::string(raw), .error = std::string(error)};
}

struct Argument {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view key = {};
  std::string_view value = {};
};
/// The first key from `from` on, and the value right behind it. Only the last of the marks that
/// end a key has a value behind it.
std::optional<Argument> next_argument(std::string_view body, std::size_t from) {
  const auto key = body.find(kKey, from);
  if (key == std::string_view::npos) return std::nullopt;
  const auto inside = key + kKey.size();
  for (auto end = body.find(kKeyEnd, inside); end != std::string_view::npos;
       end = body.find(kKeyEnd, end + 1)) {
    const auto rest = jinja::trim_left(body.substr(end + kKeyEnd.size()));
    if (!rest.starts_with(kValue)) continue;
    const auto value = find_block(rest, kValue, kValueEnd);
    if (!value) return std::nullopt;
    return Argument{.begin = key,
                    .end = body.size() - rest.size() + value->end,
                    .key = jinja::trim(body.substr(inside, end - inside)),
                    .value = value->inside};
  }
  return std::nullopt;
}

/// "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>"
ParsedCall parse_call(std::string_view raw) {
  auto body = raw.substr(kCall.size(), raw.size() - kCall.size() - kCallEnd.size());
  body = jinja::trim(body);
  const auto name = body.substr(0, word_size(body, "-."));
  if (name.empty()) return refused_call(raw, "Malformed GLM tool call");
  body = jinja::trim_left(body.substr(name.size()));
  jinja::Dict arguments;
  std::size_t at = 0;
  for (auto pair = next_argument(body, 0); pair; pair = next_argument(body, at)) {
    if (!jinja::trim(body.substr(at, pair->begin - at)).empty()) {
      return refused_call(raw, "Unexpected content between tool call arguments");
    }
    if (pair->key.empty()) return refused_call(raw, "Empty tool call argument key");
    auto value = load_json(pair->value);
    arguments.set(pair->key, value.ok() ? *std::move(value) : jinja::Value(pair->value));
    at = pair->end;
  }
  if (!jinja::trim(body.substr(at)).empty()) {
    return refused_call(raw, "Unexpected trailing content inside tool call");
  }
  auto text = dump_json(jinja::Value(std::move(arguments)), kAsciiJson);
  if (!text.ok()) return refused_call(raw, text.error().message);
  return ToolCall{.name = std::string(name), .arguments = *std::move(text)};
}

class Glm53Format final : public ChatFormat {
 public:
  Glm53Format(Tokenizer tokenizer, Glm53 variant)
      : ChatFormat(std::move(tokenizer)), effort_(effort_of(variant)) {}

  [[nodiscard]] Stop stop() const override { return ends(); }
  [[nodiscard]] bool has_extension_property() const override { return true; }
  [[nodiscard]] std::vector<ModelInputChunk> begin() const override {
    return {encode(concat("[gMASK]<sop>", kSystem, "Reasoning Effort: ", effort_))};
  }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    const std::span all(messages);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const auto begin = i;
      while (i < all.size() && all[i].role == "tool") ++i;
      if (begin < i) sort_results(all[begin - 1], all.subspan(begin, i - begin));
    }
    return PreparedMessages{.messages = std::move(messages)};
  }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& place) const override {
    if (message.role == "assistant") return render_assistant(message, place);
    const auto mark = mark_of(message.role);
    if (!mark) return refused_role(message);
    TINKER_TRY(std::string text, visible_text(message));
    const bool is_tool = message.role == "tool";
    if (is_tool) text = concat("<tool_response>", text, "</tool_response>");
    return RenderedMessage{.header = {encode(has_header(message, place) ? *mark : "")},
                           .output = {encode(text)}};
  }

  [[nodiscard]] Result<std::vector<ModelInputChunk>> suffix(
      const std::string& role, const MessagePlace& /*place*/) const override {
    const auto mark = mark_of(role);
    if (!mark) return refused_role({.role = role});
    return std::vector<ModelInputChunk>{
        encode(concat(*mark, role == "assistant" ? kThink : std::string_view()))};
  }

  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] ResponseSyntax response_syntax() const override {
    return think_syntax(kCall, kCallEnd);
  }
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;
  [[nodiscard]] ToolArguments template_arguments() const override {
    return ToolArguments::as_object;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> ends() const {
    return {token(kUser), token(kObservation), token(kEndOfText)};
  }

  /// Whether no one wrote the mark before: the assistant at the end of its message, or an earlier
  /// result of a tool.
  static bool has_header(const Message& message, const MessagePlace& place) {
    const Message* const previous = place.previous;
    if (!previous || message.role == "system") return true;
    if (previous->role == "assistant") return end_of(*previous, &message).empty();
    return message.role != "tool" || previous->role != "tool";
  }

  /// Prompts begin the reasoning, so the model learns only its end.
  [[nodiscard]] Result<RenderedMessage> render_assistant(const Message& message,
                                                         const MessagePlace& place) const {
    TINKER_TRY(const auto answer, answer_of(message));
    std::string text = concat(answer.thinking, kThinkEnd, jinja::trim(answer.text));
    for (const auto& call : calls_of(message)) {
      TINKER_TRY(const auto written, call_text(call));
      text += written;
    }
    const auto end = end_of(message, place.next);
    RenderedMessage out = {.header = {encode(concat(kAssistant, kThink))},
                           .output = {encode(text)}};
    (place.is_last ? out.stop_overlap : out.output).emplace_back(encode(end));
    return out;
  }

  std::string_view effort_;
};

Result<ParsedResponse> Glm53Format::parse(std::span<const std::int32_t> tokens) const {
  const std::array prefix = {token(kThink)};
  const auto whole = with_prefix(tokens, prefix, token(kThinkEnd));
  const auto marks = ends();
  const auto is_end = [&](std::int32_t id) { return std::ranges::find(marks, id) != marks.end(); };
  if (const auto count = std::ranges::count_if(whole, is_end); count > 1) {
    return Error::invalid_argument(
        concat("a response ends once; this one has ", count, " tokens that end it"));
  }
  const auto found = std::ranges::find_if(whole, is_end);
  const auto end = found == whole.end() ? marks.front() : *found;
  TINKER_TRY(const auto ended, text_before(tokenizer(), whole, end));
  auto out = ended.as_is();
  if (!ended.is_clean()) return out;
  if (end == token(kEndOfText)) out.termination = ParseTermination::eos;
  read_blocks(out.message);
  for (auto& call : std::exchange(out.message.unparsed_tool_calls, {})) {
    add_call(out.message, parse_call(call.raw_text));
  }
  return out;
}

Result<std::vector<Message>> Glm53Format::declare_tools(std::span<const ToolSpec> tools,
                                                        std::string_view system_prompt) const {
  std::vector<Message> out;
  if (!tools.empty()) {
    std::string text =
        "\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n";
    for (const auto& tool : tools) {
      const auto spec = to_value(tool.json());
      const auto* deferred = spec.dict().member("defer_loading");
      if (deferred && deferred->truth()) continue;
      jinja::Dict shown;
      for (const auto& [key, value] : spec.dict()) {
        if (key.text() != "defer_loading" && key.text() != "strict") shown.set(key, value);
      }
      TINKER_TRY(const auto json, dump_json(jinja::Value(std::move(shown)), kUnicodeJson));
      text += json + "\n";
    }
    text +=
        "</tools>\n\nFor each function call, output the function name and arguments within the "
        "following XML format:\n<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key>"
        "<arg_value>{arg-value-1}</arg_value><arg_key>{arg-key-2}</arg_key>"
        "<arg_value>{arg-value-2}</arg_value>...</tool_call>";
    out.push_back({.role = "system", .content = std::move(text)});
  }
  if (!system_prompt.empty()) {
    out.push_back({.role = "system", .content = std::string(system_prompt)});
  }
  return out;
}

}  // namespace

Format make_glm5_3(Tokenizer tokenizer, Glm53 variant) {
  TINKER_TRY(require_tokens(
      tokenizer, {kSystem, kUser, kAssistant, kObservation, kEndOfText, kThink, kThinkEnd}));
  return shared<Glm53Format>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
