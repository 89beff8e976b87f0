#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/utf8.h"

// The methods of strings, lists and dicts that templates call. Methods that would change a list or
// dict are refused, as the sandbox of the Python tools refuses them.

namespace tinker::jinja {

namespace {

using Kind = Value::Kind;

/// The arguments of a call, taken one after the other.
class Taker {
 public:
  Taker(std::string_view callee, Arguments arguments)
      : callee_(callee), arguments_(std::move(arguments)) {}

  std::optional<Value> value(std::string_view name = "") { return arguments_.take(next_++, name); }
  Result<Value> required(std::string_view name = "") {
    if (auto found = value(name)) return *std::move(found);
    return template_error(base::concat(callee_, ": expected an argument more"));
  }
  Result<std::string> text(std::string_view name = "") {
    TINKER_TRY(const Value found, required(name));
    if (!found.is_string()) {
      return template_error(base::concat(callee_, ": expected text, found ", described(found)));
    }
    return found.text();
  }
  Result<std::int64_t> integer(std::int64_t fallback, std::string_view name = "") {
    const auto found = value(name);
    if (!found || found->is_none()) return fallback;
    if (found->is_integral()) return found->integral();
    return template_error(
        base::concat(callee_, ": expected an integer, found a ", found->type_name()));
  }
  [[nodiscard]] Result<void> done() const { return arguments_.expect_no_more(callee_, next_); }

 private:
  std::string_view callee_;
  Arguments arguments_;
  std::size_t next_ = 0;
};

/// `text` without the characters of `what` at its ends.
std::string_view stripped(std::string_view text, std::string_view what, bool left, bool right) {
  const auto is_one = [&](std::string_view piece) {
    return what.find(piece) != std::string_view::npos;
  };
  while (left && !text.empty()) {
    const std::size_t size = offset_of(text, 1);
    if (!is_one(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    if (!is_one(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

Result<Value> strip(const Value& self, Taker take, bool left, bool right) {
  const auto what = take.value("chars");
  TINKER_TRY(take.done());
  std::string_view text = self.text();
  if (what && !what->is_none()) {
    text = stripped(text, to_text(*what), left, right);
  } else {
    if (left) text = trim_left(text);
    if (right) text = trim_right(text);
  }
  return Value::text_like(self, std::string(text));
}

/// At most `most` cuts at white space, from the left or from the right.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool right) {
  std::vector<std::string_view> out;
  text = right ? trim_right(text) : trim_left(text);
  while (!text.empty()) {
    if (most == 0) {
      out.push_back(right ? trim_right(text) : text);
      break;
    }
    --most;
    if (!right) {
      std::size_t end = 0;
      for (std::size_t at = 0; at < text.size(); end = at) {
        if (is_space(next_code_point(text, at))) break;
      }
      out.push_back(text.substr(0, end));
      text = trim_left(text.substr(end));
    } else {
      std::size_t begin = text.size();
      while (begin > 0 && trim_right(text.substr(0, begin)).size() == begin) {
        --begin;
        while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
      }
      out.push_back(text.substr(begin));
      text = trim_right(text.substr(0, begin));
    }
  }
  if (right) std::ranges::reverse(out);
  return out;
}

std::vector<std::string_view> split_at(std::string_view text,
                                       std::string_view separator,
                                       std::int64_t most,
                                       bool right) {
  std::vector<std::string_view> out;
  while (most != 0) {
    const auto found = right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    --most;
    const auto behind = text.substr(found + separator.size());
    out.push_back(right ? behind : text.substr(0, found));
    text = right ? text.substr(0, found) : behind;
  }
  out.push_back(text);
  if (right) std::ranges::reverse(out);
  return out;
}

Value list_of(const Value& like, const std::vector<std::string_view>& pieces) {
  List out;
  out.reserve(pieces.size());
  for (const auto piece : pieces) out.push_back(Value::text_like(like, std::string(piece)));
  return {std::move(out)};
}

Result<Value> split(const Value& self, Taker take, bool right) {
  const auto separator = take.value("sep");
  TINKER_TRY(const std::int64_t most, take.integer(-1, "maxsplit"));
  TINKER_TRY(take.done());
  if (!separator || separator->is_none()) {
    return list_of(self, split_at_space(self.text(), most, right));
  }
  if (!separator->is_string() || separator->text().empty()) {
    return template_error("split: expected a separator that is not empty");
  }
  return list_of(self, split_at(self.text(), separator->text(), most, right));
}

Result<Value> partition(const Value& self, Taker take, bool right) {
  TINKER_TRY(const std::string separator, take.text("sep"));
  TINKER_TRY(take.done());
  if (separator.empty()) return template_error("partition: expected a separator that is not empty");
  const std::string_view text = self.text();
  const auto found = right ? text.rfind(separator) : text.find(separator);
  const auto piece = [&](std::string_view part) {
    return Value::text_like(self, std::string(part));
  };
  if (found == std::string_view::npos) {
    return right ? Value::tuple({piece(""), piece(""), self})
                 : Value::tuple({self, piece(""), piece("")});
  }
  return Value::tuple({piece(text.substr(0, found)),
                       piece(separator),
                       piece(text.substr(found + separator.size()))});
}

/// The lines of the text, as Python cuts them.
Result<Value> split_lines(const Value& self, Taker take) {
  const auto keep = take.value("keepends");
  TINKER_TRY(take.done());
  const bool keeps = keep && keep->truth();
  const std::string_view text = self.text();
  List out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t point = next_code_point(text, at);
    const bool is_end = (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) ||
                        point == 0x85 || point == 0x2028 || point == 0x2029;
    if (!is_end) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    out.push_back(
        Value::text_like(self, std::string(text.substr(begin, (keeps ? at : end) - begin))));
    begin = at;
  }
  if (begin < text.size()) {
    out.push_back(Value::text_like(self, std::string(text.substr(begin))));
  }
  return Value(std::move(out));
}

/// `text` between two places of a call like `find(what, start, end)`.
Result<std::pair<std::string_view, std::size_t>> part_of(std::string_view text, Taker& take) {
  const auto length = static_cast<std::int64_t>(length_of(text));
  TINKER_TRY(std::int64_t start, take.integer(0));
  TINKER_TRY(std::int64_t end, take.integer(length));
  TINKER_TRY(take.done());
  if (start < 0) start = std::max<std::int64_t>(start + length, 0);
  if (end < 0) end = std::max<std::int64_t>(end + length, 0);
  end = std::min(end, length);
  if (start > end) return std::pair(std::string_view(), std::numeric_limits<std::size_t>::max());
  const std::size_t begin = offset_of(text, static_cast<std::size_t>(start));
  const std::size_t size = offset_of(text.substr(begin), static_cast<std::size_t>(end - start));
  return std::pair(text.substr(begin, size), begin);
}

Result<Value> find(const Value& self, Taker take, bool right, bool fails) {
  TINKER_TRY(const std::string what, take.text());
  const std::string_view text = self.text();
  TINKER_TRY(const auto part, part_of(text, take));
  const bool is_part = part.second <= text.size();
  const auto found = !is_part ? std::string_view::npos
                     : right  ? part.first.rfind(what)
                              : part.first.find(what);
  if (found != std::string_view::npos) {
    return Value(static_cast<std::int64_t>(length_of(text.substr(0, part.second + found))));
  }
  if (fails) return template_error(base::concat("index: there is no ", to_repr(what)));
  return Value(std::int64_t{-1});
}

Result<Value> count(const Value& self, Taker take) {
  TINKER_TRY(const std::string what, take.text());
  TINKER_TRY(const auto part, part_of(self.text(), take));
  if (part.second > self.text().size()) return Value(std::int64_t{0});
  if (what.empty()) return Value(static_cast<std::int64_t>(length_of(part.first)) + 1);
  std::int64_t out = 0;
  for (auto at = part.first.find(what); at != std::string_view::npos;
       at = part.first.find(what, at + what.size())) {
    ++out;
  }
  return Value(out);
}

/// `startswith` and `endswith`, of one text or of several in a tuple.
Result<Value> has_end(const Value& self, Taker take, bool at_start) {
  TINKER_TRY(const Value what, take.required());
  TINKER_TRY(const auto part, part_of(self.text(), take));
  const List alternatives = what.is(Kind::tuple) ? what.items() : List{what};
  for (const Value& one : alternatives) {
    if (!one.is_string()) {
      return template_error(base::concat(
          at_start ? "startswith" : "endswith", ": expected text, found ", described(one)));
    }
    const bool holds =
        at_start ? part.first.starts_with(one.text()) : part.first.ends_with(one.text());
    if (holds && part.second <= self.text().size()) return Value(true);
  }
  return Value(false);
}

Result<Value> replace(const Value& self, Taker take) {
  TINKER_TRY(const std::string from, take.text("old"));
  TINKER_TRY(const std::string to, take.text("new"));
  TINKER_TRY(std::int64_t most, take.integer(-1, "count"));
  TINKER_TRY(take.done());
  const std::string_view text = self.text();
  std::string out;
  std::size_t at = 0;
  if (from.empty()) {
    for (; most != 0; --most) {
      out += to;
      if (at == text.size()) break;
      const std::size_t begin = at;
      next_code_point(text, at);
      out += text.substr(begin, at - begin);
    }
  } else {
    for (; most != 0; --most) {
      const auto found = text.find(from, at);
      if (found == std::string_view::npos) break;
      out += text.substr(at, found - at);
      out += to;
      at = found + from.size();
    }
  }
  out += text.substr(at);
  return Value::text_like(self, std::move(out));
}

enum class Side { left, right, both };

Result<Value> pad(const Value& self, Taker take, Side side) {
  TINKER_TRY(const std::int64_t width, take.integer(0));
  const auto fill = take.value();
  TINKER_TRY(take.done());
  const std::string filler = fill ? to_text(*fill) : " ";
  const auto length = static_cast<std::int64_t>(length_of(self.text()));
  constexpr std::int64_t kMaxWidth = 1 << 20;
  if (width > kMaxWidth) return template_error(base::concat("a width of ", width, " is too large"));
  const std::int64_t missing = std::max<std::int64_t>(width - length, 0);
  std::int64_t left = side == Side::left ? missing : 0;
  if (side == Side::both) left = missing / 2 + (missing & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += filler;
  out += self.text();
  for (std::int64_t i = left; i < missing; ++i) out += filler;
  return Value::text_like(self, std::move(out));
}

Result<Value> zero_fill(const Value& self, Taker take) {
  TINKER_TRY(const std::int64_t width, take.integer(0));
  TINKER_TRY(take.done());
  std::string text = self.text();
  const auto length = static_cast<std::int64_t>(length_of(text));
  if (width > 1 << 20) return template_error(base::concat("a width of ", width, " is too large"));
  if (width <= length) return self;
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  text.insert(has_sign ? 1 : 0, static_cast<std::size_t>(width - length), '0');
  return Value::text_like(self, std::move(text));
}

/// Whether there are characters, and all of them are `is_one`.
Result<Value> all_are(const Value& self, Taker take, bool (*is_one)(char32_t)) {
  TINKER_TRY(take.done());
  const std::string_view text = self.text();
  for (std::size_t at = 0; at < text.size();) {
    if (!is_one(next_code_point(text, at))) return Value(false);
  }
  return Value(!text.empty());
}

/// Whether the text has letters with a case, and all of them have this one.
Result<Value> has_case(const Value& self, Taker take, std::string (*convert)(std::string_view)) {
  TINKER_TRY(take.done());
  const std::string& text = self.text();
  return Value(convert(text) == text && to_upper(text) != to_lower(text));
}

Result<Value> join_method(const Value& self, Taker take) {
  TINKER_TRY(const Value what, take.required());
  TINKER_TRY(take.done());
  TINKER_TRY(const auto items, elements(what));
  for (const Value& item : items) {
    if (!item.is_string()) {
      return template_error(base::concat("join: expected text, found ", described(item)));
    }
  }
  bool is_markup = false;
  std::string out = join(items, self.text(), is_markup);
  return Value::text_like(self, std::move(out));
}

Result<Value> convert(const Value& self, Taker take, std::string (*how)(std::string_view)) {
  TINKER_TRY(take.done());
  return Value::text_like(self, how(self.text()));
}

Result<Value> without(const Value& self, Taker take, bool at_start) {
  TINKER_TRY(const std::string what, take.text());
  TINKER_TRY(take.done());
  std::string_view text = self.text();
  if (at_start && text.starts_with(what)) text.remove_prefix(what.size());
  if (!at_start && text.ends_with(what)) text.remove_suffix(what.size());
  return Value::text_like(self, std::string(text));
}

// ---- lists and dicts

Result<Value> index_of(const Value& self, Taker take) {
  TINKER_TRY(const Value what, take.required());
  TINKER_TRY(take.done());
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    if (equal(self.items()[i], what)) return Value(static_cast<std::int64_t>(i));
  }
  return template_error(base::concat("index: there is no ", to_repr(what)));
}

Result<Value> count_of(const Value& self, Taker take) {
  TINKER_TRY(const Value what, take.required());
  TINKER_TRY(take.done());
  return Value(static_cast<std::int64_t>(
      std::ranges::count_if(self.items(), [&](const Value& v) { return equal(v, what); })));
}

Result<Value> get(const Value& self, Taker take) {
  TINKER_TRY(const Value key, take.required("key"));
  auto fallback = take.value("default");
  TINKER_TRY(take.done());
  if (const Value* const found = self.dict().find(key)) return *found;
  return fallback ? *std::move(fallback) : Value();
}

enum class Parts { keys, values, both };

Result<Value> parts_of(const Value& self, Taker take, Parts parts) {
  TINKER_TRY(take.done());
  List out;
  for (const auto& [key, value] : self.dict()) {
    out.push_back(parts == Parts::keys     ? key
                  : parts == Parts::values ? value
                                           : Value::tuple({key, value}));
  }
  return Value(std::move(out));
}

Result<Value> copy(const Value& self, Taker take) {
  TINKER_TRY(take.done());
  return self;
}

using Method = Result<Value> (*)(const Value& self, Taker take);
struct Entry {
  std::string_view name;
  Method call;
};

constexpr std::array kStringMethods = {
    Entry{.name = "capitalize",
          .call = [](const Value& s, Taker t) { return convert(s, t, capitalized); }},
    Entry{.name = "center", .call = [](const Value& s, Taker t) { return pad(s, t, Side::both); }},
    Entry{.name = "count", .call = count},
    Entry{.name = "endswith", .call = [](const Value& s, Taker t) { return has_end(s, t, false); }},
    Entry{.name = "find", .call = [](const Value& s, Taker t) { return find(s, t, false, false); }},
    Entry{.name = "index", .call = [](const Value& s, Taker t) { return find(s, t, false, true); }},
    Entry{.name = "isalnum",
          .call =
              [](const Value& s, Taker t) {
                return all_are(s, t, [](char32_t c) { return is_letter(c) || is_digit(c); });
              }},
    Entry{.name = "isalpha",
          .call = [](const Value& s, Taker t) { return all_are(s, t, is_letter); }},
    Entry{.name = "isdecimal",
          .call = [](const Value& s, Taker t) { return all_are(s, t, is_digit); }},
    Entry{.name = "isdigit",
          .call = [](const Value& s, Taker t) { return all_are(s, t, is_digit); }},
    Entry{.name = "islower",
          .call = [](const Value& s, Taker t) { return has_case(s, t, to_lower); }},
    Entry{.name = "isnumeric",
          .call = [](const Value& s, Taker t) { return all_are(s, t, is_digit); }},
    Entry{.name = "isspace",
          .call = [](const Value& s, Taker t) { return all_are(s, t, is_space); }},
    Entry{.name = "isupper",
          .call = [](const Value& s, Taker t) { return has_case(s, t, to_upper); }},
    Entry{.name = "join", .call = join_method},
    Entry{.name = "ljust", .call = [](const Value& s, Taker t) { return pad(s, t, Side::right); }},
    Entry{.name = "lower", .call = [](const Value& s, Taker t) { return convert(s, t, to_lower); }},
    Entry{.name = "lstrip",
          .call = [](const Value& s, Taker t) { return strip(s, t, true, false); }},
    Entry{.name = "partition",
          .call = [](const Value& s, Taker t) { return partition(s, t, false); }},
    Entry{.name = "removeprefix",
          .call = [](const Value& s, Taker t) { return without(s, t, true); }},
    Entry{.name = "removesuffix",
          .call = [](const Value& s, Taker t) { return without(s, t, false); }},
    Entry{.name = "replace", .call = replace},
    Entry{.name = "rfind", .call = [](const Value& s, Taker t) { return find(s, t, true, false); }},
    Entry{.name = "rindex", .call = [](const Value& s, Taker t) { return find(s, t, true, true); }},
    Entry{.name = "rjust", .call = [](const Value& s, Taker t) { return pad(s, t, Side::left); }},
    Entry{.name = "rpartition",
          .call = [](const Value& s, Taker t) { return partition(s, t, true); }},
    Entry{.name = "rsplit", .call = [](const Value& s, Taker t) { return split(s, t, true); }},
    Entry{.name = "rstrip",
          .call = [](const Value& s, Taker t) { return strip(s, t, false, true); }},
    Entry{.name = "split", .call = [](const Value& s, Taker t) { return split(s, t, false); }},
    Entry{.name = "splitlines", .call = split_lines},
    Entry{.name = "startswith",
          .call = [](const Value& s, Taker t) { return has_end(s, t, true); }},
    Entry{.name = "strip", .call = [](const Value& s, Taker t) { return strip(s, t, true, true); }},
    Entry{.name = "title", .call = [](const Value& s, Taker t) { return convert(s, t, titled); }},
    Entry{.name = "upper", .call = [](const Value& s, Taker t) { return convert(s, t, to_upper); }},
    Entry{.name = "zfill", .call = zero_fill},
};

constexpr std::array kListMethods = {
    Entry{.name = "copy", .call = copy},
    Entry{.name = "count", .call = count_of},
    Entry{.name = "index", .call = index_of},
};

constexpr std::array kDictMethods = {
    Entry{.name = "copy", .call = copy},
    Entry{.name = "get", .call = get},
    Entry{.name = "items",
          .call = [](const Value& s, Taker t) { return parts_of(s, t, Parts::both); }},
    Entry{.name = "keys",
          .call = [](const Value& s, Taker t) { return parts_of(s, t, Parts::keys); }},
    Entry{.name = "values",
          .call = [](const Value& s, Taker t) { return parts_of(s, t, Parts::values); }},
};

constexpr std::array<std::string_view, 8> kListChanges = {
    "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 5> kDictChanges = {
    "clear", "pop", "popitem", "setdefault", "update"};

template <std::size_t kCount>
Method find_in(const std::array<Entry, kCount>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : found->call;
}

Method find_method(const Value& subject, std::string_view name) {
  if (subject.is_string()) return find_in(kStringMethods, name);
  if (subject.is_sequence()) return find_in(kListMethods, name);
  return subject.is_dict() ? find_in(kDictMethods, name) : nullptr;
}

bool is_change(const Value& subject, std::string_view name) {
  if (subject.is(Kind::list)) return std::ranges::find(kListChanges, name) != kListChanges.end();
  return subject.is_dict() && std::ranges::find(kDictChanges, name) != kDictChanges.end();
}

}  // namespace

bool has_method(const Value& subject, std::string_view name) {
  return find_method(subject, name) != nullptr || is_change(subject, name) ||
         (subject.is_string() && name == "format");
}

bool is_method(std::string_view name) {
  return name == "format" || find_in(kStringMethods, name) != nullptr ||
         find_in(kListMethods, name) != nullptr || find_in(kDictMethods, name) != nullptr ||
         std::ranges::find(kListChanges, name) != kListChanges.end() ||
         std::ranges::find(kDictChanges, name) != kDictChanges.end();
}

Result<Value> call_method(const Value& subject, std::string_view name, Arguments arguments) {
  if (subject.is_string() && name == "format") {
    TINKER_TRY(std::string text, format_braces(subject.text(), arguments));
    return Value::text_like(subject, std::move(text));
  }
  if (const Method method = find_method(subject, name)) {
    return method(subject, Taker(name, std::move(arguments)));
  }
  return template_error(
      base::concat("'", name, "' would change ", described(subject), ", which templates may not"));
}

}  // namespace tinker::jinja
