#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tinker {

/// A free-form JSON value: user metadata, telemetry data, arguments of a custom loss, and whatever
/// a newer server sends that has no type here. Integers stay integers, members keep their order.
///
/// Thread-compatible.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  /// `std::uint64_t` holds only integers above the range of `std::int64_t`.
  using Value = std::variant<std::nullptr_t,
                             bool,
                             std::int64_t,
                             std::uint64_t,
                             double,
                             std::string,
                             Array,
                             Object>;

  // NOLINTBEGIN(google-explicit-constructor): literals are JSON values.
  Json(std::nullptr_t = nullptr) {}
  template <typename T>
    requires(std::same_as<T, bool> || std::integral<T> || std::floating_point<T>)
  Json(T value) : value_(number(value)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(Array elements) : value_(std::move(elements)) {}
  Json(Object members) : value_(std::move(members)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const Value& value() const noexcept { return value_; }
  [[nodiscard]] bool is_null() const noexcept { return value_.index() == 0; }

  /// The alternative itself, or null when the value is of another kind.
  template <typename T>
  [[nodiscard]] const T* get_if() const noexcept {
    return std::get_if<T>(&value_);
  }
  /// The member of that name, or null when there is none or this is no object.
  [[nodiscard]] const Json* find(std::string_view name) const noexcept;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  template <typename T>
  static Value number(T value) {
    if constexpr (std::same_as<T, bool>) {
      return value;
    } else if constexpr (std::floating_point<T>) {
      return static_cast<double>(value);
    } else if (std::in_range<std::int64_t>(value)) {
      return static_cast<std::int64_t>(value);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }

  Value value_;
};

/// Members of an object by name, as in user metadata.
using JsonObject = Json::Object;

}  // namespace tinker
