// Reading what a model wrote: where it ends, what is reasoning, what are calls.
#include "render/response.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

constexpr std::size_t kMaxQuoted = 16384;  // characters
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";

std::size_t count_of(std::string_view text, std::string_view mark) {
  std::size_t count = 0;
  for (auto at = text.find(mark); at != std::string_view::npos;
       at = text.find(mark, at + mark.size())) {
    ++count;
  }
  return count;
}

void read(Message& message, bool has_calls) {
  const std::string text = std::get<std::string>(std::move(message.content));
  // Each is found anew only once it has been passed: a mark that is missing is looked for once.
  auto thinking = find_block(text, kThink, kThinkEnd);
  auto call = has_calls ? find_block(text, kCall, kCallEnd) : std::nullopt;
  std::vector<ContentPart> parts;
  const auto add_text = [&](std::size_t begin, std::size_t end) {
    if (begin < end) parts.emplace_back(TextPart{text.substr(begin, end - begin)});
  };
  std::size_t at = 0;
  while (thinking || call) {
    const bool is_call = !thinking || (call && call->begin < thinking->begin);
    const Block block = is_call ? *call : *thinking;
    add_text(at, block.begin);
    if (is_call) {
      const auto raw = std::string_view(text).substr(block.begin, block.end - block.begin);
      add_call(message, parse_json_call(block.inside, raw));
    } else if (!block.inside.empty()) {
      parts.emplace_back(ThinkingPart{std::string(block.inside)});
    }
    at = block.end;
    if (thinking && thinking->begin < at) thinking = find_block(text, kThink, kThinkEnd, at);
    if (call && call->begin < at) call = find_block(text, kCall, kCallEnd, at);
  }
  add_text(at, text.size());
  message.content = std::move(parts);
}

std::string without_newlines(std::string_view text) {
  const auto begin = text.find_first_not_of('\n');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of('\n') + 1 - begin));
}

}  // namespace

ParsedResponse EndedText::as_is() const {
  return {.message = {.role = "assistant", .content = text}, .termination = termination};
}

Result<EndedText> text_before(const Tokenizer& tokenizer,
                              std::span<const std::int32_t> tokens,
                              std::int32_t end) {
  const auto count = std::ranges::count(tokens, end);
  if (count > 1) {
    return Error::invalid_argument(base::concat(
        "a response ends once; this one has ", count, " tokens that end it, of the id ", end));
  }
  const auto stop = std::ranges::find(tokens, end);
  return EndedText{
      .text = tokenizer.decode(tokens.first(static_cast<std::size_t>(stop - tokens.begin()))),
      .termination = count == 1 ? ParseTermination::stop_sequence : ParseTermination::malformed};
}

std::vector<std::int32_t> with_prefix(std::span<const std::int32_t> tokens,
                                      std::span<const std::int32_t> prefix,
                                      std::int32_t closer) {
  std::vector<std::int32_t> out;
  const bool has_prefix = std::ranges::mismatch(prefix, tokens).in1 == prefix.end();
  if (!has_prefix && std::ranges::find(tokens, closer) != tokens.end()) {
    out.assign(prefix.begin(), prefix.end());
  }
  out.insert(out.end(), tokens.begin(), tokens.end());
  return out;
}

std::optional<Block> find_block(std::string_view text,
                                std::string_view open,
                                std::string_view close,
                                std::size_t from) {
  const auto begin = text.find(open, from);
  if (begin == std::string_view::npos) return std::nullopt;
  const auto inside = begin + open.size();
  const auto end = text.find(close, inside);
  if (end == std::string_view::npos) return std::nullopt;
  return Block{
      .begin = begin, .end = end + close.size(), .inside = text.substr(inside, end - inside)};
}

std::size_t word_size(std::string_view text, std::string_view marks) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < text.size(); size = at) {
    const bool is_mark = marks.find(text[at]) != std::string_view::npos;
    if (!jinja::is_word(jinja::next_code_point(text, at)) && !is_mark) break;
  }
  return size;
}

void add_call(Message& message, ParsedCall call) {
  if (auto* unparsed = std::get_if<UnparsedToolCall>(&call)) {
    message.unparsed_tool_calls.push_back(std::move(*unparsed));
    return;
  }
  if (!message.tool_calls) message.tool_calls.emplace();
  message.tool_calls->push_back(std::get<ToolCall>(std::move(call)));
}

ParsedCall parse_json_call(std::string_view body, std::string_view raw) {
  const auto refuse = [&](std::string error) {
    return UnparsedToolCall{.raw_text = std::string(raw), .error = std::move(error)};
  };
  const auto value = load_json(jinja::trim(body));
  if (!value.ok()) return refuse(value.error().message);
  if (!value->is_dict()) return refuse("Tool call is not a JSON object");
  const auto* name = value->dict().member("name");
  if (!name || !name->is_string()) return refuse("Missing or invalid 'name' field");
  const auto* arguments = value->dict().member("arguments");
  if (!arguments || !arguments->is_dict()) return refuse("Missing or invalid 'arguments' field");
  auto text = dump_json(*arguments, kAsciiJson);
  if (!text.ok()) return refuse(text.error().message);
  ToolCall call = {.name = name->text(), .arguments = *std::move(text)};
  const auto* id = value->dict().member("id");
  if (id && id->is_string()) call.id = id->text();
  return call;
}

void read_thinking(Message& message) {
  const auto& text = std::get<std::string>(message.content);
  if (text.find(kThink) != std::string::npos) read(message, false);
}

void read_blocks(Message& message) {
  const auto& text = std::get<std::string>(message.content);
  if (text.find(kThink) == std::string::npos && text.find(kCall) == std::string::npos) return;
  read(message, true);
}

std::string quoted(std::string_view text) {
  return std::string(text.substr(0, jinja::offset_of(text, kMaxQuoted)));
}

bool note_dangling(Message& message,
                   std::string_view text,
                   std::string_view open,
                   std::string_view close) {
  if (count_of(text, open) <= count_of(text, close)) return false;
  message.unparsed_tool_calls.push_back(
      {.raw_text = quoted(text.substr(text.rfind(open))),
       .error = base::concat(
           "unterminated tool block: '", open, "' opened without a matching '", close, "'")});
  return true;
}

ResponseSyntax think_syntax(std::string_view call, std::string_view call_end) {
  using State = ResponseSyntax::State;
  return {.marks = {{.text = kThink, .from = State::text, .to = State::thinking},
                    {.text = kThinkEnd, .from = State::thinking, .to = State::text},
                    {.text = call, .from = State::text, .to = State::tool_call},
                    {.text = call_end, .from = State::tool_call, .to = State::text}}};
}

void unframe_thinking(Message& message) {
  auto* const parts = std::get_if<std::vector<ContentPart>>(&message.content);
  if (!parts) return;
  std::vector<ContentPart> out;
  bool follows_thinking = false;
  for (auto& part : *parts) {
    if (auto* thinking = std::get_if<ThinkingPart>(&part)) {
      follows_thinking = true;
      thinking->thinking = without_newlines(thinking->thinking);
      if (!thinking->thinking.empty()) out.push_back(std::move(part));
      continue;
    }
    if (auto* text = std::get_if<TextPart>(&part); text && follows_thinking) {
      text->text.erase(0, std::min(text->text.find_first_not_of('\n'), text->text.size()));
    }
    follows_thinking = false;
    out.push_back(std::move(part));
  }
  *parts = std::move(out);
}

}  // namespace tinker::render
