#include "wire/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "wire/base64.h"
#include "wire/utf8.h"

namespace tinker::wire {

// A comma is due unless something was just opened; what precedes tells, so no state is kept.
void JsonWriter::separate() {
  if (out_.empty()) return;
  const char last = out_.back();
  if (last != '{' && last != '[' && last != ':') out_ += ',';
}

void JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
}

void JsonWriter::literal(std::string_view text) {
  separate();
  out_ += text;
}

void JsonWriter::key(std::string_view name) {
  separate();
  out_ += '"';
  out_ += name;
  out_ += "\":";
}

void JsonWriter::escaped_key(std::string_view name) {
  string(name);
  out_ += ':';
}

template <typename Number>
void JsonWriter::digits(Number value) {
  std::array<char, 32> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below.
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  literal({text.data(), static_cast<std::size_t>(end - text.data())});
}

void JsonWriter::integer(std::int64_t value) {
  digits(value);
}
void JsonWriter::integer(std::uint64_t value) {
  digits(value);
}

template <typename Float>
void JsonWriter::floating(Float value) {
  if (!std::isfinite(value)) {
    if (non_finite_ == NonFinite::refuse) {
      fail(base::concat("expected a finite number, found ", value));
    }
    return literal(std::isnan(value) ? R"("NaN")" : value > 0 ? R"("inf")" : R"("-inf")");
  }
  // Plain digits for ordinary magnitudes, an exponent beyond: the shortest text of either form
  // reads back as the same number, and this is how the official SDK writes it.
  const Float magnitude = std::abs(value);
  const bool plain = magnitude == 0 || (magnitude >= Float(1e-4) && magnitude < Float(1e16));
  std::array<char, 32> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below.
  const char* end = std::to_chars(text.data(),
                                  text.data() + text.size(),
                                  value,
                                  plain ? std::chars_format::fixed : std::chars_format::scientific)
                        .ptr;
  const std::string_view shortest(text.data(), static_cast<std::size_t>(end - text.data()));
  literal(shortest);
  if (plain && shortest.find('.') == std::string_view::npos) out_ += ".0";
}

void JsonWriter::number(double value) {
  floating(value);
}
void JsonWriter::number(float value) {
  floating(value);
}

void JsonWriter::string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  if (!is_utf8(text)) fail("expected UTF-8 text");
  separate();
  out_.reserve(out_.size() + text.size() + 2);
  out_ += '"';
  std::size_t plain_from = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out_ += text.substr(plain_from, i - plain_from);
    plain_from = i + 1;
    switch (c) {
      case '"': out_ += "\\\""; break;
      case '\\': out_ += "\\\\"; break;
      case '\n': out_ += "\\n"; break;
      case '\r': out_ += "\\r"; break;
      case '\t': out_ += "\\t"; break;
      default:
        out_ += "\\u00";
        out_ += kHex[static_cast<unsigned char>(c) >> 4U];
        out_ += kHex[static_cast<unsigned char>(c) & 0xfU];
    }
  }
  out_ += text.substr(plain_from);
  out_ += '"';
}

void JsonWriter::base64(std::string_view bytes) {
  separate();
  out_ += '"';
  append_base64(out_, bytes);
  out_ += '"';
}

void JsonWriter::integers(std::span<const std::int32_t> values) {
  constexpr std::size_t kLongest = sizeof("-2147483648,") - 1;
  begin_array();
  const std::size_t before = out_.size();
  out_.resize(before + values.size() * kLongest);
  char* at = out_.data() + before;
  for (const auto value : values) {
    at = std::to_chars(at, at + kLongest, value).ptr;
    *at++ = ',';
  }
  const bool any = !values.empty();
  out_.resize(static_cast<std::size_t>(at - out_.data()) - (any ? 1 : 0));
  end_array();
}

void JsonWriter::fail(std::string message) {
  if (error_) return;
  error_ = Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(path_.to_string(), ": ", message)};
}

}  // namespace tinker::wire
