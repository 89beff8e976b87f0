#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "formats/json_string.h"
#include "jinja/builtins.h"
#include "jinja/utf8.h"

namespace tinker::jinja {

namespace {

using Kind = Value::Kind;

constexpr int kMaxJsonDepth = 200;

/// Python's `json.dumps`.
class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  Result<void> write(const Value& value);
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void write_text(std::string_view text);
  Result<void> write_list(const List& items);
  Result<void> write_dict(const Dict& dict);
  Result<std::string> key_text(const Value& key) const;
  void begin_line();

  const JsonStyle& style_;
  std::string out_;
  int depth_ = 0;
};

void Writer::begin_line() {
  if (!style_.indent) return;
  out_ += '\n';
  for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
}

void Writer::write_text(std::string_view text) {
  if (!style_.is_ascii) return formats::append_json_string(out_, text);
  out_ += '"';
  const auto add_unit = [this](char32_t unit) {
    const std::array bytes = {static_cast<char>(unit >> 8U), static_cast<char>(unit & 0xFFU)};
    out_ += "\\u" + base::to_hex({bytes.data(), bytes.size()});
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    if (point < 0x80) {
      std::string piece;
      formats::append_json_string(piece, text.substr(begin, 1));
      out_ += std::string_view(piece).substr(1, piece.size() - 2);
    } else if (point < 0x10000) {
      add_unit(point);
    } else {
      add_unit(0xD800 + ((point - 0x10000) >> 10U));
      add_unit(0xDC00 + ((point - 0x10000) & 0x3FFU));
    }
  }
  out_ += '"';
}

Result<void> Writer::write_list(const List& items) {
  if (items.empty()) {
    out_ += "[]";
    return {};
  }
  out_ += '[';
  ++depth_;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += style_.item_separator;
    begin_line();
    TINKER_TRY(write(items[i]));
  }
  --depth_;
  begin_line();
  out_ += ']';
  return {};
}

Result<std::string> Writer::key_text(const Value& key) const {
  switch (key.kind()) {
    case Kind::string: return key.text();
    case Kind::none: return std::string("null");
    case Kind::boolean: return std::string(key.truth() ? "true" : "false");
    case Kind::integer: return base::concat(key.integral());
    case Kind::real: return real_text(key.number());
    default: break;
  }
  return template_error(base::concat("tojson: ", described(key), " cannot be a key"));
}

Result<void> Writer::write_dict(const Dict& dict) {
  if (dict.empty()) {
    out_ += "{}";
    return {};
  }
  std::vector<std::pair<std::string, const Value*>> entries;
  for (const auto& [key, value] : dict) {
    TINKER_TRY(std::string text, key_text(key));
    entries.emplace_back(std::move(text), &value);
  }
  if (style_.sorts_keys) {
    std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
  }
  out_ += '{';
  ++depth_;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out_ += style_.item_separator;
    begin_line();
    write_text(entries[i].first);
    out_ += style_.key_separator;
    TINKER_TRY(write(*entries[i].second));
  }
  --depth_;
  begin_line();
  out_ += '}';
  return {};
}

Result<void> Writer::write(const Value& value) {
  if (depth_ > kMaxJsonDepth) return template_error("tojson: nested too deep");
  switch (value.kind()) {
    case Kind::none: out_ += "null"; return {};
    case Kind::boolean: out_ += value.truth() ? "true" : "false"; return {};
    case Kind::integer: out_ += base::concat(value.integral()); return {};
    case Kind::real: {
      const double number = value.number();
      out_ += std::isnan(number)   ? "NaN"
              : value.digits()     ? *value.digits()
              : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                   : real_text(number);
      return {};
    }
    case Kind::string: write_text(value.text()); return {};
    case Kind::list:
    case Kind::tuple: return write_list(value.items());
    case Kind::dict: return write_dict(value.dict());
    default: break;
  }
  return template_error(value.is_undefined()
                            ? value.why()
                            : base::concat("tojson: ", described(value), " has no JSON form"));
}

}  // namespace

Result<std::string> to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  TINKER_TRY(writer.write(value));
  return writer.take();
}

}  // namespace tinker::jinja
