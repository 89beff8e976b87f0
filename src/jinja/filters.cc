#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

using Kind = Value::Kind;

Value text_value(std::string text, bool is_markup) {
  return is_markup ? Value::markup(std::move(text)) : Value(std::move(text));
}

/// What an attribute such as "function.name" or 0 leads to, as `map(attribute=…)` reads it.
Result<Value> follow(Value value, const Value& path) {
  if (path.is_integral()) return item(value, path);
  const std::string text = to_text(path);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string name = text.substr(at, end - at);
    const bool is_place =
        !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    std::int64_t place = 0;
    if (is_place) std::from_chars(name.data(), name.data() + name.size(), place);
    TINKER_TRY(value, item(value, is_place ? Value(place) : Value(name)));
    at = end + 1;
  }
  return value;
}

/// What is compared instead of text where case does not count.
Value without_case(const Value& value) {
  return value.is_string() ? Value(to_lower(value.text())) : value;
}

/// The arguments of a filter, looked up by place or name.
class Options {
 public:
  Options(std::string_view filter, Arguments arguments)
      : filter_(filter), arguments_(std::move(arguments)) {}

  std::optional<Value> value(std::size_t place, std::string_view name) {
    places_ = std::max(places_, place + 1);
    return arguments_.take(place, name);
  }
  bool flag(std::size_t place, std::string_view name, bool fallback) {
    const auto found = value(place, name);
    return found ? found->truth() : fallback;
  }
  Result<std::int64_t> integer(std::size_t place, std::string_view name, std::int64_t fallback) {
    const auto found = value(place, name);
    if (!found || found->is_none()) return fallback;
    if (found->is_integral()) return found->integral();
    return template_error(
        base::concat(filter_, ": ", name, ": expected an integer, found a ", found->type_name()));
  }
  [[nodiscard]] Result<void> done() const { return arguments_.expect_no_more(filter_, places_); }

 private:
  std::string_view filter_;
  Arguments arguments_;
  std::size_t places_ = 0;
};

// ---- text ---------------------------------------------------------------------------------------

template <std::string (*kHow)(std::string_view)>
Result<Value> convert(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("filter", 0));
  return text_value(kHow(to_text(subject)), subject.is_markup());
}

Result<Value> trim_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("trim", std::move(arguments));
  const auto chars = options.value(0, "chars");
  TINKER_TRY(options.done());
  const Value text = subject.is_string() ? subject : Value(to_text(subject));
  if (!chars || chars->is_none()) {
    const std::string_view trimmed = trim(text.text());
    if (trimmed.size() == text.text().size()) return text;
    return Value::text_like(text, std::string(trimmed));
  }
  return call_method(text, "strip", {.positional = {*chars}});
}

Result<Value> title_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("title", 0));
  // Unlike str.title: a word begins behind white space, '-' and opening brackets only.
  const std::string text = to_text(subject);
  std::string out;
  std::size_t begin = 0;
  const auto add_word = [&](std::size_t end) {
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    const std::size_t first = offset_of(word, 1);
    out += to_upper(word.substr(0, first)) + to_lower(word.substr(first));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t point = next_code_point(text, at);
    const bool is_seam = is_space(point) || point == '-' || point == '(' || point == '{' ||
                         point == '[' || point == '<';
    if (!is_seam) continue;
    add_word(here);
    out += text.substr(here, at - here);
    begin = at;
  }
  add_word(text.size());
  return text_value(std::move(out), subject.is_markup());
}

Result<Value> replace_filter(Interpreter&, const Value& subject, Arguments arguments) {
  const Value text = subject.is_string() ? subject : Value(to_text(subject));
  for (Value& argument : arguments.positional) {
    if (!argument.is_integral() && !argument.is_none()) argument = Value(to_text(argument));
  }
  return call_method(text, "replace", std::move(arguments));
}

Result<Value> indent_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("indent", std::move(arguments));
  const auto width = options.value(0, "width").value_or(Value(std::int64_t{4}));
  const bool first = options.flag(1, "first", false);
  const bool blank = options.flag(2, "blank", false);
  TINKER_TRY(options.done());
  if (width.is_integral() && (width.integral() < 0 || width.integral() > 10'000)) {
    return template_error(
        base::concat("indent: expected a width up to 10000, found ", width.integral()));
  }
  const std::string space = width.is_string()
                                ? width.text()
                                : std::string(static_cast<std::size_t>(width.integral()), ' ');
  // As Jinja: a newline is added first, so that the last line is a line, too.
  const Value text(to_text(subject) + "\n");
  TINKER_TRY(const Value lines, call_method(text, "splitlines", {}));
  std::string out;
  for (std::size_t i = 0; i < lines.items().size(); ++i) {
    const std::string& line = lines.items()[i].text();
    if (i > 0) out += '\n';
    if (i > 0 ? (blank || !line.empty()) : first) out += space;
    out += line;
  }
  return text_value(std::move(out), subject.is_markup());
}

Result<Value> join_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("join", std::move(arguments));
  const Value separator = options.value(0, "d").value_or(Value(""));
  const auto attribute = options.value(1, "attribute");
  TINKER_TRY(options.done());
  TINKER_TRY(auto items, elements(subject));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += to_text(separator);
    if (attribute && !attribute->is_none()) {
      TINKER_TRY(items[i], follow(items[i], *attribute));
    }
    out += to_text(items[i]);
  }
  return Value(std::move(out));
}

Result<Value> format_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Value values = Value::tuple(std::move(arguments.positional));
  if (!arguments.named.empty()) {
    Dict named;
    for (auto& [name, value] : arguments.named) named.set(name, std::move(value));
    values = Value(std::move(named));
  }
  TINKER_TRY(std::string out, format_percent(to_text(subject), values));
  return text_value(std::move(out), subject.is_markup());
}

Result<Value> truncate_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("truncate", std::move(arguments));
  TINKER_TRY(const std::int64_t length, options.integer(0, "length", 255));
  const bool cuts_words = options.flag(1, "killwords", false);
  const std::string end = to_text(options.value(2, "end").value_or(Value("...")));
  TINKER_TRY(const std::int64_t leeway, options.integer(3, "leeway", 5));
  TINKER_TRY(options.done());
  const std::string text = to_text(subject);
  const auto end_length = static_cast<std::int64_t>(length_of(end));
  if (length < end_length || leeway < 0) {
    return template_error(base::concat("truncate: expected a length of at least ", end_length));
  }
  if (static_cast<std::int64_t>(length_of(text)) <= length + leeway) return Value(text);
  std::string out = text.substr(0, offset_of(text, static_cast<std::size_t>(length - end_length)));
  if (!cuts_words) out = out.substr(0, out.rfind(' '));
  return Value(out + end);
}

Result<Value> escape_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("escape", 0));
  return subject.is_markup() ? subject : Value::markup(escape_html(to_text(subject)));
}

Result<Value> force_escape_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("forceescape", 0));
  return Value::markup(escape_html(to_text(subject)));
}

Result<Value> safe_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("safe", 0));
  return Value::markup(to_text(subject));
}

Result<Value> string_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("string", 0));
  return subject.is_string() ? subject : Value(to_text(subject));
}

Result<Value> center_filter(Interpreter&, const Value& subject, Arguments arguments) {
  if (arguments.positional.empty()) arguments.positional.emplace_back(std::int64_t{80});
  return call_method(Value(to_text(subject)), "center", std::move(arguments));
}

Result<Value> url_encode_filter(Interpreter&, const Value& subject, Arguments arguments) {
  constexpr std::string_view kPlain = "_.-~/";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  TINKER_TRY(arguments.expect_no_more("urlencode", 0));
  if (subject.is_dict()) return template_error("urlencode: a dict is not supported");
  std::string out;
  for (const char c : to_text(subject)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte < 0x80 && (is_letter(byte) || is_digit(byte))) ||
                          kPlain.find(c) != std::string_view::npos;
    if (is_plain) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4U], kDigits[byte & 0xFU]};
    }
  }
  return Value(std::move(out));
}

Result<Value> word_count_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("wordcount", 0));
  const std::string text = to_text(subject);
  std::int64_t count = 0;
  bool is_inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    const bool is_word = is_letter(point) || is_digit(point) || point == '_';
    if (is_word && !is_inside) ++count;
    is_inside = is_word;
  }
  return Value(count);
}

// ---- numbers ------------------------------------------------------------------------------------

Result<Value> abs_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("abs", 0));
  if (subject.is(Kind::real)) return Value(std::abs(subject.number()));
  if (!subject.is_integral()) {
    return template_error(base::concat("abs: expected a number, found ", described(subject)));
  }
  return subject.integral() < 0 ? unary(Operator::minus, subject) : Result<Value>(subject);
}

/// The number that a text is, as Python's `int` and `float` read it.
template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  text = trim(text);
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  const std::size_t sign = digits.starts_with('+') ? 1 : 0;
  Number out = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data() + sign, end, out);
  if (failure != std::errc() || stop != end || digits.empty()) return std::nullopt;
  return out;
}

Result<Value> int_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("int", std::move(arguments));
  const Value fallback = options.value(0, "default").value_or(Value(std::int64_t{0}));
  TINKER_TRY(const std::int64_t base, options.integer(1, "base", 10));
  TINKER_TRY(options.done());
  if (base != 10) return template_error(base::concat("int: base ", base, " is not supported"));
  if (subject.is_undefined()) return template_error(subject.why());
  if (subject.is_integral()) return Value(subject.integral());
  const auto whole = [&](double number) -> Result<Value> {
    constexpr double kEnd = 9223372036854775808.0;
    if (std::isnan(number) || number >= kEnd || number < -kEnd) return fallback;
    return Value(static_cast<std::int64_t>(number));
  };
  if (subject.is(Kind::real)) return whole(subject.number());
  if (!subject.is_string()) return fallback;
  if (const auto number = read_number<std::int64_t>(subject.text())) return Value(*number);
  if (const auto number = read_number<double>(subject.text())) return whole(*number);
  return fallback;
}

Result<Value> float_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("float", std::move(arguments));
  const Value fallback = options.value(0, "default").value_or(Value(0.0));
  TINKER_TRY(options.done());
  if (subject.is_undefined()) return template_error(subject.why());
  if (subject.is_number()) return Value(subject.number());
  if (!subject.is_string()) return fallback;
  if (const auto number = read_number<double>(subject.text())) return Value(*number);
  return fallback;
}

Result<Value> round_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("round", std::move(arguments));
  TINKER_TRY(const std::int64_t digits, options.integer(0, "precision", 0));
  const std::string method = to_text(options.value(1, "method").value_or(Value("common")));
  TINKER_TRY(options.done());
  if (!subject.is_number()) {
    return template_error(base::concat("round: expected a number, found ", described(subject)));
  }
  const double number = subject.number();
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  if (method != "common") {
    return template_error(base::concat("round: expected common, ceil or floor, found ", method));
  }
  if (digits <= 0) return Value(std::nearbyint(number * scale) / scale);
  // Python rounds the decimal number that the double stands for.
  TINKER_TRY(const std::string text,
             format_percent(base::concat("%.", std::min<std::int64_t>(digits, 300), "f"), number));
  return Value(read_number<double>(text).value_or(number));
}

// ---- sequences ----------------------------------------------------------------------------------

Value generated(List items) {
  const std::size_t depth = Value(items).depth();
  return Value::generator([items = std::move(items)]() -> Result<List> { return items; }, depth);
}

Result<Value> length_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("length", 0));
  const auto as_value = [](std::size_t count) { return Value(static_cast<std::int64_t>(count)); };
  if (subject.is_string()) return as_value(length_of(subject.text()));
  if (subject.is_sequence()) return as_value(subject.items().size());
  if (subject.is_dict()) return as_value(subject.dict().size());
  if (subject.is_undefined()) return as_value(0);
  return template_error(base::concat(described(subject), " has no length"));
}

Result<Value> default_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("default", std::move(arguments));
  const Value fallback = options.value(0, "default_value").value_or(Value(""));
  const bool also_false = options.flag(1, "boolean", false);
  TINKER_TRY(options.done());
  return subject.is_undefined() || (also_false && !subject.truth()) ? fallback : subject;
}

Result<Value> first_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("first", 0));
  TINKER_TRY(auto items, elements(subject));
  if (items.empty()) return Value::undefined("no first item, sequence was empty");
  return std::move(items.front());
}

Result<Value> last_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("last", 0));
  TINKER_TRY(auto items, elements(subject));
  if (items.empty()) return Value::undefined("no last item, sequence was empty");
  return std::move(items.back());
}

Result<Value> list_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("list", 0));
  TINKER_TRY(auto items, elements(subject));
  return Value(std::move(items));
}

Result<Value> reverse_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("reverse", 0));
  TINKER_TRY(auto items, elements(subject));
  std::ranges::reverse(items);
  if (subject.is(Kind::generator)) return Value(std::move(items));
  if (!subject.is_string()) return generated(std::move(items));
  std::string out;
  for (const Value& one : items) out += one.text();
  return Value::text_like(subject, std::move(out));
}

Result<Value> items_filter(Interpreter&, const Value& subject, Arguments arguments) {
  TINKER_TRY(arguments.expect_no_more("items", 0));
  if (subject.is_undefined()) return generated({});
  if (!subject.is_dict()) {
    return template_error(base::concat("items: expected a dict, found ", described(subject)));
  }
  TINKER_TRY(const Value items, call_method(subject, "items", {}));
  return generated(items.items());
}

/// A stable order of `items` by `keys`; fails where two have none.
Result<List> in_order(List items, const List& keys, bool is_reverse) {
  std::vector<std::size_t> places(items.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::optional<Error> failure;
  const auto comes_first = [&](std::size_t a, std::size_t b) {
    if (failure) return false;
    const auto is_less = is_reverse ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
    if (!is_less.ok()) failure = is_less.error();
    return is_less.ok() && *is_less;
  };
  std::ranges::stable_sort(places, comes_first);
  if (failure) return *std::move(failure);
  List out;
  out.reserve(items.size());
  for (const std::size_t place : places) out.push_back(std::move(items[place]));
  return out;
}

Result<List> keys_of(const List& items, const std::optional<Value>& attribute, bool keeps_case) {
  List keys;
  for (const Value& one : items) {
    Value key = one;
    if (attribute && !attribute->is_none()) {
      TINKER_TRY(key, follow(one, *attribute));
    }
    keys.push_back(keeps_case ? std::move(key) : without_case(key));
  }
  return keys;
}

Result<Value> sort_filter(Interpreter& interpreter, const Value& subject, Arguments arguments) {
  Options options("sort", std::move(arguments));
  const bool is_reverse = options.flag(0, "reverse", false);
  const bool keeps_case = options.flag(1, "case_sensitive", false);
  const auto attribute = options.value(2, "attribute");
  TINKER_TRY(options.done());
  TINKER_TRY(auto items, elements(subject));
  TINKER_TRY(interpreter.spend(items.size()));
  if (attribute && attribute->is_string() && attribute->text().find(',') != std::string::npos) {
    return template_error("sort: several attributes are not supported");
  }
  TINKER_TRY(const auto keys, keys_of(items, attribute, keeps_case));
  TINKER_TRY(auto out, in_order(std::move(items), keys, is_reverse));
  return Value(std::move(out));
}

Result<Value> dict_sort_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("dictsort", std::move(arguments));
  const bool keeps_case = options.flag(0, "case_sensitive", false);
  const std::string by = to_text(options.value(1, "by").value_or(Value("key")));
  const bool is_reverse = options.flag(2, "reverse", false);
  TINKER_TRY(options.done());
  if (!subject.is_dict()) {
    return template_error(base::concat("dictsort: expected a dict, found ", described(subject)));
  }
  if (by != "key" && by != "value") {
    return template_error(base::concat("dictsort: expected key or value, found ", by));
  }
  List items;
  List keys;
  for (const auto& [key, value] : subject.dict()) {
    items.push_back(Value::tuple({key, value}));
    const Value& sorted_by = by == "key" ? key : value;
    keys.push_back(keeps_case ? sorted_by : without_case(sorted_by));
  }
  TINKER_TRY(auto out, in_order(std::move(items), keys, is_reverse));
  return Value(std::move(out));
}

template <bool kIsMax>
Result<Value> extreme_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options(kIsMax ? "max" : "min", std::move(arguments));
  const bool keeps_case = options.flag(0, "case_sensitive", false);
  const auto attribute = options.value(1, "attribute");
  TINKER_TRY(options.done());
  TINKER_TRY(auto items, elements(subject));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  TINKER_TRY(const auto keys, keys_of(items, attribute, keeps_case));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    TINKER_TRY(const bool is_better,
               kIsMax ? less(keys[best], keys[i]) : less(keys[i], keys[best]));
    if (is_better) best = i;
  }
  return std::move(items[best]);
}

Result<Value> sum_filter(Interpreter& interpreter, const Value& subject, Arguments arguments) {
  Options options("sum", std::move(arguments));
  const auto attribute = options.value(0, "attribute");
  Value out = options.value(1, "start").value_or(Value(std::int64_t{0}));
  TINKER_TRY(options.done());
  TINKER_TRY(const auto items, elements(subject));
  for (const Value& one : items) {
    Value addend = one;
    if (attribute && !attribute->is_none()) {
      TINKER_TRY(addend, follow(one, *attribute));
    }
    TINKER_TRY(out, binary(Operator::plus, out, addend, interpreter.options().max_bytes));
  }
  return out;
}

Result<Value> unique_filter(Interpreter& interpreter, const Value& subject, Arguments arguments) {
  Options options("unique", std::move(arguments));
  const bool keeps_case = options.flag(0, "case_sensitive", false);
  const auto attribute = options.value(1, "attribute");
  TINKER_TRY(options.done());
  TINKER_TRY(auto items, elements(subject));
  TINKER_TRY(const auto keys, keys_of(items, attribute, keeps_case));
  List out;
  List seen;
  for (std::size_t i = 0; i < items.size(); ++i) {
    TINKER_TRY(interpreter.spend(seen.size()));
    if (std::ranges::any_of(seen, [&](const Value& v) { return equal(v, keys[i]); })) continue;
    seen.push_back(keys[i]);
    out.push_back(std::move(items[i]));
  }
  return generated(std::move(out));
}

Result<Value> group_by_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("groupby", std::move(arguments));
  const auto attribute = options.value(0, "attribute");
  const auto fallback = options.value(1, "default");
  const bool keeps_case = options.flag(2, "case_sensitive", false);
  TINKER_TRY(options.done());
  if (!attribute || fallback) return template_error("groupby: expected an attribute alone");
  TINKER_TRY(auto items, elements(subject));
  TINKER_TRY(const auto keys, keys_of(items, attribute, keeps_case));
  TINKER_TRY(items, in_order(std::move(items), keys, false));
  List out;
  List group;
  Value key;
  Value shown;
  const auto close = [&] {
    if (!group.empty()) out.push_back(Value::tuple({shown, Value(std::exchange(group, {}))}));
  };
  for (Value& one : items) {
    TINKER_TRY(Value own, follow(one, *attribute));
    Value compared = keeps_case ? own : without_case(own);
    if (group.empty() || !equal(compared, key)) {
      close();
      key = std::move(compared);
      shown = std::move(own);
    }
    group.push_back(std::move(one));
  }
  close();
  return Value(std::move(out));
}

Result<Value> batch_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("batch", std::move(arguments));
  TINKER_TRY(const std::int64_t size, options.integer(0, "linecount", 0));
  const auto fill = options.value(1, "fill_with");
  TINKER_TRY(options.done());
  if (size < 1 || size > 1'000'000)
    return template_error("batch: expected a size from 1 to 1000000");
  TINKER_TRY(auto items, elements(subject));
  List out;
  List batch;
  for (Value& one : items) {
    if (std::ssize(batch) == size) out.emplace_back(std::exchange(batch, {}));
    batch.push_back(std::move(one));
  }
  if (!batch.empty()) {
    if (fill && !fill->is_none()) batch.resize(static_cast<std::size_t>(size), *fill);
    out.emplace_back(std::move(batch));
  }
  return generated(std::move(out));
}

Result<Value> slice_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("slice", std::move(arguments));
  TINKER_TRY(const std::int64_t count, options.integer(0, "slices", 0));
  const auto fill = options.value(1, "fill_with");
  TINKER_TRY(options.done());
  if (count < 1 || count > 1'000'000) {
    return template_error("slice: expected a count from 1 to 1000000");
  }
  TINKER_TRY(const auto items, elements(subject));
  const auto slices = static_cast<std::size_t>(count);
  const std::size_t each = items.size() / slices;
  const std::size_t longer = items.size() % slices;
  List out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    List part(items.begin() + static_cast<std::ptrdiff_t>(at),
              items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (fill && !fill->is_none() && longer > 0 && i >= longer) part.push_back(*fill);
    out.emplace_back(std::move(part));
  }
  return generated(std::move(out));
}

Result<Value> attr_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("attr", std::move(arguments));
  const auto name = options.value(0, "name");
  TINKER_TRY(options.done());
  if (!name || !name->is_string()) return template_error("attr: expected a name");
  // Members alone: the keys of a dict are none.
  if (subject.is_dict() && !has_method(subject, name->text())) {
    return Value::undefined(base::concat("'dict object' has no attribute '", name->text(), "'"));
  }
  return attribute(subject, *name);
}

/// The elements of what is gone through when its turn comes; none of what is false.
Result<List> late_elements(Interpreter& interpreter, const Value& subject) {
  if (!subject.truth()) return List();
  TINKER_TRY(auto items, elements(subject));
  TINKER_TRY(interpreter.spend(items.size()));
  return items;
}

Result<Value> map_filter(Interpreter& interpreter, const Value& subject, Arguments arguments) {
  if (arguments.positional.empty()) {
    Options options("map", std::move(arguments));
    const auto attribute = options.value(0, "attribute");
    const auto fallback = options.value(1, "default");
    TINKER_TRY(options.done());
    if (!attribute) return template_error("map: expected a filter or an attribute");
    return Value::generator(
        [=, &interpreter]() -> Result<List> {
          TINKER_TRY(auto items, late_elements(interpreter, subject));
          for (Value& one : items) {
            TINKER_TRY(one, follow(one, *attribute));
            if (one.is_undefined() && fallback) one = *fallback;
          }
          return items;
        },
        subject.depth());
  }
  const std::string name = to_text(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return Value::generator(
      [=, &interpreter]() -> Result<List> {
        TINKER_TRY(auto items, late_elements(interpreter, subject));
        for (Value& one : items) {
          TINKER_TRY(one, interpreter.filter(name, one, arguments));
        }
        return items;
      },
      subject.depth());
}

template <bool kByAttribute, bool kKeeps>
Result<Value> choose_filter(Interpreter& interpreter, const Value& subject, Arguments arguments) {
  auto& given = arguments.positional;
  Value attribute;
  if (kByAttribute) {
    if (given.empty()) return template_error("selectattr: expected the name of an attribute");
    attribute = std::move(given.front());
    given.erase(given.begin());
  }
  std::string name;
  if (!given.empty()) {
    name = to_text(given.front());
    given.erase(given.begin());
  }
  return Value::generator(
      [=, &interpreter]() -> Result<List> {
        TINKER_TRY(auto items, late_elements(interpreter, subject));
        List out;
        for (Value& one : items) {
          Value tested = one;
          if (kByAttribute) {
            TINKER_TRY(tested, follow(one, attribute));
          }
          bool holds = tested.truth();
          if (!name.empty()) {
            TINKER_TRY(holds, interpreter.test(name, tested, arguments));
          }
          if (holds == kKeeps) out.push_back(std::move(one));
        }
        return out;
      },
      subject.depth());
}

// ---- JSON ---------------------------------------------------------------------------------------

Result<Value> json_filter(Interpreter&, const Value& subject, Arguments arguments) {
  Options options("tojson", std::move(arguments));
  JsonStyle style = {.is_ascii = options.flag(0, "ensure_ascii", false)};
  const auto indent = options.value(1, "indent");
  const auto separators = options.value(2, "separators");
  style.sorts_keys = options.flag(3, "sort_keys", false);
  TINKER_TRY(options.done());
  if (indent && !indent->is_none()) {
    if (!indent->is_string() && !indent->is_integral()) {
      return template_error("tojson: indent: expected a number or text");
    }
    const std::int64_t width = indent->is_integral() ? indent->integral() : 0;
    if (width > 100)
      return template_error(base::concat("tojson: an indent of ", width, " is too large"));
    style.indent =
        indent->is_string()
            ? indent->text()
            : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  style.item_separator = style.indent ? "," : ", ";
  style.key_separator = ": ";
  if (separators && !separators->is_none()) {
    TINKER_TRY(const auto both, elements(*separators));
    if (both.size() != 2) return template_error("tojson: separators: expected two");
    style.item_separator = to_text(both[0]);
    style.key_separator = to_text(both[1]);
  }
  TINKER_TRY(std::string out, to_json(subject, style));
  return Value(std::move(out));
}

struct Entry {
  std::string_view name;
  Filter call;
};

constexpr std::array kFilters = {
    Entry{.name = "abs", .call = abs_filter},
    Entry{.name = "attr", .call = attr_filter},
    Entry{.name = "batch", .call = batch_filter},
    Entry{.name = "capitalize", .call = convert<capitalized>},
    Entry{.name = "center", .call = center_filter},
    Entry{.name = "count", .call = length_filter},
    Entry{.name = "d", .call = default_filter},
    Entry{.name = "default", .call = default_filter},
    Entry{.name = "dictsort", .call = dict_sort_filter},
    Entry{.name = "e", .call = escape_filter},
    Entry{.name = "escape", .call = escape_filter},
    Entry{.name = "first", .call = first_filter},
    Entry{.name = "float", .call = float_filter},
    Entry{.name = "forceescape", .call = force_escape_filter},
    Entry{.name = "format", .call = format_filter},
    Entry{.name = "groupby", .call = group_by_filter},
    Entry{.name = "indent", .call = indent_filter},
    Entry{.name = "int", .call = int_filter},
    Entry{.name = "items", .call = items_filter},
    Entry{.name = "join", .call = join_filter},
    Entry{.name = "last", .call = last_filter},
    Entry{.name = "length", .call = length_filter},
    Entry{.name = "list", .call = list_filter},
    Entry{.name = "lower", .call = convert<to_lower>},
    Entry{.name = "map", .call = map_filter},
    Entry{.name = "max", .call = extreme_filter<true>},
    Entry{.name = "min", .call = extreme_filter<false>},
    Entry{.name = "reject", .call = choose_filter<false, false>},
    Entry{.name = "rejectattr", .call = choose_filter<true, false>},
    Entry{.name = "replace", .call = replace_filter},
    Entry{.name = "reverse", .call = reverse_filter},
    Entry{.name = "round", .call = round_filter},
    Entry{.name = "safe", .call = safe_filter},
    Entry{.name = "select", .call = choose_filter<false, true>},
    Entry{.name = "selectattr", .call = choose_filter<true, true>},
    Entry{.name = "slice", .call = slice_filter},
    Entry{.name = "sort", .call = sort_filter},
    Entry{.name = "string", .call = string_filter},
    Entry{.name = "sum", .call = sum_filter},
    Entry{.name = "title", .call = title_filter},
    Entry{.name = "tojson", .call = json_filter},
    Entry{.name = "trim", .call = trim_filter},
    Entry{.name = "truncate", .call = truncate_filter},
    Entry{.name = "unique", .call = unique_filter},
    Entry{.name = "upper", .call = convert<to_upper>},
    Entry{.name = "urlencode", .call = url_encode_filter},
    Entry{.name = "wordcount", .call = word_count_filter},
};

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = std::ranges::lower_bound(kFilters, name, {}, &Entry::name);
  return found != kFilters.end() && found->name == name ? found->call : nullptr;
}

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

}  // namespace tinker::jinja
