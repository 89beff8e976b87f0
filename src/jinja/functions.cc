#include <algorithm>
#include <array>
#include <ctime>

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tinker::jinja {

namespace {

/// As the sandbox of the Python tools has it.
constexpr std::int64_t kMaxRange = 100'000;

Result<Value> make_range(Arguments arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    return template_error("range: expected one to three integers");
  }
  for (const Value& value : given) {
    if (!value.is_integral()) {
      return template_error(
          value.is_undefined()
              ? value.why()
              : base::concat("range: expected an integer, found ", described(value)));
    }
  }
  const std::int64_t start = given.size() > 1 ? given[0].integral() : 0;
  const std::int64_t stop = given[given.size() > 1 ? 1 : 0].integral();
  const std::int64_t step = given.size() > 2 ? given[2].integral() : 1;
  if (step == 0) return template_error("range: the step is 0");
  List out;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (std::ssize(out) == kMaxRange) {
      return template_error(base::concat("range: more than ", kMaxRange, " numbers"));
    }
    out.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value(std::move(out));
}

Result<Dict> entries_of(Arguments arguments, std::string_view callee) {
  Dict out;
  if (arguments.positional.size() > 1) {
    return template_error(base::concat(callee, ": expected one argument without a name at most"));
  }
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is_dict()) {
      out = from.dict();
    } else {
      TINKER_TRY(const auto pairs, elements(from));
      for (const Value& pair : pairs) {
        TINKER_TRY(const auto both, elements(pair));
        if (both.size() != 2) return template_error(base::concat(callee, ": expected pairs"));
        out.set(both[0], both[1]);
      }
    }
  }
  for (auto& [name, value] : arguments.named) out.set(name, std::move(value));
  return out;
}

Result<Value> make_dict(Arguments arguments) {
  TINKER_TRY(auto entries, entries_of(std::move(arguments), "dict"));
  return Value(std::move(entries));
}

/// Says "" the first time, and the separator from then on.
Result<Value> make_joiner(Arguments arguments) {
  const Value separator = arguments.take(0, "sep").value_or(Value(", "));
  TINKER_TRY(arguments.expect_no_more("joiner", 1));
  const auto is_used = std::make_shared<bool>(false);
  return Value::callable(
      {.name = "joiner", .call = [separator, is_used](const Arguments&) -> Result<Value> {
         return std::exchange(*is_used, true) ? separator : Value("");
       }});
}

Result<Value> raise(Arguments arguments) {
  const Value message = arguments.take(0, "message").value_or(Value(""));
  return template_error(to_text(message));
}

Value function(std::string_view name, Result<Value> (*call)(Arguments)) {
  return Value::callable({.name = std::string(name), .call = call});
}

constexpr std::array<std::string_view, 7> kDays = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",
                                                      "February",
                                                      "March",
                                                      "April",
                                                      "May",
                                                      "June",
                                                      "July",
                                                      "August",
                                                      "September",
                                                      "October",
                                                      "November",
                                                      "December"};

std::string digits(int value, std::size_t width, char fill = '0') {
  std::string out = base::concat(value);
  if (out.size() < width) out.insert(0, width - out.size(), fill);
  return out;
}

/// One conversion of `strftime`, or nothing where there is no such.
std::optional<std::string> time_part(char what, const std::tm& time) {
  const auto day = kDays[static_cast<std::size_t>(time.tm_wday)];
  const auto month = kMonths[static_cast<std::size_t>(time.tm_mon)];
  const int year = time.tm_year + 1900;
  const int hour12 = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
  switch (what) {
    case 'a': return std::string(day.substr(0, 3));
    case 'A': return std::string(day);
    case 'b':
    case 'h': return std::string(month.substr(0, 3));
    case 'B': return std::string(month);
    case 'd': return digits(time.tm_mday, 2);
    case 'e': return digits(time.tm_mday, 2, ' ');
    case 'H': return digits(time.tm_hour, 2);
    case 'I': return digits(hour12, 2);
    case 'j': return digits(time.tm_yday + 1, 3);
    case 'm': return digits(time.tm_mon + 1, 2);
    case 'M': return digits(time.tm_min, 2);
    case 'p': return std::string(time.tm_hour < 12 ? "AM" : "PM");
    case 'S': return digits(time.tm_sec, 2);
    case 'u': return digits(time.tm_wday == 0 ? 7 : time.tm_wday, 1);
    case 'w': return digits(time.tm_wday, 1);
    case 'y': return digits(year % 100, 2);
    case 'Y': return digits(year, 1);
    case 'F':
      return base::concat(year, "-", digits(time.tm_mon + 1, 2), "-", digits(time.tm_mday, 2));
    case 'T':
      return base::concat(
          digits(time.tm_hour, 2), ":", digits(time.tm_min, 2), ":", digits(time.tm_sec, 2));
    case '%': return std::string("%");
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::string> format_time(std::string_view format, std::chrono::sys_seconds time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const bool is_unpadded = at + 1 < format.size() && format[at + 1] == '-';
    at += is_unpadded ? 2 : 1;
    auto part = at < format.size() ? time_part(format[at], parts) : std::nullopt;
    if (!part) {
      return template_error(base::concat(
          "strftime_now: '%", format.substr(std::min(at, format.size()), 1), "' is not supported"));
    }
    if (is_unpadded) {
      const auto first = std::min(part->find_first_not_of("0 "), part->size() - 1);
      part->erase(0, first);
    }
    out += *part;
  }
  return out;
}

bool is_global(std::string_view name) {
  constexpr std::array<std::string_view, 6> kGlobals = {
      "range", "dict", "namespace", "joiner", "raise_exception", "strftime_now"};
  return std::ranges::find(kGlobals, name) != kGlobals.end();
}

std::optional<Value> global(std::string_view name, Interpreter& interpreter) {
  if (name == "range") return function(name, make_range);
  if (name == "dict") return function(name, make_dict);
  if (name == "namespace") {
    return Value::callable(
        {.name = std::string(name), .call = [&interpreter](Arguments arguments) -> Result<Value> {
           TINKER_TRY(auto entries, entries_of(std::move(arguments), "namespace"));
           return interpreter.make_namespace(std::move(entries));
         }});
  }
  if (name == "joiner") return function(name, make_joiner);
  if (name == "raise_exception") return function(name, raise);
  if (name != "strftime_now") return std::nullopt;
  return Value::callable(
      {.name = std::string(name),
       .call = [now = interpreter.options().now](Arguments arguments) -> Result<Value> {
         const auto format = arguments.take(0, "format");
         TINKER_TRY(arguments.expect_no_more("strftime_now", 1));
         if (!format || !format->is_string()) {
           return template_error("strftime_now: expected a format");
         }
         TINKER_TRY(std::string text, format_time(format->text(), now));
         return Value(std::move(text));
       }});
}

}  // namespace tinker::jinja
