#include "render/gpt_oss_tools.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "jinja/value.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

using jinja::Value;

constexpr std::size_t kMaxDepth = 100;

Result<std::string> type_of(const Value& schema);

/// A member that is there and not null, zero or empty.
const Value* given(const Value& schema, std::string_view name) {
  const Value* const member = schema.dict().member(name);
  return member != nullptr && member->truth() ? member : nullptr;
}

bool is_type(const Value& schema, std::string_view name) {
  const Value* const type = schema.dict().member("type");
  return type != nullptr && type->is_string() && type->text() == name;
}

Result<void> expect_schema(const Value& schema) {
  if (schema.is_dict()) return {};
  return Error::invalid_argument(
      base::concat("expected a JSON schema as an object, found ", jinja::to_text(schema)));
}

bool is_required(const Value& schema, const Value& property) {
  const Value* const required = given(schema, "required");
  return required != nullptr && required->is_sequence() &&
         std::ranges::any_of(required->items(),
                             [&](const Value& name) { return jinja::equal(name, property); });
}

/// "city: " or, where the property may be missing, "city?: ".
std::string name_of(const Value& schema, const Value& property) {
  return base::concat(property.text(), is_required(schema, property) ? ": " : "?: ");
}

/// "string | number": what `text_of` makes of each element.
template <typename TextOf>
Result<std::string> alternatives(const Value& list, TextOf text_of) {
  if (!list.is_sequence()) {
    return Error::invalid_argument(
        base::concat("expected a list of alternatives, found ", jinja::to_text(list)));
  }
  std::string out;
  bool is_first = true;
  for (const Value& element : list.items()) {
    TINKER_TRY(const auto text, text_of(element));
    out += base::concat(is_first ? "" : " | ", text);
    is_first = false;
  }
  return out;
}

/// "{ city: string, days?: number }"
Result<std::string> inline_object(const Value& schema) {
  std::string out;
  if (const Value* const properties = given(schema, "properties")) {
    TINKER_TRY(expect_schema(*properties));
    for (const auto& [name, property] : properties->dict()) {
      TINKER_TRY(const auto type, type_of(property));
      out += base::concat(out.empty() ? "" : ", ", name_of(schema, name), type);
    }
  }
  return base::concat("{ ", out, " }");
}

Result<std::string> type_of_name(const Value& name) {
  jinja::Dict schema;
  schema.set("type", name);
  return type_of(std::move(schema));
}

Result<std::string> json_of(const Value& value) {
  return dump_json(value, kAsciiJson);
}

Result<std::string> items_type(const Value& schema) {
  const Value* const items = schema.dict().member("items");
  TINKER_TRY(const auto type, type_of(items ? *items : Value(jinja::Dict())));
  return type + "[]";
}

Result<std::string> type_of(const Value& schema) {
  TINKER_TRY(expect_schema(schema));
  const auto& members = schema.dict();
  for (const std::string_view name : {"oneOf", "anyOf"}) {
    if (const Value* const list = members.member(name)) return alternatives(*list, type_of);
  }
  const Value* const type = members.member("type");
  if (type && type->is_sequence()) return alternatives(*type, type_of_name);
  if (is_type(schema, "string")) {
    if (const Value* const values = members.member("enum")) return alternatives(*values, json_of);
  }
  std::string out = "any";
  if (is_type(schema, "string")) {
    out = "string";
  } else if (is_type(schema, "boolean")) {
    out = "boolean";
  } else if (is_type(schema, "number") || is_type(schema, "integer")) {
    out = "number";
  } else if (is_type(schema, "array")) {
    TINKER_TRY(out, items_type(schema));
  } else if (is_type(schema, "object")) {
    TINKER_TRY(out, inline_object(schema));
  }
  if (given(schema, "nullable")) out += " | null";
  return out;
}

/// What is known of a property, a comment a line.
Result<std::string> comments_of(const Value& property) {
  std::string out;
  if (const Value* const title = given(property, "title")) {
    out += base::concat("// ", jinja::to_text(*title), "\n// \n");
  }
  if (const Value* const description = given(property, "description")) {
    out += base::concat("// ", jinja::to_text(*description), "\n");
  }
  if (const Value* const examples = given(property, "examples")) {
    out += "// Examples:\n";
    TINKER_TRY(const auto list, jinja::elements(*examples));
    for (const Value& example : list) {
      TINKER_TRY(const auto json, json_of(example));
      out += base::concat("// - ", json, "\n");
    }
  }
  return out;
}

/// The parameters of a function: a property a line.
Result<std::string> parameters_of(const Value& schema) {
  TINKER_TRY(expect_schema(schema));
  const Value* const properties = given(schema, "properties");
  if (!is_type(schema, "object") || !properties) return std::string("()");
  TINKER_TRY(expect_schema(*properties));
  std::string out = "(_:";
  if (const Value* const description = given(schema, "description")) {
    out += base::concat(" // ", jinja::to_text(*description));
  }
  out += "\n{\n";
  for (const auto& [name, property] : properties->dict()) {
    TINKER_TRY(const auto type, type_of(property));
    TINKER_TRY(const auto comments, comments_of(property));
    out += base::concat(comments, name_of(schema, name), type, ",");
    if (const Value* const value = property.dict().member("default")) {
      TINKER_TRY(const auto json, json_of(*value));
      out += base::concat(" // default: ", json);
    }
    out += '\n';
  }
  return out + "})";
}

}  // namespace

Result<std::string> gpt_oss_declarations(std::span<const ToolSpec> tools) {
  std::string out;
  for (const auto& tool : tools) {
    const Value schema = to_value(tool.parameters());
    if (schema.depth() > kMaxDepth) {
      return Error::invalid_argument(
          base::concat("the parameters of '", tool.name(), "' are nested too deeply"));
    }
    auto parameters = parameters_of(schema);
    if (!parameters.ok()) {
      return std::move(parameters)
          .error()
          .with_context(base::concat("parameters of '", tool.name(), "'"));
    }
    if (!out.empty()) out += "\n\n";
    if (!tool.description().empty()) out += base::concat("// ", tool.description(), "\n");
    out += base::concat("type ", tool.name(), " = ", *parameters, " => any;");
  }
  return out;
}

}  // namespace tinker::render
