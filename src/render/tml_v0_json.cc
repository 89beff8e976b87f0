#include "render/tml_v0_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/json_string.h"
#include "render/python_json.h"

namespace tinker::render {

namespace {

using base::concat;
using jinja::Value;
using Kind = Value::Kind;

/// Arguments and declarations come from two versions of the writer.
enum class Style { arguments, declaration };

/// "0.00001", "1000000000000000.0", "1e16", "5e-324"
std::string real_text(double value, Style style) {
  const double size = std::abs(value);
  const bool is_plain = size == 0 || (size >= 1e-5 && size < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::array<char, 40> digits = {};
  char* const begin = digits.data();
  std::string out(begin, std::to_chars(begin, begin + digits.size(), value, format).ptr);
  if (is_plain) return out.find('.') == std::string::npos ? out + ".0" : out;
  const auto exponent = out.find('e') + 1;  // "e-07", "e+20"
  const bool is_signed = out[exponent] == '-' || style == Style::declaration;
  const auto first = out.find_first_not_of('0', exponent + 1);
  return concat(
      out.substr(0, exponent), is_signed ? out.substr(exponent, 1) : "", out.substr(first));
}

Result<std::string> number_text(const Value& value, Style style) {
  if (const auto* digits = value.digits()) {
    std::uint64_t integer = 0;
    const char* const end = digits->data() + digits->size();
    if (std::from_chars(digits->data(), end, integer).ec == std::errc()) return *digits;
  }
  if (std::isfinite(value.number())) return real_text(value.number(), style);
  return Error::invalid_argument(concat("JSON has no number ", jinja::real_text(value.number())));
}

class Writer {
 public:
  explicit Writer(Style style) : style_(style) {}

  Result<void> write(const Value& value) {
    switch (value.kind()) {
      case Kind::none: out_ += "null"; return {};
      case Kind::boolean: out_ += value.truth() ? "true" : "false"; return {};
      case Kind::integer: out_ += concat(value.integral()); return {};
      case Kind::real: {
        TINKER_TRY(const auto text, number_text(value, style_));
        out_ += text;
        return {};
      }
      case Kind::string: write_text(value.text()); return {};
      case Kind::dict: return write_dict(value.dict(), style_ == Style::declaration);
      default: return write_list(value.items());
    }
  }
  Result<void> write_dict(const jinja::Dict& dict, bool sorts_keys) {
    std::vector<std::pair<std::string_view, const Value*>> members;
    for (const auto& [name, value] : dict) members.emplace_back(name.text(), &value);
    if (sorts_keys) std::ranges::sort(members);
    std::string_view separator = "{";
    for (const auto& [name, value] : members) {
      out_ += std::exchange(separator, ",");
      write_text(name);
      out_ += ':';
      TINKER_TRY(write(*value));
    }
    out_ += members.empty() ? "{}" : "}";
    return {};
  }
  void write_text(std::string_view text) { formats::append_json_string(out_, text); }
  void write_raw(std::string_view json) { out_ += json; }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  Result<void> write_list(const jinja::List& items) {
    std::string_view separator = "[";
    for (const auto& item : items) {
      out_ += std::exchange(separator, ",");
      TINKER_TRY(write(item));
    }
    out_ += items.empty() ? "[]" : "]";
    return {};
  }

  Style style_;
  std::string out_ = {};
};

Error malformed_tool(std::string_view what) {
  return Error::invalid_argument(concat("a tool of 'tool_declare' ", what));
}

/// {"description", "name", "parameters", "type"}: {"type", "function": {…}} made flat.
Result<Value> flattened(const Value& tool) {
  const Value* const function = tool.is_dict() ? tool.dict().member("function") : nullptr;
  if (!function || !function->is_dict()) return malformed_tool("has no object 'function'");
  const auto& members = function->dict();
  const Value* const name = members.member("name");
  if (!name || !name->is_string()) return malformed_tool("has no 'name'");
  const Value* const description = members.member("description");
  const Value* const parameters = members.member("parameters");
  if (parameters && !parameters->is_dict()) {
    return malformed_tool("has 'parameters' that are no object");
  }
  const Value* const type = tool.dict().member("type");
  jinja::Dict out;
  out.set("description", description ? *description : Value(""));
  out.set("name", *name);
  out.set("parameters", parameters ? *parameters : Value(jinja::Dict()));
  out.set("type", type ? *type : Value("function"));
  return Value(std::move(out));
}

}  // namespace

Result<std::string> inkling_call(std::string_view name, std::string_view arguments) {
  if (name.empty()) return Error::invalid_argument("a tool call has an empty name");
  TINKER_TRY(const auto value, load_json(arguments));
  if (!value.is_dict()) {
    return Error::invalid_argument(
        concat("expected a JSON object as the arguments of '", name, "', found ", arguments));
  }
  Writer out(Style::arguments);
  out.write_raw("{\"name\":");
  out.write_text(name);
  out.write_raw(",\"args\":");
  TINKER_TRY(out.write_dict(value.dict(), true));
  out.write_raw("}");
  return out.take();
}

Result<std::string> inkling_tools(std::string_view declaration) {
  TINKER_TRY(const auto list, load_json(declaration));
  if (!list.is_sequence()) {
    return Error::invalid_argument("the content of a message of 'tool_declare' is no JSON list");
  }
  jinja::List tools;
  for (const Value& tool : list.items()) {
    TINKER_TRY(auto flat, flattened(tool));
    tools.push_back(std::move(flat));
  }
  Writer out(Style::declaration);
  TINKER_TRY(out.write(Value(std::move(tools))));
  return out.take();
}

}  // namespace tinker::render
