#include "render/python_json.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "base/relative_path.h"
#include "base/strings.h"
#include "render/json_reader.h"

namespace tinker::render {

jinja::Value to_value(const Json& json) {
  return std::visit(
      [](const auto& value) -> jinja::Value {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::nullptr_t>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::uint64_t>) {
          return jinja::Value::large_integer(static_cast<double>(value), base::concat(value));
        } else if constexpr (std::is_same_v<T, Json::Array>) {
          jinja::List out;
          out.reserve(value.size());
          for (const auto& element : value) out.push_back(to_value(element));
          return out;
        } else if constexpr (std::is_same_v<T, Json::Object>) {
          jinja::Dict out;
          for (const auto& [name, member] : value) out.set(name, to_value(member));
          return out;
        } else {
          return value;
        }
      },
      json.value());
}

jinja::Value openai_tools(std::span<const ToolSpec> tools) {
  jinja::List out;
  for (const auto& tool : tools) {
    jinja::Dict wrapped;
    wrapped.set("type", "function");
    wrapped.set("function", to_value(tool.json()));
    out.emplace_back(std::move(wrapped));
  }
  return out;
}

Result<jinja::Value> load_json(std::string_view text) {
  auto value = read_python_json(text);
  if (value.ok()) return value;
  return Error::invalid_argument(base::concat("Invalid JSON: ", value.error().message));
}

Result<jinja::Value> load_arguments(const ToolCall& call) {
  auto value = load_json(call.arguments);
  if (value.ok()) return value;
  return std::move(value).error().with_context(
      base::concat("the arguments of '", call.name, "', ", base::quoted(call.arguments)));
}

Result<std::string> dump_json(const jinja::Value& value, const jinja::JsonStyle& style) {
  return jinja::to_json(value, style);
}

Result<std::string> dump_json(const Json& json, const jinja::JsonStyle& style) {
  return dump_json(to_value(json), style);
}

}  // namespace tinker::render
