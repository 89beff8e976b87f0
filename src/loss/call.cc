#include "loss/call.h"

#include <charconv>

#include "base/strings.h"

namespace tinker::loss::eval {
namespace {

/// Takes the text up to `separator` off the front.
std::string_view take_until(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Value parse_default(std::string_view text) {
  if (text == "None") return {};
  if (text == "True" || text == "False") {
    return Number{.value = text == "True" ? 1.0 : 0.0, .dtype = Dtype::boolean};
  }
  if (text.starts_with('\'')) return std::string(text.substr(1, text.size() - 2));
  Number number = {.dtype =
                       text.find('.') != std::string_view::npos ? Dtype::floating : Dtype::integer};
  std::from_chars(text.data(), text.data() + text.size(), number.value);
  return number;
}

}  // namespace

std::vector<Parameter> parse_signature(std::string_view signature) {
  std::vector<Parameter> out;
  bool after_variadic = false;
  while (!signature.empty()) {
    std::string_view rest = trim(take_until(signature, ','));
    Parameter parameter;
    std::string_view names = trim(take_until(rest, '='));
    if (!rest.empty()) parameter.fallback = parse_default(trim(rest));
    parameter.is_variadic = names.starts_with('*');
    parameter.is_keyword_only = after_variadic;
    if (parameter.is_variadic) names.remove_prefix(1);
    while (!names.empty()) parameter.names.emplace_back(take_until(names, '|'));
    after_variadic = after_variadic || parameter.is_variadic;
    out.push_back(std::move(parameter));
  }
  return out;
}

Error Call::expected(std::string_view what, std::size_t i) const {
  return invalid(base::concat("expected ",
                              what,
                              " for '",
                              parameters_[i].names.front(),
                              "', found ",
                              describe(values_[i])));
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const auto* number = value.get_if<Number>(); number && number->dtype != Dtype::floating) {
    return to_integer(number->value);
  }
  const auto* variable = value.get_if<Variable>();
  if (variable && variable->size() == 1 && variable->dtype() == Dtype::integer) {
    return to_integer(variable->values()[0]);
  }
  return std::nullopt;
}

Result<Variable> Call::tensor(std::size_t i) const {
  if (const auto* variable = values_[i].get_if<Variable>()) return *variable;
  if (const auto* number = values_[i].get_if<Number>()) {
    return Variable(scalar(number->value, number->dtype));
  }
  return expected("a tensor", i);
}

Result<std::vector<Variable>> Call::tensors(std::size_t i) const {
  const auto* sequence = values_[i].get_if<Sequence>();
  if (sequence == nullptr || sequence->items.empty()) return expected("a list of tensors", i);
  std::vector<Variable> out;
  for (const auto& item : sequence->items) {
    const auto* variable = item.get_if<Variable>();
    if (variable == nullptr) return expected("a list of tensors", i);
    out.push_back(*variable);
  }
  return out;
}

Result<double> Call::number(std::size_t i) const {
  if (const auto* number = values_[i].get_if<Number>()) return number->value;
  const auto* variable = values_[i].get_if<Variable>();
  if (variable != nullptr && variable->size() == 1 && !variable->requires_gradient()) {
    return variable->values()[0];
  }
  return expected("a number", i);
}

Result<std::int64_t> Call::integer(std::size_t i) const {
  if (const auto found = as_integer(values_[i])) return *found;
  return expected("an integer", i);
}

Result<bool> Call::flag(std::size_t i) const {
  if (const auto* number = values_[i].get_if<Number>()) return number->value != 0.0;
  return expected("a bool", i);
}

Result<std::string> Call::text(std::size_t i) const {
  if (const auto* text = values_[i].get_if<std::string>()) return *text;
  return expected("a string", i);
}

Result<Shape> Call::integers(std::size_t i) const {
  if (const auto single = as_integer(values_[i])) return Shape{*single};
  const auto* sequence = values_[i].get_if<Sequence>();
  if (sequence == nullptr) return expected("integers", i);
  if (sequence->items.size() == 1) {
    if (const auto* inner = sequence->items[0].get_if<Sequence>()) sequence = inner;
  }
  Shape out;
  for (const auto& item : sequence->items) {
    const auto found = as_integer(item);
    if (!found) return expected("integers", i);
    out.push_back(*found);
  }
  return out;
}

Result<std::optional<Dtype>> Call::dtype(std::size_t i) const {
  if (!has(i)) return std::optional<Dtype>();
  if (const auto* dtype = values_[i].get_if<Dtype>()) return std::optional(*dtype);
  return expected("a dtype", i);
}

}  // namespace tinker::loss::eval
