// JSON schemas as types of TypeScript:
//
//     // What it does.
//     type get_weather = (_: {
//       // Name of the city
//       city: string,
//       // Default: "c"
//       unit?: "c" | "f"
//     }) => any;
//
// Properties are written in the order of the schema, because a reference may only name definitions
// that came before it, and are sorted afterwards: required ones first, then by name.
#include "render/kimi_tools.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "jinja/value.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

using base::concat;
using jinja::Value;

constexpr std::string_view kIndent = "  ";
constexpr std::size_t kMaxDepth = 200;

Error expected(std::string_view what, const Value& found) {
  return Error::invalid_argument(
      concat("expected ", what, " in a schema, found ", jinja::to_text(found)));
}

/// The member of that name; null where there is none.
const Value* member(const Value& schema, std::string_view name) {
  return schema.is_dict() ? schema.dict().member(name) : nullptr;
}

Result<std::string> text_of(const Value& value, std::string_view what) {
  if (value.is_string()) return value.text();
  return expected(what, value);
}

Result<const jinja::List*> list_of(const Value& value, std::string_view what) {
  if (value.is_sequence()) return &value.items();
  return expected(what, value);
}

Result<const jinja::Dict*> dict_of(const Value& value, std::string_view what) {
  if (value.is_dict()) return &value.dict();
  return expected(what, value);
}

void append(std::string& out, std::string_view separator, std::string_view text) {
  if (!out.empty()) out += separator;
  out += text;
}

/// "// …\n" for each line of a text.
std::string comment(std::string_view text, std::string_view indent) {
  std::string out;
  for (;;) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    out += line.empty() ? std::string("\n") : concat(indent, "// ", line, "\n");
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

/// The description of a schema as a comment; empty if there is none.
Result<std::string> description_of(const Value& schema, std::string_view indent) {
  const auto* description = member(schema, "description");
  if (!description || !description->truth()) return std::string();
  TINKER_TRY(const auto text, text_of(*description, "a text as the description"));
  return comment(text, indent);
}

/// The limits that a type may have, sorted.
std::vector<std::string_view> limits_of(const Value& schema) {
  for (const auto name : {"$ref", "anyOf", "enum"}) {
    if (member(schema, name)) return {};
  }
  const auto* type = member(schema, "type");
  if (!type || !type->is_string()) return {};
  if (type->text() == "string") return {"maxLength", "minLength", "pattern"};
  if (type->text() == "number" || type->text() == "integer") return {"maximum", "minimum"};
  if (type->text() == "array") return {"maxItems", "minItems"};
  return {};
}

/// What the lines before a type say of it.
Result<std::string> docstring(const Value& schema, std::string_view indent) {
  TINKER_TRY(std::string out, description_of(schema, indent));
  std::string limits;
  for (const auto name : limits_of(schema)) {
    const auto* limit = member(schema, name);
    if (limit) append(limits, ", ", concat(name, ": ", jinja::to_text(*limit)));
  }
  if (!limits.empty()) out += concat(indent, "// ", limits, "\n");
  return out;
}

/// The type of an enumeration's values; empty for any.
Result<std::string> type_of_values(const Value& schema) {
  const auto* type = member(schema, "type");
  if (!type || type->is_none()) return std::string();
  if (!type->is_sequence()) return text_of(*type, "a type");
  const auto& types = type->items();
  const auto is_null = [](const Value& name) { return name.is_string() && name.text() == "null"; };
  if (types.size() == 1) return text_of(types.front(), "a type");
  if (types.size() == 2 && (is_null(types[0]) || is_null(types[1]))) {
    return text_of(is_null(types[0]) ? types[1] : types[0], "a type");
  }
  return expected("one type and 'null' as the type of an enumeration", *type);
}

/// As in Python, where a boolean is an integer.
bool is_of_type(const Value& value, std::string_view type) {
  if (value.is_none()) return true;
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_integral();
  if (type == "boolean") return value.is(Value::Kind::boolean);
  return true;
}

Result<std::string> enumeration(const Value& schema) {
  TINKER_TRY(const auto type, type_of_values(schema));
  TINKER_TRY(const auto* values, list_of(*member(schema, "enum"), "a list as the enumeration"));
  std::string out;
  for (const auto& value : *values) {
    if (!is_of_type(value, type)) return expected(concat("a value of the type ", type), value);
    const auto text = jinja::to_text(value);
    append(out, " | ", value.is_string() ? concat('"', text, '"') : text);
  }
  return out;
}

/// {"type": ["string", "null"]}
Result<std::string> union_of(const jinja::List& types) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kTypes = {Pair("string", "string"),
                                 Pair("number", "number"),
                                 Pair("integer", "number"),
                                 Pair("boolean", "boolean"),
                                 Pair("null", "null"),
                                 Pair("object", "{}"),
                                 Pair("array", "Array<any>")};
  std::string out;
  for (const auto& type : types) {
    TINKER_TRY(const auto name, text_of(type, "a type"));
    const auto* const known = std::ranges::find(kTypes, name, &Pair::first);
    if (known == kTypes.end()) return expected("a type", type);
    append(out, " | ", known->second);
  }
  return out;
}

/// A property of an object, as it is written.
struct Property {
  std::string name = {};
  bool is_optional = false;
  std::string text = {};
};

std::string joined(const std::vector<Property>& properties) {
  std::string out;
  for (const auto& property : properties) append(out, ",\n", property.text);
  return out;
}

/// An object's type before its properties are sorted.
struct ObjectType {
  std::vector<Property> properties = {};
  std::string others = {};  ///< "[k: string]: any", or empty.
};

std::string written(ObjectType type, std::string_view indent) {
  std::ranges::sort(type.properties, [](const Property& a, const Property& b) {
    return std::tie(a.is_optional, a.name) < std::tie(b.is_optional, b.name);
  });
  std::string out = joined(type.properties);
  if (!type.others.empty()) append(out, ",\n", type.others);
  return out.empty() ? std::string("{}") : concat("{\n", out, "\n", indent, "}");
}

/// The declaration of one function. `indent` is what the line begins with on which a type ends.
class Declaration {
 public:
  Result<std::string> write(const ToolSpec& tool);

 private:
  Result<std::string> type(const Value& schema, std::string_view indent);
  Result<std::string> reference(const Value& path);
  Result<std::string> any_of(const Value& types, std::string_view indent);
  Result<std::string> array(const Value& schema, std::string_view indent);
  Result<ObjectType> object(const Value& schema, std::string_view indent);
  Result<std::string> other_properties(const Value& schema, std::string_view indent);
  /// `label`: the name, with a "?" if the property is optional.
  Result<std::string> property(std::string_view label,
                               const Value& schema,
                               std::string_view indent);
  Result<void> define(const Value& definitions);
  Result<std::string> interfaces();

  jinja::Dict definitions_;
  bool refers_to_itself_ = false;
};

Result<std::string> Declaration::write(const ToolSpec& tool) {
  const auto schema = to_value(tool.parameters());
  if (schema.depth() > kMaxDepth) {
    return Error::invalid_argument("the schema of the parameters is nested too deeply");
  }
  TINKER_TRY(auto parameters, object(schema, {}));
  std::string out;
  std::string type = "parameters";
  if (refers_to_itself_) {
    const auto properties = joined(parameters.properties);
    const std::string_view newline = properties.empty() ? "" : "\n";
    out = concat("interface parameters {", newline, properties, newline, "}\n");
  } else {
    type = written(std::move(parameters), {});
  }
  TINKER_TRY(const auto definitions, interfaces());
  out += definitions;
  if (!tool.description().empty()) out += comment(tool.description(), {});
  return concat(out, "type ", tool.name(), " = (_: ", type, ") => any;\n");
}

/// The definitions that the schema of the parameters has.
Result<std::string> Declaration::interfaces() {
  std::string out;
  const auto definitions = definitions_;  // their schemas may add to it
  for (const auto& [name, schema] : definitions) {
    TINKER_TRY(dict_of(schema, "an object as a definition"));
    TINKER_TRY(const auto comments, description_of(schema, {}));
    TINKER_TRY(const auto text, type(schema, {}));
    out += concat(comments, "interface ", name.text(), " ", text, "\n");
  }
  return out;
}

Result<std::string> Declaration::type(const Value& schema, std::string_view indent) {
  if (schema.is(Value::Kind::boolean)) return std::string(schema.truth() ? "any" : "null");
  TINKER_TRY(const auto* members, dict_of(schema, "an object or a boolean as a type"));
  if (const auto* path = members->member("$ref")) return reference(*path);
  if (const auto* types = members->member("anyOf")) return any_of(*types, indent);
  if (members->member("enum")) return enumeration(schema);
  const auto* given = members->member("type");
  if (!given) {
    if (members->empty()) return std::string("any");
    return expected("'$ref', 'anyOf', 'enum' or 'type'", schema);
  }
  if (given->is_sequence()) return union_of(given->items());
  TINKER_TRY(auto name, text_of(*given, "a type"));
  if (name == "array") return array(schema, indent);
  if (name == "object") {
    TINKER_TRY(auto parts, object(schema, indent));
    return written(std::move(parts), indent);
  }
  return name == "integer" ? std::string("number") : std::move(name);
}

Result<std::string> Declaration::reference(const Value& path) {
  TINKER_TRY(const auto text, text_of(path, "a text as '$ref'"));
  if (text == "#") {
    refers_to_itself_ = true;
    return std::string("parameters");
  }
  auto name = text.substr(text.rfind('/') + 1);
  if (!text.starts_with("#/$defs/") || !definitions_.member(name)) {
    return expected("the path of a definition as '$ref'", path);
  }
  return name;
}

Result<std::string> Declaration::any_of(const Value& types, std::string_view indent) {
  TINKER_TRY(const auto* list, list_of(types, "a list as 'anyOf'"));
  std::string out;
  for (const auto& one : *list) {
    TINKER_TRY(const auto text, type(one, indent));
    append(out, " | ", text);
  }
  return out;
}

Result<std::string> Declaration::array(const Value& schema, std::string_view indent) {
  const auto* items = member(schema, "items");
  if (!items || !items->truth()) return std::string("Array<any>");
  const auto inner = concat(indent, kIndent);
  TINKER_TRY(const auto comments, docstring(*items, inner));
  TINKER_TRY(const auto item, type(*items, comments.empty() ? indent : inner));
  if (comments.empty()) return concat("Array<", item, ">");
  return concat("Array<\n", comments, inner, item, "\n", indent, ">");
}

Result<ObjectType> Declaration::object(const Value& schema, std::string_view indent) {
  ObjectType out;
  const auto inner = concat(indent, kIndent);
  if (const auto* definitions = member(schema, "$defs")) {
    TINKER_TRY(define(*definitions));
  }
  if (const auto* others = member(schema, "additionalProperties"); others && !others->is_none()) {
    TINKER_TRY(out.others, other_properties(*others, inner));
  }
  const auto* properties = member(schema, "properties");
  if (!properties) return out;
  TINKER_TRY(const auto* members, dict_of(*properties, "an object as 'properties'"));
  jinja::List required;
  if (const auto* names = member(schema, "required")) {
    TINKER_TRY(const auto* list, list_of(*names, "a list as 'required'"));
    required = *list;
  }
  for (const auto& [name, value] : *members) {
    const bool is_optional = std::ranges::none_of(
        required, [&key = name](const Value& other) { return jinja::equal(key, other); });
    const auto label = concat(name.text(), is_optional ? "?" : "");
    TINKER_TRY(auto text, property(label, value, inner));
    out.properties.push_back(
        {.name = name.text(), .is_optional = is_optional, .text = std::move(text)});
  }
  return out;
}

Result<std::string> Declaration::other_properties(const Value& schema, std::string_view indent) {
  std::string name = "never";
  if (!schema.is(Value::Kind::boolean) || schema.truth()) {
    TINKER_TRY(name, type(schema, indent));
  }
  return concat(indent, "[k: string]: ", name);
}

Result<std::string> Declaration::property(std::string_view label,
                                          const Value& schema,
                                          std::string_view indent) {
  TINKER_TRY(std::string out, docstring(schema, indent));
  if (const auto* value = member(schema, "default"); value && !value->is_none()) {
    std::string text = jinja::to_text(*value);
    if (!value->is_number()) {
      TINKER_TRY(text, dump_json(*value, kUnicodeJson));
    }
    out += concat(indent, "// Default: ", text, "\n");
  }
  TINKER_TRY(const auto name, type(schema, indent));
  return concat(out, indent, label, ": ", name);
}

Result<void> Declaration::define(const Value& definitions) {
  if (!definitions.truth()) return {};
  TINKER_TRY(const auto* members, dict_of(definitions, "an object as '$defs'"));
  for (const auto& [name, schema] : *members) definitions_.set(name, schema);
  return {};
}

}  // namespace

Result<std::string> typescript_tools(std::span<const ToolSpec> tools) {
  std::string out = "# Tools\n\n## functions\nnamespace functions {\n";
  for (const auto& tool : tools) {
    auto declaration = Declaration().write(tool);
    if (!declaration.ok()) {
      return std::move(declaration).error().with_context(concat("tool '", tool.name(), "'"));
    }
    out += *declaration;
  }
  return out + "}\n";
}

}  // namespace tinker::render
