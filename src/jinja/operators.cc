#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/loops.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

using Kind = Value::Kind;

Error too_large(Operator what) {
  return template_error(base::concat("the result of '", sign_of(what), "' has more than 64 bits"));
}

Error no_operation(Operator what, const Value& a, const Value& b) {
  if (a.is_undefined()) return template_error(a.why());
  if (b.is_undefined()) return template_error(b.why());
  return template_error(
      base::concat(described(a), " and ", described(b), " have no '", sign_of(what), "'"));
}

/// Rounded down, as Python divides; requires b != 0.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t out = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(out, base, &out))
      return too_large(Operator::power);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
      return too_large(Operator::power);
  }
  return Value(out);
}

Result<Value> of_integers(Operator what, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (what == Operator::plus)
    return __builtin_add_overflow(a, b, &out) ? too_large(what) : Result<Value>(out);
  if (what == Operator::minus)
    return __builtin_sub_overflow(a, b, &out) ? too_large(what) : Result<Value>(out);
  if (what == Operator::times)
    return __builtin_mul_overflow(a, b, &out) ? too_large(what) : Result<Value>(out);
  if (what == Operator::power) return power(a, b);
  if (b == 0) return template_error("division by zero");
  if (what == Operator::divide) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the quotient of the least integer does not fit
    if (what == Operator::modulo) return Value(std::int64_t{0});
    return __builtin_sub_overflow(0, a, &out) ? too_large(what) : Result<Value>(out);
  }
  const std::int64_t quotient = floor_divide(a, b);
  return Value(what == Operator::floor_divide ? quotient : a - quotient * b);
}

Result<Value> of_reals(Operator what, double a, double b) {
  if (what == Operator::plus) return Value(a + b);
  if (what == Operator::minus) return Value(a - b);
  if (what == Operator::times) return Value(a * b);
  if (what == Operator::power) return Value(std::pow(a, b));
  if (b == 0) return template_error("division by zero");
  if (what == Operator::divide) return Value(a / b);
  if (what == Operator::floor_divide) return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

/// `what * times`, where one of the two is text or a sequence.
Result<Value> repeated(const Value& what, std::int64_t times, std::size_t max_bytes) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  const std::size_t size = what.is_string() ? what.text().size() : 64 * what.items().size();
  if (size > 0 && count > max_bytes / size) {
    return template_error(base::concat("the result of '*' has more than ", max_bytes, " bytes"));
  }
  if (what.is_string()) {
    std::string out;
    out.reserve(size * count);
    for (std::size_t i = 0; i < count; ++i) out += what.text();
    return Value::text_like(what, std::move(out));
  }
  List out;
  for (std::size_t i = 0; i < count && size > 0; ++i) {
    out.insert(out.end(), what.items().begin(), what.items().end());
  }
  return what.is(Kind::tuple) ? Value::tuple(std::move(out)) : Value(std::move(out));
}

Result<Value> added(const Value& a, const Value& b, std::size_t max_bytes) {
  if (a.is_string() && b.is_string()) {
    if (a.text().size() + b.text().size() > max_bytes) {
      return template_error(base::concat("the result of '+' has more than ", max_bytes, " bytes"));
    }
    bool is_markup = false;
    std::string out = join({a, b}, "", is_markup);
    return is_markup ? Value::markup(std::move(out)) : Value(std::move(out));
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    List out = a.items();
    if (64 * (out.size() + b.items().size()) > max_bytes) {
      return template_error("the result of '+' has too many elements");
    }
    out.insert(out.end(), b.items().begin(), b.items().end());
    return a.is(Kind::tuple) ? Value::tuple(std::move(out)) : Value(std::move(out));
  }
  return no_operation(Operator::plus, a, b);
}

/// The place that a Python index means, or nothing.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

/// What a member of a value is by Python's getattr, or nothing.
std::optional<Value> member(const Value& subject, const Value& key) {
  if (subject.is(Kind::name_space)) {
    const Value* const found = subject.name_space().find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const std::string& name = key.text();
  if (subject.is(Kind::loop)) return loop_member(subject, name);
  if (subject.is(Kind::callable) && name == "name") return subject.callable().name;
  if (!has_method(subject, name)) return std::nullopt;
  return Value::callable({.name = name,
                          .call =
                              [subject, name](Arguments arguments) {
                                return call_method(subject, name, std::move(arguments));
                              },
                          .depth = subject.depth() + 1});
}

/// What an element is by its key or place, or nothing.
std::optional<Value> element(const Value& subject, const Value& key) {
  if (const Value* const found = find_element(subject, key)) return *found;
  if (!subject.is_string() || !key.is_integral()) return std::nullopt;
  const std::string& text = subject.text();
  const auto place = place_of(key.integral(), length_of(text));
  if (!place) return std::nullopt;
  const std::size_t begin = offset_of(text, *place);
  std::size_t end = begin;
  next_code_point(text, end);
  return Value::text_like(subject, text.substr(begin, end - begin));
}

/// The places that a slice takes, in their order.
Result<std::vector<std::size_t>> places_of(const Slice& parts, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  for (const Value* const part : {&parts.start, &parts.stop, &parts.step}) {
    if (part->is_undefined()) return template_error(part->why());
    if (!part->is_none() && !part->is_integral()) {
      return template_error(
          base::concat("the places of a slice are integers, found a ", part->type_name()));
    }
  }
  const std::int64_t step = parts.step.is_none() ? 1 : parts.step.integral();
  if (step == 0) return template_error("the step of a slice is 0");
  const std::int64_t least = step > 0 ? 0 : -1;
  const std::int64_t most = step > 0 ? length : length - 1;
  const auto bound = [&](const Value& part, std::int64_t fallback) {
    if (part.is_none()) return fallback;
    const std::int64_t at = part.integral();
    return std::clamp(at < 0 ? at + length : at, least, most);
  };
  const std::int64_t start = bound(parts.start, step > 0 ? least : most);
  const std::int64_t stop = bound(parts.stop, step > 0 ? most : least);
  std::vector<std::size_t> out;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    out.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return out;
}

}  // namespace

Value no_member(const Value& subject, std::string_view name) {
  return Value::undefined(
      subject.is_none()
          ? base::concat("'None' has no attribute '", name, "'")
          : base::concat("'", subject.type_name(), " object' has no attribute '", name, "'"));
}

Result<Value> binary(Operator what, const Value& a, const Value& b, std::size_t max_bytes) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return of_integers(what, a.integral(), b.integral());
    return of_reals(what, a.number(), b.number());
  }
  if (what == Operator::plus) return added(a, b, max_bytes);
  if (what == Operator::times) {
    const auto is_repeatable = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (is_repeatable(a) && b.is_integral()) return repeated(a, b.integral(), max_bytes);
    if (is_repeatable(b) && a.is_integral()) return repeated(b, a.integral(), max_bytes);
  }
  if (what == Operator::modulo && a.is_string()) {
    TINKER_TRY(std::string text, format_percent(a.text(), b));
    return Value::text_like(a, std::move(text));
  }
  return no_operation(what, a, b);
}

Result<Value> unary(Operator what, const Value& a) {
  if (a.is(Kind::real)) return Value(what == Operator::minus ? -a.number() : a.number());
  if (a.is_integral()) {
    return what == Operator::minus ? of_integers(Operator::minus, 0, a.integral())
                                   : Result<Value>(a.integral());
  }
  if (a.is_undefined()) return template_error(a.why());
  return template_error(base::concat(described(a), " has no sign"));
}

Result<bool> contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_dict()) return container.dict().find(item) != nullptr;
  if (container.is_sequence()) {
    return std::ranges::any_of(container.items(), [&](const Value& v) { return equal(v, item); });
  }
  if (container.is(Kind::generator)) {
    TINKER_TRY(const auto items, elements(container));
    return std::ranges::any_of(items, [&](const Value& v) { return equal(v, item); });
  }
  if (!container.is_string()) {
    return template_error(base::concat(described(container), " holds nothing: 'in'"));
  }
  if (item.is_undefined()) return template_error(item.why());
  if (!item.is_string()) {
    return template_error(base::concat("text holds text, not ", described(item)));
  }
  return container.text().find(item.text()) != std::string::npos;
}

Result<Value> attribute(const Value& subject, const Value& name) {
  if (subject.is_undefined()) return template_error(subject.why());
  if (auto found = member(subject, name)) return *std::move(found);
  if (auto found = element(subject, name)) return *std::move(found);
  return no_member(subject, name.text());
}

const Value* find_element(const Value& subject, const Value& key) {
  if (subject.is_dict()) return subject.dict().find(key);
  if (!subject.is_sequence() || !key.is_integral()) return nullptr;
  const auto place = place_of(key.integral(), subject.items().size());
  return place ? &subject.items()[*place] : nullptr;
}

Result<Value> item(const Value& subject, const Value& key) {
  if (subject.is_undefined()) return template_error(subject.why());
  if (auto found = element(subject, key)) return *std::move(found);
  if (!key.is_string()) {
    return Value::undefined(
        base::concat(subject.type_name(), " object has no element ", to_repr(key)));
  }
  if (auto found = member(subject, key)) return *std::move(found);
  return no_member(subject, key.text());
}

Result<Value> slice(const Value& subject, const Slice& parts) {
  if (subject.is_undefined()) return template_error(subject.why());
  if (subject.is_sequence()) {
    TINKER_TRY(const auto places, places_of(parts, subject.items().size()));
    List out;
    for (const std::size_t place : places) out.push_back(subject.items()[place]);
    return subject.is(Kind::tuple) ? Value::tuple(std::move(out)) : Value(std::move(out));
  }
  if (!subject.is_string()) {
    return template_error(base::concat(described(subject), " cannot be sliced"));
  }
  const std::string_view text = subject.text();
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); next_code_point(text, at)) offsets.push_back(at);
  TINKER_TRY(const auto places, places_of(parts, offsets.size()));
  offsets.push_back(text.size());
  std::string out;
  for (const std::size_t place : places) {
    out += text.substr(offsets[place], offsets[place + 1] - offsets[place]);
  }
  return Value::text_like(subject, std::move(out));
}

std::string join(const List& texts, std::string_view separator, bool& is_markup) {
  is_markup = std::ranges::any_of(texts, [](const Value& text) { return text.is_markup(); });
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += is_markup ? escape_html(separator) : separator;
    const Value& text = texts[i];
    if (is_markup && !text.is_markup()) {
      out += escape_html(to_text(text));
    } else if (text.is_string()) {
      out += text.text();
    } else {
      out += to_text(text);
    }
  }
  return out;
}

}  // namespace tinker::jinja
