#include "render/template_values.h"

#include <ctime>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "render/content.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

Result<jinja::Value> call_value(const ToolCall& call, ToolArguments form) {
  jinja::Value arguments = call.arguments;
  if (form == ToolArguments::as_object && call.arguments.empty()) {
    arguments = jinja::Dict();
  } else if (form == ToolArguments::as_object) {
    TINKER_TRY(arguments, load_arguments(call));
  }
  jinja::Dict function;
  function.set("name", call.name);
  function.set("arguments", std::move(arguments));
  jinja::Dict out;
  out.set("type", "function");
  if (call.id) out.set("id", *call.id);
  out.set("function", std::move(function));
  return jinja::Value(std::move(out));
}

}  // namespace

Result<jinja::Value> message_value(const Message& message,
                                   std::string_view reasoning,
                                   ToolArguments form) {
  if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
    for (const auto& part : *parts) {
      if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
    }
  }
  jinja::Dict out;
  out.set("role", message.role);
  out.set("content", message.text());
  if (auto thinking = message.thinking(); !thinking.empty()) {
    out.set(reasoning, std::move(thinking));
  }
  if (!calls_of(message).empty()) {
    jinja::List calls;
    for (const auto& call : *message.tool_calls) {
      TINKER_TRY(auto value, call_value(call, form));
      calls.push_back(std::move(value));
    }
    out.set("tool_calls", std::move(calls));
  }
  if (message.tool_call_id) out.set("tool_call_id", *message.tool_call_id);
  if (message.name) out.set("name", *message.name);
  return jinja::Value(std::move(out));
}

std::chrono::sys_seconds local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::localtime_r(&now, &parts);
  return std::chrono::sys_seconds(std::chrono::seconds(::timegm(&parts)));
}

}  // namespace tinker::render
