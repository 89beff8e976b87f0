#include "jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

constexpr std::array<std::string_view, 13> kTypeNames = {"Undefined",
                                                         "NoneType",
                                                         "bool",
                                                         "int",
                                                         "float",
                                                         "str",
                                                         "list",
                                                         "tuple",
                                                         "dict",
                                                         "Namespace",
                                                         "function",
                                                         "LoopContext",
                                                         "generator"};

bool equal_items(const List& a, const List& b) {
  return std::ranges::equal(a, b, equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const Dict::Entry& entry) {
    const Value* const other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

/// As Python does: exactly, although not every integer has a double.
int compare(std::int64_t integer, double real) {
  if (std::isnan(real)) return 2;
  if (real >= 9223372036854775808.0) return -1;
  if (real < -9223372036854775808.0) return 1;
  const auto whole = static_cast<std::int64_t>(real);
  if (integer != whole) return integer < whole ? -1 : 1;
  const double rest = real - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

/// -1, 0, 1, or 2 where one is not a number.
int compare_numbers(const Value& a, const Value& b) {
  const bool a_is_real = a.is(Value::Kind::real);
  const bool b_is_real = b.is(Value::Kind::real);
  if (!a_is_real && !b_is_real) {
    return a.integral() < b.integral() ? -1 : a.integral() > b.integral() ? 1 : 0;
  }
  if (!a_is_real) return compare(a.integral(), b.number());
  if (!b_is_real) {
    const int reversed = compare(b.integral(), a.number());
    return reversed == 2 ? 2 : -reversed;
  }
  const double x = a.number();
  const double y = b.number();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

void append_code(std::string& out, char32_t point) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const int digits = point < 0x100 ? 2 : point < 0x10000 ? 4 : 8;
  out += '\\';
  out += digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += kDigits[point >> static_cast<unsigned>(shift) & 0xfU];
  }
}

std::string repr_of_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    if (point == static_cast<unsigned char>(quote) || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (is_printable(point)) {
      out += text.substr(begin, at - begin);
    } else {
      append_code(out, point);
    }
  }
  out += quote;
  return out;
}

/// A namespace may hold itself.
constexpr int kMaxReprDepth = 1000;

std::string repr(const Value& value, int depth);

std::string joined_reprs(const List& items, int depth) {
  std::string out;
  for (const Value& item : items) {
    if (!out.empty()) out += ", ";
    out += repr(item, depth);
  }
  return out;
}

std::string repr_of_dict(const Dict& dict, int depth) {
  std::string out = "{";
  for (const auto& [key, value] : dict) {
    if (out.size() > 1) out += ", ";
    out += base::concat(repr(key, depth), ": ", repr(value, depth));
  }
  out += '}';
  return out;
}

std::string repr(const Value& value, int depth) {
  if (++depth > kMaxReprDepth) return "...";
  using Kind = Value::Kind;
  switch (value.kind()) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "None";
    case Kind::boolean: return value.integral() != 0 ? "True" : "False";
    case Kind::integer: return base::concat(value.integral());
    case Kind::real: return value.digits() ? *value.digits() : real_text(value.number());
    case Kind::string: {
      const std::string text = repr_of_text(value.text());
      return value.is_markup() ? base::concat("Markup(", text, ")") : text;
    }
    case Kind::list: return base::concat("[", joined_reprs(value.items(), depth), "]");
    case Kind::tuple: {
      const bool is_single = value.items().size() == 1;
      return base::concat("(", joined_reprs(value.items(), depth), is_single ? ",)" : ")");
    }
    case Kind::dict: return repr_of_dict(value.dict(), depth);
    case Kind::name_space:
      return base::concat("<Namespace ", repr_of_dict(value.name_space(), depth), ">");
    case Kind::callable: return base::concat("<function ", value.callable().name, ">");
    case Kind::loop: return "<LoopContext>";
    case Kind::generator: return "<generator>";
  }
  return {};
}

}  // namespace

struct Value::Generator {
  std::function<Result<List>()> make;
  bool is_spent = false;
};

Value::Value(List items) : Value(tuple(std::move(items))) {
  kind_ = Kind::list;
}

Value::Value(Dict items) : kind_(Kind::dict) {
  for (const auto& [key, value] : items) {
    depth_ = std::max({depth_, key.depth_ + 1, value.depth_ + 1});
  }
  object_ = std::make_shared<Dict>(std::move(items));
}

Value Value::undefined(std::string why) {
  return {Kind::undefined, std::make_shared<std::string>(std::move(why))};
}

Value Value::tuple(List items) {
  std::uint32_t depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth_ + 1);
  return {Kind::tuple, std::make_shared<List>(std::move(items)), depth};
}

Value Value::markup(std::string text) {
  Value out(std::move(text));
  out.is_safe_ = true;
  return out;
}

Value Value::text_like(const Value& model, std::string text) {
  return model.is_markup() ? markup(std::move(text)) : Value(std::move(text));
}

Value Value::large_integer(double value, std::string digits) {
  Value out(value);
  out.object_ = std::make_shared<std::string>(std::move(digits));
  return out;
}

Value Value::name_space(std::shared_ptr<Dict> items) {
  return {Kind::name_space, std::move(items)};
}

Value Value::callable(Callable what) {
  const std::size_t depth = what.depth;
  return {Kind::callable, std::make_shared<Callable>(std::move(what)), depth};
}

Value Value::loop(std::shared_ptr<LoopState> state) {
  return {Kind::loop, std::move(state)};
}

Value Value::generator(std::function<Result<List>()> make, std::size_t depth) {
  return {
      Kind::generator, std::make_shared<Generator>(Generator{.make = std::move(make)}), depth + 1};
}

std::string_view Value::type_name() const noexcept {
  return kTypeNames[static_cast<std::size_t>(kind_)];
}

const List& Value::items() const noexcept {
  return as<List>();
}

const Dict& Value::dict() const noexcept {
  return as<Dict>();
}

Dict& Value::name_space() const noexcept {
  return as<Dict>();
}

const Callable& Value::callable() const noexcept {
  return as<Callable>();
}

const LoopState& Value::loop() const noexcept {
  return as<LoopState>();
}

std::shared_ptr<LoopState> Value::shared_loop() const noexcept {
  return std::static_pointer_cast<LoopState>(object_);
}

Result<List> Value::generate() const {
  auto& generator = as<Generator>();
  if (std::exchange(generator.is_spent, true)) return List();
  return generator.make();
}

bool Value::is_same(const Value& other) const {
  if (kind_ != other.kind_) return false;
  const bool is_scalar = is_none() || is_undefined() || is_number() || is_string();
  return is_scalar ? equal(*this, other) : object_ == other.object_;
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return integral() != 0;
    case Kind::real: return number() != 0;
    case Kind::string: return !text().empty();
    case Kind::list:
    case Kind::tuple: return !items().empty();
    case Kind::dict: return !dict().empty();
    case Kind::name_space:
    case Kind::callable:
    case Kind::loop:
    case Kind::generator: return true;
  }
  return true;
}

std::size_t Dict::place_of(const Value& key) const {
  if (!places_.empty() && key.is_string()) {
    const auto place = places_.find(key.text());
    return place == places_.end() ? entries_.size() : place->second;
  }
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return key.is_string() ? entry.first.is_same_text(key) : equal(entry.first, key);
  });
  return static_cast<std::size_t>(found - entries_.begin());
}

const Value* Dict::find(const Value& key) const {
  const std::size_t place = place_of(key);
  return place == entries_.size() ? nullptr : &entries_[place].second;
}

void Dict::set(Value key, Value value) {
  constexpr std::size_t kMany = 16;
  if (const std::size_t place = place_of(key); place < entries_.size()) {
    entries_[place].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  const std::size_t size = entries_.size();
  if (size < kMany) return;
  for (std::size_t i = size == kMany ? 0 : size - 1; i < size; ++i) {
    const Value& added = entries_[i].first;
    if (added.is_string()) places_.emplace(added.text(), i);
  }
}

std::optional<Value> Arguments::take(std::size_t place, std::string_view name) {
  if (place < positional.size()) return positional[place];
  const auto found =
      std::ranges::find_if(named, [&](const auto& argument) { return argument.first == name; });
  if (found == named.end()) return std::nullopt;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

Result<void> Arguments::expect_no_more(std::string_view callee, std::size_t count) const {
  if (positional.size() > count) {
    return template_error(
        base::concat(callee, " takes at most ", count, " arguments, found ", positional.size()));
  }
  if (!named.empty()) {
    return template_error(base::concat(callee, " has no argument '", named.front().first, "'"));
  }
  return {};
}

bool equal(const Value& a, const Value& b) {
  using Kind = Value::Kind;
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none: return true;
    case Kind::string: return a.is_same_text(b);
    case Kind::list:
    case Kind::tuple: return equal_items(a.items(), b.items());
    case Kind::dict: return equal_dicts(a.dict(), b.dict());
    default: return a.is_same(b);
  }
}

Result<bool> less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) return a.text() < b.text();
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto [x, y] = std::ranges::mismatch(a.items(), b.items(), equal);
    if (y == b.items().end()) return false;
    return x == a.items().end() ? Result<bool>(true) : less(*x, *y);
  }
  if (a.is_undefined()) return template_error(a.why());
  if (b.is_undefined()) return template_error(b.why());
  return template_error(base::concat(described(a), " and ", described(b), " have no order"));
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> digits = {};
  char* const begin = digits.data();
  char* const end = begin + digits.size();
  const double size = std::abs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(begin, std::to_chars(begin, end, value, format).ptr);
  if (is_plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string to_text(const Value& value) {
  if (value.is_undefined()) return {};
  return value.is_string() ? value.text() : to_repr(value);
}

std::string to_repr(const Value& value) {
  return repr(value, 0);
}

Result<List> elements(const Value& value) {
  using Kind = Value::Kind;
  switch (value.kind()) {
    case Kind::undefined: return List();
    case Kind::generator: return value.generate();
    case Kind::list:
    case Kind::tuple: return value.items();
    case Kind::string: {
      List out;
      const std::string_view text = value.text();
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        next_code_point(text, at);
        out.push_back(Value::text_like(value, std::string(text.substr(begin, at - begin))));
      }
      return out;
    }
    case Kind::dict: {
      List out;
      for (const auto& entry : value.dict()) out.push_back(entry.first);
      return out;
    }
    default: break;
  }
  return template_error(base::concat(described(value), " has no elements to go through"));
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string described(const Value& value) {
  const std::string_view name = value.type_name();
  const bool has_vowel = std::string_view("aeiouU").find(name.front()) != std::string_view::npos;
  return base::concat(has_vowel ? "an " : "a ", name);
}

Error template_error(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace tinker::jinja
