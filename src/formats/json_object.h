#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "tinker/result.h"

namespace tinker::formats {

/// A JSON object whose members are asked for by name and type; null counts as absent. Valid as
/// long as its parser.
class JsonObject {
 public:
  using Element = simdjson::dom::element;

  /// `parser` must outlive it.
  static Result<JsonObject> parse(std::string_view text, simdjson::dom::parser& parser) {
    Element root;
    if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
      return Error{.code = ErrorCode::invalid_argument, .message = simdjson::error_message(error)};
    }
    return from(root, "the file");
  }
  static Result<JsonObject> from(Element element, std::string_view what) {
    simdjson::dom::object object;
    if (element.get_object().get(object) != simdjson::SUCCESS) return wrong(what, "an object");
    return JsonObject(object);
  }

  [[nodiscard]] bool has(std::string_view name) const { return !element(name).is_null(); }
  /// Also when it is null.
  [[nodiscard]] bool mentions(std::string_view name) const {
    return object_.at_key(name).error() == simdjson::SUCCESS;
  }
  /// A null element when there is none.
  [[nodiscard]] Element element(std::string_view name) const {
    Element found;
    return object_.at_key(name).get(found) == simdjson::SUCCESS ? found : null();
  }
  [[nodiscard]] std::size_t size() const { return object_.size(); }

  [[nodiscard]] Result<JsonObject> object(std::string_view name) const {
    return from(element(name), name);
  }
  [[nodiscard]] Result<std::string_view> string(std::string_view name) const {
    std::string_view text;
    if (element(name).get_string().get(text) != simdjson::SUCCESS) return wrong(name, "a string");
    return text;
  }
  [[nodiscard]] Result<std::string_view> string(std::string_view name,
                                                std::string_view otherwise) const {
    return has(name) ? string(name) : Result<std::string_view>(otherwise);
  }
  [[nodiscard]] Result<bool> boolean(std::string_view name) const {
    bool value = false;
    if (element(name).get_bool().get(value) != simdjson::SUCCESS) return wrong(name, "a boolean");
    return value;
  }
  [[nodiscard]] Result<bool> boolean(std::string_view name, bool otherwise) const {
    return has(name) ? boolean(name) : Result<bool>(otherwise);
  }
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name) const {
    std::int64_t value = 0;
    if (element(name).get_int64().get(value) != simdjson::SUCCESS) return wrong(name, "an integer");
    return value;
  }
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name, std::int64_t otherwise) const {
    return has(name) ? integer(name) : Result<std::int64_t>(otherwise);
  }
  [[nodiscard]] Result<double> number(std::string_view name) const {
    double value = 0;
    if (element(name).get_double().get(value) != simdjson::SUCCESS) return wrong(name, "a number");
    return value;
  }
  [[nodiscard]] Result<double> number(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : Result<double>(otherwise);
  }
  /// Calls `f(Element)` for the elements of an array until one fails.
  template <typename F>
  Result<void> for_each(std::string_view name, F f) const {
    simdjson::dom::array array;
    if (element(name).get_array().get(array) != simdjson::SUCCESS) return wrong(name, "an array");
    for (const Element part : array) {
      if (auto done = f(part); !done.ok()) return done;
    }
    return {};
  }
  /// Calls `f(name, Element)` for the members until one fails.
  template <typename F>
  Result<void> for_each_member(F f) const {
    for (const auto& [name, value] : object_) {
      if (auto done = f(name, value); !done.ok()) return done;
    }
    return {};
  }

 private:
  explicit JsonObject(simdjson::dom::object object) : object_(object) {}
  static Error wrong(std::string_view name, std::string_view expected) {
    return {.code = ErrorCode::invalid_argument,
            .message = base::concat("'", name, "' is missing or not ", expected)};
  }
  static Element null() {
    static simdjson::dom::parser parser;
    static const Element element = parser.parse(std::string_view("null")).value();
    return element;
  }

  simdjson::dom::object object_;
};

}  // namespace tinker::formats
