// Messages and tools as JSON: OpenAI's form and the cookbook's.
#include "tinker/chat.h"

#include <map>
#include <utility>
#include <variant>

#include "base/strings.h"
#include "render/content.h"
#include "render/python_json.h"
#include "wire/base64.h"
#include "wire/json.h"

namespace tinker {

namespace {

using base::concat;

/// "messages[2]: expected …"
Error expected(std::string_view what, std::string_view where) {
  return Error::invalid_argument(concat(where, ": expected ", what));
}

Result<std::string> text_of(const Json& json, std::string_view where) {
  if (const auto* text = json.get_if<std::string>()) return *text;
  return expected("a string", where);
}

Result<const Json::Array*> list_of(const Json& json, std::string_view where) {
  if (const auto* list = json.get_if<Json::Array>()) return list;
  return expected("a list", where);
}

Result<const Json::Object*> object_of(const Json& json, std::string_view where) {
  if (const auto* object = json.get_if<Json::Object>()) return object;
  return expected("an object", where);
}

/// A member that must be there and a string.
Result<std::string> required_text(const Json& json, std::string_view name) {
  const Json* member = json.find(name);
  if (!member) return Error::invalid_argument(concat("'", name, "' is missing"));
  return text_of(*member, name);
}

/// "data:image/png;base64,…"
Result<ImagePart> read_image(const std::string& url) {
  constexpr std::string_view kBase64 = ";base64,";
  const auto comma = url.find(kBase64);
  const std::string_view head = std::string_view(url).substr(0, comma);
  const bool is_png = head == "data:image/png";
  if (comma == std::string::npos || (!is_png && head != "data:image/jpeg")) {
    return Error::invalid_argument(
        concat("an image must be a data URL of image/png or image/jpeg in base64, found '",
               std::string_view(url).substr(0, 60),
               "'"));
  }
  auto bytes = wire::from_base64(std::string_view(url).substr(comma + kBase64.size()));
  if (!bytes) return Error::invalid_argument("the data URL of an image is no base64");
  return ImagePart{
      {.data = *std::move(bytes), .format = is_png ? ImageFormat::png : ImageFormat::jpeg}};
}

std::string image_url(const ImageChunk& image) {
  return concat("data:image/",
                image.format == ImageFormat::png ? "png" : "jpeg",
                ";base64,",
                wire::to_base64(image.data));
}

Result<ContentPart> read_part(const Json& json) {
  TINKER_TRY(const auto type, required_text(json, "type"));
  if (type == "text") {
    TINKER_TRY(auto text, required_text(json, "text"));
    return ContentPart(TextPart{std::move(text)});
  }
  if (type == "thinking") {
    TINKER_TRY(auto thinking, required_text(json, "thinking"));
    return ContentPart(ThinkingPart{std::move(thinking)});
  }
  if (type == "image") {
    TINKER_TRY(const auto url, required_text(json, "image"));
    TINKER_TRY(auto image, read_image(url));
    return ContentPart(std::move(image));
  }
  if (type == "image_url") {
    const Json* holder = json.find("image_url");
    TINKER_TRY(const auto url, required_text(holder ? *holder : Json(), "url"));
    TINKER_TRY(auto image, read_image(url));
    return ContentPart(std::move(image));
  }
  return Error::invalid_argument(concat(
      "expected a part of type 'text', 'thinking', 'image' or 'image_url', found '", type, "'"));
}

Result<Content> read_content(const Json& json) {
  if (json.is_null()) return Content(std::string());
  if (const auto* text = json.get_if<std::string>()) return Content(*text);
  TINKER_TRY(const auto* list, list_of(json, "a text or a list of parts"));
  std::vector<ContentPart> parts;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto part = read_part((*list)[i]);
    if (!part.ok()) return std::move(part).error().with_context(concat("content[", i, "]"));
    parts.push_back(*std::move(part));
  }
  return Content(std::move(parts));
}

Result<ToolCall> read_call(const Json& json) {
  TINKER_TRY(const auto* members, object_of(json, "tool_calls"));
  ToolCall out;
  bool has_function = false;
  for (const auto& [name, value] : *members) {
    if (name == "id") {
      if (value.is_null()) continue;
      TINKER_TRY(auto id, text_of(value, name));
      out.id = std::move(id);
    } else if (name == "function") {
      has_function = true;
      TINKER_TRY(out.name, required_text(value, "name"));
      const Json* arguments = value.find("arguments");
      if (!arguments) return Error::invalid_argument("'arguments' of a function is missing");
      if (const auto* text = arguments->get_if<std::string>()) {
        out.arguments = *text;
      } else {
        TINKER_TRY(out.arguments, render::dump_json(*arguments, render::kAsciiJson));
      }
    } else if (name != "type") {
      return Error::invalid_argument(
          concat("a tool call has 'type', 'id' and 'function', found '", name, "'"));
    } else if (!value.is_null() && value != Json("function")) {
      return Error::invalid_argument("the type of a tool call must be 'function'");
    }
  }
  if (!has_function) return Error::invalid_argument("'function' of a tool call is missing");
  return out;
}

Result<UnparsedToolCall> read_unparsed(const Json& json) {
  TINKER_TRY(auto raw_text, required_text(json, "raw_text"));
  TINKER_TRY(auto error, required_text(json, "error"));
  return UnparsedToolCall{.raw_text = std::move(raw_text), .error = std::move(error)};
}

template <typename T>
Result<std::vector<T>> read_list(const Json& json,
                                 std::string_view name,
                                 Result<T> (*read)(const Json&)) {
  TINKER_TRY(const auto* list, list_of(json, name));
  std::vector<T> out;
  out.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto element = read((*list)[i]);
    if (!element.ok()) return std::move(element).error().with_context(concat(name, "[", i, "]"));
    out.push_back(*std::move(element));
  }
  return out;
}

/// One member of a message; `reasoning` is OpenAI's place for it.
Result<void> read_member(Message& out,
                         std::string& reasoning,
                         std::string_view name,
                         const Json& value) {
  if (name == "role") {
    TINKER_TRY(out.role, text_of(value, name));
  } else if (name == "content") {
    TINKER_TRY(out.content, read_content(value));
  } else if (value.is_null()) {
    // As if it were not there.
  } else if (name == "tool_calls") {
    TINKER_TRY(auto calls, read_list<ToolCall>(value, name, read_call));
    out.tool_calls = std::move(calls);
  } else if (name == "unparsed_tool_calls") {
    TINKER_TRY(out.unparsed_tool_calls, read_list<UnparsedToolCall>(value, name, read_unparsed));
  } else if (name == "tool_call_id") {
    TINKER_TRY(auto id, text_of(value, name));
    out.tool_call_id = std::move(id);
  } else if (name == "name") {
    TINKER_TRY(auto text, text_of(value, name));
    out.name = std::move(text);
  } else if (name == "reasoning_content") {
    TINKER_TRY(reasoning, text_of(value, name));
  } else if (name == "trainable") {
    const bool* flag = value.get_if<bool>();
    if (!flag) return expected("true or false", name);
    out.trainable = *flag;
  } else {
    return Error::invalid_argument(concat("a message has no member '", name, "'"));
  }
  return {};
}

/// Of members of the same name the last one counts, as in Python.
Json without_repeated_members(const Json& json) {
  const auto* const members = json.get_if<Json::Object>();
  if (!members) return json;
  Json::Object out;
  std::map<std::string_view, std::size_t> places;
  for (const auto& [name, value] : *members) {
    const auto [place, is_new] = places.emplace(name, out.size());
    if (is_new) {
      out.emplace_back(name, value);
    } else {
      out[place->second].second = value;
    }
  }
  return out;
}

Json call_json(const ToolCall& call, Json arguments) {
  return Json::Object{
      {"type", "function"},
      {"id", call.id ? Json(*call.id) : Json()},
      {"function", Json::Object{{"name", call.name}, {"arguments", std::move(arguments)}}},
  };
}

void add_optional(Json::Object& out,
                  std::string_view name,
                  const std::optional<std::string>& text) {
  if (text) out.emplace_back(name, *text);
}

Json part_json(const ContentPart& part) {
  if (const auto* text = std::get_if<TextPart>(&part)) {
    return Json::Object{{"type", "text"}, {"text", text->text}};
  }
  if (const auto* thinking = std::get_if<ThinkingPart>(&part)) {
    return Json::Object{{"type", "thinking"}, {"thinking", thinking->thinking}};
  }
  return Json::Object{{"type", "image"}, {"image", image_url(std::get<ImagePart>(part).image)}};
}

}  // namespace

std::string Message::text() const {
  if (const auto* text = std::get_if<std::string>(&content)) return *text;
  std::string out;
  for (const auto& part : std::get<std::vector<ContentPart>>(content)) {
    if (const auto* text = std::get_if<TextPart>(&part)) out += text->text;
  }
  return out;
}

std::string Message::thinking() const {
  std::string out;
  if (const auto* parts = std::get_if<std::vector<ContentPart>>(&content)) {
    for (const auto& part : *parts) {
      if (const auto* thinking = std::get_if<ThinkingPart>(&part)) out += thinking->thinking;
    }
  }
  return out;
}

Result<Message> Message::from_json(const Json& json) {
  TINKER_TRY(const auto* members, object_of(json, "a message"));
  Message out;
  std::string reasoning;
  for (const auto& [name, value] : *members) {
    TINKER_TRY(read_member(out, reasoning, name, value));
  }
  if (out.role.empty()) return Error::invalid_argument("'role' of a message is missing");
  if (!reasoning.empty()) {
    std::vector<ContentPart> parts = {ThinkingPart{std::move(reasoning)}};
    if (auto* text = std::get_if<std::string>(&out.content)) {
      if (!text->empty()) parts.emplace_back(TextPart{std::move(*text)});
    } else {
      for (auto& part : std::get<std::vector<ContentPart>>(out.content)) {
        parts.push_back(std::move(part));
      }
    }
    out.content = std::move(parts);
  }
  return out;
}

Result<ToolSpec> ToolSpec::from_json(Json json) {
  if (const Json* type = json.find("type"); type && *type != Json("function")) {
    return Error::invalid_argument("the type of a tool must be 'function'");
  }
  if (const Json* function = json.find("function")) {
    Json inside = *function;
    json = std::move(inside);
  }
  json = without_repeated_members(json);
  TINKER_TRY(required_text(json, "name"));
  if (const Json* text = json.find("description")) {
    TINKER_TRY(text_of(*text, "description"));
  }
  if (const Json* schema = json.find("parameters")) {
    TINKER_TRY(object_of(*schema, "parameters"));
  }
  return ToolSpec(std::move(json));
}

const std::string& ToolSpec::name() const {
  return *json_.find("name")->get_if<std::string>();
}

std::string_view ToolSpec::description() const {
  const Json* text = json_.find("description");
  return text ? std::string_view(*text->get_if<std::string>()) : std::string_view();
}

const Json& ToolSpec::parameters() const {
  static const Json none = Json::Object();
  const Json* schema = json_.find("parameters");
  return schema ? *schema : none;
}

Result<Conversation> Conversation::parse(std::string_view text) {
  TINKER_TRY(const auto json, wire::decode_json<Json>(text));
  return from_json(json);
}

Result<Conversation> Conversation::from_json(const Json& json) {
  Conversation out;
  if (json.get_if<Json::Array>()) {
    TINKER_TRY(out.messages, read_list<Message>(json, "messages", Message::from_json));
    return out;
  }
  TINKER_TRY(const auto* members, object_of(json, "a conversation"));
  bool has_messages = false;
  for (const auto& [name, value] : *members) {
    if (name == "messages") {
      has_messages = true;
      TINKER_TRY(out.messages, read_list<Message>(value, name, Message::from_json));
    } else if (name == "tools" && !value.is_null()) {
      constexpr auto kRead = [](const Json& tool) { return ToolSpec::from_json(tool); };
      TINKER_TRY(out.tools, read_list<ToolSpec>(value, name, +kRead));
    }
  }
  if (!has_messages) return Error::invalid_argument("'messages' is missing");
  return out;
}

Result<Json> to_openai_json(const Message& message, ToolArguments arguments) {
  Json::Object out = {{"role", message.role}, {"content", message.text()}};
  if (const auto thinking = message.thinking(); !thinking.empty()) {
    out.emplace_back("reasoning_content", thinking);
  }
  if (!render::calls_of(message).empty()) {
    Json::Array calls;
    for (const auto& call : *message.tool_calls) {
      Json given = call.arguments;
      if (arguments == ToolArguments::as_object) {
        auto object = wire::decode_json<Json>(call.arguments);
        if (!object.ok() || !object->get_if<Json::Object>()) {
          return Error::invalid_argument(concat("expected a JSON object as the arguments of '",
                                                call.name,
                                                "', found ",
                                                call.arguments));
        }
        given = *std::move(object);
      }
      calls.push_back(call_json(call, std::move(given)));
    }
    out.emplace_back("tool_calls", std::move(calls));
  }
  add_optional(out, "tool_call_id", message.tool_call_id);
  add_optional(out, "name", message.name);
  return Json(std::move(out));
}

Json to_json(const Message& message) {
  Json::Object out = {{"role", message.role}};
  if (const auto* text = std::get_if<std::string>(&message.content)) {
    out.emplace_back("content", *text);
  } else {
    Json::Array parts;
    for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
      parts.push_back(part_json(part));
    }
    out.emplace_back("content", std::move(parts));
  }
  if (message.tool_calls) {
    Json::Array calls;
    for (const auto& call : *message.tool_calls) {
      calls.push_back(call_json(call, call.arguments));
    }
    out.emplace_back("tool_calls", std::move(calls));
  }
  if (!message.unparsed_tool_calls.empty()) {
    Json::Array calls;
    for (const auto& call : message.unparsed_tool_calls) {
      calls.emplace_back(Json::Object{{"raw_text", call.raw_text}, {"error", call.error}});
    }
    out.emplace_back("unparsed_tool_calls", std::move(calls));
  }
  add_optional(out, "tool_call_id", message.tool_call_id);
  add_optional(out, "name", message.name);
  if (message.trainable) out.emplace_back("trainable", *message.trainable);
  return out;
}

}  // namespace tinker
