#include "render/dsml.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/json_reader.h"
#include "render/python_json.h"
#include "render/response.h"

namespace tinker::render {

namespace {

using base::concat;

constexpr std::string_view kMark = "｜DSML｜";
constexpr std::string_view kCalls = "<｜DSML｜ calls>";
constexpr std::string_view kSpacedCalls = "\n\n<｜DSML｜ calls>";
constexpr std::string_view kCallsEnd = "</｜DSML｜ calls>";
constexpr std::string_view kInvoke = "<｜DSML｜ invoke name=\"";
constexpr std::string_view kInvokeName = "\">\n";  // ends it
constexpr std::string_view kInvokeEnd = "</｜DSML｜ invoke>";
constexpr std::string_view kParameter = "<｜DSML｜ parameter name=\"";
constexpr std::string_view kParameterName = "\" string=\"";  // ends it
constexpr std::string_view kIsText = "true\">";
constexpr std::string_view kIsJson = "false\">";
constexpr std::string_view kParameterEnd = "</｜DSML｜ parameter>";

constexpr std::string_view kToolsHead =
    "## Tools\n\nYou have access to a set of tools to help answer the user's question. You can "
    "invoke tools by writing a \"<｜DSML｜ calls>\" block like the following:\n\n"
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜ parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜ parameter>\n...\n</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n...\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n";
constexpr std::string_view kToolsRules =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";

/// The arguments as an object. Some conversations have them as JSON inside of a JSON string; what
/// is no object at all becomes one parameter.
jinja::Dict arguments_of(const ToolCall& call) {
  auto value = load_json(call.arguments);
  if (value.ok() && value->is_string()) value = load_json(value->text());
  if (value.ok() && value->is_dict()) return value->dict();
  jinja::Dict out;
  out.set("arguments", call.arguments);
  return out;
}

// ---- reading ----

/// The next call of a block.
struct Invoke {
  std::string_view raw = {};
  std::string_view name = {};
  std::string_view body = {};
  std::size_t end = 0;
};
std::optional<Invoke> next_invoke(std::string_view text, std::size_t from) {
  const auto name = find_block(text, kInvoke, kInvokeName, from);
  if (!name) return std::nullopt;
  const auto end = text.find(kInvokeEnd, name->end);
  if (end == std::string_view::npos) return std::nullopt;
  const auto behind = end + kInvokeEnd.size();
  return Invoke{.raw = text.substr(name->begin, behind - name->begin),
                .name = name->inside,
                .body = text.substr(name->end, end - name->end),
                .end = behind};
}

struct Parameter {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view key = {};
  std::string_view value = {};
  bool is_text = false;
};
std::optional<Parameter> next_parameter(std::string_view body, std::size_t from) {
  const auto begin = body.find(kParameter, from);
  if (begin == std::string_view::npos) return std::nullopt;
  const auto key = begin + kParameter.size();
  for (auto key_end = body.find(kParameterName, key); key_end != std::string_view::npos;
       key_end = body.find(kParameterName, key_end + 1)) {
    const auto flag = key_end + kParameterName.size();
    const bool is_text = body.substr(flag).starts_with(kIsText);
    if (!is_text && !body.substr(flag).starts_with(kIsJson)) continue;
    const auto value = flag + (is_text ? kIsText : kIsJson).size();
    const auto end = body.find(kParameterEnd, value);
    if (end == std::string_view::npos) return std::nullopt;
    return Parameter{.begin = begin,
                     .end = end + kParameterEnd.size(),
                     .key = body.substr(key, key_end - key),
                     .value = body.substr(value, end - value),
                     .is_text = is_text};
  }
  return std::nullopt;
}

Error invalid(std::string_view what) {
  return Error::invalid_argument(concat("Invalid DSML: ", what));
}

/// The parameters of a call, which have nothing between them.
Result<jinja::Dict> read_parameters(std::string_view body) {
  std::vector<Parameter> parameters;
  std::size_t at = 0;
  bool has_more = false;
  for (auto found = next_parameter(body, 0); found; found = next_parameter(body, at)) {
    has_more = has_more || !jinja::trim(body.substr(at, found->begin - at)).empty();
    at = found->end;
    parameters.push_back(*found);
  }
  if (has_more || !jinja::trim(body.substr(at)).empty()) return invalid("text outside parameters");
  jinja::Dict out;
  for (const auto& parameter : parameters) {
    if (jinja::trim(parameter.key).empty()) return invalid("empty parameter name");
    if (out.member(parameter.key)) {
      return invalid(concat("duplicate parameter ", jinja::to_repr(parameter.key)));
    }
    if (parameter.is_text) {
      out.set(parameter.key, parameter.value);
      continue;
    }
    auto value = read_python_json(parameter.value);
    if (!value.ok()) return invalid(value.error().message);
    out.set(parameter.key, *std::move(value));
  }
  return out;
}

Result<ToolCall> read_invoke(const Invoke& invoke) {
  if (jinja::trim(invoke.name).empty()) return invalid("empty function name");
  TINKER_TRY(auto arguments, read_parameters(invoke.body));
  TINKER_TRY(auto text, dump_json(jinja::Value(std::move(arguments)), kAsciiJson));
  return ToolCall{.name = std::string(invoke.name), .arguments = std::move(text)};
}

void add_unparsed(Message& message, std::string_view raw, std::string error) {
  add_call(message, UnparsedToolCall{.raw_text = std::string(raw), .error = std::move(error)});
}

/// The calls of `block`, or none of them where there is anything else in it.
void read_calls(Message& message, std::string_view block, std::string_view inside) {
  std::vector<Invoke> invokes;
  std::size_t at = 0;
  bool has_more = false;
  for (auto invoke = next_invoke(inside, 0); invoke; invoke = next_invoke(inside, at)) {
    const auto begin = invoke->end - invoke->raw.size();
    has_more = has_more || !jinja::trim(inside.substr(at, begin - at)).empty();
    at = invoke->end;
    invokes.push_back(*invoke);
  }
  if (invokes.empty() || has_more || !jinja::trim(inside.substr(at)).empty()) {
    add_unparsed(message, block, "Invalid DSML: malformed invoke");
    return;
  }
  for (const auto& invoke : invokes) {
    auto call = read_invoke(invoke);
    if (call.ok()) {
      add_call(message, *std::move(call));
    } else {
      add_unparsed(message, invoke.raw, call.error().message);
    }
  }
}

}  // namespace

Result<std::string> dsml_tools(const jinja::List& specs) {
  std::string out(kToolsHead);
  if (specs.empty()) out += '\n';
  for (const auto& spec : specs) {
    TINKER_TRY(const auto json, dump_json(spec, kUnicodeJson));
    out += concat("\n", json);
  }
  return out += kToolsRules;
}

Result<std::string> dsml_calls(const std::vector<ToolCall>& calls) {
  if (calls.empty()) return std::string();
  std::string out = concat("\n\n", kCalls, "\n");
  for (const auto& call : calls) {
    out += concat(kInvoke, call.name, kInvokeName);
    bool is_first = true;
    for (const auto& [key, value] : arguments_of(call)) {
      const bool is_text = value.is_string();
      std::string text;
      if (is_text) {
        text = value.text();
      } else {
        TINKER_TRY(text, dump_json(value, kUnicodeJson));
      }
      out += concat(is_first ? "" : "\n",
                    kParameter,
                    key.text(),
                    kParameterName,
                    is_text ? kIsText : kIsJson,
                    text,
                    kParameterEnd);
      is_first = false;
    }
    out += concat("\n", kInvokeEnd, "\n");
  }
  return out += kCallsEnd;
}

ResponseSyntax dsml_syntax() {
  using State = ResponseSyntax::State;
  auto out = think_syntax(kCalls, kCallsEnd);
  out.marks.back().to = State::hidden;
  out.marks.push_back({.text = kSpacedCalls, .from = State::text, .to = State::tool_call});
  return out;
}

void read_dsml(Message& message) {
  const std::string text = std::get<std::string>(std::move(message.content));
  std::string_view content = text;
  if (const auto block = find_block(text, kCalls, kCallsEnd)) {
    content = content.substr(0, block->begin);
    if (content.ends_with("\n\n")) content.remove_suffix(2);
    const auto raw = std::string_view(text).substr(content.size(), block->end - content.size());
    read_calls(message, raw, block->inside);
    const auto behind = std::string_view(text).substr(block->end);
    if (!jinja::trim(behind).empty()) {
      add_unparsed(message, behind, "Invalid DSML: output after calls block");
    }
  }
  const bool is_open = note_dangling(message, content, kCalls, kCallsEnd);
  if (!is_open && content.find(kMark) != std::string_view::npos) {
    add_unparsed(message, content, "Invalid DSML: marker outside a calls block");
  }
  message.content = std::string(content);
}

}  // namespace tinker::render
