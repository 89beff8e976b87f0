#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tinker/error.h"
#include "wire/path.h"

namespace tinker::wire {

/// What to do with NaN and the infinities, for which JSON has no words.
enum class NonFinite {
  refuse,      ///< In requests: an error.
  as_strings,  ///< In answers: "NaN", "inf", "-inf", which the official client reads (PROTOCOL 5).
};

/// Writes compact JSON into one growing buffer. The first failure is kept; writing goes on
/// harmlessly.
class JsonWriter {
 public:
  explicit JsonWriter(NonFinite non_finite) : non_finite_(non_finite) { out_.reserve(120); }

  void begin_object() { open('{'); }
  void end_object() { out_ += '}'; }
  void begin_array() { open('['); }
  void end_array() { out_ += ']'; }
  /// A name that needs no escaping.
  void key(std::string_view name);
  /// Any name.
  void escaped_key(std::string_view name);

  void null() { literal("null"); }
  void boolean(bool value) { literal(value ? "true" : "false"); }
  void integer(std::int64_t value);
  void integer(std::uint64_t value);
  /// Always with a fraction or an exponent: 1 prints as 1.0.
  void number(double value);
  void number(float value);
  /// UTF-8, or it is an error.
  void string(std::string_view text);
  void base64(std::string_view bytes);
  void integers(std::span<const std::int32_t> values);

  void fail(std::string message);
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }
  [[nodiscard]] Path& path() noexcept { return path_; }
  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void separate();
  void open(char bracket);
  void literal(std::string_view text);
  template <typename Number>
  void digits(Number value);
  template <typename Float>
  void floating(Float value);

  std::string out_;
  Path path_;
  std::optional<Error> error_;
  NonFinite non_finite_;
};

}  // namespace tinker::wire
