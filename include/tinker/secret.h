#pragma once

#include <iosfwd>
#include <string>
#include <utility>

namespace tinker {

/// A credential. It cannot be streamed or formatted; only `expose()` hands out the text, so every
/// place that reads a secret can be found by that name.
///
/// Thread-compatible.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}

  /// The text itself, for the one place that sends it.
  [[nodiscard]] const std::string& expose() const noexcept { return text_; }
  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

  friend bool operator==(const Secret&, const Secret&) = default;
  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;

 private:
  std::string text_;
};

}  // namespace tinker
