#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/interpreter.h"
#include "jinja/value.h"

namespace tinker::jinja {

// ---- operators.cc
/// `a what b` for arithmetic.
Result<Value> binary(Operator what, const Value& a, const Value& b, std::size_t max_bytes);
Result<Value> unary(Operator what, const Value& a);
Result<bool> contains(const Value& container, const Value& item);
/// `name`: text.
Result<Value> attribute(const Value& subject, const Value& name);
/// What a member is that a value does not have.
Value no_member(const Value& subject, std::string_view name);
Result<Value> item(const Value& subject, const Value& key);
/// Where `item` is, in a dict or a sequence; null otherwise.
const Value* find_element(const Value& subject, const Value& key);
struct Slice {
  Value start = {};
  Value stop = {};
  Value step = {};
};
Result<Value> slice(const Value& subject, const Slice& parts);
/// As `str.join` does it; where markup is among them, all others are escaped.
std::string join(const List& texts, std::string_view separator, bool& is_markup);

// ---- methods.cc
bool has_method(const Value& subject, std::string_view name);
/// Whether a value of some type has it.
bool is_method(std::string_view name);
Result<Value> call_method(const Value& subject, std::string_view name, Arguments arguments);

// ---- format.cc
/// `text % arguments`
Result<std::string> format_percent(std::string_view text, const Value& arguments);
/// `text.format(…)`
Result<std::string> format_braces(std::string_view text, const Arguments& arguments);

// ---- json.cc
struct JsonStyle {
  bool is_ascii = false;
  bool sorts_keys = false;
  std::optional<std::string> indent = {};
  std::string item_separator = {};
  std::string key_separator = {};
};
Result<std::string> to_json(const Value& value, const JsonStyle& style);

// ---- functions.cc
bool is_global(std::string_view name);
/// What every template may call, or nothing.
std::optional<Value> global(std::string_view name, Interpreter& interpreter);
/// `datetime.strftime` in English.
Result<std::string> format_time(std::string_view format, std::chrono::sys_seconds time);

// ---- filters.cc, tests.cc
/// Null where there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
Error no_filter(std::string_view name);
Error no_test(std::string_view name);
/// Whether there is a filter, or a test, of that name: `filter` and `test` are tests, too.
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

}  // namespace tinker::jinja
