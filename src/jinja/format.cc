#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

/// Flags, width and precision as C's printf and Python's '%' share them.
struct Spec {
  std::string flags = {};
  int width = 0;
  int precision = -1;
};

constexpr int kMaxWidth = 1000;

Result<int> read_count(std::string_view text, std::size_t& at) {
  int out = 0;
  const auto [end, failure] = std::from_chars(text.data() + at, text.data() + text.size(), out);
  if (failure == std::errc::invalid_argument) return 0;
  if (failure != std::errc() || out > kMaxWidth) {
    return template_error(base::concat("a width or precision beyond ", kMaxWidth));
  }
  at = static_cast<std::size_t>(end - text.data());
  return out;
}

Result<Spec> read_spec(std::string_view text, std::size_t& at) {
  Spec out;
  while (at < text.size() && std::string_view("-+ 0#").find(text[at]) != std::string_view::npos) {
    out.flags += text[at++];
  }
  TINKER_TRY(out.width, read_count(text, at));
  if (at < text.size() && text[at] == '.') {
    ++at;
    TINKER_TRY(out.precision, read_count(text, at));
  }
  return out;
}

/// Through printf; `type` fits the argument.
template <typename Number>
std::string print_number(const Spec& spec, std::string_view type, Number value) {
  const std::string precision = spec.precision < 0 ? "" : base::concat(".", spec.precision);
  const std::string format = base::concat(
      "%", spec.flags, spec.width > 0 ? base::concat(spec.width) : "", precision, type);
  std::array<char, 2 * kMaxWidth + 400> out = {};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg,clang-diagnostic-format-nonliteral)
  const int size = std::snprintf(out.data(), out.size(), format.c_str(), value);
  return {out.data(), static_cast<std::size_t>(std::max(size, 0))};
}

std::string padded(const Spec& spec, std::string text) {
  if (spec.precision >= 0) text.resize(offset_of(text, static_cast<std::size_t>(spec.precision)));
  const std::size_t length = length_of(text);
  const auto width = static_cast<std::size_t>(spec.width);
  if (length >= width) return text;
  const bool is_left = spec.flags.find('-') != std::string::npos;
  text.insert(is_left ? text.size() : 0, width - length, ' ');
  return text;
}

Result<std::string> format_one(const Spec& spec, char type, const Value& value) {
  switch (type) {
    case 's': return padded(spec, to_text(value));
    case 'r':
    case 'a': return padded(spec, to_repr(value));
    case 'd':
    case 'i':
    case 'u':
      if (value.is_number()) {
        const auto whole =
            value.is_integral() ? value.integral() : static_cast<std::int64_t>(value.number());
        return print_number(
            spec, "lld", static_cast<long long>(whole));  // NOLINT(google-runtime-int)
      }
      break;
    case 'x':
    case 'X':
    case 'o':
      if (value.is_integral() && value.integral() >= 0) {
        return print_number(
            spec,
            base::concat("ll", type),
            static_cast<long long>(value.integral()));  // NOLINT(google-runtime-int)
      }
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (value.is_number()) return print_number(spec, std::string(1, type), value.number());
      break;
    default: return template_error(base::concat("'%", type, "' is not supported"));
  }
  return template_error(base::concat("'%", type, "' cannot show ", described(value)));
}

}  // namespace

Result<std::string> format_percent(std::string_view text, const Value& arguments) {
  const bool is_many = arguments.is(Value::Kind::tuple);
  std::size_t next = 0;
  const auto take = [&]() -> Result<Value> {
    const std::size_t count = is_many ? arguments.items().size() : 1;
    if (next >= count) return template_error("'%': expected an argument more");
    ++next;
    return is_many ? arguments.items()[next - 1] : arguments;
  };
  std::string out;
  bool names_members = false;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    ++at;
    std::optional<Value> member;
    if (at < text.size() && text[at] == '(') {
      const auto close = text.find(')', at);
      if (close == std::string_view::npos) return template_error("'%(' without ')'");
      const auto name = text.substr(at + 1, close - at - 1);
      const Value* const found = arguments.is_dict() ? arguments.dict().member(name) : nullptr;
      if (found == nullptr) return template_error(base::concat("'%': there is no '", name, "'"));
      member = *found;
      names_members = true;
      at = close + 1;
    }
    TINKER_TRY(const Spec spec, read_spec(text, at));
    if (at == text.size()) return template_error("'%' at the end of a format");
    const char type = text[at++];
    if (type == '%') {
      out += '%';
      continue;
    }
    if (!member) {
      TINKER_TRY(member, take());
    }
    TINKER_TRY(const std::string piece, format_one(spec, type, *member));
    out += piece;
  }
  if (is_many && next < arguments.items().size()) {
    return template_error("'%': not all arguments are used");
  }
  if (!is_many && !arguments.is_dict() && next == 0 && !names_members) {
    return template_error("'%': not all arguments are used");
  }
  return out;
}

Result<std::string> format_braces(std::string_view text, const Arguments& arguments) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      ++at;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    const auto close = text.find('}', at);
    if (c == '}' || close == std::string_view::npos) {
      return template_error("format: a brace without its other");
    }
    const std::string_view field = text.substr(at + 1, close - at - 1);
    at = close + 1;
    if (field.find_first_of(":!.[{") != std::string_view::npos) {
      return template_error(base::concat("format: '{", field, "}' is not supported"));
    }
    std::size_t place = next;
    const auto parsed =
        std::from_chars(field.data(), field.data() + field.size(), place).ec == std::errc();
    if (field.empty() || parsed) {
      if (field.empty()) ++next;
      if (place >= arguments.positional.size()) {
        return template_error(base::concat("format: there is no argument ", place));
      }
      out += to_text(arguments.positional[place]);
      continue;
    }
    const auto named = std::ranges::find_if(
        arguments.named, [&](const auto& argument) { return argument.first == field; });
    if (named == arguments.named.end()) {
      return template_error(base::concat("format: there is no argument '", field, "'"));
    }
    out += to_text(named->second);
  }
  return out;
}

}  // namespace tinker::jinja
