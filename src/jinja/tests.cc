#include <algorithm>
#include <array>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

using Kind = Value::Kind;

template <bool (*kHolds)(const Value&)>
Result<bool> plain(const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("test", 0));
  return kHolds(subject);
}

Result<Value> only(const Arguments& arguments, std::string_view test) {
  if (arguments.positional.size() == 1 && arguments.named.empty()) return arguments.positional[0];
  return template_error(base::concat("is ", test, ": expected one argument"));
}

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_not_defined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_boolean(const Value& v) {
  return v.is(Kind::boolean);
}
bool is_true(const Value& v) {
  return v.is(Kind::boolean) && v.truth();
}
bool is_false(const Value& v) {
  return v.is(Kind::boolean) && !v.truth();
}
bool is_integer(const Value& v) {
  return v.is(Kind::integer);
}
bool is_real(const Value& v) {
  return v.is(Kind::real);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_text(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is_dict();
}
bool is_callable(const Value& v) {
  return v.is(Kind::callable) || v.is(Kind::loop);
}
/// What has a length and elements by place or key. `Undefined` has both.
bool is_sequence(const Value& v) {
  return v.is_string() || v.is_sequence() || v.is_dict() || v.is_undefined();
}
bool is_iterable(const Value& v) {
  return is_sequence(v) || v.is(Kind::generator) || v.is(Kind::loop);
}
bool is_escaped(const Value& v) {
  return v.is_markup();
}
bool is_lower(const Value& v) {
  const std::string text = to_text(v);
  return to_lower(text) == text && to_upper(text) != text;
}
bool is_upper(const Value& v) {
  const std::string text = to_text(v);
  return to_upper(text) == text && to_lower(text) != text;
}
bool names_filter(const Value& v) {
  return v.is_string() && is_filter(v.text());
}
bool names_test(const Value& v) {
  return v.is_string() && is_test(v.text());
}

Result<std::int64_t> rest_of(const Value& subject, std::int64_t divisor) {
  if (subject.is_undefined()) return template_error(subject.why());
  if (!subject.is_integral()) {
    return template_error(base::concat("expected an integer, found ", described(subject)));
  }
  if (divisor == 0) return template_error("division by zero");
  return divisor == -1 ? 0 : subject.integral() % divisor;
}

template <bool kIsOdd>
Result<bool> parity(const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("test", 0));
  TINKER_TRY(const std::int64_t rest, rest_of(subject, 2));
  return (rest != 0) == kIsOdd;
}

Result<bool> is_divisible(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value divisor, only(arguments, "divisibleby"));
  if (!divisor.is_integral()) return template_error("is divisibleby: expected an integer");
  TINKER_TRY(const std::int64_t rest, rest_of(subject, divisor.integral()));
  return rest == 0;
}

Result<bool> is_equal(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "equalto"));
  return equal(subject, other);
}
Result<bool> is_unequal(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "ne"));
  return !equal(subject, other);
}
Result<bool> is_less(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "lt"));
  return less(subject, other);
}
Result<bool> is_greater(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "gt"));
  return less(other, subject);
}
Result<bool> is_at_most(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "le"));
  TINKER_TRY(const bool holds, less(subject, other));
  return holds || equal(subject, other);
}
Result<bool> is_at_least(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "ge"));
  TINKER_TRY(const bool holds, less(other, subject));
  return holds || equal(subject, other);
}
Result<bool> is_in(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value container, only(arguments, "in"));
  return contains(container, subject);
}
Result<bool> is_same_as(const Value& subject, Arguments arguments) {
  TINKER_TRY(const Value other, only(arguments, "sameas"));
  return subject.is_same(other);
}

struct Entry {
  std::string_view name;
  Test call;
};

constexpr std::array kTests = {
    Entry{.name = "!=", .call = is_unequal},
    Entry{.name = "<", .call = is_less},
    Entry{.name = "<=", .call = is_at_most},
    Entry{.name = "==", .call = is_equal},
    Entry{.name = ">", .call = is_greater},
    Entry{.name = ">=", .call = is_at_least},
    Entry{.name = "boolean", .call = plain<is_boolean>},
    Entry{.name = "callable", .call = plain<is_callable>},
    Entry{.name = "defined", .call = plain<is_defined>},
    Entry{.name = "divisibleby", .call = is_divisible},
    Entry{.name = "eq", .call = is_equal},
    Entry{.name = "equalto", .call = is_equal},
    Entry{.name = "escaped", .call = plain<is_escaped>},
    Entry{.name = "even", .call = parity<false>},
    Entry{.name = "false", .call = plain<is_false>},
    Entry{.name = "filter", .call = plain<names_filter>},
    Entry{.name = "float", .call = plain<is_real>},
    Entry{.name = "ge", .call = is_at_least},
    Entry{.name = "greaterthan", .call = is_greater},
    Entry{.name = "gt", .call = is_greater},
    Entry{.name = "in", .call = is_in},
    Entry{.name = "integer", .call = plain<is_integer>},
    Entry{.name = "iterable", .call = plain<is_iterable>},
    Entry{.name = "le", .call = is_at_most},
    Entry{.name = "lessthan", .call = is_less},
    Entry{.name = "lower", .call = plain<is_lower>},
    Entry{.name = "lt", .call = is_less},
    Entry{.name = "mapping", .call = plain<is_mapping>},
    Entry{.name = "ne", .call = is_unequal},
    Entry{.name = "none", .call = plain<is_none>},
    Entry{.name = "number", .call = plain<is_number>},
    Entry{.name = "odd", .call = parity<true>},
    Entry{.name = "sameas", .call = is_same_as},
    Entry{.name = "sequence", .call = plain<is_sequence>},
    Entry{.name = "string", .call = plain<is_text>},
    Entry{.name = "test", .call = plain<names_test>},
    Entry{.name = "true", .call = plain<is_true>},
    Entry{.name = "undefined", .call = plain<is_not_defined>},
    Entry{.name = "upper", .call = plain<is_upper>},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto found = std::ranges::lower_bound(kTests, name, {}, &Entry::name);
  return found != kTests.end() && found->name == name ? found->call : nullptr;
}

bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

}  // namespace tinker::jinja
