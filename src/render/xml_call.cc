#include "render/xml_call.h"

#include <utility>

#include "jinja/utf8.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

constexpr std::string_view kMalformed = "Malformed Qwen3.5 tool call XML";

/// Takes `mark` off the front; whether it was there.
bool take_front(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

bool take_back(std::string_view& text, std::string_view mark) {
  if (!text.ends_with(mark)) return false;
  text.remove_suffix(mark.size());
  return true;
}

/// The name in "<function=NAME>", whose beginning was taken; nothing if it is none.
std::optional<std::string_view> take_name(std::string_view& text) {
  const auto end = text.find_first_of(">\n");
  if (end == 0 || end == std::string_view::npos || text[end] != '>') return std::nullopt;
  const auto name = text.substr(0, end);
  text.remove_prefix(end + 1);
  return name;
}

struct Parameter {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view name = {};
  std::string_view value = {};
};

/// The first parameter from `from` on.
std::optional<Parameter> next_parameter(std::string_view body, std::size_t from) {
  constexpr std::string_view kOpen = "<parameter=";
  constexpr std::string_view kClose = "</parameter>";
  for (auto at = body.find(kOpen, from); at != std::string_view::npos;) {
    std::string_view rest = body.substr(at + kOpen.size());
    const auto name = take_name(rest);
    if (!name) {  // whatever begins before the end of the line is no name, either
      at = body.find(kOpen, body.find_first_of(">\n", at + kOpen.size()));
      continue;
    }
    const auto close = rest.find(kClose);
    if (close == std::string_view::npos) return std::nullopt;
    return Parameter{.begin = at,
                     .end = body.size() - rest.size() + close + kClose.size(),
                     .name = *name,
                     .value = jinja::trim(rest.substr(0, close))};
  }
  return std::nullopt;
}

}  // namespace

ParsedCall parse_xml_call(std::string_view raw) {
  const auto refuse = [&](std::string_view error) {
    return UnparsedToolCall{.raw_text = std::string(raw), .error = std::string(error)};
  };
  std::string_view body = jinja::trim(raw);
  if (!take_front(body, "<tool_call>") || !take_back(body, "</tool_call>")) {
    return refuse(kMalformed);
  }
  body = jinja::trim(body);
  if (!take_front(body, "<function=")) return refuse(kMalformed);
  const auto name = take_name(body);
  if (!name || !take_back(body, "</function>")) return refuse(kMalformed);
  if (jinja::trim(*name).empty()) return refuse("Missing function name");
  body = jinja::trim(body);

  jinja::Dict arguments;
  std::size_t at = 0;
  for (auto parameter = next_parameter(body, 0); parameter; parameter = next_parameter(body, at)) {
    if (!jinja::trim(body.substr(at, parameter->begin - at)).empty()) {
      return refuse("Unexpected non-parameter content inside <function> block");
    }
    const auto key = jinja::trim(parameter->name);
    if (key.empty()) return refuse("Empty parameter name");
    auto value = load_json(parameter->value);
    arguments.set(key, value.ok() ? *std::move(value) : jinja::Value(parameter->value));
    at = parameter->end;
  }
  if (!jinja::trim(body.substr(at)).empty()) {
    return refuse("Unexpected trailing content inside <function> block");
  }
  auto text = dump_json(jinja::Value(std::move(arguments)), kAsciiJson);
  if (!text.ok()) return refuse(text.error().message);
  return ToolCall{.name = std::string(jinja::trim(*name)), .arguments = *std::move(text)};
}

}  // namespace tinker::render
