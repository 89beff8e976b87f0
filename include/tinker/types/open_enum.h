#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tinker {

namespace detail {
/// The wire spelling of each enumerator of `E`, in order. Specialised beside each enum.
template <typename E>
inline constexpr std::array<std::string_view, 0> kEnumNames = {};
}  // namespace detail

/// An enum that has a wire spelling.
template <typename E>
concept WireEnum = detail::kEnumNames<E>.size() > 0;

/// The wire spelling, e.g. "cross_entropy".
template <WireEnum E>
constexpr std::string_view to_string(E value) noexcept {
  return detail::kEnumNames<E>[static_cast<std::size_t>(value)];
}

/// The enumerator with this wire spelling, if there is one.
template <WireEnum E>
constexpr std::optional<E> enum_from_string(std::string_view text) noexcept {
  const auto& names = detail::kEnumNames<E>;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

/// An `E` that came from a server, which may know values this library does not: those are kept as
/// they came.
///
///     if (checkpoint.checkpoint_type == CheckpointType::sampler) ...
///
/// Thread-compatible.
template <WireEnum E>
class OpenEnum {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): an E is one.
  constexpr OpenEnum(E known = {}) : state_(known) {}

  /// The known value with this spelling, or the spelling itself.
  static OpenEnum parse(std::string_view text) {
    if (const auto known = enum_from_string<E>(text)) return *known;
    OpenEnum unknown;
    unknown.state_ = std::string(text);
    return unknown;
  }

  /// The value, or nothing when this library does not know it.
  [[nodiscard]] std::optional<E> known() const noexcept {
    const auto* value = std::get_if<E>(&state_);
    return value != nullptr ? std::optional<E>(*value) : std::nullopt;
  }
  /// The wire spelling, known or not. Valid as long as this object is unchanged.
  [[nodiscard]] std::string_view text() const noexcept {
    const auto* raw = std::get_if<std::string>(&state_);
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it loses sight of what a variant holds.
    return raw != nullptr ? std::string_view(*raw) : to_string(*std::get_if<E>(&state_));
  }

  friend bool operator==(const OpenEnum&, const OpenEnum&) = default;
  friend bool operator==(const OpenEnum& a, E b) { return a.known() == b; }

 private:
  std::variant<E, std::string> state_;
};

}  // namespace tinker
