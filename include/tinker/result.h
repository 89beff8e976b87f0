#pragma once

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "tinker/check.h"
#include "tinker/error.h"

namespace tinker {

/// Thrown by `Result::value()` only. Carries the original `Error` unchanged.
class ResultError : public std::exception {
 public:
  explicit ResultError(Error error) : error_(std::move(error)), what_(error_.to_string()) {}

  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  Error error_;
  std::string what_;
};

namespace detail {

/// An error outside of the result that has it: success is common, and should be small and cheap to
/// move.
class ErrorBox {
 public:
  explicit ErrorBox(Error error) : error_(make(std::move(error))) {}
  ErrorBox(const ErrorBox& other) : error_(other.error_ ? make(*other.error_) : nullptr) {}
  ErrorBox(ErrorBox&& other) noexcept = default;
  ErrorBox& operator=(ErrorBox other) noexcept {
    error_.swap(other.error_);
    return *this;
  }
  ~ErrorBox() = default;

  /// Requires that it was not moved from.
  [[nodiscard]] Error& operator*() const {
    TINKER_CHECK(error_ != nullptr);
    return *error_;
  }

 private:
  // Not inline: g++ 12 takes the inlined delete inside a variant for one of something else.
  struct Delete {
    void operator()(Error* error) const noexcept;
  };
  using Pointer = std::unique_ptr<Error, Delete>;
  static Pointer make(Error error);

  Pointer error_;
};

}  // namespace detail

/// A `T`, or the `Error` that explains why there is none.
///
///     Result<TinkerPath> path = TinkerPath::parse(text);
///     if (!path) return path.error();
///     use(path->name);
///
/// Thread-compatible.
template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<T, Error>, "Result<Error> cannot tell success from failure");

 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is the point of the type.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): likewise `return error;`.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// The value; requires `ok()`.
  [[nodiscard]] T& operator*() & { return checked(*this); }
  [[nodiscard]] const T& operator*() const& { return checked(*this); }
  [[nodiscard]] T&& operator*() && { return std::move(checked(*this)); }
  [[nodiscard]] T* operator->() { return &checked(*this); }
  [[nodiscard]] const T* operator->() const { return &checked(*this); }

  /// The error; requires `!ok()`.
  [[nodiscard]] const Error& error() const& {
    TINKER_CHECK(!ok());
    return **std::get_if<1>(&state_);
  }
  [[nodiscard]] Error&& error() && {
    TINKER_CHECK(!ok());
    return std::move(**std::get_if<1>(&state_));
  }

  /// Returns the value, or throws `ResultError`. For scripts, examples and tests.
  T& value() & {
    if (!ok()) throw ResultError(error());
    return **this;
  }
  // NOLINTNEXTLINE(modernize-use-nodiscard): calling it only to throw is fine.
  const T& value() const& {
    if (!ok()) throw ResultError(error());
    return **this;
  }
  T value() && {
    if (!ok()) throw ResultError(std::move(*this).error());
    return std::move(**this);
  }
  /// The value, or `otherwise` where there is an error.
  [[nodiscard]] T value_or(T otherwise) const& { return ok() ? **this : std::move(otherwise); }
  [[nodiscard]] T value_or(T otherwise) && {
    return ok() ? *std::move(*this) : std::move(otherwise);
  }

 private:
  template <typename Self>
  static auto& checked(Self& self) {
    TINKER_CHECK(self.ok());
    return *std::get_if<0>(&self.state_);
  }

  std::variant<T, detail::ErrorBox> state_;
};

/// Success without a value, or an `Error`. `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return error;` is the point of the type.
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return error_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] const Error& error() const& {
    TINKER_CHECK(!ok());
    return **std::get_if<1>(&error_);
  }
  [[nodiscard]] Error&& error() && {
    TINKER_CHECK(!ok());
    return std::move(**std::get_if<1>(&error_));
  }

  /// Throws `ResultError` unless `ok()`.
  void value() const {
    if (!ok()) throw ResultError(error());
  }

 private:
  std::variant<std::monostate, detail::ErrorBox> error_;
};

}  // namespace tinker

#define TINKER_CONCAT_INNER_(a, b) a##b
#define TINKER_CONCAT_(a, b) TINKER_CONCAT_INNER_(a, b)

/// Unwraps a `Result`, or returns its error from the enclosing function.
///
///     TINKER_TRY(const auto config, load_config(path));
///     TINKER_TRY(check(config));
#define TINKER_TRY(first, ...)                    \
  TINKER_CONCAT_(TINKER_TRY_, __VA_OPT__(VALUE_)) \
  (return, TINKER_CONCAT_(tinker_try_, __LINE__), first __VA_OPT__(, ) __VA_ARGS__)

/// `TINKER_TRY` for coroutines.
#define TINKER_CO_TRY(first, ...)                 \
  TINKER_CONCAT_(TINKER_TRY_, __VA_OPT__(VALUE_)) \
  (co_return, TINKER_CONCAT_(tinker_try_, __LINE__), first __VA_OPT__(, ) __VA_ARGS__)

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are a keyword, a name and a declaration.
// The else belongs to the macro, so that one after it binds where it seems to.
#define TINKER_TRY_(leave, tmp, expression) \
  if (auto tmp = (expression); tmp.ok()) {  \
  } else                                    \
    leave std::move(tmp).error()
#define TINKER_TRY_VALUE_(leave, tmp, declaration, ...) \
  auto tmp = (__VA_ARGS__);                             \
  if (!tmp.ok()) leave std::move(tmp).error();          \
  declaration = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)
